#!/usr/bin/env bash
# hosts.sh MILLRACE: two network namespaces as two hosts: mpirun starts a process on each; the link between them goes
# down: all end, and the host is named. Skipped where namespaces cannot be made.
set -uo pipefail
source "$(dirname "$0")/start.sh"
millrace=$1
PATH=$PATH:/usr/sbin:/sbin
first=mra$$
second=mrb$$

clean_up() {
  for name in "$first" "$second"; do
    ip netns pids "$name" 2>/dev/null | xargs -r kill -KILL 2>/dev/null
    ip netns del "$name" 2>/dev/null
  done
  rm -rf "$folder"
}
trap clean_up EXIT

link() {
  ip netns add "$first" && ip netns add "$second" &&
    ip link add "va$$" netns "$first" type veth peer name "vb$$" netns "$second" &&
    ip -n "$first" addr add 10.91.0.1/24 dev "va$$" && ip -n "$second" addr add 10.91.0.2/24 dev "vb$$" &&
    ip -n "$first" link set "va$$" up && ip -n "$second" link set "vb$$" up &&
    ip -n "$first" link set lo up && ip -n "$second" link set lo up
}
if ! link 2>"$folder/err" || ! unshare --uts true 2>>"$folder/err"; then
  echo "no network namespaces here: $(tail -n 1 "$folder/err")"
  exit 77
fi

# In ssh's place: runs a command on a host.
cat >"$folder/agent.sh" <<AGENT
#!/bin/sh
case \$1 in 10.91.0.1) name=$first ;; *) name=$second ;; esac
shift
exec ip netns exec \$name unshare --uts sh -c "hostname \$name; \$*"
AGENT
chmod +x "$folder/agent.sh"

# on_both ARGUMENT...: train on the two hosts.
on_both() {
  timeout 60 "$folder/agent.sh" 10.91.0.1 mpirun --mca plm_rsh_agent "$folder/agent.sh" \
    --host 10.91.0.1:1,10.91.0.2:1 -np 2 --bind-to none \
    --mca btl_tcp_if_include 10.91.0.0/24 --mca oob_tcp_if_include 10.91.0.0/24 \
    --mca oob_tcp_keepalive_time 3 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 2 \
    "$millrace" train --model lenet --precision fp32 --run-dir none --log-steps 20 "$@"
}

on_both --fake-data 64 --epochs 1 >"$folder/log" 2>&1 || fail "status $?: $(cat "$folder/log")"
grep -q "2 processes x 1 device" "$folder/log" || fail "$(cat "$folder/log")"

on_both --fake-data 100000000 >"$folder/log" 2>&1 &
shell=$!
for ((i = 0; i < 300; ++i)); do
  grep -q "Step=20 " "$folder/log" && break
  sleep 0.1
done
ip -n "$second" link set "vb$$" down
wait "$shell" && fail "a run without its network ends with status 0"
grep -q "Remote daemon: .* on node 10.91.0.2" "$folder/log" || fail "the host is not named: $(cat "$folder/log")"
for ((i = 0; i < 100; ++i)); do
  [[ -z $(ip netns pids "$second") ]] && break
  sleep 0.1
done
[[ -z $(ip netns pids "$second") ]] || fail "a process is left on the second host"
exit $failed
