# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# Guest script: `fathom nvme` on a real bus; on the drives of drives.sh.

drives_change_hands() {
  local first second
  first=$(drive 1)
  second=$(drive 2)
  bind_nvme "$first"
  bind_nvme "$second"
  fathom nvme ls
  fathom nvme bind "$first" "$second"
  [ "$(driver_of "$first") $(driver_of "$second")" = "vfio-pci vfio-pci" ]
  limited fathom dev stat "nvme:$first"
  fathom nvme unbind "$first" "$second"
  [ "$(driver_of "$first") $(driver_of "$second")" = "nvme nvme" ]
  bind_nvme "$first"
  dd if="$(block_of "$first")" of=/dev/null bs=4096 count=1
}

a_dry_run_changes_nothing() {
  bind_nvme "$(drive 1)"
  fathom nvme bind --dry-run "$(drive 1)"
  [ "$(driver_of "$(drive 1)")" = nvme ]
  [ -n "$(block_of "$(drive 1)")" ]
}

# refused BDF PATTERN: bind says why and leaves the drive where it is
refused() {
  fails_with "$2" fathom nvme bind "$1"
  [ "$(driver_of "$1")" = nvme ]
}

a_mounted_drive_is_refused() {
  local block
  bind_nvme "$(drive 1)"
  block=$(block_of "$(drive 1)")
  mke2fs "$block"
  mkdir -p /tmp/mnt
  mount -t ext2 "$block" /tmp/mnt
  refused "$(drive 1)" 'mounted at /tmp/mnt'
  umount /tmp/mnt
  fathom nvme bind "$(drive 1)"
}

a_drive_with_swap_is_refused() {
  local block
  bind_nvme "$(drive 1)"
  block=$(block_of "$(drive 1)")
  mkswap "$block"
  swapon "$block"
  refused "$(drive 1)" swap
  swapoff "$block"
  fathom nvme bind "$(drive 1)"
}

# Under our driver and under the kernel's.
info_and_smart_know_the_drive() {
  bind_vfio "$(drive 2)"
  limited fathom nvme stat "$(drive 2)"
  limited fathom nvme stat "$(drive 2)" | grep -q 'QEMU NVMe Ctrl'
  limited fathom nvme stat "$(drive 2)" | grep -q fathom2
  limited fathom nvme smart "$(drive 2)"
  bind_nvme "$(drive 2)"
  fathom nvme ls | grep "$(drive 2)" | grep -q nvme
}

worst=0
check drives_change_hands || worst=1
check a_dry_run_changes_nothing || worst=1
check a_mounted_drive_is_refused || worst=1
check a_drive_with_swap_is_refused || worst=1
check info_and_smart_know_the_drive || worst=1
exit $worst
