#!/usr/bin/env bash
# three_hosts.sh MILLRACE CLUSTER_MD: docs/cluster.md on three hosts that share nothing (namespaces.sh): its settings for mpirun, the
# weights of one process, and what each fault leads to. Skipped, with the reason, where namespaces cannot be made.
set -uo pipefail
here=$(dirname "$0")
source "$here/start.sh"
source "$here/namespaces.sh"
unset OMPI_MCA_rmaps_base_oversubscribe
millrace=$1 cluster_md=$2
make_hosts

# The settings that the page gives, with this network and a shorter wait.
settings() { sed -n '/^    # ~\/.openmpi\/mca-params.conf/,/^$/s/^    //p' "$cluster_md" | sed 's|10\.0\.0\.0/24|10.99.0.0/24|; s|_sigkill_timeout = .*|_sigkill_timeout = 4|'; }
grep -q odls_base_sigkill_timeout <(settings) || fail "no settings in $cluster_md"

"$millrace" create "$folder/data/train-%06d.tar" --synthetic classes --count 360 --maxcount 60 --size 28 2>/dev/null >&2 || fail "create"
"$millrace" create "$folder/data/test-%06d.tar" --synthetic classes --count 48 --maxcount 48 --size 28 2>/dev/null >&2 || fail "create"
for n in "${hosts[@]}"; do
  cp "$millrace" "$folder/h$n/opt/bin/millrace"
  cp -r "$folder/data" "$(root_of "$n")/data"
  mkdir -p "$(root_of "$n")/.openmpi"
  settings >"$(root_of "$n")/.openmpi/mca-params.conf"
done
train=(millrace train 'data/train-{000000..000005}.tar' --val data/test-000000.tar --model lenet --channels 3 --size 28
  --precision fp32 --streams 6 --batch-size 24/all --lr 0.01 --warmup-steps 0 --log-steps 5)

# run HOSTS ARGUMENT...: a process on each of the hosts ("h1:1,h2:1"), at most two minutes. mpirun is started on h1, or $from.
run() {
  local where=$1 count
  shift
  count=$(tr ',' '\n' <<<"$where" | wc -l)
  on "${from:-1}" timeout -k 5 120 mpirun --host "$where" -np "$count" --bind-to none "$@"
}
all=h1:1,h2:1,h3:1

weights() { sha256sum "$(root_of "$1")/$2/checkpoints/last/model.safetensors" | cut -c1-64; }

# ended PROGRAM: no process of a run is left on any host.
ended() {
  for ((i = 0; i < 300; ++i)); do
    local left=""
    for n in "${hosts[@]}"; do left+=$(on "$n" ps -eo args --no-headers | grep -E '^(millrace|orted|/usr/bin/orted|mpirun)'); done
    [[ -z $left ]] && return
    sleep 0.1
  done
  fail "$1: left: $left"
}

# under_way LOG: until the run has taken some steps, at most a minute.
under_way() {
  for ((i = 0; i < 600; ++i)); do
    grep -q 'Epoch=2 Step=5 ' "$1" && return
    sleep 0.1
  done
  fail "$1: does not begin: $(tail -n 5 "$1")"
}

echo "== the weights of one process"  # each device with one thread
on 1 taskset -c 0 "${train[@]}" --epochs 2 --devices 3 --run-dir one >"$folder/one.log" 2>&1 || fail "$(tail -n 5 "$folder/one.log")"
run $all taskset -c 0 "${train[@]}" --epochs 2 --run-dir three >"$folder/three.log" 2>&1 || fail "$(tail -n 5 "$folder/three.log")"
[[ $(weights 1 one) == "$(weights 1 three)" ]] || fail "three hosts: other weights: $(cat "$folder/three.log")"
grep -qE '^h1 \| h2 +1 +1 ' "$folder/three.log" || fail "no table of the hosts: $(cat "$folder/three.log")"
grep -q '^h1 | Training Device=' "$folder/three.log" || fail "lines without a host: $(cat "$folder/three.log")"
for n in "${hosts[@]}"; do
  grep -q "^h$n rank $((n - 1)) | Training" "$(root_of "$n")/three/rank-$((n - 1)).log" || fail "h$n: no log of its rank"
done
[[ ! -e $(root_of 2)/three/checkpoints ]] || fail "h2 has a checkpoint"

echo "== stopped, resumed on two hosts, on one"
run $all "${train[@]}" --epochs 400 --run-dir long >"$folder/long.log" 2>&1 &
shell=$!
under_way "$folder/long.log"
on 1 pkill -TERM -x mpirun
wait "$shell"
grep -q 'long/checkpoints/last; --resume auto continues' "$folder/long.log" || fail "a stop saves nothing: $(tail -n 5 "$folder/long.log")"
ended stop
run h1:1,h2:1 "${train[@]}" --epochs 400 --run-dir long --resume auto --max-time 2s >"$folder/two.log" 2>&1 ||
  fail "on two: $(tail -n 5 "$folder/two.log")"
