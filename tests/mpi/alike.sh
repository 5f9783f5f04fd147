#!/usr/bin/env bash
# alike.sh MILLRACE: processes of one run that have other options, other files, other data or another build of the
# program end it at once, by name. Two working folders stand for two hosts without a shared file system.
set -uo pipefail
source "$(dirname "$0")/start.sh"
millrace=$1
cd "$folder" || exit 1

for host in a b; do
  mkdir "$host"
  "$millrace" create "$host/t-%06d.tar" --synthetic classes --count 60 --maxcount 20 --size 28 --no-index 2>/dev/null >&2
done
train=("$millrace" train --model lenet --precision fp32 --epochs 1 --run-dir none --batch-size 10)

# ended STATUS TEXTS ARGUMENTS-OF-PROCESS-1...: process 0 has `first`; each line of TEXTS is said.
ended() {
  local wanted=$1 texts=$2 text status=0 output
  shift 2
  output=$(timeout 60 mpirun -np 1 --wdir a "${train[@]}" "${first[@]}" : -np 1 --wdir b "${train[@]}" "$@" 2>&1) || status=$?
  ((status == wanted)) || fail "$*: status $status: $output"
  while IFS= read -r text; do
    [[ $output == *"$text"* ]] || fail "$*: no '$text': $output"
  done <<<"$texts"
  [[ $output != *"Epoch 1"* ]] || fail "$*: trained on"
}

first=(--fake-data 64)
ended 2 "the processes of a run need the same options: --order.buffer: 5000 in process 0, 9 in process 1
--mean: 0.5 in process 0, 0.9 in process 1
--task.label-smoothing: 0 in process 0, 0.1 in process 1
--augment: none in process 0, flip in process 1
--uneven: pad in process 0, drop in process 1
--allreduce: tree in process 0, mpi in process 1
--heartbeat-timeout: 30 in process 0, 9 in process 1
, 0.5 in process 1
; and 1 more" --fake-data 64 --mean 0.9 --label-smoothing 0.1 --augment flip --shuffle 9 --uneven drop \
  --limit-val-batches 3 --lr 0.5 --allreduce mpi --heartbeat-timeout 9
ended 2 "the processes of a run need the same options: --limit-val-batches: 0 in process 0, 3 in process 1" --fake-data 64 \
  --limit-val-batches 3

# Files that options name: another content, and another place of the same.
"$millrace" train --model lenet --fake-data 16 --precision fp32 --epochs 1 --run-dir w1 2>/dev/null >&2
"$millrace" train --model lenet --fake-data 16 --precision fp32 --epochs 1 --seed 5 --run-dir w2 2>/dev/null >&2
cp w1/checkpoints/last/model.safetensors a/w.safetensors
cp w2/checkpoints/last/model.safetensors b/w.safetensors
cp w1/checkpoints/last/model.safetensors b/same.safetensors
echo "label-smoothing = 0.1" >a/c.toml
echo "label-smoothing = 0.2" >b/c.toml
first=(--fake-data 64 --init w.safetensors --config c.toml)
ended 2 "--init: w.safetensors (SHA-256 
--task.label-smoothing: 0.1 in process 0, 0.2 in process 1" --fake-data 64 --init w.safetensors --config c.toml
first=(--fake-data 64 --init w.safetensors)
mpirun -np 1 --wdir a "${train[@]}" "${first[@]}" : -np 1 --wdir b "${train[@]}" --fake-data 64 --init same.safetensors \
  >log 2>&1 || fail "the same weights at another place: $(cat log)"

# Data: the same SPEC in two folders.
host=$(hostname)
first=('t-{000000..000002}.tar')
mpirun -np 1 --wdir a "${train[@]}" "${first[@]}" : -np 1 --wdir b "${train[@]}" "${first[@]}" >log 2>&1 ||
  fail "two copies of the data: $(cat log)"
"$millrace" create 'b/t-%06d.tar' --synthetic classes --count 48 --maxcount 20 --size 28 --no-index --force 2>/dev/null >&2
ended 1 "different data as the training set: shard t-000002.tar: 20 samples, " "${first[@]}"
ended 1 " in process 1 on $host" "${first[@]}"
"$millrace" create 'b/t-%06d.tar' --synthetic classes --count 60 --maxcount 20 --size 28 --no-index --force 2>/dev/null >&2
printf 'another' | dd of=b/t-000001.tar bs=1 seek=1600 conv=notrunc 2>/dev/null # in the first picture
ended 1 "shard t-000001.tar: 20 samples, " "${first[@]}"
first=(.)
rm b/t-000001.tar
ended 1 "shard 2 of the list: t-000001.tar in process 0 on $host, t-000002.tar in process 1 on $host" .
rm b/t-000002.tar a/t-000001.tar
ended 1 "2 shards in process 0 on $host, 1 in process 1 on $host: t-000002.tar is in one list only" .

# The validation set, and eval.
first=(--fake-data 64)
cp a/t-000000.tar b/
first=(t-000000.tar --val t-000002.tar)
cp a/t-000000.tar b/t-000002.tar
ended 1 "different data as the validation set: shard t-000002.tar" "${first[@]}"
timeout 60 mpirun -np 1 --wdir a "$millrace" eval t-000002.tar --checkpoint ../w1 : \
  -np 1 --wdir b "$millrace" eval t-000002.tar --checkpoint ../w1 >log 2>&1 && fail "eval: other data: $(cat log)"
grep -q "different data as the samples: shard t-000002.tar" log || fail "eval: $(cat log)"

# Another build of the same version.
cp "$millrace" another && echo >>another
first=(--fake-data 64)
status=0
output=$(mpirun -np 1 "${train[@]}" "${first[@]}" : -np 1 ./another "${train[@]:1}" "${first[@]}" 2>&1) || status=$?
((status == 2)) || fail "another build: status $status"
[[ $output == *"program: "*" build "*" in process 0, "*" in process 1"* ]] || fail "another build: $output"

# What each process may have of its own, and options of several processes that prepare data.
mpirun -np 1 "${train[@]}" --fake-data 64 --threads 1 --prefetch 2 : -np 1 "${train[@]}" --fake-data 64 --threads 2 >log 2>&1 ||
  fail "threads: $(cat log)"
output=$(mpirun -np 1 "$millrace" stats 'a/t-000000.tar' : -np 1 "$millrace" stats 'a/t-000002.tar' 2>&1) && fail "stats: other shards"
[[ $output == *"SPEC: a/t-000000.tar in process 0, a/t-000002.tar in process 1"* ]] || fail "stats: $output"
exit $failed
