#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# image.sh [TOOLS-FOLDER]: make what a guest boots from, and print its folder.
#
# The folder then holds `vmlinuz` and `base.cpio`: a Debian kernel, its VFIO modules, busybox and
# init. They come out of Debian packages that are downloaded and unpacked, never installed, and are
# kept in a cache: $FTH_GUEST_CACHE, or else $XDG_CACHE_HOME/fathom, or else ~/.cache/fathom. With
# TOOLS-FOLDER our own programs are built statically there as well, and packed into
# TOOLS-FOLDER/tools.cpio. Exit 77 and a reason where the packages can not be had.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../..")
cache=${FTH_GUEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-$root/build-guest}/.cache}/fathom}
kernel_of_the_day=linux-image-cloud-amd64
# In the order in which they are loaded; newer kernels have no vfio_virqfd.
modules=(irqbypass vfio vfio_virqfd vfio_iommu_type1 vfio-pci-core vfio-pci)
# Goes up whenever base.cpio would be made in another way.
layout=1

skip() {
  echo "guest: skipped: $*" >&2
  exit 77
}

# ---- the packages ----

# apt with the system's lists or, once those have failed, with lists of our own: no root needed.
lists=()
ask_apt() {
  local command=$1
  shift
  "$command" "${lists[@]}" -qq "$@" </dev/null
}

# The real package that the name without a version stands for, and its version: "NAME=VERSION".
newest_kernel() {
  local name version
  name=$(ask_apt apt-cache depends --important "$kernel_of_the_day" 2>/dev/null |
    awk '/Depends: linux-image-[0-9]/{print $2; exit}')
  [ -n "$name" ] || return 1
  version=$(ask_apt apt-cache show --no-all-versions "$name" 2>/dev/null |
    awk '/^Version:/{print $2; exit}')
  [ -n "$version" ] && echo "$name=$version"
}

# The lists of the system may be missing or old.
fetch_lists() {
  local state=$work/apt
  mkdir -p "$state/lists/partial" "$state/archives/partial"
  lists=(-o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state" -o "APT::Sandbox::User=")
  ask_apt apt-get update >&2
}

download() {
  rm -rf "$work/packages"
  mkdir -p "$work/packages"
  (cd "$work/packages" &&
    ask_apt apt-get -o APT::Sandbox::User= -o Acquire::http::Timeout=20 download "$@" >&2)
}

# ---- the base: all that does not change with our code ----

# unpack_module NAME NUMBER: into the image, named so that their order is the order of loading
unpack_module() {
  local file
  file=$(find "$work/unpacked" -name "$1.ko*" -o -name "${1//_/-}.ko*" | head -n 1)
  [ -n "$file" ] || return 0
  case $file in
  *.xz) xz -dc "$file" ;;
  *.zst) zstd -qdc "$file" ;;
  *) cat "$file" ;;
  esac >"$work/image/modules/$2-$1.ko"
}

pack() {
  (cd "$1" && find . -mindepth 1 | sort | "$busybox" cpio -o -H newc 2>/dev/null) >"$2"
}

fill_image() {
  local number=10 module image=$work/image
  mkdir -p "$image"/{bin,dev,proc,sys,tmp,modules,test}
  cp "$busybox" "$image/bin/busybox"
  for module in "${modules[@]}"; do
    unpack_module "$module" $number
    number=$((number + 1))
  done
  [ -e "$image"/modules/*-vfio-pci.ko ] || skip "$kernel has no vfio-pci"
}

# make_base FOLDER: from what was downloaded; into a folder beside it first, so that it is whole or
# not there
make_base() {
  local package vmlinuz busybox
  mkdir -p "$work/unpacked"
  for package in "$work"/packages/*.deb; do
    dpkg -x "$package" "$work/unpacked"
  done
  busybox=$(find "$work/unpacked" -path '*/bin/busybox' -type f | head -n 1)
  vmlinuz=$(find "$work/unpacked" -name 'vmlinuz-*' -type f | head -n 1)
  [ -n "$busybox" ] && [ -n "$vmlinuz" ] || skip "$kernel or busybox-static holds no program"
  fill_image
  mkdir -p "$work/done"
  pack "$work/image" "$work/done/base.cpio"
  cp "$vmlinuz" "$work/done/vmlinuz"
  cp "$busybox" "$work/done/busybox"
  mv "$work/done" "$1"
}

all_in_cache() {
  find "$cache" -maxdepth 1 -name "guest-*" -type d 2>/dev/null | sort -V
}

newest_in_cache() {
  all_in_cache | grep "/guest-$layout-[^/]*$" | tail -n 1 || true
}

# The newest stays, and the one before, which a guest may be booting from.
forget_old() {
  all_in_cache | head -n -2 | xargs -r -d '\n' rm -rf --
}

# The newest kernel that apt has; its folder into `base`. Fails where it can not be downloaded.
fetch_base() {
  kernel=$(newest_kernel) || return 1
  base=$cache/guest-$layout-${kernel//[=:~+]/_}
  [ -d "$base" ] || download "$kernel" busybox-static
}

# The folder of the base, into `base`; made if the newest kernel is not in the cache yet.
find_base() {
  if ! fetch_base; then
    base=$(newest_in_cache)
    [ -z "$base" ] || return 0
    fetch_lists || skip "apt reaches no archive, and $cache holds no guest"
    fetch_base || skip "apt can not download $kernel_of_the_day, and $cache holds no guest"
  fi
  # Outside of any condition, so that every failing command ends the script.
  [ -d "$base" ] || {
    make_base "$base"
    forget_old
  }
}

# ---- our programs ----

make_tools() {
  local folder=$1 image=$1/image generator=()
  ! command -v ninja >/dev/null || generator=(-G Ninja)
  mkdir -p "$folder"
  {
    [ -e "$folder/CMakeCache.txt" ] ||
      cmake -S "$root" -B "$folder" "${generator[@]}" -DBUILD_TESTING=OFF -DFTH_CUDA=OFF \
        -DCMAKE_EXE_LINKER_FLAGS=-static
  } >"$folder/build.log" 2>&1 &&
    cmake --build "$folder" --target fathom dev_copy guest_flat guest_window >>"$folder/build.log" 2>&1 || {
    cat "$folder/build.log" >&2
    exit 1
  }
  rm -rf "$image"
  mkdir -p "$image/bin" "$image/test"
  strip -o "$image/bin/fathom" "$folder/fathom"
  strip -o "$image/bin/dev_copy" "$folder/examples/dev_copy"
  strip -o "$image/bin/guest_flat" "$folder/tests/guest/guest_flat"
  strip -o "$image/bin/guest_window" "$folder/tests/guest/guest_window"
  cp "$here/guest_init.sh" "$image/init"
  cp "$here/guest_lib.sh" "$image/test/lib"
  chmod +x "$image/init"
  busybox=$base/busybox pack "$image" "$folder/tools.cpio"
}

for program in apt-get apt-cache dpkg flock xz; do
  command -v $program >/dev/null || [ -n "$(newest_in_cache)" ] || skip "no $program here"
done
mkdir -p "$cache" 2>/dev/null || skip "can not make $cache; FTH_GUEST_CACHE names another place"
# Two runs at once make the image once.
exec 9>"$cache/lock"
flock 9
work=$(mktemp -d "$cache/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
find_base
[ $# -eq 0 ] || make_tools "$1"
echo "$base"
