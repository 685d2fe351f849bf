#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# install_test.sh BUILD-FOLDER: what is installed is complete: an example compiles against it with
# pkg-config, shared and static, and runs.
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
  pkg-config --define-variable=prefix="$at" "$@" fathom
}

[ "$(pkg-config --modversion fathom)" = "$("$at/bin/fathom" --version | cut -d' ' -f2)" ]
[ "$(pkg-config --variable=prefix fathom)" = /opt/fathom ]
test -s "$at/share/man/man1/fathom.1"
# `fathom bench` finds its program, also where PATH does not lead to it.
"$at/bin/fathom" bench | grep -q "^  dev  "

# shellcheck disable=SC2046
cc examples/dev_copy.c $(flags --cflags --libs) -o "$root/shared"
LD_LIBRARY_PATH=$(flags --variable=libdir) "$root/shared" mem:1M mem:1M
# shellcheck disable=SC2046
cc -static examples/dev_copy.c $(flags --cflags --static --libs) -o "$root/static"
"$root/static" mem:1M mem:1M
echo "install_test: an example builds against what is installed"
