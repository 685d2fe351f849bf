#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# install-deps.sh WHAT...: make sure the Debian packages for build, check, bench, plots, site or fuzz are
# there.
#
# Installs only what is missing, and looks at no network when nothing is. Where it may not install
# it names the packages and stops. doc/dependencies.md says what each package is for.
set -eu

build=(gcc g++ make cmake ninja-build pkg-config liburing-dev libxxhash-dev libcmocka-dev liblz4-dev libncurses-dev
  libpg-query-dev libprotobuf-c-dev libreadline-dev libssl-dev libzstd-dev libzydis-dev python3 zlib1g-dev)
check=(clang-format default-jdk-headless fio libmemcached-dev libmemcached-tools libpmem1 libpmemlog1 libpmemobj1
  libpostgresql-jdbc-java mandoc memcached nutcracker odbc-postgresql openssl pgcli postgresql
  postgresql-client python3-asyncpg python3-dev python3-numpy python3-pandas python3-pip python3-psycopg python3-psycopg2 python3-pylibmc
  python3-pymemcache python3-pytest python3-scipy python3-sqlalchemy qemu-system-x86 redis-server spin sqlite3 unixodbc xz-utils zsh zstd)
bench=(fio libpmemlog1 libpmemobj1 python3-diskcache python3-lmdb python3-networkx python3-numpy python3-scipy)
plots=(python3 python3-matplotlib)
site=(mandoc mkdocs python3)
fuzz=(clang)

say() {
  echo "deps: $*"
}

stop() {
  say "$*" >&2
  say "missing: ${missing[*]}" >&2
  say "install them, or go on without asking again: make DEPS=no ..." >&2
  exit 1
}

wanted_for() {
  local what
  for what in "$@"; do
    case $what in
    build) echo "${build[@]}" ;;
    check) echo "${build[@]}" "${check[@]}" ;;
    bench) echo "${build[@]}" "${bench[@]}" ;;
    plots) echo "${plots[@]}" ;;
    site) echo "${site[@]}" ;;
    fuzz) echo "${build[@]}" "${fuzz[@]}" ;;
    *)
      echo "usage: install-deps.sh build|check|bench|plots|site|fuzz ..." >&2
      exit 2
      ;;
    esac
  done
}

# The wanted packages that dpkg does not report as installed, into the array `missing`.
find_missing() {
  local have package
  have=" $(dpkg-query -W -f='${db:Status-Abbrev}${Package} ' "$@" 2>/dev/null || true)"
  missing=()
  for package in "$@"; do
    [[ $have == *" ii $package "* ]] || missing+=("$package")
  done
}

# How to become root, into the array `as_root`; fails where there is no way.
find_root() {
  as_root=()
  [ "$(id -u)" = 0 ] && return 0
  command -v sudo >/dev/null || return 1
  as_root=(sudo)
  # Nobody is there to type a password.
  [ -t 0 ] || as_root=(sudo -n)
  "${as_root[@]}" true
}

words=$(wanted_for "$@")
read -ra wanted <<<"${words//$'\n'/ }"
missing=("${wanted[@]}")

command -v dpkg-query >/dev/null || stop "this is no Debian: no dpkg here to ask or to install with"
find_missing "${wanted[@]}"
[ ${#missing[@]} -gt 0 ] || exit 0
command -v apt-get >/dev/null || stop "cannot install: no apt-get here"
find_root || stop "cannot install: neither root nor sudo"

say "installing ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
# A stale list may still do, so a failing update alone is no reason to stop.
"${apt[@]}" update </dev/null || say "apt-get update failed; going on"
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null || stop "apt-get failed"
say "installed ${#missing[@]} packages"
