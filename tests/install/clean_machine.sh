#!/usr/bin/env bash
# Runs a command as a newcomer would: in a fresh copy of what is committed here, on a minimal Debian that has nothing else.
#   tests/install/clean_machine.sh bookworm tests/install/first_steps.sh     Debian 12
#   tests/install/clean_machine.sh trixie   tests/install/first_steps.sh     Debian 13
#   tests/install/clean_machine.sh noble    tests/install/first_steps.sh     Ubuntu 24.04
# Needs root and mmdebstrap; exits with 77, and the reason, where such a system cannot be had, else with the command's status.
# The system is kept in build/clean-machine for the next time, as it was before the command.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/install/debian.sh
(($# >= 2)) || { sed -n '2,7s/^# \?//p' "$0"; exit 2; }
need_debian git
suite=$1
base=$PWD/build/clean-machine/$suite
make=minimal_debian
[[ $suite != noble ]] || make=minimal_ubuntu
"$make" "$suite" "$base" ca-certificates,git,sudo
run=$base-$$
trap 'rm -rf --one-file-system "$run"' EXIT
cp -a "$base" "$run"
mkdir -p "$run/src/millrace"
git -c safe.directory="$PWD" archive HEAD | tar -x -C "$run/src/millrace"
inside "$run" "cd /src/millrace && ${*:2}"
