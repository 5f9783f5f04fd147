#!/usr/bin/env bash
# Installs what millrace needs on Debian 12 or 13, or Ubuntu 24.04. Does nothing, and needs no root rights, if everything
# is installed.
#   tools/bootstrap.sh            what the build, runs of several processes, the Python package and the demo need
#   tools/bootstrap.sh --tests    that, and what the tests use: nginx, Python oracles, stores' servers
#   tools/bootstrap.sh --ci       that of --tests, and for more of them: Slurm, sshd, and what makes a minimal Debian
#   tools/bootstrap.sh --accelerators  that of the build, and XLA's C interface with a plugin for the CPU
#   tools/bootstrap.sh --wheel    that of the build, and what tools/wheel.sh and its test need besides
#   tools/bootstrap.sh --arrow    that of the build, and Apache Arrow, for Parquet and Hugging Face's sets
#   tools/bootstrap.sh --media    that of the build, and what reads sounds, films and SentencePiece's models: libsndfile, FFmpeg, ...
set -euo pipefail
cd "$(dirname "$0")/.."

build=(
  g++ cmake ninja-build pkg-config
  libarchive-dev libcurl4-openssl-dev zlib1g-dev libisal-dev libssl-dev libpugixml-dev
  libjpeg-dev libpng-dev libtiff-dev libwebp-dev libutf8proc-dev libtbb-dev libhwy-dev libeigen3-dev libdnnl-dev
  libcli11-dev libtomlplusplus-dev libmicrohttpd-dev nlohmann-json3-dev libfmt-dev libspdlog-dev
  libopenmpi-dev openmpi-bin
  python3-dev python3-venv
  dataset-fashion-mnist
)
media=(libsndfile1-dev libsamplerate0-dev libavformat-dev libavcodec-dev libswscale-dev libsentencepiece-dev)
tests=(
  libgtest-dev libgmock-dev nginx-light ca-certificates
  python3-numpy python3-pil python3-torch python3-torchvision libopenblas0-serial
  python3-sphinx python3-myst-parser mandoc zsh fish
)
ci=(slurmctld slurmd slurm-client munge libsimgrid-dev mmdebstrap git openssh-server openssh-client iproute2 procps)
wheel=(dpkg-dev unzip libsndfile1-dev libsamplerate0-dev libsentencepiece-dev libnghttp2-dev libbz2-dev liblzma-dev libzstd-dev mmdebstrap nginx-light openssl)

wanted=("${build[@]}")
[[ ${1:-} == --tests || ${1:-} == --ci ]] && wanted+=("${tests[@]}" "${media[@]}")
[[ ${1:-} == --media ]] && wanted+=("${media[@]}")
[[ ${1:-} == --ci ]] && wanted+=("${ci[@]}")
[[ ${1:-} == --wheel ]] && wanted+=("${wheel[@]}")

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
  # The run level of maintenance: nothing that is installed is started.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# What Debian does not package. Without an oracle, the tests that need it are skipped, with the reason.
python_packages() {  # NAME WHAT-IS-MISSING-WITHOUT PIP-ARGUMENT...
  local ready=build/oracle/bin/$1-ready missing=$2
  [[ -e $ready ]] && return
  [[ -e build/oracle/bin/pip ]] || /usr/bin/python3 -m venv --system-site-packages build/oracle
  if build/oracle/bin/pip install -q --disable-pip-version-check "${@:3}"; then
    touch "$ready"
  else
    echo "bootstrap: no $1 from PyPI: $missing" >&2
  fi
}
oracle() { python_packages "$1" "its $2 will skip" "${@:3}"; }
# Beside the oracles: JAX would load every plugin that it finds.
plugins() { python_packages "$1" "$2" --no-deps --upgrade --target build/plugins "${@:3}"; }
if [[ ${1:-} == --tests || ${1:-} == --ci ]]; then
  oracle nanobind "tests of the Python package" nanobind==3.1.0 nanobind-backend==1.0.0 pytest==9.2.0 \
    ml_dtypes==0.4.1 mypy==2.4.1
  oracle pyright "test of pyright" basedpyright==1.40.2
  oracle webdataset "parity tests" webdataset==1.0.2
  oracle moto "tests of s3://" 'moto[server]==5.2.5'
  oracle gcp-storage-emulator "tests of gs://" gcp-storage-emulator==2026.7.19
  # Those that `create` reads the files of, and what they import.
  oracle formats "tests of create from other libraries' files" --no-deps datasets==3.6.0 \
    mosaicml-streaming==0.9.1 litdata==0.2.35 tfrecord==1.14.6 pycocotools==2.0.8 crc32c==2.7.1 \
    protobuf==5.29.5 dill==0.3.8 multiprocess==0.70.16 xxhash==3.5.0 pandas==2.1.4 tifffile==2023.7.10 \
    Brotli==1.2.1 python-snappy==0.7.3 cramjam==2.14.0 zstd==1.5.5.1 lightning-utilities==0.11.9 \
    fsspec==2024.9.0 transformers==4.44.2 tokenizers==0.19.1 huggingface_hub==0.24.7 safetensors==0.4.5 \
    regex==2024.9.11 tqdm==4.66.5 filelock packaging requests urllib3 certifi idna charset-normalizer \
    typing_extensions PyYAML tzdata pytz python-dateutil six
  oracle sentencepiece "test of SentencePiece's tokens" sentencepiece==0.2.0
  oracle prometheus "tests of --metrics-listen" prometheus_client==0.26.0
  # Without what they depend on: that would be another PyTorch than Debian's, of several gigabytes.
  oracle trainers "tests of docs/python-recipes.md" --no-deps \
    pytorch-lightning==2.2.5 lightning-utilities==0.11.9 torchmetrics==1.4.3 fsspec==2024.9.0 \
    transformers==4.44.2 tokenizers==0.19.1 huggingface_hub==0.24.7 safetensors==0.4.5 \
    regex==2024.9.11 accelerate==0.33.0 psutil==6.0.0 tqdm==4.66.5 filelock packaging requests \
    urllib3 certifi idna charset-normalizer typing_extensions PyYAML \
    jax==0.4.30 jaxlib==0.4.30 scipy==1.11.4 opt_einsum==3.4.0
fi
case ${1:-} in
  --tests | --ci | --accelerators) plugins pjrt "the build will load no PJRT plugins" xla-cpu-pjrt==0.0.1 ;;
esac
case ${1:-} in
  --tests | --ci | --arrow)
    python_packages pyarrow "the build will read neither Parquet nor Hugging Face's sets" --no-deps pyarrow==18.1.0 ;;
esac
if [[ ${1:-} == --ci ]]; then
  plugins accelerators "tests of compiling for a TPU and an H100 will skip" libtpu==0.0.52 jax-cuda12-pjrt==0.12.0.1
fi
