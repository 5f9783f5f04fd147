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
deb=$(ls "$work"/*.deb)
dpkg-deb -c "$deb" >"$work/files"
for file in ./usr/bin/millrace ./usr/share/doc/millrace/LICENSE ./usr/share/millrace/recipes/ ./usr/include/millrace/pipeline/pipeline.h; do
  grep -q " $file" "$work/files" || fail "no $file in $deb"
done
[[ $(dpkg-deb -f "$deb" Depends) == *libcurl* ]] || fail "the package does not depend on libcurl"

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
  millrace predict t-000003.tar --checkpoint run --json | wc -l | grep -qx 100
  apt-get remove -qq -y millrace >/dev/null
  [[ ! -e /usr/bin/millrace ]]'
