#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# after-install.sh PREFIX [LIBDIR]: let the loader find the library that `make install` put below PREFIX, as root by
# ldconfig; elsewhere, say which variables do it. LIBDIR, below PREFIX, is where fathom.pc is; it is looked for.
set -eu
prefix=$(realpath -ms -- "$1")
libdir=${2:-$(dirname "$(dirname "$(find "$prefix"/lib* -name fathom.pc -print -quit)")")}

say() {
  echo "install: $*"
}

finds_program() {
  [ "$(command -v fathom)" = "$prefix/bin/fathom" ]
}

# ldconfig knows the folders of /etc/ld.so.conf, among them /usr/local/lib.
finds_library() {
  ldconfig -p 2>/dev/null | grep -qF "=> $libdir/libfathom.so"
}

finds_package() {
  [ "$(pkg-config --variable=libdir fathom 2>/dev/null)" = "$libdir" ]
}

PATH=$PATH:/usr/sbin:/sbin
[ "$(id -u)" != 0 ] || ldconfig
variables=()
# shellcheck disable=SC2016
finds_program || variables+=('PATH='"$prefix"'/bin:$PATH')
finds_library || variables+=("LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}")
finds_package || variables+=("PKG_CONFIG_PATH=$libdir/pkgconfig${PKG_CONFIG_PATH:+:\$PKG_CONFIG_PATH}")
if [ ${#variables[@]} = 0 ]; then
  say "fathom and its library are in $prefix; try: man fathom"
else
  say "fathom is in $prefix, where this shell does not look. To use it:"
  echo "  export ${variables[*]}"
fi
