#!/usr/bin/env bash
# failures.sh PROGRAM: the last of three processes fails in each way; all processes end with its reason.
set -uo pipefail
source "$(dirname "$0")/start.sh"

# expect HOW REASON PROCESS...: checks that each of these processes has printed the reason.
expect() {
  local how=$1 reason=$2
  shift 2
  local output status=0
  output=$(timeout 60 mpirun -np 3 "$program" --fail "$how" 2>&1) || status=$?
  if ((status == 0 || status == 124)); then
    fail "$how: status $status"
  fi
  for process in "$@"; do
    grep -q "^$process: .*$reason" <<<"$output" || fail "$how: process $process does not say '$reason': $output"
  done
  if pgrep -f "$program --fail $how" >/dev/null; then
    fail "$how: a process is left"
  fi
}

program=$1
expect throw "disk on fire" 0 1 2
expect stop "process 2 on .* has not been heard from" 0 1
expect leave "process 2 on .* has ended before the others" 0 1
expect kill ""

# One that is stopped before it has begun: who has, says so and ends.
status=0
output=$(timeout 60 mpirun -np 3 "$program" --fail early 2>&1) || status=$?
((status != 0 && status != 124)) || fail "early: status $status"
grep -qE 'process [01]: .*(MPI_Init has not connected all|has not answered) .*for 6 s' <<<"$output" || fail "early: $output"
grep -q 'process [01]: waiting: ' <<<"$output" || fail "early: no word after two seconds: $output"
pgrep -f "$program --fail early" >/dev/null && fail "early: a process is left"
exit $failed
