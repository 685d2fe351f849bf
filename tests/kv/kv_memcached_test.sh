#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# kv_memcached_test.sh FATHOM: the same bytes to memcached and to `fathom kv serve`; the answers are the
# same, but for the differences that src/kv/server/README.md lists.
subcommand=kv
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"

for tool in memcached python3; do
  if ! command -v $tool >/dev/null; then
    echo "skipped: $tool is not installed"
    exit 77
  fi
done
version=$(memcached --version)
if [[ $version != "memcached 1.6.18" ]]; then
  echo "skipped: the answers of 1.6.18 are expected, this is $version"
  exit 77
fi
python3 "$(dirname "$0")/kv_memcached_test.py" "$fathom"
