#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# run.sh [OPTION]... SCRIPT...: boot a guest under QEMU, run the scripts in it, one after the other,
# and exit as they did: 0 if all of them exit with 0. README.md shows how to write one.
#
#   --drive WORDS    one more NVMe drive; WORDS are joined by commas: size=64M (the default),
#                    block=4096, pmr=SIZE, cmb=MEGABYTES, fail=read:SECTOR or fail=write:SECTOR (of
#                    512 bytes), keep=NAME: its files, found again by later runs on that --folder.
#                    Without any --drive there is one plain drive.
#   --env NAME=VALUE set in the scripts
#   --folder DIR     where files of the drives and the kernel's log go; default a temporary one
#   --tools DIR      where our programs are built; default build-guest
#   --timeout S      then QEMU is killed, and the exit status is 124; default 900
#   --append WORDS   for the kernel
#   --cpus N, --memory MEGABYTES   default 2, 512
#
# Exit 77 and a reason where there is no QEMU or no kernel; 139 or 134 where QEMU itself crashed.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../..")

usage() {
  sed -n '4,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}

drives=() settings=() scripts=()
folder='' tools=$root/build-guest timeout=900 append='' cpus=2 memory=512
while [ $# -gt 0 ]; do
  case $1 in
  --drive) drives+=("$2") ;;
  --env) settings+=("$2") ;;
  --folder) folder=$2 ;;
  --tools) tools=$2 ;;
  --timeout) timeout=$2 ;;
  --append) append=$2 ;;
  --cpus) cpus=$2 ;;
  --memory) memory=$2 ;;
  -*) usage ;;
  *)
    scripts+=("$1")
    shift
    continue
    ;;
  esac
  shift 2
