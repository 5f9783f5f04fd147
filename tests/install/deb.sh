#!/usr/bin/env bash
# Makes a .deb of a build and tries it in a minimal Debian of this machine's kind, which has nothing else: apt installs what the program
# needs, and it makes shards, trains and predicts. Needs root, mmdebstrap and dpkg-shlibdeps; exits with 77, and the reason, without.
#   tests/install/deb.sh [BUILD]    by default build/release
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/install/debian.sh
build=$(realpath "${1:-build/release}")
need_debian cpack dpkg-shlibdeps
fail() { echo "deb: $*" >&2; exit 1; }

work=$build/deb-test
rm -rf "$work" && mkdir -p "$work"
(cd "$build" && cpack -G DEB -B "$work" >"$work/cpack.log") || { cat "$work/cpack.log"; fail "cpack"; }
deb=$(ls "$work"/millrace_*.deb)
dpkg-deb -c "$deb" >"$work/files"
for file in ./usr/bin/millrace ./usr/share/doc/millrace/LICENSE ./usr/share/millrace/recipes/ ./usr/include/millrace/pipeline/pipeline.h; do
  grep -q " $file" "$work/files" || fail "no $file in $deb"
done
[[ $(dpkg-deb -f "$deb" Depends) == *libcurl* ]] || fail "the package does not depend on libcurl"
# What reads sounds, films and SentencePiece's models, where this build has it, is a package that the first recommends.
if [[ -e $build/bin/libmillrace_sound.so ]]; then
  media=$(ls "$work"/millrace-media_*.deb)
  grep -q ' ./usr/lib/.*libmillrace_sound\.so' <<<"$(dpkg-deb -c "$media")" || fail "no module for sounds in $media"
  [[ $(dpkg-deb -f "$media" Depends) == *libsndfile* ]] || fail "$media does not depend on libsndfile"
  if [[ -e $build/bin/libmillrace_pieces.so ]]; then
    [[ $(dpkg-deb -f "$media" Depends) == *libsentencepiece0* ]] || fail "$media does not depend on libsentencepiece0"
  fi
  [[ $(dpkg-deb -f "$deb" Recommends) == millrace-media ]] || fail "$deb does not recommend millrace-media"
  [[ $(dpkg-deb -f "$deb" Depends) != *libsndfile* ]] || fail "$deb depends on libsndfile"
fi

suite=$(. /etc/os-release; echo "$VERSION_CODENAME")
base=$PWD/build/clean-machine/deb-$suite
minimal_debian "$suite" "$base" ca-certificates
run=$base-$$
trap 'rm -rf --one-file-system "$run"' EXIT
cp -a "$base" "$run"
cp "$deb" "$run/millrace.deb"
inside "$run" 'export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -qq -y --no-install-recommends /millrace.deb >/dev/null
  cd /tmp
  millrace --version
  millrace create "t-%06d.tar" --synthetic classes --count 400 --size 28 --maxcount 100
  millrace train "t-{000000..000002}.tar" --val t-000003.tar --model lenet --epochs 1 --run-dir run
  [[ $(millrace predict t-000003.tar --checkpoint run --json | wc -l) == 100 ]]
  apt-get remove -qq -y millrace >/dev/null
  [[ ! -e /usr/bin/millrace ]]'
