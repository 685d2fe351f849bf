#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# nvme_tool_test.sh FATHOM: `fathom nvme` on a software controller, and on a folder that looks like
# a system with drives.
subcommand=nvme
# shellcheck source=tests/tool_fixture.sh
. "$(dirname "$0")/../tool_fixture.sh"
kernel=
# shellcheck disable=SC2064
trap 'kill $kernel 2>/dev/null || true; rm -rf "$work"' EXIT

# says TEXT... / complains TEXT...: all of it is in what was printed
says() {
  for text; do
    [[ $out == *"$text"* ]] || fail "\"$text\" is not in: $out"
  done
}
complains() {
  [ -z "$out" ] || fail "something on standard output: $out"
  for text; do
    [[ $err == "fathom: "*"$text"* ]] || fail "\"$text\" is not in: $err"
  done
}

# ---- our driver, on a software controller ----

expect 0 stat 'softnvme(mem:16M)?lba=4096&mdts=3&queues=2'
says "Fathom software NVMe controller" "NVMe 1.4" "4096 blocks (16.0 MiB)" "per command      32.0 KiB" \
  "2 pairs created" "volatile"
expect 0 stat --json 'softnvme(mem:16M)?queues=1&depth=16'
says '{"device":"softnvme(mem:16M)?queues=1&depth=16"' '"serial":"FATHOM-SOFT"' '"blocks":32768' \
  '"pairs":1,"commands_each":15,' '"cmb":{"present":' '"pmr":{"present":'
expect 0 smart 'softnvme(mem:1M)'
says "warnings          none" "30 C" "100 %" "media errors      0"
expect 0 smart --json 'softnvme(mem:1M)'
says '"temperature_kelvin":303' '"media_errors":0,'

expect 1 stat mem:1M
complains "not an NVMe device"
expect 1 smart 'delay(softnvme(mem:1M))'
complains "not an NVMe device"
expect 1 stat nosuch:thing
complains "nosuch:thing"
expect 2 stat
expect 2 smart a b
expect 2 bind
expect 2 ls --nosuch

# ---- a system made of files ----

root=$work/root
pci=$root/sys/bus/pci
export FATHOM_SYSROOT=$root
mkdir -p "$pci/devices" "$pci/drivers/nvme" "$pci/drivers/vfio-pci" "$root/proc/self" "$root/dev"
: >"$root/proc/self/mountinfo" >"$root/proc/swaps" >"$pci/drivers_probe"
: >"$pci/drivers/nvme/unbind" >"$pci/drivers/vfio-pci/unbind"

expect 0 ls
says "No NVMe drive found"
expect 0 ls --json
[ "$out" = '{"drives":[]}' ] || fail "no drives: $out"

# drive BDF N GROUP
drive() {
  local at=$pci/devices/$1 name=nvme$2n1
  mkdir -p "$at/nvme/nvme$2/$name" "$root/sys/class/block/$name/holders" \
    "$root/sys/kernel/iommu_groups/$3/devices"
  echo 0x010802 >"$at/class"
  echo 0x1b36 >"$at/vendor"
  echo "(null)" >"$at/driver_override"
  echo "Model $2" >"$at/nvme/nvme$2/model"
  echo "Serial $2" >"$at/nvme/nvme$2/serial"
  ln -s ../../drivers/nvme "$at/driver"
  ln -s "../../../../kernel/iommu_groups/$3" "$at/iommu_group"
  ln -s "../../../../bus/pci/devices/$1" "$root/sys/kernel/iommu_groups/$3/devices/$1"
  echo "259:$2" >"$root/sys/class/block/$name/dev"
  echo 2048 >"$root/sys/class/block/$name/size"
  : >"$root/dev/$name"
}
drive 0000:01:00.0 0 5
drive 0000:02:00.0 1 6
drive 0000:03:00.0 2 6

expect 0 ls
says "0000:01:00.0  nvme          5  Model 0" "nvme2n1"
expect 0 ls --json
says '"bdf":"0000:02:00.0","vendor":6966' '"iommu_group":6' \
  '"blocks":[{"name":"nvme1n1","size":1048576,"partition":false}],"uses":[]'

