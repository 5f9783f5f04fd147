#!/usr/bin/env bash
# train.sh MILLRACE: four replicas as processes x devices; a stop and a resume; a launcher other than MPI's.
set -uo pipefail
source "$(dirname "$0")/start.sh"
millrace=$1

# train PROCESSES DEVICES ARGUMENT...: a short run of LeNet.
train() {
  local processes=$1 devices=$2
  shift 2
  start "$processes" "$millrace" train --model lenet --batch-size 8 --precision fp32 --devices "$devices" \
    --streams 4 --lr 0.01 --warmup-steps 0 --log-steps 500 "$@"
}

# The mean loss of an epoch, in the digits that do not depend on the order of summation.
loss() { sed -nE 's/.*Train loss=([0-9]+\.[0-9]{3}).*/\1/p' "$1"; }

for shape in "1 4" "2 2" "4 1"; do
  read -r processes devices <<<"$shape"
  run=$folder/$processes
  train "$processes" "$devices" --fake-data 320 --epochs 2 --run-dir "$run" >"$run.log" 2>&1 || fail "$shape: status $?"
  grep -q "= 32 samples per step" "$run.log" || fail "$shape: other steps"
  (($(grep -c "^Done after 2 epochs" "$run.log") == 1)) || fail "$shape: not process 0 alone reports"
  [[ -e $run/checkpoints/last/model.safetensors ]] || fail "$shape: no checkpoint"
  for rank in 0 1 2 3; do [[ -e $run/rank-$rank.log ]] || fail "$shape: no log of rank $rank"; done
  [[ $(loss "$run.log") == "$(loss "$folder/1.log")" ]] || fail "$shape: another loss"
  ((failed)) && cat "$run.log"
done

grep -qE '^host +processes +ranks +threads per device$' "$folder/2.log" || fail "no table: $(cat "$folder/2.log")"
grep -qE '^[^ ]+ +0-1 +0-3 +[0-9]+$' "$folder/2.log" || fail "no table: $(cat "$folder/2.log")"

# A step that takes longer than mpirun would wait after a SIGTERM is warned of.
start 2 env OMPI_MCA_odls_base_sigkill_timeout=0.0001 "$millrace" train --model lenet --precision fp32 --fake-data 640 \
  --run-dir none >"$folder/kill.log" 2>&1 || fail "$(cat "$folder/kill.log")"
grep -q "warning: a step takes .* mpirun kills its processes 0.0001 s after a SIGTERM" "$folder/kill.log" || fail "$(cat "$folder/kill.log")"

# MPI's own sums: the same to the order of summation.
train 4 1 --fake-data 320 --epochs 2 --allreduce mpi --run-dir "$folder/mpi" >"$folder/mpi.log" 2>&1 || fail "--allreduce mpi"
[[ -n $(loss "$folder/mpi.log") && $(loss "$folder/mpi.log") == "$(loss "$folder/1.log")" ]] ||
  fail "--allreduce mpi: another loss: $(cat "$folder/mpi.log")"

# From shards, with and without indexes: the same weights, bit for bit, and the same scores.
"$millrace" create "$folder/t-%06d.tar" --synthetic classes --count 50 --maxcount 25 --size 28 2>/dev/null >&2
"$millrace" create "$folder/s-%06d.tar" --synthetic classes --count 150 --maxcount 40 --size 28 2>/dev/null >&2
for index in "" "--no-index"; do
  for shape in "1 4" "2 2" "4 1"; do
    read -r processes devices <<<"$shape"
    run=$folder/bits$index.$processes
    # shellcheck disable=SC2086
    train "$processes" "$devices" --train "$folder/s-{000000..000003}.tar" --val "$folder/t-{000000..000001}.tar" \
      --channels 3 --size 28 --epochs 2 --json $index --run-dir "$run" >"$run.json" 2>"$run.log" ||
      { fail "$shape: status $?"; tail -n 5 "$run.log"; }
    cmp "$run/checkpoints/last/model.safetensors" "$folder/bits.1/checkpoints/last/model.safetensors" ||
      fail "$shape $index: other weights"
    grep -o '"val_[a-z0-9]*":[^,}]*' "$run.json" | grep -v seconds >"$run.scores"
    [[ -s $run.scores ]] || fail "$shape $index: no scores"
    cmp "$run.scores" "$folder/bits.1.scores" || fail "$shape $index: other scores"
  done
done

# Fewer shards than processes: every sample still counts once.
for processes in 1 3; do
  start "$processes" "$millrace" eval --checkpoint "$folder/1" "$folder/t-{000000..000001}.tar" --precision fp32 \
    2>/dev/null | sed -n 's/ in [^:]*//p' >"$folder/eval.$processes"
done
grep -q "^50 samples: loss" "$folder/eval.1" || fail "$(cat "$folder/eval.1")"
cmp "$folder/eval.1" "$folder/eval.3" || fail "another score: $(cat "$folder/eval.3")"

# Passes over fewer samples than the streams divide: as many steps and samples on one process as on two.
for processes in 1 2; do
  run=$folder/passes.$processes
  start "$processes" "$millrace" train --train "$folder/t-000000.tar" --take 3 --repeat 40 --streams 2 --batch-size 2/all \
    --model lenet --channels 3 --size 28 --precision fp32 --epochs 1 --log-steps 1 --json --run-dir "$run" \
    >"$run.json" 2>"$run.log" || { fail "passes: status $?"; tail -n 5 "$run.log"; }
  grep -q '"train_samples":120,' "$run.json" || fail "passes: $(grep '"epoch"' "$run.json" | tail -n 1)"
  (($(grep -c '"event":"step"' "$run.json") == 60)) || fail "passes: other steps on $processes"
done

# After the first log line the run is under way, and is stopped.
run=$folder/stopped
train 2 1 --fake-data 1000000 --run-dir "$run" >"$run.log" 2>&1 &
shell=$!
for ((i = 0; i < 300; ++i)); do
  grep -q "Step=500 " "$run.log" && break
  sleep 0.1
done
pkill -TERM -P "$shell"  # mpirun, which tells its processes
wait "$shell" && fail "a stopped run ends with status 0"
grep -q "^Interrupted after" "$run.log" || fail "the stop is not reported"
train 2 1 --fake-data 1000000 --run-dir "$run" --resume auto --max-time 2s >"$run.2.log" 2>&1 || fail "no resume"
grep -q "^Stopped by --max-time" "$run.2.log" || fail "the resumed run ends otherwise"
((failed)) && tail -n 5 "$run.log" "$run.2.log"

OMPI_COMM_WORLD_SIZE=3 "$millrace" train --fake-data 8 --model lenet --run-dir none 2>"$folder/alone.log"
(($? == 2)) || fail "a launcher that MPI does not know: no status 2"
grep -q "OMPI_COMM_WORLD_SIZE=3, but MPI finds 1" "$folder/alone.log" || fail "$(cat "$folder/alone.log")"
exit $failed
