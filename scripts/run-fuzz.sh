#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# run-fuzz.sh BUILD-FOLDER SECONDS: run each fuzz target (a program whose name ends in _fuzz) for
# that long. It starts from its seeds, a folder corpus/NAME somewhere in src/, and keeps what it
# learns in BUILD-FOLDER/corpus/NAME.
set -eu
cd "$(dirname "$0")/.."
folder=$1
seconds=$2

mapfile -t targets < <(find "$folder" -type f -executable -name '*_fuzz' | sort)
if [ ${#targets[@]} -eq 0 ]; then
  echo "fuzz: there is no target" >&2
  exit 1
fi
for target in "${targets[@]}"; do
  name=$(basename "$target")
  learnt=$folder/corpus/$name
  mkdir -p "$learnt"
  mapfile -t seeds < <(find src -type d -path "*/corpus/$name")
  echo "fuzz: $name for $seconds seconds"
  "$target" -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$folder/$name-" \
    "$learnt" "${seeds[@]}"
done
