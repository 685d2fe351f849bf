#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# check-man.sh: the man pages are well-formed. Exits 77 (skipped) without a tool that can tell.
set -eu
cd "$(dirname "$0")/.."

if ! command -v mandoc >/dev/null; then
  echo "man: skipped, mandoc is not here"
  exit 77
fi
mandoc -T lint -W warning man/*.[0-9]
echo "man: $(ls man/*.[0-9] | wc -l) pages are well-formed"
