#!/usr/bin/env bash
# Builds millrace and runs its tests: the release preset, or those named.
#   tools/test.sh                        the release preset: what a change must pass
#   tools/test.sh long                   the tests that take minutes each, on the release build
#   tools/test.sh dev asan tsan clang    those presets instead
#   tools/test.sh --again ...            what fails runs once more, alone: for machines that others load, too
set -euo pipefail
cd "$(dirname "$0")/.."

tools/bootstrap.sh --tests

# Real shards next to a checkout are used if present; without them the tests that need them are
# skipped.
data="$PWD/../shared/data"
if [[ -z ${MILLRACE_TEST_DATA:-} && -d $data ]]; then export MILLRACE_TEST_DATA=$data; fi
export MILLRACE_ORACLE_PYTHON=${MILLRACE_ORACLE_PYTHON:-$PWD/build/oracle/bin/python}

again=
if [[ ${1:-} == --again ]]; then again=1 && shift; fi
presets=("$@")
if ((${#presets[@]} == 0)); then presets=(release); fi
for preset in "${presets[@]}"; do
  echo "== $preset"
  configure=$preset
  if [[ $preset == long ]]; then configure=release; fi
  cmake --preset "$configure" >build/configure.log || { cat build/configure.log; exit 1; }
  cmake --build --preset "$preset"
  ctest --preset "$preset" || {
    [[ $again ]] || exit 1
    echo "== $preset: what failed, alone"
    ctest --preset "$preset" --rerun-failed -j 1
  }
done
