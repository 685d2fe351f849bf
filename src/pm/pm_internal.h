/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of this folder share. map.c says which file does what. */
#ifndef FATHOM_SRC_PM_PM_INTERNAL_H
#define FATHOM_SRC_PM_PM_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/private.h"
#include "fathom/base/stats.h"
#include "fathom/base/uri.h"
#include "fathom/dev.h"
#include "fathom/dev/window.h"
#include "fathom/pm.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pm_write_back;
struct fth_gpu_pm;
struct fth_pm_tx;

struct fth_pm {
	const struct pm_kind *kind;
	char *name;
	struct fth_pm_view view; /* as fth_pm_view() returns it */
	uint8_t *memory;	 /* header and all; view.base is behind the header */
	uint64_t length;	 /* of memory */
	uint64_t tag;
	enum fth_pm_guarantee guarantee;
	char text[240]; /* of the guarantee */
	bool readonly;
	bool auto_flush; /* the processor's caches are durable */
	uint32_t timeout_ms;
	unsigned forks; /* owner.c: tells the process that mapped it from its children */
	long pid;	/* of that process, for texts */
	struct fth_stats *stats;
	pthread_mutex_t lock;  /* guards txs */
	struct fth_pm_tx *txs; /* that are open, a list */
	/* By kind. */
	int fd;	     /* what is mapped; -1 without */
	int lock_fd; /* holds the lock; -1 without */
	struct fth_dev *dev;
	bool owns_dev;
	bool made; /* open() has made the file or segment */
	struct fth_dev_window *window;
	struct pm_write_back *write_back;
	struct fth_gpu_pm *gpu; /* the registration with CUDA, while there is one */
	uint64_t map_length;	/* of what was mapped, which may be more than length */
	int (*pmem_unmap)(void *at, size_t length); /* of libpmem */
};

/* What the kinds are asked for. */
struct pm_request {
	const char *name;
	struct fth_uri *uri;
	uint64_t length; /* with the header; 0: as it is */
	bool create, exclusive, readonly;
	bool unfinished; /* to remove it: accept a creation that was interrupted */
	enum fth_pm_guarantee least;
};

/*
 * A kind opens what a name says and maps it: sets memory, length, guarantee, text, view.mode and
 * view.line. The header is not its business, nor is the control block. close accepts what a failed
 * open has left. remove is called after the memory was mapped and unmapped again with the result
 * `looked`: 0; -ENOENT or -EBADMSG, which it returns unless a creation was interrupted.
 */
struct pm_kind {
	enum fth_pm_kind id;
	int (*open)(struct fth_pm *pm, const struct pm_request *request);
	int (*close)(struct fth_pm *pm);
	int (*remove)(const char *name, struct fth_uri *uri, int looked);
	/* Take back what open() made, before close(); may be NULL. */
	void (*discard)(const struct pm_request *request);
};

extern const struct pm_kind pm_kind_shm, pm_kind_pmem, pm_kind_window, pm_kind_drained;

/* Which kind a parsed name is of. */
const struct pm_kind *pm_kind_of(const struct fth_uri *uri);

/* ---- header.c ---- */

/* Whether these bytes, whole words, are zeroes. */
bool pm_all_zero(const uint8_t *from, uint64_t length);
/* Whether the memory was never used: all of it is zero, or a creation of it was interrupted. */
bool pm_header_blank(const struct fth_pm *pm);
/* Whether a creation was interrupted. */
bool pm_header_creating(const struct fth_pm *pm);
/* Make the header. The memory is blank. */
int pm_header_make(struct fth_pm *pm, uint64_t tag);
/* 0, or why it cannot be used; reads only. Sets pm->tag. */
int pm_header_check(struct fth_pm *pm, uint64_t tag);

/* ---- control_block.c: what persisting threads and write-back share ---- */

/* Bytes of the control block with the marks behind it, whole pages. */
FTH_PRIVATE uint64_t fth_pm_control_bytes(const struct fth_pm *pm);
int pm_control_open(struct fth_pm *pm);
void pm_control_close(struct fth_pm *pm);

/* ---- write_back.c ---- */

int pm_write_back_open(struct fth_pm *pm);
/* Ends the server; waits for requests. Returns the sticky error. */
int pm_write_back_close(struct fth_pm *pm);

/* ---- owner.c ---- */

/* This process maps the memory. */
void pm_process_note(struct fth_pm *pm);
/* Whether it was mapped before a fork() whose child this process is. */
bool pm_process_is_other(const struct fth_pm *pm);
/* 0, or -EPERM with a text in such a child. */
int pm_process_check(const struct fth_pm *pm);

/* ---- persist.c ---- */

uint32_t pm_best_line(void);

/* ---- kind_memory.c: memory of the process as persistent memory, for tests ---- */

/* `memory` has `length` bytes, header and all, and outlives it. */
int pm_map_memory(void *memory, uint64_t length, const struct fth_pm_options *options,
		  struct fth_pm **out);

/* ---- area.c: logs, checkpoints and transactions ---- */

/* In place of the magic number of an area while it is created: it is neither there nor damaged. */
#define PM_AREA_CREATING 0x3061657261706674u /* "tfparea0" */

/*
 * Why the magic number at `offset` is not that of an area with a header of so many bytes: -ENOENT
 * if none was created there, that is the header is zero or its creation was interrupted; else
 * -EBADMSG. The text begins with `what`, "log: no log" for instance.
 */
int pm_area_missing(const struct fth_pm_view *pm, uint64_t offset, uint64_t header_bytes,
		    const char *what);

/* A number that other areas do not have. */
uint64_t pm_area_salt(void);

/* Store the magic number of the area at `offset`, persistently. */
int pm_area_put_magic(const struct fth_pm_view *pm, uint64_t offset, uint64_t magic);

/* ---- tx.c, checkpoint.c: bytes of an area, which was checked ---- */

struct fth_pm_checkpoint;
uint64_t pm_tx_area_bytes(const struct fth_pm *pm, uint64_t at);
uint64_t pm_checkpoint_area_bytes(const struct fth_pm_checkpoint *cp);

/* ---- remove.c ---- */

/*
 * 0 if the file, which is locked, may be unlinked: it was looked at, or a creation of it was
 * interrupted. Else `looked`.
 */
int pm_remove_check(int fd, int looked);

/* ---- map.c ---- */

/*
 * Map existing memory for writing, also if its creation was interrupted: then its size is that of
 * its kind.
 */
int pm_map_unfinished(const char *name, struct fth_pm **out);

/* Map memory that the caller has, as a kind whose open takes it as it is. */
int pm_map_kind(const struct pm_kind *kind, void *memory, uint64_t length,
		const struct fth_pm_options *options, struct fth_pm **out);

#ifdef __cplusplus
}
#endif
#endif