# what is in use stays where it is
echo "30 22 259:0 / /data rw - ext4 /dev/nvme0n1 rw" >"$root/proc/self/mountinfo"
expect 0 ls
says "nvme0n1 is mounted at /data"
expect 1 bind 01:00.0
complains "01:00.0: nvme0n1 is mounted at /data"
expect 1 bind --dry-run 01:00.0
[ "$(cat "$pci/devices/0000:01:00.0/driver_override")" = "(null)" ] || fail "something was written"
[ ! -s "$pci/drivers/nvme/unbind" ] || fail "something was unbound"
: >"$root/proc/self/mountinfo"

expect 1 bind 0000:02:00.0
complains "0000:03:00.0 (driver nvme) is also in IOMMU group 6"
expect 0 bind --dry-run 0000:02:00.0 03:00.0
says "would write \"vfio-pci\" to $pci/devices/0000:03:00.0/driver_override"
expect 1 bind 0000:04:00.0
complains "no such PCI function"
expect 1 bind nvme0
complains "not a PCI address"

expect 0 bind --dry-run 01:00.0
says "would write \"vfio-pci\" to $pci/devices/0000:01:00.0/driver_override" \
  "would write \"0000:01:00.0\" to $pci/drivers/nvme/unbind" \
  "would write \"0000:01:00.0\" to $pci/drivers_probe"
[ ! -s "$pci/drivers/nvme/unbind" ] || fail "a dry run unbound something"
expect 0 bind --dry-run --json 01:00.0
says '{"dry_run":true,"drives":[{"bdf":"0000:01:00.0","driver":"nvme"' '"ok":true}' \
  '"undo":"fathom nvme unbind 0000:01:00.0"'

# The kernel: whoever is written to drivers_probe gets the driver of its override, or nvme.
rm "$pci/drivers_probe"
mkfifo "$pci/drivers_probe"
# Opened for both, so that neither side waits for the other; not in a subshell, to have its id.
exec 3<>"$pci/drivers_probe"
while read -r -n 12 bdf <&3; do
  driver=$(cat "$pci/devices/$bdf/driver_override")
  ln -sfn "../../drivers/${driver:-nvme}" "$pci/devices/$bdf/driver"
done &
kernel=$!

expect 0 bind 01:00.0
says "0000:01:00.0 now belongs to vfio-pci" "to undo: fathom nvme unbind 0000:01:00.0"
rm -r "$pci/devices/0000:01:00.0/nvme" # as it goes with the kernel's driver
expect 0 ls
says "0000:01:00.0  vfio-pci "
expect 0 bind 01:00.0
says "already belongs to vfio-pci"
expect 1 smart 01:00.0 # it is no real drive, so our driver can not have it
complains "01:00.0: "
expect 0 unbind 01:00.0 --json
says '{"dry_run":false,"drives":[{"bdf":"0000:01:00.0","driver":"nvme"' '"ok":true}'
[ -z "$(cat "$pci/devices/0000:01:00.0/driver_override")" ] || fail "the override is still there"
expect 0 unbind 01:00.0
says "already belongs to nvme"

# The kernel's driver has it, but a file is no controller.
: >"$root/dev/nvme1"
expect 1 smart 02:00.0
complains "02:00.0: "
rm -r "$pci/drivers/vfio-pci"
expect 77 bind 01:00.0
complains "vfio-pci is not loaded"

# Only root may change a driver; anybody is told so.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
  chmod 755 "$work"
  cp "$fathom" "$work/fathom"
  status=0
  err=$(env -u FATHOM_SYSROOT setpriv --reuid 65534 --clear-groups "$work/fathom" nvme bind 01:00.0 \
    2>&1) || status=$?
  [[ $status -eq 1 && $err == *"requires root"* ]] || fail "not as root: $status $err"
fi
echo "nvme_tool_test: passed"
