#!/bin/busybox sh
# SPDX-License-Identifier: BSD-2-Clause
#
# The guest's first process: load VFIO, run the scripts in /test/scripts, say how they ended on the
# second serial port, and switch off. The first serial port is the kernel's.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
exec </dev/null >/dev/ttyS1 2>&1
stty -F /dev/ttyS1 raw -echo 2>/dev/null
cd /tmp || exit
for module in /modules/*.ko; do
  insmod "$module" || echo "guest: can not load $module"
done

status=0
for script in /test/scripts/*; do
  sh -c '. /test/lib; . /test/env; . "$1"' sh "$script" || status=$?
done
echo "GUEST-EXIT $status"
sync
poweroff -f
