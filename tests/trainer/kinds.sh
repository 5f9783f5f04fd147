#!/usr/bin/env bash
# Runs the tests of plans as if the processor had no later instructions than those named.
#   kinds.sh TRAINER_TESTS avx2|avx512|avx512_bf16|amx|channels_last
# Exits with 77 where the processor lacks them, and where they are its own: the suite runs those.
# channels_last: the processor's own instructions, with the layout that only AMX has by itself.
set -euo pipefail
tests=$1 kind=$2
run() {
  "$tests" --gtest_brief=1 \
    --gtest_filter='Plan.*:PlanSteps.*:CustomLayer.*:*OpGradient*:LayerParity.*:Parity.*:CpuBackend.*:Segmentation.*:FitGraph.*'
}
if [[ $kind == channels_last ]]; then
  MILLRACE_IMAGE_LAYOUT=channels_last run
  exit
fi
declare -A flag=([avx2]=avx2 [avx512]=avx512dq [avx512_bf16]=avx512_bf16 [amx]=amx_bf16)
own=sse41
for each in avx2 avx512 avx512_bf16 amx; do
  grep -qw "${flag[$each]}" /proc/cpuinfo && own=$each
done
if ! grep -qw "${flag[$kind]}" /proc/cpuinfo; then
  echo "skipped: this processor has no ${flag[$kind]}"
  exit 77
fi
if [[ $kind == "$own" ]]; then
  echo "skipped: $kind is this processor's own kind, which the suite tests"
  exit 77
fi
MILLRACE_MAX_ISA=$kind run
