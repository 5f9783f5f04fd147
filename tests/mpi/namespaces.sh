# To be sourced after start.sh: three hosts on this machine, h1 to h3 (10.99.0.1 to .3), joined by a switch. Each has network, mounts, /root,
# /tmp, /etc/hosts, name, processes, shared memory and sshd of its own; they see this machine's programs, and share no
# folder. All traffic stays within namespaces that end with their first process, which this shell ends.
#   make_hosts        skips the test where namespaces cannot be made
#   on 2 COMMAND...   runs a command on h2, in /root
#   root_of 2         the folder that h2 has as /root
PATH=$PATH:/usr/sbin:/sbin
hosts=(1 2 3)
declare -A host_pid=()
switch_pid=

skip() {
  echo "skipped: $*"
  exit 77
}

root_of() { echo "$folder/h$1/root"; }

on() {
  local host=$1
  shift
  nsenter -t "${host_pid[$host]}" -n -u -m -p -i env -C /root -i HOME=/root LANG=C.UTF-8 PATH="${host_path:-/opt/bin:/usr/local/bin:/usr/bin:/bin}" \
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@"
}

end_hosts() {
  for pid in "${host_pid[@]}" $switch_pid; do
    kill -KILL "$pid" 2>/dev/null  # with the first process of its namespace all others end
  done
  for ((i = 0; i < 50; ++i)); do
    rm -rf "$folder" 2>/dev/null && break
    sleep 0.1
  done
}
trap end_hosts EXIT

# What a host's first process does: mounts what is its own, and starts sshd.
write_init() {
  cat >"$folder/init.sh" <<'INIT'
#!/bin/bash
own=$1 name=$2
hostname "$name"
ip link set lo up
mount --bind "$own/hosts" /etc/hosts
for place in root opt tmp; do mount --bind "$own/$place" "/$place" || exit; done  # /tmp last: $own is there
mount -t tmpfs none /dev/shm
mount -t tmpfs none /run
mkdir -p /run/sshd
cd /
until [[ $(ip addr show) == *10.99.0* ]]; do sleep 0.05; done
/usr/sbin/sshd -f /root/sshd_config -E /root/sshd.log
touch /root/ready
exec sleep 3600
INIT
  chmod +x "$folder/init.sh"
}

make_files() {
  ssh-keygen -q -t ed25519 -N '' -f "$folder/key" || skip "ssh-keygen fails"
  for n in "${hosts[@]}"; do
    local own=$folder/h$n
    mkdir -p "$own"/{root/.ssh,opt/bin,tmp}
    chmod 1777 "$own/tmp"
    chmod 700 "$own/root" "$own/root/.ssh"
    cp "$folder/key" "$own/root/.ssh/id_ed25519"
    cp "$folder/key.pub" "$own/root/.ssh/authorized_keys"
    printf 'StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n' >"$own/root/.ssh/config"
    ssh-keygen -q -t ed25519 -N '' -f "$own/root/host_key"
    printf '127.0.0.1 localhost\n10.99.0.1 h1\n10.99.0.2 h2\n10.99.0.3 h3\n' >"$own/hosts"
    printf '%s\n' 'Port 22' "ListenAddress 10.99.0.$n" 'HostKey /root/host_key' 'PermitRootLogin yes' \
      'AuthorizedKeysFile /root/.ssh/authorized_keys' 'PidFile /run/sshd.pid' 'UsePAM no' 'StrictModes no' \
      >"$own/root/sshd_config"
  done
}

# The first process of a new set of namespaces, as this machine numbers it.
child_of() {
  for ((i = 0; i < 100; ++i)); do
    pgrep -P "$1" && return
    sleep 0.05
  done
}

start_host() {
  local n=$1
  unshare --net --uts --mount --pid --ipc --fork --kill-child --mount-proc \
    "$folder/init.sh" "$folder/h$n" "h$n" >"$folder/h$n.log" 2>&1 </dev/null &
  host_pid[$n]=$(child_of $!)
  [[ -n ${host_pid[$n]} ]] || skip "no namespaces here: $(tail -n 1 "$folder/h$n.log")"
  nsenter -t "$switch_pid" -n ip link add "p$n" type veth peer name e0 netns "${host_pid[$n]}" &&
    nsenter -t "$switch_pid" -n ip link set "p$n" master br0 up &&
    nsenter -t "${host_pid[$n]}" -n ip addr add "10.99.0.$n/24" dev e0 &&
    nsenter -t "${host_pid[$n]}" -n ip link set e0 up || skip "no virtual links here"
}

make_hosts() {
  ((EUID == 0)) || skip "namespaces need root"
  for program in sshd ssh ssh-keygen ip unshare nsenter; do
    command -v "$program" >/dev/null || skip "$program is not installed"
  done
  unshare --net --uts --mount --pid --ipc --fork true 2>"$folder/err" || skip "no namespaces here: $(cat "$folder/err")"
  write_init
  make_files
  unshare --net --kill-child --fork sleep 3600 >/dev/null 2>&1 &
  switch_pid=$(child_of $!)
  nsenter -t "$switch_pid" -n ip link add br0 type bridge 2>"$folder/err" &&
    nsenter -t "$switch_pid" -n ip link set br0 up || skip "no network bridge here: $(cat "$folder/err")"
  for n in "${hosts[@]}"; do start_host "$n"; done
  for n in "${hosts[@]}"; do
    for ((i = 0; i < 200; ++i)); do
      [[ -e $folder/h$n/root/ready ]] && break
      sleep 0.05
    done
    on 1 ssh -o ConnectTimeout=5 "h$n" true 2>"$folder/err" || skip "no ssh to h$n: $(cat "$folder/err" "$(root_of "$n")/sshd.log")"
  done
}

# set_link 2 down|up: the cable of h2.
set_link() { nsenter -t "$switch_pid" -n ip link set "p$1" "$2"; }

# cut_pair 2 3, join_pair 2 3: what these two send each other gets lost, silently.
cut_pair() {
  on "$1" ip neigh replace "10.99.0.$2" lladdr 02:00:00:00:00:99 dev e0 nud permanent
  on "$2" ip neigh replace "10.99.0.$1" lladdr 02:00:00:00:00:99 dev e0 nud permanent
}
join_pair() {
  on "$1" ip neigh del "10.99.0.$2" dev e0
  on "$2" ip neigh del "10.99.0.$1" dev e0
}
