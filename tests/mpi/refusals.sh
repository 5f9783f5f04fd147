#!/usr/bin/env bash
# refusals.sh MILLRACE: what several processes cannot do together is refused once, with status 2, before anything is
# made; a signal that reaches one of them is the status of all.
set -uo pipefail
source "$(dirname "$0")/start.sh"
millrace=$1

train=("$millrace" train --model lenet --precision fp32 --log-steps 500 --run-dir "$folder/run")

# refused TEXT PROCESSES ARGUMENT...
refused() {
  local text=$1 processes=$2 output status=0
  shift 2
  output=$(start "$processes" "${train[@]}" "$@" 2>&1) || status=$?
  ((status == 2)) || fail "$*: status $status"
  [[ $(grep "^millrace" <<<"$output") == *"$text"* ]] || fail "$*: $output"
  (($(grep -c "^millrace" <<<"$output") == 1)) || fail "$*: said more than once"
  [[ ! -e $folder/run ]] || fail "$*: a run folder was made"
}

refused "--batch-size 33/all: 2 processes x 1 devices cannot share it evenly: 32 or 34" 2 --fake-data 64 --batch-size 33/all
refused "4 streams cannot be shared evenly by 3 processes" 3 --fake-data 64 --streams 4
refused "2 samples for 3 processes" 3 --fake-data 2
refused "--devices: 2 in process 0, 1 in process 1" 1 --fake-data 64 --devices 2 : -np 1 "${train[@]}" --fake-data 64
refused "--reduce-precision is gone: --allreduce tree-bf16" 1 --fake-data 64 --reduce mpi --reduce-precision bf16
refused "--heartbeat-timeout: '2': must be at least 3, or 0 for no limit" 1 --fake-data 64 --heartbeat-timeout 2

start 2 "${train[@]}" --fake-data 64 --epochs 1 --batch-size 32/all --fast-dev-run >"$folder/log" 2>&1 || fail "$(cat "$folder/log")"
grep -q "2 processes x 1 device x batch size 16 = 32 samples per step" "$folder/log" || fail "$(cat "$folder/log")"

# A launcher's binding to one core of several is warned of.
if (($(nproc) > 1)); then
  start 1 --bind-to core "$millrace" train --model lenet --run-dir none --fake-data 64 --fast-dev-run >"$folder/log" 2>&1 || fail "$(cat "$folder/log")"
  grep -q "the launcher has bound process 0 to 1 core" "$folder/log" || fail "$(cat "$folder/log")"
fi

# One process of the run gets the signal; the others hear of it.
start 2 "${train[@]}" --fake-data 1000000 >"$folder/log" 2>&1 &
shell=$!
for ((i = 0; i < 300; ++i)); do
  grep -q "Step=500 " "$folder/log" && break
  sleep 0.1
done
pkill -USR1 -n -f "^$millrace train .*$folder/run"
status=0
wait "$shell" || status=$?
((status == 138)) || fail "SIGUSR1: status $status"
(($(grep -c "^millrace train: interrupted" "$folder/log") == 1)) || fail "$(cat "$folder/log")"
[[ -e $folder/run/checkpoints/last/state.json ]] || fail "SIGUSR1: no checkpoint"

# What was saved in mid-epoch goes on with as many processes as divide its streams; others are refused, and it stays as it is.
refused_resume() {
  local text=$1 processes=$2 output status=0
  shift 2
  output=$(start "$processes" "${train[@]}" --resume auto "$@" 2>&1) || status=$?
  ((status == 2)) || fail "resumed by $processes: status $status"
  [[ $(grep "^millrace" <<<"$output") == *"$text"* ]] || fail "resumed by $processes: $output"
}
state=$(sha256sum <"$folder/run/checkpoints/last/state.json")
refused_resume "cannot be shared evenly by 3 processes" 3 --fake-data 1000000 --streams 4
refused_resume "continues only with its own global batch" 1 --fake-data 1000000
[[ $(sha256sum <"$folder/run/checkpoints/last/state.json") == "$state" ]] || fail "a refused resume changed the checkpoint"
exit $failed
