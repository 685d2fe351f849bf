/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults of a directory, for tests. */
#ifndef TABLE_PLACE_DIR_H
#define TABLE_PLACE_DIR_H

/* The nth change of a directory from now on (write, sync, rename, cut) fails with err; 0: none. */
void place_dir_fail(int nth, int err);

/* How many changes are left until then; 0 if the fault happened. */
int place_dir_fail_left(void);

#endif
