# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# Guest script, for a second guest with a drive that drives.sh has used in a first one. What a CMB
# holds now is nobody's business: nothing was promised.

the_pmr_survives_a_reboot() {
  bind_vfio "$(drive 1)"
  limited guest_window check pmr 4711 "nvme:$(drive 1)"
}

check the_pmr_survives_a_reboot
