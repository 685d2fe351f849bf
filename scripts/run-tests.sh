#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# run-tests.sh BUILD-FOLDER [CTEST-ARGUMENTS]: run ctest and leave one line about it in
# BUILD-FOLDER/summary, for the end of `make check`.
set -euo pipefail
folder=$1
shift
rm -f "$folder/summary"

# ThreadSanitizer's memory map does not stand every random layout newer kernels make.
steady=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
  steady=(setarch "$(uname -m)" -R)
fi

status=0
"${steady[@]}" ctest --test-dir "$folder" --output-on-failure --timeout 300 \
  --no-tests=error "$@" 2>&1 | tee "$folder/ctest.log" || status=$?
[ $status -eq 0 ] || exit $status

total=$(sed -n 's/^100% tests passed, 0 tests failed out of //p' "$folder/ctest.log")
skipped=$(sed -n 's/^[[:space:]]*[0-9]* - \(.*\) (Skipped)$/\1/p' "$folder/ctest.log" | xargs)
{
  printf '%s tests' "$((total - $(wc -w <<<"$skipped")))"
  [ -z "$skipped" ] || printf ' (skipped: %s)' "$skipped"
} >"$folder/summary"
