#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# format.sh [--check]: clang-format every C, C++ and CUDA file, or say which are not formatted.
#
# Only with the version .clang-format was written for: others lay out some lines differently.
# Exits 77 (skipped) without it.
set -eu
cd "$(dirname "$0")/.."
version=14

tool=clang-format-$version
command -v $tool >/dev/null || tool=clang-format
if ! $tool --version 2>/dev/null | grep -q "version $version\."; then
  echo "format: skipped, clang-format $version is not here"
  exit 77
fi

folders=()
for folder in include src workloads tools bench examples python tests; do
  [ ! -d $folder ] || folders+=($folder)
done
mapfile -t files < <(find "${folders[@]}" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | sort)

if [ "${1-}" = --check ]; then
  if ! $tool --dry-run -Werror "${files[@]}"; then
    echo "format: \`make format\` puts this right" >&2
    exit 1
  fi
  echo "format: ${#files[@]} files are formatted"
else
  $tool -i "${files[@]}"
fi
