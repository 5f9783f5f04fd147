#!/usr/bin/env bash
# Installs what millrace needs on Debian 12. Does nothing, and needs no root rights, if everything
# is installed.
#   tools/bootstrap.sh            what the build and the demo need
#   tools/bootstrap.sh --tests    that, and what the tests use: nginx, Python oracles
set -euo pipefail
cd "$(dirname "$0")/.."

build=(
  g++ cmake ninja-build pkg-config
  libarchive-dev libcurl4-openssl-dev zlib1g-dev libisal-dev libssl-dev
  libjpeg62-turbo-dev libpng-dev libtbb-dev libhwy-dev libeigen3-dev libdnnl-dev
  libcli11-dev nlohmann-json3-dev libfmt-dev libspdlog-dev
  dataset-fashion-mnist
)
tests=(
  libgtest-dev libgmock-dev libbenchmark-dev nginx-light ca-certificates
  libopenmpi-dev openmpi-bin
  python3 python3-venv python3-numpy python3-pil python3-torch python3-torchvision
)

wanted=("${build[@]}")
[[ ${1:-} == --tests ]] && wanted+=("${tests[@]}")

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done

if ((${#missing[@]} > 0)); then
  as_root=()
  if ((EUID != 0)); then as_root=(sudo); fi
  echo "bootstrap: installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# The one oracle that Debian does not package. Without it, the tests that need it are skipped, with
# the reason.
if [[ ${1:-} == --tests && ! -e build/oracle/bin/webdataset-ready ]]; then
  /usr/bin/python3 -m venv --system-site-packages build/oracle
  if build/oracle/bin/pip install -q --disable-pip-version-check webdataset==1.0.2; then
    touch build/oracle/bin/webdataset-ready
  else
    echo "bootstrap: no webdataset from PyPI: its parity tests will skip" >&2
  fi
fi
