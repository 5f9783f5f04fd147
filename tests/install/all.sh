#!/usr/bin/env bash
# What a newcomer does first, on each minimal Debian and with each choice: about an hour on two cores.
set -euo pipefail
cd "$(dirname "$0")"
./clean_machine.sh trixie tests/install/first_steps.sh --no-oneDNN
./clean_machine.sh bookworm tests/install/first_steps.sh --tests
