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
  local device=/sys/bus/pci/devices/$2
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

# eventually COMMAND...: wait until it succeeds. The host may be busy: the limit is for what never happens.
eventually() {
  for _ in $(seq 6000); do
    "$@" && return 0
    usleep 100000
  done
  echo "never: $*"
  return 1
}

# bind_nvme BDF: back to the kernel's driver; waits until its block device is there
bind_nvme() {
  bind_to nvme "$1" || return 1
  eventually block_of "$1" >/dev/null
}

# has_a_drive PID: whether this process has a drive open
has_a_drive() {
  ls -l "/proc/$1/fd" | grep -q vfio-device
}

# block_of BDF: /dev/nvmeXnY of a function that the kernel's driver has
block_of() {
  local path
  for path in "/sys/bus/pci/devices/$1"/nvme/nvme*/nvme*n*; do
    [ -b "/dev/${path##*/}" ] || continue
    echo "/dev/${path##*/}"
    return 0
  done
  return 1
}

# host WORD...: have QEMU do a monitor command, such as `device_del drive2`. Does not wait for it.
host() {
  echo "GUEST-ASK $*" >/dev/ttyS1
}

# pull_out N: the Nth drive is gone at once, and nobody is told, neither its user nor the kernel.
# Its slot's power is switched off behind the kernel's back (slot control, 0x18 into the PCI Express
# capability at 0x54 of QEMU's root ports: power controller and power indicator off), on which QEMU
# takes the drive out. Its registers then read as 0. Without a way to reset it the kernel does not
# spend a minute on that once its user lets go.
pull_out() {
  echo >"/sys/bus/pci/devices/$(drive "$1")/reset_method"
  printf '\300\007' | dd of="/sys/bus/pci/devices/0000:00:$(printf %02x $(($1 + 1))).0/config" \
    bs=1 seek=108 conv=notrunc 2>/dev/null
}

# ---- checks ----

# check NAME: run the function NAME under `set -e` and print "ok NAME" or "not ok NAME" with what it
# said. The host looks for one of the two for every line "check NAME" of a script.
check() {
  local begin status took
  begin=$(centiseconds)
  (set -e && "$1") >/tmp/said 2>&1
  status=$?
  took=$(($(centiseconds) - begin))
  took=$((took / 100)).$((took / 10 % 10))
  if [ $status -eq 0 ]; then
    echo "ok $1 ($took s)"
    return 0
  fi
  echo "not ok $1 (status $status, $took s)"
  sed 's/^/  | /' /tmp/said
  return 1
}

centiseconds() {
  local up
  read -r up _ </proc/uptime
  echo $((${up%.*} * 100 + 1${up#*.} - 100))
}

# limited COMMAND...: nothing may take forever
limited() {
  timeout -s KILL 600 "$@"
}

# fails_with PATTERN COMMAND...: it exits with 1, as programs do that were told of an error: not by
# a signal, not by the limit. Its words match PATTERN.
fails_with() {
  local pattern=$1 status=0
  shift
  limited "$@" >/tmp/words 2>&1 || status=$?
  cat /tmp/words
  [ $status -eq 1 ] || {
    echo "$*: exit status $status, not 1"
    return 1
  }
  grep -Eq "$pattern" /tmp/words || {
    echo "$*: does not say $pattern"
    return 1
  }
}

# json_field NAME: the number that the JSON on standard input has under it
json_field() {
  sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p"
}
