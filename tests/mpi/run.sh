#!/usr/bin/env bash
# run.sh PROGRAM N: the tests, in N processes at once. Each test that aborts has a run of its own: after it MPI ends
# every process with status 1.
set -euo pipefail
source "$(dirname "$0")/start.sh"
start "$2" "$1" --gtest_filter=-*.Abort*
for case in Tree MpiSums; do
  output=$(start "$2" "$1" "--gtest_filter=*.Abort*/$case" --gtest_color=no 2>&1) || true
  passed=$(grep -cE '(PASSED|SKIPPED).* 1 test' <<<"$output" || true)
  if ((passed != $2)); then
    echo "$output"
    exit 1
  fi
done
