# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# Guest script: `nvme:` on drives of QEMU. guest_test.sh says which drives there are:
#   1  plain   2  4 KiB blocks   3  has a PMR   4  has a CMB
#   5  fails to read sector 2048 and to write sector 4096   6, 7  are taken out

uri() {
  bind_vfio "$(drive "$1")" && echo "nvme:$(drive "$1")"
}

stress() {
  limited fathom dev stress --force --threads 2 --depth 8 --span 2M "$@"
}

# ---- it is a device ----

# Else DMA would reach all of the memory, whatever we map.
the_iommu_is_on() {
  for n in 1 2 3 4; do
    case $(cat "/sys/bus/pci/devices/$(drive $n)/iommu_group/type") in
    DMA | DMA-FQ) ;;
    *) return 1 ;;
    esac
  done
}

# With unaligned, oversized and out-of-range requests among much else.
conforms_with_512_bytes() {
  limited fathom dev check --force --size 1M --ops 400 "$(uri 1)"
}

conforms_with_4096_bytes() {
  limited fathom dev check --force --size 1M --ops 400 "$(uri 2)"
}

conforms_with_interrupts() {
  limited fathom dev check --force --size 1M --ops 200 "$(uri 1)?irq=on"
}

a_drive_is_opened_once() {
  local first holder status=0
  first=$(uri 1)
  fathom dev stress --force --commands 10000000 "$first" >/dev/null 2>&1 &
  holder=$!
  eventually has_a_drive $holder
  fails_with 'busy|in use' fathom dev stat "$first" || status=$?
  kill -9 $holder
  wait $holder || true
  return $status
}

# ---- the kernel's driver and ours see the same blocks ----

what_we_write_the_kernel_reads() {
  head -c 3145728 /dev/urandom >/tmp/random
  for n in 1 2; do
    limited dev_copy file:/tmp/random "$(uri $n)"
    bind_nvme "$(drive $n)"
    cmp -n 3145728 /tmp/random "$(block_of "$(drive $n)")"
  done
}

what_the_kernel_writes_we_read() {
  for n in 1 2; do
    bind_nvme "$(drive $n)"
    head -c 8388608 /dev/urandom >/tmp/random
    dd if=/tmp/random of="$(block_of "$(drive $n)")" bs=1M conv=fsync
    rm -f /tmp/copy
    limited dev_copy "$(uri $n)" "file:/tmp/copy?create=on&size=8M"
    cmp /tmp/random /tmp/copy
  done
  rm -f /tmp/random /tmp/copy
}

# ---- several ----

one_process_uses_four_drives_with_eight_threads() {
  stress --commands 2000 "$(uri 1)" "$(uri 2)" "$(uri 3)" "$(uri 4)"
}

four_processes_use_a_drive_each() {
  local children='' child n
  for n in 1 2 3 4; do
    stress --commands 1000 "$(uri $n)" &
    children="$children $!"
  done
  for child in $children; do
    wait "$child"
  done
}

a_drive_is_copied_to_another() {
  limited dev_copy "$(uri 3)" "$(uri 4)"
}

# ---- the window ----

# after_reboot.sh looks at it again.
the_pmr_keeps_what_is_stored() {
  limited guest_window fill pmr 1 "$(uri 3)"
  limited guest_window fill pmr 4711 "$(uri 3)"
  bind_nvme "$(drive 3)"
  limited guest_window check pmr 4711 "$(uri 3)"
  fails_with 'not what was stored' guest_window check pmr 1 "$(uri 3)"
}

the_cmb_works_and_promises_nothing() {
  limited guest_window fill cmb 815 "$(uri 4)" >/tmp/report
  cat /tmp/report
}

a_drive_without_a_window_says_so() {
  fails_with 'no|not' guest_window fill pmr 1 "$(uri 1)"
  fails_with 'no|not' guest_window fill cmb 1 "$(uri 1)"
}

# ---- errors ----

failed_reads_and_writes_are_errors() {
  local bad
  bad=$(uri 5)
  head -c 3145728 /dev/urandom >/tmp/random
  fails_with 'nput/output error|No data|medium' dev_copy "$bad" mem:8M
  fails_with 'nput/output error|No data|medium' dev_copy file:/tmp/random "$bad"
}

# And nothing but the bad sectors is bad.
other_blocks_are_good_after_errors() {
  limited fathom dev check --force --size 1M --ops 100 "$(uri 5)"
  limited fathom dev stress --force --json --threads 2 --depth 8 --span 4M --commands 2000 \
    --errors-allowed "$(uri 5)" >/tmp/json
  cat /tmp/json
  [ "$(json_field errors </tmp/json)" -gt 0 ]
  [ "$(json_field wrong </tmp/json)" -eq 0 ]
}

a_killed_process_leaves_a_usable_drive() {
  for round in 1 2 3; do
    fathom dev stress --force --commands 10000000 "$(uri 3)" &
    child=$!
    usleep ${round}00000
    usleep 500000
    kill -9 $child
    wait $child || true
    stress --commands 300 "$(uri 3)"
  done
  bind_nvme "$(drive 3)"
  dd if="$(block_of "$(drive 3)")" of=/dev/null bs=1M count=1
}

# ---- removal ----

# gone N: whether the drive is out of its slot
gone() {
  [ ! -e "/sys/bus/pci/devices/$(drive "$1")" ]
}

# ends_when N COMMAND...: stress on drive N ends with an error after COMMAND, by itself
ends_when() {
  local child limit status=0
  fathom dev stress --force --commands 100000000 "$(uri "$1")" >/tmp/words 2>&1 &
  child=$!
  shift
  eventually has_a_drive $child
  sleep 1 # of work
  kill -0 $child
  "$@"
  (sleep 600 && kill -9 $child) &
  limit=$!
  wait $child || status=$?
  kill $limit || true
  cat /tmp/words
  echo "status $status"
  [ $status -eq 1 ]
  grep -q 'No such device' /tmp/words
}

waits_end_when_a_drive_is_asked_back() {
  ends_when 6 host device_del drive6
  eventually gone 6
}

waits_end_when_a_drive_is_pulled_out() {
  ends_when 7 pull_out 7
  fails_with . fathom dev stat "nvme:$(drive 7)"
}

worst=0
check the_iommu_is_on || worst=1
check conforms_with_512_bytes || worst=1
check conforms_with_4096_bytes || worst=1
check conforms_with_interrupts || worst=1
check a_drive_is_opened_once || worst=1
check what_we_write_the_kernel_reads || worst=1
check what_the_kernel_writes_we_read || worst=1
check one_process_uses_four_drives_with_eight_threads || worst=1
check four_processes_use_a_drive_each || worst=1
check a_drive_is_copied_to_another || worst=1
check the_pmr_keeps_what_is_stored || worst=1
check the_cmb_works_and_promises_nothing || worst=1
check a_drive_without_a_window_says_so || worst=1
check failed_reads_and_writes_are_errors || worst=1
check other_blocks_are_good_after_errors || worst=1
check a_killed_process_leaves_a_usable_drive || worst=1
check waits_end_when_a_drive_is_asked_back || worst=1
check waits_end_when_a_drive_is_pulled_out || worst=1
exit $worst
