# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# Guest script of bench.sh: the same load on two drives that are alike, one through `nvme:`, one
# through the kernel's driver and io_uring. Runs alternate, and the drives change sides after every
# round; prints the medians for bench.sh. All that is read is checked.

rounds=4
commands=6000

# iops URI DEPTH
iops() {
  fathom dev stress --force --json --threads 1 --depth "$2" --commands "$commands" \
    --block 4K --run-max 1 --span 16M "$1" >/tmp/json 2>/tmp/words || {
    cat /tmp/words
    return 1
  }
  awk -v n="$(($(json_field reads </tmp/json) + $(json_field writes </tmp/json)))" \
    -v s="$(json_field seconds </tmp/json)" 'BEGIN { printf "%.0f\n", n / s }'
}

# median FILE
median() {
  sort -n "$1" | awk '{ v[NR] = $1 }
    END { printf "%.0f\n", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# one_round DEPTH OURS PEER: with drive OURS on our driver and drive PEER on the kernel's
one_round() {
  bind_vfio "$(drive "$2")" && bind_nvme "$(drive "$3")" || return 1
  iops "nvme:$(drive "$2")" "$1" >>"/tmp/ours.$1" || return 1
  iops "file:$(block_of "$(drive "$3")")" "$1" >>"/tmp/peer.$1"
}

depths="1 8 32"
echo "kernel's driver: IOMMU $(cat "/sys/bus/pci/devices/$(drive 1)/iommu_group/type")"
for round in $(seq "$rounds"); do
  for depth in $depths; do
    one_round "$depth" $((round % 2 + 1)) $((2 - round % 2)) || exit 1
  done
done
for depth in $depths; do
  echo "depth $depth $(median "/tmp/ours.$depth") $(median "/tmp/peer.$depth")"
done
