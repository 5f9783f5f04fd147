#!/usr/bin/env bash
# same_samples.sh MILLRACE: processes that write a set together and see other samples fail, and leave no manifest. Two
# working folders stand for two hosts without a shared file system.
set -uo pipefail
source "$(dirname "$0")/start.sh"
millrace=$1
cd "$folder" || exit 1

# refused TEXT WORD...: both processes run `millrace WORD...`, which fails and says TEXT.
refused() {
  local text=$1 status=0 output
  shift
  output=$(timeout 60 mpirun -np 1 --wdir a "$millrace" "$@" : -np 1 --wdir b "$millrace" "$@" 2>&1) || status=$?
  ((status == 1)) || fail "$*: status $status: $output"
  [[ $output == *"$text"* ]] || fail "$*: no '$text': $output"
  [[ ! -e new/x-manifest.json ]] || fail "$*: a manifest"
}

mkdir a
"$millrace" create 'a/t-%06d.tar' --synthetic classes --count 40 --maxcount 20 --size 16 2>/dev/null >&2
cp -rp a b
printf 'damage' | dd of=b/t-000000.tar bs=1 seek=2600 conv=notrunc 2>/dev/null
reshard=(reshard 't-{000000..000001}.tar' ../new/x-%06d.tar --maxcount 7 --force)
refused "the processes see different samples: samples: 40 in process 0, 39 in process 1" "${reshard[@]}" --on-fault skip
refused "write them again with --force" "${reshard[@]}" --on-fault skip

# An older copy of a shard: as many samples, of other keys.
"$millrace" reshard a/t-000000.tar 'old/t-%06d.tar' --shuffle-seed 5 2>/dev/null >&2
cp -p old/t-000000.tar b/
cp -p old/t-000000.tar.index.json b/
refused "keys and sizes: SHA-256 " "${reshard[@]}"
cp -p a/t-000000.tar* b/
mpirun -np 1 --wdir a "$millrace" "${reshard[@]}" : -np 1 --wdir b "$millrace" "${reshard[@]}" 2>log >&2 ||
  fail "equal copies: $(cat log)"
[[ -e new/x-manifest.json ]] || fail "equal copies: no manifest"

# create: a file that one process does not see; nothing is begun.
mkdir -p a/in/cat
for number in {1..9}; do echo "$number" >"a/in/cat/$number.png"; done
cp -rp a/in b/
rm -r new b/in/cat/4.png
refused "samples: 9 in process 0, 8 in process 1" create ../new/x-%06d.tar --from-folder in --maxcount 2
[[ ! -e new/x-000000.tar ]] || fail "create: begun"
cp a/in/cat/4.png b/in/cat/ && touch -d 2026-01-01 b/in/cat/4.png
refused "paths, sizes and times: SHA-256 " create ../new/x-%06d.tar --from-folder in --maxcount 2
exit $failed
