#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# run-fuzz.sh BUILD-FOLDER SECONDS: run each fuzz target (a program named fuzz_NAME) for
# that long. It starts from its seeds, tests/fuzz/corpus/fuzz_NAME, and keeps what it
# learns in BUILD-FOLDER/corpus/fuzz_NAME.
set -eu
cd "$(dirname "$0")/.."
folder=$1
seconds=$2

mapfile -t targets < <(find "$folder" -type f -executable -name 'fuzz_*' | sort)
if [ ${#targets[@]} -eq 0 ]; then
  echo "fuzz: there is no target" >&2
  exit 1
fi
for target in "${targets[@]}"; do
  name=$(basename "$target")
  learnt=$folder/corpus/$name
  mkdir -p "$learnt"
  echo "fuzz: $name for $seconds seconds"
  "$target" -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$folder/$name-" \
    "$learnt" "tests/fuzz/corpus/$name"
done