grep -q 'Resumed from long/checkpoints/last' "$folder/two.log" || fail "on two: $(tail -n 5 "$folder/two.log")"
on 1 "${train[@]}" --epochs 400 --run-dir long --resume auto --max-time 2s >"$folder/alone.log" 2>&1 ||
  fail "on one: $(tail -n 5 "$folder/alone.log")"
grep -q 'Resumed from long/checkpoints/last' "$folder/alone.log" || fail "on one: $(tail -n 5 "$folder/alone.log")"

echo "== process 0 on another host finds the checkpoint of the first"
from=2 run h2:1,h1:1 "${train[@]}" --epochs 400 --run-dir long --resume auto --max-time 2s >"$folder/moved.log" 2>&1 ||
  fail "moved: $(tail -n 5 "$folder/moved.log")"
grep -q 'the newest checkpoint is on h1 (process 1): long/checkpoints/last' "$folder/moved.log" || fail "moved: $(cat "$folder/moved.log")"
grep -q 'Resumed from long/checkpoints/last' "$folder/moved.log" || fail "moved: $(cat "$folder/moved.log")"

# broken NAME BREAK MEND WORDS ARGUMENT...: a run that BREAK interrupts ends, on all hosts, with WORDS.
broken() {
  local name=$1 break=$2 mend=$3 words=$4
  shift 4
  echo "== $name"
  run $all "${train[@]}" --epochs 4000 --run-dir "$name" --save-every-steps 20 "$@" >"$folder/$name.log" 2>&1 &
  local shell=$! status=0
  under_way "$folder/$name.log"
  $break
  wait "$shell" || status=$?
  ((status != 0 && status != 124)) || fail "$name: status $status"
  grep -qE "$words" "$folder/$name.log" || fail "$name: $(grep -v 'Training Device' "$folder/$name.log" | tail -n 30)"
  $mend
  ended "$name"
  on 1 "${train[@]}" --epochs 4000 --run-dir "$name" --resume auto --max-time 1s >"$folder/$name.again.log" 2>&1 ||
    fail "$name: no resume: $(tail -n 5 "$folder/$name.again.log")"
}
broken link_down "set_link 3 down" "set_link 3 up" 'process 2 on h3 has not been heard from|on node h3'
broken link_down_early "set_link 3 down" "set_link 3 up" 'process 2 on h3 has not been heard from for 8 s' --heartbeat-timeout 8
broken pair_cut "cut_pair 2 3" "join_pair 2 3" 'process [12] on h[23] has not been heard from for 6 s by process [12] on h[23]' --heartbeat-timeout 6
stop_one() { on 3 pkill -STOP -x millrace; }
broken stopped stop_one true 'process 2 on h3 has not been heard from for 6 s' --heartbeat-timeout 6

# refused NAME WORDS COMMAND...: a run that cannot begin ends within its time, and says so.
refused() {
  local name=$1 words=$2 status=0
  shift 2
  "$@" >"$folder/$name.log" 2>&1 || status=$?
  ((status != 0 && status != 124 && status != 137)) || fail "$name: status $status: $(tail -n 5 "$folder/$name.log")"
  grep -qE "$words" "$folder/$name.log" || fail "$name: $(cat "$folder/$name.log")"
  ended "$name"
}

echo "== other data on one host"
data=$(root_of 3)/data
cp -r "$data" "$folder/kept"
"$millrace" create "$folder/other-%06d.tar" --synthetic classes --count 20 --size 28 --no-index 2>/dev/null >&2 || fail "create"
mv "$folder/other-000000.tar" "$data/train-000004.tar" && rm -f "$data/train-000004.tar.index.json"
refused other_data 'train-000004\.tar: .* in process 2 on h3' run $all "${train[@]}" --run-dir none
rm -r "$data" && mv "$folder/kept" "$data"

echo "== a pair that cannot talk at the start"
cut_pair 2 3
refused never_joined 'no answer from 10\.99\.0\.[23]:[0-9]+ of h[23]' run $all "${train[@]}" --run-dir none --heartbeat-timeout 10
join_pair 2 3

echo "== a network of the same address on every host, and none named"
for n in "${hosts[@]}"; do
  on "$n" ip link add docker0 type bridge
  on "$n" ip addr add 172.17.0.1/16 dev docker0
  on "$n" ip link set docker0 up
done
sed -i '/if_include/d' "$(root_of 1)/.openmpi/mca-params.conf"
status=0
run $all "${train[@]}" --epochs 1 --run-dir none >"$folder/docker.log" 2>&1 || status=$?
# Open MPI may find its way; if not, the line names the networks.
if ((status != 0)); then
  ((status != 124 && status != 137)) || fail "docker0: status $status: $(cat "$folder/docker.log")"
  grep -q 'this host is in .*172.17.0.0/16 (docker0 172.17.0.1).*btl_tcp_if_include' "$folder/docker.log" || fail "docker0: $(cat "$folder/docker.log")"
fi
ended docker0
exit $failed
