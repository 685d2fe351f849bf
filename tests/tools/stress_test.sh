#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# stress_test.sh FATHOM [COMMANDS]: queue pairs of every depth under few and many threads, with
# faults and with controller resets. Every block that is read is checked. The default is what the
# test suite has time for; 10000000 is the full run that doc/results.md reports.
set -eu
fathom=$1
commands=${2:-30000}
share=$((commands / 15))

stress() {
  local threads=$1 depth=$2 uri=$3
  shift 3
  echo "== $threads threads, $uri"
  "$fathom" dev stress --force --threads "$threads" --depth "$depth" \
    --commands "$share" --seed "$threads$depth" "$@" "$uri"
}

for threads in 1 8 64; do
  stress $threads 2 'softnvme(mem:64M)?queues=1&depth=2'
  stress $threads 4 'softnvme(mem:64M)?queues=1&depth=16'
  stress $threads 8 'softnvme(mem:64M)?queues=2&depth=128'
  stress $threads 16 'softnvme(mem:64M)?queues=1&depth=1024&threads=2' --run-max 64
done
stress 16 8 'softnvme(fault(mem:64M)?rate=0.02&seed=3)?queues=1&depth=64' --errors-allowed
stress 16 8 'softnvme(fault(mem:64M)?rate=0.01&mode=late&seed=4)?depth=32' --errors-allowed
stress 8 4 'softnvme(fault(mem:64M)?every=2000&count=20&mode=timeout&hold_ms=30)?timeout_ms=20' \
  --errors-allowed

echo "== three devices at once"
"$fathom" dev stress --force --threads 2 --commands "$share" \
  mem:4M 'softnvme(mem:8M)' 'softnvme(mem:4M?block=4096)'
! "$fathom" dev stress --force --commands "$share" mem:4M 'fault(mem:4M)?nth=9' ||
  { echo "stress_test: the error of one device is lost among others" >&2 && exit 1; }
