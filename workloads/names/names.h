/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of small files with a metadata journal, a user of byte-granular durability in FlatFlash
 * (Abulila et al., ASPLOS 2019, section 3.5): each operation is one small entry in a journal, made
 * durable before the call returns.
 *
 *	struct fth_names *names;
 *	uint64_t inode;
 *
 *	fth_names_open(durable, &names);
 *	fth_names_create(names, "report", &inode);
 *	fth_names_rename(names, "report", "report.old");
 *	fth_names_remove(names, "report.old");
 *	fth_names_close(names);
 *
 * After a crash the names are those of a prefix of the operations, in their order, and all that
 * returned 0 are in it. The journal has two halves; when one is full, the names are written to the
 * other.
 *
 * All calls but open and close are for any thread. After an error of the device every later
 * operation returns that error until the names are opened again: whether the last operation is
 * durable is unknown.
 */
#ifndef FTH_WORKLOADS_NAMES_H
#define FTH_WORKLOADS_NAMES_H

#include <stdint.h>

#include "workloads/names/durable.h"
#include "fathom/base/decls.h"

FTH_BEGIN_DECLS

struct fth_names;

#define FTH_NAMES_LENGTH_MAX 200u   /* of a name */
#define FTH_NAMES_SIZE_MIN   65536u /* bytes of the journal with all of its parts */

/*
 * Open the names on `durable`, or begin with none if there is no journal. The caller closes
 * `durable` afterwards. Returns 0; -EINVAL if it is too small; -EUCLEAN for a damaged journal;
 * -ENOMEM; or the error of the device.
 */
int fth_names_open(struct fth_durable *durable, struct fth_names **out);
void fth_names_close(struct fth_names *names);

/*
 * Return 0; -EEXIST or -ENOENT; -EINVAL for a name that is empty or too long; -ENOSPC if the names
 * do not fit into half of the journal; -ENOMEM; or the error of the device. A rename replaces
 * nothing.
 */
int fth_names_create(struct fth_names *names, const char *name, uint64_t *inode);
int fth_names_rename(struct fth_names *names, const char *from, const char *to);
int fth_names_remove(struct fth_names *names, const char *name);

/* Find the inode of a name. Returns 0 or -ENOENT. */
int fth_names_find(struct fth_names *names, const char *name, uint64_t *inode);

/* The number of names, and of operations since the journal was created. */
uint64_t fth_names_count(struct fth_names *names);
uint64_t fth_names_operations(struct fth_names *names);

FTH_END_DECLS
#endif
