#!/usr/bin/env bash
# model.sh REDUCE_SMPI_SH PROGRAM: the collectives on simulated machines take what the model of `millrace plan` says, to
# 10 %: simulated time is the same on any computer. Skipped where Debian's libsimgrid-dev is not installed.
set -uo pipefail
run=$1 program=$2
if [[ ! -x $program ]]; then
  echo "skipped: libsimgrid-dev was not installed when this was built"
  exit 77
fi
failed=0
for processes in 2 24 64 128; do
  output=$("$run" "$program" "$processes" 2>&1)
  echo "$output"
  (($(grep -cE '^(reduce-scatter|all-gather) .* ratio (0\.9[0-9]|1\.0[0-9]|1\.10)$' <<<"$output") == 2)) || failed=1
done
exit $failed
