#!/usr/bin/env bash
# Tries a wheel where nothing of the build is: in a minimal Debian with Python in a folder of its own,
# it is installed in a clean environment, makes shards, reads them over https:// from an nginx whose
# certificate is signed by nobody, and trains on them. Needs root, mmdebstrap, nginx-light and openssl;
# exits with 77, and the reason, where one is missing.
#   tests/install/wheel_elsewhere.sh [WHEEL [SUITE]]    by default what tools/wheel.sh built, in this Debian; another SUITE of
#                                                       Debian, such as trixie or sid, has another Python and glibc
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/install/debian.sh
here=$PWD/tests/install
work=$PWD/build/wheel
wheel=${1:-$(ls "$work"/dist/millrace_loader-*.whl 2>/dev/null || true)}

[[ -n $wheel ]] || skip "no wheel: tools/wheel.sh builds one"
need_debian nginx openssl

suite=${2:-$(. /etc/os-release; echo "$VERSION_CODENAME")}
root=$work/elsewhere-$suite
minimal_debian "$suite" "$root" python3-venv

# What the environment gets: the wheel, and from PyPI the one package that it depends on.
rm -rf "$root/try" && mkdir -p "$root/try/wheels" "$root/try/shards"
cp "$wheel" "$root/try/wheels"
python=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
python3 -m pip download -q --no-deps --only-binary :all: --python-version "$python" -d "$root/try/wheels" \
  'nanobind-backend>=1,<2'
cp "$here/wheel_elsewhere.py" "$root/try"

port=$((20000 + RANDOM % 10000))
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 \
  -keyout "$root/try/key.pem" -out "$root/try/ca.pem" 2>/dev/null
cat >"$root/try/nginx.conf" <<CONF
daemon off;
pid $root/try/nginx.pid;
error_log $root/try/error.log;
events {}
http {
  access_log $root/try/access.log;
  server {
    listen 127.0.0.1:$port ssl http2;
    ssl_certificate $root/try/ca.pem;
    ssl_certificate_key $root/try/key.pem;
    root $root/try/shards;
  }
}
user root;
CONF
nginx -c "$root/try/nginx.conf" & server=$!
trap 'kill "$server"' EXIT

try() { inside "$root" "cd /try; $1"; }
try 'python3 -m venv venv && venv/bin/pip install -q --no-index --find-links wheels millrace-loader'
try 'venv/bin/python -m millrace create "shards/set-%06d.tar" --synthetic classes --count 400 --size 28 --maxcount 100'
try "SSL_CERT_FILE=/try/ca.pem venv/bin/python wheel_elsewhere.py https://127.0.0.1:$port"
