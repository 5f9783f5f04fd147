#!/usr/bin/env bash
# prepare.sh MILLRACE: shards made, indexed, verified, counted, rewritten and predicted by 1, 2 and 3 processes: the
# same bytes.
set -uo pipefail
source "$(dirname "$0")/start.sh"
millrace=$1
cd "$folder" || exit 1

# Five shards of 20 samples and one of 7; a damaged one for verify.
source_set() {
  "$millrace" create 'in/t-%06d.tar' --synthetic classes --count 107 --maxcount 20 --size 28 --no-index 2>/dev/null >&2
  printf 'damage' | dd of=in/t-000003.tar bs=1 seek=5200 conv=notrunc 2>/dev/null
}

prepare() {
  local n=$1
  start "$n" "$millrace" create 'made/t-%06d.tar' --synthetic classes --count 107 --maxcount 20 --size 28 --shuffle 3 \
    --json >made.json || fail "create: status $?"
  start "$n" "$millrace" create 'fold/{fold}/t-%06d.tar' --synthetic classes --count 60 --maxcount 7 --folds 2 \
    --size 28 || fail "create --folds: status $?"
  start "$n" "$millrace" index 'in/t-{000000..000002}.tar' --json >index.json || fail "index: status $?"
  start "$n" "$millrace" verify in/t-{000000..000005}.tar --json >verify.json
  (($? == 1)) || fail "verify: another status"
  start "$n" "$millrace" stats 'made/t-{000000..000005}.tar' --json >stats.json || fail "stats: status $?"
  start "$n" "$millrace" reshard 'made/t-{000000..000005}.tar' 'new/r-%06d.tar' --maxcount 9 --shuffle 5 --json \
    >reshard.json || fail "reshard: status $?"
  if ((n > 1)); then
    start "$n" "$millrace" predict --checkpoint ../run 'made/t-{000000..000005}.tar' -o rows.csv || fail "predict: $?"
    for ((part = 0; part < n; ++part)); do
      cat "rows-${part}of$n.csv"
      rm "rows-${part}of$n.csv"
    done >rows.csv
  else
    "$millrace" predict --checkpoint ../run 'made/t-{000000..000005}.tar' -o rows.csv || fail "predict: $?"
  fi
}

"$millrace" train --model lenet --fake-data 16 --epochs 1 --run-dir run 2>/dev/null >&2 || fail "no checkpoint"
for n in 1 2 3; do
  mkdir "$n"
  cd "$n" || exit 1
  source_set
  prepare "$n" 2>err || cat err
  rm -f err
  cd ..
done
for n in 2 3; do diff -r 1 "$n" || fail "$n processes: other bytes"; done
[[ -e 3/new/r-000011.tar && -e 3/new/r-manifest.json && -e 3/fold/1/t-000004.tar ]] || fail "$(find 3)"
grep -q '"skipped":' 3/verify.json || fail "$(cat 3/verify.json)"

(($(wc -l <3/rows.csv) == 108)) || fail "$(wc -l 3/rows.csv)"

start 2 "$millrace" create 'big-%06d.tar' --synthetic classes --count 20 --maxcount 20 --maxsize 1000 2>err
(($? != 0)) || fail "a shard that --maxsize ends is not refused"
grep -q "lower maxcount or raise maxsize" err || cat err
start 2 "$millrace" stats 'in/x.tar' --limit 3 2>/dev/null && fail "--limit is not refused"

# One that fails ends the others, whose shares would take minutes, and leaves no file in the way of the next try.
mkdir long || exit 1
"$millrace" create long/whole-%06d.tar --synthetic classes --count 2000 --size 28 --no-index 2>/dev/null >&2
for ((shard = 100; shard < 150; ++shard)); do
  cp long/whole-000000.tar "long/t-000$shard.tar"
done
head -c 3000 long/whole-000000.tar >long/t-000125.tar
status=0
output=$(start 2 timeout -s KILL 60 "$millrace" predict --checkpoint run 'long/t-{000100..000149}.tar' --no-scan --batch-size 1 \
  -o long/rows.csv 2>&1) || status=$?
((status == 1)) || fail "predict of a damaged shard: status $status: $output"
(($(grep -c "t-000125.tar" <<<"$output") == 1)) || fail "predict of a damaged shard: $output"
for part in long/rows*; do
  [[ ! -e $part ]] || fail "predict of a damaged shard left $part"
done
exit $failed
