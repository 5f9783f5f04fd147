#!/usr/bin/env bash
# Checks sources with clang-tidy (.clang-tidy) and clang's thread-safety analysis, one after the other, and builds nothing.
#   tools/tidy.sh                          every source
#   tools/tidy.sh pipeline trainer/fit.cc  the sources in those folders, and those files
# Prints a line a file and what was found in it; exits with 1 where anything was.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset clang -B build/tidy -DMILLRACE_BUILD_BENCH=ON >build/configure.log || { cat build/configure.log; exit 1; }
commands=build/tidy/compile_commands.json
sources=$(sed -n "s|^ *\"file\": \"$PWD/\(.*\)\",\{0,1\}$|\1|p" "$commands" | grep -v '^build/' | sort -u)

found=0
for source in $sources; do
  wanted=$(($# == 0))
  for name in "$@"; do
    if [[ $source == "${name%/}" || $source == "${name%/}"/* ]]; then wanted=1; fi
  done
  if ((!wanted)); then continue; fi
  echo "$source"
  clang-tidy -p build/tidy --quiet --warnings-as-errors='*' "$source" 2>/dev/null || found=1
done
exit $found
