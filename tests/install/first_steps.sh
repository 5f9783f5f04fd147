#!/usr/bin/env bash
# What a newcomer does first, each command as README has it: the demo, and a run of several processes.
# For a machine that has nothing: tests/install/clean_machine.sh.
#   tests/install/first_steps.sh               that
#   tests/install/first_steps.sh --no-oneDNN   and a build without oneDNN
#   tests/install/first_steps.sh --tests       and that what tests need can be installed, and their build is configured
set -euo pipefail
cd "$(dirname "$0")/../.."
millrace=build/release/bin/millrace
fail() { echo "first steps: $*" >&2; exit 1; }

tools/demo.sh

"$millrace" --version | tee build/version.txt
for part in 'training:  oneDNN' 'processes: Open MPI'; do
  grep -q "^$part" build/version.txt || fail "--version does not say '$part'"
done

# README's line; root may start processes here, and more of them than there are cores.
line=$(sed -n 's/^\$ \(mpirun .*\)/\1/p' README.md)
[[ -n $line ]] || fail "README has no line with mpirun"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
echo "$line"
PATH=$PWD/build/release/bin:$PATH bash -ec "$line"

# Without oneDNN all but training works, and that says so in one line.
if [[ ${1:-} == --no-oneDNN ]]; then
  cmake build/release -DMILLRACE_TRAINER=OFF >build/configure.log
  cmake --build build/release --target millrace
  ! ldd "$millrace" | grep dnnl || fail "oneDNN is still linked"
  "$millrace" verify 'build/demo/test-{000000..000001}.tar'
  if said=$("$millrace" train build/demo/train-000000.tar --model lenet 2>&1); then fail "trained without oneDNN"; fi
  [[ $said == "millrace train: "*"training is not in this build"* && $said != *$'\n'* ]] || fail "without oneDNN: $said"
  echo "$said"
fi

[[ ${1:-} == --tests ]] || exit 0
tools/bootstrap.sh --tests
cmake --preset release >build/configure.log || { cat build/configure.log; exit 1; }
! grep -i 'skipped: ' build/configure.log || fail "tests are left out"
cmake --build --preset release --target io_tests
build/release/bin/io_tests --gtest_brief=1 --gtest_filter='Bytes*:Url*'
