# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# What guest scripts can use; busybox sh.

# drive N: the PCI address of the guest's Nth drive, from 1
drive() {
  printf '0000:%02x:00.0' "$1"
}

# Give a function to a driver by name: whatever has it now lets go first.
bind_to() {
  device=/sys/bus/pci/devices/$2
  [ "$(driver_of "$2")" != "$1" ] || return 0
  echo "$1" >"$device/driver_override"
  [ ! -e "$device/driver" ] || echo "$2" >"$device/driver/unbind"
  echo "$2" >/sys/bus/pci/drivers_probe
  [ "$(driver_of "$2")" = "$1" ]
}

driver_of() {
  [ ! -e "/sys/bus/pci/devices/$1/driver" ] ||
    basename "$(readlink "/sys/bus/pci/devices/$1/driver")"
}

# bind_vfio BDF: to user space; its block device is gone afterwards
bind_vfio() {
  bind_to vfio-pci "$1"
}

# bind_nvme BDF: back to the kernel's driver; waits until its block device is there
bind_nvme() {
  bind_to nvme "$1" || return 1
  for _ in $(seq 100); do
    block_of "$1" >/dev/null && return 0
    usleep 100000
  done
  return 1
}

# block_of BDF: /dev/nvmeXnY of a function that the kernel's driver has
block_of() {
  for path in "/sys/bus/pci/devices/$1"/nvme/nvme*/nvme*n*; do
    [ -b "/dev/${path##*/}" ] || continue
    echo "/dev/${path##*/}"
    return 0
  done
  return 1
}

# host WORD...: have QEMU do a monitor command, such as `device_del drive2`. Does not wait for it.
host() {
  echo "GUEST-ASK $*"
}

# pull_out N: the Nth drive is gone at once, and nobody was asked. Its slot's power is switched off
# behind the kernel's back (slot control, 0x18 into the PCI Express capability at 0x54 of QEMU's root
# ports: power controller and power indicator off), on which QEMU takes the drive out.
pull_out() {
  printf '\300\007' | dd of="/sys/bus/pci/devices/0000:00:$(printf %02x $(($1 + 1))).0/config" \
    bs=1 seek=108 conv=notrunc 2>/dev/null
}
