# What scripts that try millrace in a Debian of its own have in common; sourced.

skip() { echo "skipped: $*"; exit 77; }

# Ends the script with 77, and the reason, where such a system cannot be made.
need_debian() {  # PROGRAM... that the script needs besides
  local program
  ((EUID == 0)) || skip "chroot needs root"
  for program in mmdebstrap "$@"; do
    type "$program" >/dev/null 2>&1 || skip "no $program"
  done
  unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces for mounts and processes here"
}

# Makes a minimal Ubuntu, once, from where Ubuntu has its packages.
minimal_ubuntu() {  # SUITE FOLDER PACKAGE,PACKAGE...
  [[ -e $2-ready ]] && return
  local site=http://archive.ubuntu.com/ubuntu keys=$2-keys
  rm -rf "$2" "$keys" && mkdir -p "$keys"
  curl -fsS -o "$keys/keys.deb" "$site/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb" &&
    dpkg-deb -x "$keys/keys.deb" "$keys" || skip "no Ubuntu packages to be had here"
  mmdebstrap --quiet --variant=minbase --include="apt,$3" --keyring="$keys/usr/share/keyrings/ubuntu-archive-keyring.gpg" \
    "$1" "$2" "deb $site $1 main universe" || skip "mmdebstrap cannot make Ubuntu $1 here"
  touch "$2-ready"
}

# Makes a minimal Debian, once, from the mirror that this machine takes its packages from.
minimal_debian() {  # SUITE FOLDER PACKAGE,PACKAGE...
  [[ -e $2-ready ]] && return
  local mirror
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' | grep -v security | head -n 1)
  rm -rf "$2" && mkdir -p "$(dirname "$2")"
  mmdebstrap --quiet --variant=minbase --include="$3" "$1" "$2" ${mirror:+"deb $mirror $1 main"} ||
    skip "mmdebstrap cannot make Debian $1 here"
  touch "$2-ready"
}

# As a machine of its own would run it, but for the network, for which it gets what this one has been told.
inside() {  # FOLDER COMMAND
  local file variable told=()
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    [[ ! -e $file ]] || { mkdir -p "$1$(dirname "$file")" && cp -L "$file" "$1$file"; }
  done
  for variable in http_proxy https_proxy no_proxy SSL_CERT_FILE "${!PIP_@}"; do
    [[ -z ${!variable:-} ]] || told+=("$variable=${!variable}")
  done
  unshare --mount --pid --fork bash -ec 'root=$1; shift
    mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"; mount --rbind /sys "$root/sys"
    exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      LANG=C.UTF-8 "$@"' - "$1" "${told[@]}" /bin/bash -ec "$2"
}
