#!/usr/bin/env bash
# every_option.sh MILLRACE: each option of train, given to one of two processes alone, ends the run by its name, unless
# it is one that each process has of its own. A new option needs no line here, but where its value is a word.
set -uo pipefail
source "$(dirname "$0")/start.sh"
millrace=$1
cd "$folder" || exit 1

"$millrace" train --model lenet --fake-data 16 --epochs 1 --run-dir w 2>/dev/null >&2 || fail "no checkpoint"
touch colours.txt && echo "1 2 3 one" >colours.txt
base=(--model lenet --fake-data 64 --epochs 1 --batch-size 16 --run-dir none --precision fp32)

# Each process's own.
own=" --train --val --join --val-join --allow-pipe --retry-for --cache --cache-size --threads --prefetch"
own+=" --no-autotune --cache-decoded --cache-decoded-in --accelerator --plugin --plugin-path --plugin-timeout --config --json "

# Words, and what an option needs beside it; {} is refused alone before it is compared.
declare -A words=(
  [--model]="alexnet --size 64 --channels 3" [--tie]="conv1=conv1" [--augment]=flip [--log-style]=xla [--fit]=squeeze [--task]="multilabel"
  [--channels]=3 [--size]=32 [--mean]=0.1 [--std]=0.3 [--classes]=12 [--optimizer]=adam [--schedule]=constant
  [--optimizer.momentum]=0.5 [--schedule.by]=step [--schedule.warmup]=5steps [--on-non-finite]=skip [--on-fault]=skip [--on-fault.max]="3 --on-fault skip" [--order]=permutation
  [--uneven]=drop [--mix-end]=repeat [--precision]=bf16 [--devices]=2 [--allreduce]=mpi
  [--run-dir]=other [--resume]="w" [--allow-changed-data]="--resume w" [--init]="w" [--replace-head]="--init w"
  [--monitor]=train_loss [--upload]="up --run-dir other" [--max-time]=1h [--task.label-smoothing]=0.1 [--task.colors]=colours.txt
  [--val-where]=cls==1 [--folds]=3 [--fold]=1 [--plugin-network]=no
  [--force]="--run-dir other" [--heartbeat-timeout]=9 [--streams]=4 [--scale-lr]="--lr 0.1"
  [--order.initial]="5 --order webdataset" [--order.shard-shuffle]="5 --order webdataset"
  [--order.detshuffle]="true --order webdataset" [--resampled]="--epoch-samples 64" [--ema]=0.5
  [--dump-program]=step.mlir [--metrics-listen]=127.0.0.1:0 [--trace]=t.json [--trace-steps]="1:2 --trace t.json" [--trace-layers]="--trace t.json"
  [--interpolation]=bicubic [--eval-resize]=40 [--val-size]=40 [--target-accuracy]=1 [--views]=mirror [--accumulate]=2 [--fake-data]=32)

count=0
while read -r name kind; do
  [[ $own == *" $name "* ]] && continue
  ((++count))
  value=${words[$name]-}
  if [[ -z ${words[$name]+set} ]]; then
    case $kind in
    N | N*) value=3 ;;
    X | X*) value=0.25 ;;
    esac
  fi
  flags=()
  [[ $kind == "" || -n $value ]] || fail "$name $kind: no value is known here"
  [[ $value == "" ]] || read -ra flags <<<"$value"
  # An option with which one process prints or writes something and ends has nothing to agree on.
  if [[ ($kind == "" && $value == "") || $name == --dump-* ]] &&
    output=$("$millrace" train "${base[@]}" "$name" "${flags[@]}" 2>&1 </dev/null) &&
    [[ $output != *"Epoch 1"* ]]; then
    prints+=" $name"
    continue
  fi
  mine=("${base[@]}") # without what is given otherwise
  for ((i = 0; i < ${#base[@]}; i += 2)); do
    [[ " $name ${flags[*]} " != *" ${base[i]} "* ]] || unset "mine[i]" "mine[i+1]"
  done
  status=0
  output=$(timeout 60 mpirun -np 1 "$millrace" train "${base[@]}" : -np 1 "$millrace" train "${mine[@]}" "$name" \
    "${flags[@]}" 2>&1 </dev/null) || status=$?
  [[ $output != *"Epoch 1"* ]] || fail "$name ${flags[*]}: trained on"
  ((status != 124)) || fail "$name: hung"
  # Refused alone: the option cannot be had on this run, in whatever process.
  [[ $output == *"$name: "*" in process 0, "*" in process 1"* || $output == *"millrace train: "* ]] || fail "$name: $output"
  [[ $output == *" in process 0, "* ]] || alone+=" $name"
done < <("$millrace" train --help all | sed -n 's/^  \(-[a-z], \)\?\(--[a-z0-9-]*\) \?\([A-Z][^ ]*\)\? *.*/\2 \3/p' &&
  printf '%s X\n' --optimizer.momentum --schedule.by --schedule.warmup --task.label-smoothing --task.colors --order.buffer --order.open-shards --order.initial\
    --order.shard-shuffle --order.detshuffle --on-fault.max) # of components, which have their own help
((count > 60)) || fail "of --help only $count options were found"
echo "prints and ends:${prints-}"
echo "refused before it is compared:${alone-}"
exit $failed
