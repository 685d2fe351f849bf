# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# Guest script, for a second guest with the drive of power_cut.sh. ACKED records were durable, as the first guest said.

records_in_the_pmr_survive_a_power_cut() {
  bind_vfio "$(drive 1)"
  limited guest_flat check "$ACKED" "nvme:$(drive 1)"
}

# And once more: what was in the log is in place now.
recovery_is_done_once() {
  limited guest_flat check "$ACKED" "nvme:$(drive 1)"
}

check records_in_the_pmr_survive_a_power_cut
check recovery_is_done_once
