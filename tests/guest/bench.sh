#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# bench.sh [KERNEL-WORDS]: IOPS of `nvme:` against `file:/dev/nvme0n1` on the kernel's driver, in
# one guest, at the same depths. Random 4 KiB blocks, half of them written. By default twice: with the
# IOMMU in front of the kernel's driver as well as in front of ours, then with the kernel's let
# through (iommu=pt), as most distributions have it. Under TCG: the ratio says how many
# instructions and exits each path takes, and nothing about a real drive's time.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")

bench() {
  "$here/run.sh" --timeout 300 --drive size=64M --drive size=64M --append "$1" \
    "$here/bench_drive.sh" | awk -v words="$1" '
    $1 != "depth" { print; next }
    !n++ { printf "%6s %12s %12s %8s\n", "depth", "nvme: IOPS", "file: IOPS", "ratio" }
    {
      printf "%6d %12d %12d %8.2f\n", $2, $3, $4, $3 / $4
      depths = depths (n > 1 ? "," : "") $2
      ours += log($3)
      peer += log($4)
    }
    END {
      if (!n) exit 1
      printf "{\"bench\":\"guest\",\"ours\":%.0f,\"peer\":%.0f,\"ratio\":%.3f,", exp(ours / n),
        exp(peer / n), exp((ours - peer) / n)
      printf "\"depths\":[%s],\"block\":4096,\"kernel\":\"%s\"}\n", depths, words
    }'
}

if [ $# -gt 0 ]; then
  bench "$*"
else
  bench iommu=nopt
  bench iommu=pt
fi
