# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# Guest script that does not end: the power is cut while records are made durable in the PMR.

bind_vfio "$(drive 1)"
guest_flat run 9000 "nvme:$(drive 1)"