done
[ ${#scripts[@]} -gt 0 ] || usage
[ ${#drives[@]} -gt 0 ] || drives=("size=64M")

command -v qemu-system-x86_64 >/dev/null || {
  echo "guest: skipped: no qemu-system-x86_64 (Debian: qemu-system-x86)" >&2
  exit 77
}
base=$("$here/image.sh" "$tools")

work=$(mktemp -d)
qemu=
finish() {
  # timeout(1) hands the signal on to QEMU.
  [ -z "$qemu" ] || kill -TERM "$qemu" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
[ -n "$folder" ] || folder=$work
mkdir -p "$folder"

# ---- the disk image: base, our programs, the scripts ----

pack_scripts() {
  local number=100 script setting
  mkdir -p "$work/image/test/scripts"
  for script in "${scripts[@]}"; do
    cp "$script" "$work/image/test/scripts/$number-$(basename "$script")"
    number=$((number + 1))
  done
  for setting in "${settings[@]}"; do
    printf '%s=%q\n' "${setting%%=*}" "${setting#*=}"
  done >"$work/image/test/env"
  (cd "$work/image" && find . -mindepth 1 | sort | "$base/busybox" cpio -o -H newc 2>/dev/null) \
    >"$work/scripts.cpio"
  cat "$base/base.cpio" "$tools/tools.cpio" "$work/scripts.cpio" >"$work/initrd"
}

# ---- the drives ----

# file_of NAME SIZE: a file for a drive, made if there is none; sparse
file_of() {
  [ -e "$folder/$1" ] || truncate -s "$2" "$folder/$1"
}

# add_drive NUMBER WORDS: each below a port of its own, so that it has an IOMMU group of its own and
# can be taken out; drive N is then at 0000:0N:00.0.
add_drive() {
  local n=$1 size=64M block=512 pmr='' cmb='' name=drive$1 inject='' word front device
  for word in ${2//,/ }; do
    case $word in
    size=*) size=${word#*=} ;;
    block=*) block=${word#*=} ;;
    pmr=*) pmr=${word#*=} ;;
    cmb=*) cmb=${word#*=} ;;
    keep=*) name=${word#*=} ;;
    fail=*:*)
      word=${word#*=}
      inject+=${inject:+,}'{"event":"none","iotype":"'${word%:*}'","errno":5,"sector":'${word#*:}'}'
      ;;
    *) usage ;;
    esac
  done
  file_of "$name.img" "$size"
  machine+=(-blockdev "driver=file,node-name=file$n,filename=$folder/$name.img,discard=unmap")
  # No flush of the host's: what the guest does must be seen by later guests, not by power cuts.
  machine[-1]+=",cache.no-flush=on"
  front=file$n
  if [ -n "$inject" ]; then
    machine+=(-blockdev '{"driver":"blkdebug","node-name":"bad'$n'","image":"file'$n'",
      "inject-error":['"$inject"']}')
    front=bad$n
  fi
  machine+=(-device "pcie-root-port,id=port$n,chassis=$n,slot=$n,addr=$((n + 1)).0")
  device=nvme,id=drive$n,serial=fathom$n,bus=port$n,drive=$front
  device+=,logical_block_size=$block,physical_block_size=$block
  if [ -n "$pmr" ]; then
    file_of "$name.pmr" "$pmr"
    machine+=(-object "memory-backend-file,id=pmr$n,share=on,mem-path=$folder/$name.pmr,size=$pmr")
    device+=,pmrdev=pmr$n
  fi
  machine+=(-device "$device${cmb:+,cmb_size_mb=$cmb}")
}

# ---- the run ----

machine=(-accel "tcg,thread=multi" -machine "q35,kernel-irqchip=split" -cpu max -smp "$cpus"
  -m "$memory" -nodefaults -display none -no-reboot
  -device "intel-iommu,intremap=on"
  -kernel "$base/vmlinuz" -initrd "$work/initrd"
  # Without iommu=pt the kernel's own driver goes through the IOMMU like user space does.
  -append "console=ttyS0 panic=-1 quiet no_timer_check intel_iommu=on iommu=nopt $append"
  -serial "file:$folder/kernel.log" -serial stdio
  -chardev "pipe,id=monitor,path=$work/monitor" -mon "chardev=monitor,mode=readline")
pack_scripts
for i in "${!drives[@]}"; do
  add_drive $((i + 1)) "${drives[$i]}"
done

mkfifo "$work/monitor.in" "$work/monitor.out" "$work/console"
timeout --foreground -k 1 "$timeout" qemu-system-x86_64 "${machine[@]}" \
  </dev/null >"$work/console" 2>"$work/qemu.err" &
qemu=$!
exec 7<>"$work/monitor.in" 8<>"$work/monitor.out"
cat <&8 >"$folder/monitor.log" 8>&- &
echo $! >"$work/reader"

status=
while IFS= read -r line; do
  line=${line%$'\r'}
  case $line in
  "GUEST-ASK "*) echo "${line#GUEST-ASK }" >&7 ;;
  "GUEST-EXIT "*) status=${line#GUEST-EXIT } ;;
  GUEST-CUT)
    # The power is cut: QEMU, the child of timeout(1), has no time to do anything.
    kill -KILL "$(pgrep -P "$qemu")"
    status=0
    ;;
  *) printf '%s\n' "$line" ;;
  esac
done <"$work/console"
ended=0
wait "$qemu" || ended=$?
qemu=
kill "$(cat "$work/reader")" 2>/dev/null || true

if [ -z "$status" ]; then
  # It never came to its end: what the kernel and QEMU said is all there is to know.
  status=1
  [ $ended -ne 124 ] || status=124
  # SEGV, ABRT: QEMU itself has crashed.
  [ $ended -ne 139 ] && [ $ended -ne 134 ] || status=$ended
  echo "guest: it did not say how it ended (QEMU: $ended, 124 after $timeout s); the kernel:" >&2
  cat "$work/qemu.err" >&2
  tail -n 25 "$folder/kernel.log" >&2 || true
fi
exit "$status"
