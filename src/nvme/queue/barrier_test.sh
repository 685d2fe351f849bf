#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# barrier_test.sh: what doorbell writes and looks at completions compile to. The order that arm64
# needs is not one that a test on another processor can find missing.
set -eu
cd "$(dirname "$(readlink -f "$0")")/../../.."

# instructions TARGET FUNCTION: loads, stores and barriers of it, on one line.
instructions() {
  clang --target="$1" -O2 -ffreestanding -Iinclude -S -o - -x c - <<'C' |
#include "fathom/detail/nvme/barrier.h"
void ring(uint32_t *at, uint32_t value) { fth_nvme_mmio_write32(at, value); }
uint32_t look(const uint32_t *at) { return fth_nvme_mmio_read32(at); }
C
    sed -n "/^$2:/,/ret/p" | grep -oE '\b(dmb\s+[a-z]+|str|stlr|ldr|ldar|movl)\b' | xargs
}

expect() {
  local found
  found=$(instructions "$1" "$2")
  [ "$found" = "$3" ] || {
    echo "barrier_test: $2 on $1 is \"$found\", expected \"$3\"" >&2
    exit 1
  }
}

command -v clang >/dev/null || exit 77
instructions aarch64-linux-gnu ring >/dev/null 2>&1 || exit 77 # a clang without that target
expect aarch64-linux-gnu ring "dmb osh str"
expect aarch64-linux-gnu look "ldr dmb oshld"
expect x86_64-linux-gnu ring "movl"
expect x86_64-linux-gnu look "movl"
