#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# guest_test.sh: all checks of the guest scripts here, in as few boots as they need. Every line
# "check NAME" of a script must lead to "ok NAME".
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

complain() {
  echo "guest_test: $*" >&2
  bad=1
}

# boot SCRIPTS OPTION...: run them in one guest and look at their checks
boot() {
  local scripts=() script status=0 name began=$SECONDS names=$1
  for script in $names; do
    scripts+=("$here/$script")
  done
  shift
  "$here/run.sh" --folder "$work/drives" "$@" "${scripts[@]}" >"$work/said" || status=$?
  # QEMU 7.2 crashes now and then when a drive is pulled out. That says nothing about us: once more.
  if [ $status -eq 139 ] || [ $status -eq 134 ]; then
    echo "== $names: QEMU crashed ($status), once more"
    status=0
    "$here/run.sh" --folder "$work/drives" "$@" "${scripts[@]}" >"$work/said" || status=$?
  fi
  cat "$work/said"
  [ $status -ne 77 ] || exit 77
  [ $status -eq 0 ] || complain "$names ended with $status"
  for name in $(sed -n 's/^check \([a-z0-9_]*\).*/\1/p' "${scripts[@]}"); do
    grep -q "^ok $name " "$work/said" || complain "no ok from $name"
  done
  echo "== $names: $((SECONDS - began)) s with booting"
}

window="--drive size=8M,pmr=1M,keep=window"
boot "tool.sh drives.sh" --drive size=8M --drive size=8M,block=4096 $window \
  --drive size=8M,cmb=1 --drive size=8M,fail=read:2048,fail=write:4096 --drive size=8M \
  --drive size=8M
boot after_reboot.sh $window

# The power is cut in the first guest; the second one looks at what is left.
cut="--drive size=8M,pmr=1M,keep=cut"
"$here/run.sh" --folder "$work/drives" $cut "$here/power_cut.sh" >"$work/said" ||
  complain "power_cut.sh ended with $?"
acked=$(sed -n 's/^acked \([0-9]*\)$/\1/p' "$work/said" | tail -n 1)
echo "== power_cut.sh: ${acked:-no} records were durable"
[ "${acked:-0}" -ge 9000 ] || complain "power_cut.sh: $(tail -n 5 "$work/said")"
boot after_power_cut.sh --env "ACKED=${acked:-0}" $cut
exit $bad
