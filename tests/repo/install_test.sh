#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# install_test.sh BUILD-FOLDER: the installation is complete. Programs in C and C++ build with
# pkg-config and with find_package(fathom), shared and static, and run; where the build has CUDA,
# the example gpu_sum.cu builds with both. The installation may be moved (DESTDIR).
set -eu
build=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

DESTDIR=$root cmake --install "$build" --prefix /opt/fathom >/dev/null
at=$root/opt/fathom
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$at" -name fathom.pc)")
export PKG_CONFIG_SYSROOT_DIR=
flags() {
  # the prefix as if DESTDIR were the root of the machine
  pkg-config --define-variable=prefix="$at" "$@"
}
libdir=$(flags --variable=libdir fathom)

version=$(pkg-config --modversion fathom)
[ "$version" = "$("$at/bin/fathom" --version | cut -d' ' -f2)" ]
grep -q "PACKAGE_VERSION \"$version\"" "$libdir/cmake/fathom/fathom-config-version.cmake"
[ "$(pkg-config --variable=prefix fathom)" = /opt/fathom ]
test -s "$at/share/man/man1/fathom.1"
test -s "$at/share/bash-completion/completions/fathom"
test -s "$at/share/zsh/site-functions/_fathom"
if [ -d "$build/man3" ]; then
  grep -q fth_pm_tx_begin "$at/share/man/man3/fathom_pm_tx.3"
  grep -qx '.so man3/fathom_pm_tx.3' "$at/share/man/man3/fth_pm_tx_begin.3"
fi
# The library that `fathom flat run` preloads is found from where the tool is.
if [ -e "$libdir/libfathom_flat_run.so" ]; then
  rc=0
  "$at/bin/fathom" flat run --flash mem:16M -- true 2>"$root/flat" || rc=$?
  [ $rc = 0 ] || [ $rc = 77 ] || { cat "$root/flat"; exit 1; }
fi
# Nothing of this machine's source or build folder is in it.
if grep -rlF -e "$PWD/" -e "$(realpath "$build")/" "$libdir/cmake" "$libdir/pkgconfig" "$at/include"; then
  echo "install_test: these files name folders of the build" >&2
  exit 1
fi

# with_pkgconfig COMPILER SOURCE
with_pkgconfig() {
  # shellcheck disable=SC2046
  "$1" "$2" -Wall -Wextra -Werror $(flags --cflags --libs fathom) -o "$root/shared"
  LD_LIBRARY_PATH=$libdir "$root/shared" "${@:3}"
  # shellcheck disable=SC2046
  "$1" -static "$2" $(flags --cflags --static --libs fathom) -o "$root/static"
  "$root/static" "${@:3}"
}
with_pkgconfig cc examples/dev_copy.c mem:1M mem:1M
with_pkgconfig cc tests/repo/consumer/use.c
with_pkgconfig c++ tests/repo/consumer/use.cpp
echo "install_test: programs build with pkg-config"

cuda=()
if [ -f "$libdir/libfathom_cuda.a" ]; then
  nvcc=$(sed -n 's/^CMAKE_CUDA_COMPILER:[^=]*=//p' "$build/CMakeCache.txt")
  nvcc=${nvcc:-$(sed -n 's/^FTH_NVCC:[^=]*=//p' "$build/CMakeCache.txt")}
  cuda=(-DGPU_SUM="$PWD/examples/gpu_sum.cu" -DCMAKE_CUDA_COMPILER="$nvcc")
fi
cmake -S tests/repo/consumer -B "$root/consumer" -DCMAKE_PREFIX_PATH="$at" "${cuda[@]}" >"$root/log" &&
  cmake --build "$root/consumer" >>"$root/log" || {
  cat "$root/log"
  exit 1
}
for program in c_fathom c_static cpp_fathom cpp_static; do
  "$root/consumer/$program"
done
ldd "$root/consumer/c_fathom" | grep -q libfathom.so
! ldd "$root/consumer/c_static" | grep -q libfathom
echo "install_test: programs build with find_package(fathom)"

if [ -f "$libdir/libfathom_cuda.a" ]; then
  "$root/consumer/gpu_host"
  rc=0
  "$root/consumer/gpu_sum" mem:1M || rc=$?
  [ $rc = 0 ] || [ $rc = 77 ]
  for compiler in cc "$nvcc"; do
    # shellcheck disable=SC2046
    "$compiler" tests/repo/consumer/gpu_host.c $(flags --cflags --libs fathom-cuda) -o "$root/gpu_host"
    LD_LIBRARY_PATH=$libdir "$root/gpu_host"
  done
  echo "install_test: a program for GPUs builds with find_package(fathom), and its host's half with pkg-config"
fi
