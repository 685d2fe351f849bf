/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies between our memory and the program's, which may be wrong. Pages of the region are copied
 * by the region, without moving them to DRAM if they are not to be there; all other memory by the
 * kernel, which says so if there is none.
 */
#include "flat/preload/heap.h"
#include "flat/preload/run.h"

#include "fathom/flat.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static int copy_by_kernel(void *ours, uintptr_t theirs, size_t length, bool get)
{
	struct iovec local = {ours, length}, remote = {(void *)theirs, length};
	long pid = direct_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
	long rc = direct_call(get ? SYS_process_vm_readv : SYS_process_vm_writev, pid,
			      (long)(uintptr_t)&local, 1, (long)(uintptr_t)&remote, 1, 0);

	if (rc == -ENOSYS || rc == -EPERM) { /* a sandbox: believe the program */
		memcpy(get ? ours : (void *)theirs, get ? (void *)theirs : ours, length);
		return 0;
	}
	return rc == (long)length ? 0 : -EFAULT;
}

/* Bytes from `at` on that are all of the region (*ours), or all ordinary memory. */
static size_t piece_at(uintptr_t at, size_t length, bool *ours)
{
	uintptr_t end = at + length, next;
	uint64_t page, last;

	*ours = false;
	if (!run_touches(at, length))
		return length;
	if (at < run.start)
		return run.start - at;
	if (end > run.end || end < at)
		end = run.end;
	page = (at - run.start) / run.page;
	last = (end - 1 - run.start) / run.page + 1;
	*ours = heap_foreign(page, page + 1, true) != page;
	next = run.start + heap_foreign(page, last, *ours) * run.page;
	return (next < end ? next : end) - at;
}

static int copy_by_region(void *ours, uintptr_t theirs, size_t length, bool get)
{
	return get ? fth_flat_load(run.flat, (const void *)theirs, ours, length)
		   : fth_flat_store(run.flat, (void *)theirs, ours, length);
}

/* Pages that left the region since piece_at(). */
static bool has_foreign(uintptr_t at, size_t length)
{
	uint64_t first = (at - run.start) / run.page,
		 end = (at + length - 1 - run.start) / run.page + 1;

	return heap_foreign(first, end, true) < end;
}

static int copy_bytes(uint8_t *ours, uintptr_t theirs, size_t length, bool get)
{
	int rc = 0;

	while (length > 0 && rc == 0) {
		bool in_region;
		size_t piece = piece_at(theirs, length, &in_region);

		rc = in_region ? copy_by_region(ours, theirs, piece, get)
			       : copy_by_kernel(ours, theirs, piece, get);
		if (rc < 0 && in_region && has_foreign(theirs, piece)) {
			rc = 0;
			continue;
		}
		ours += piece;
		theirs += piece;
		length -= piece;
	}
	return rc < 0 ? -EFAULT : 0;
}

int calls_get(void *to, uintptr_t from, size_t length)
{
	return copy_bytes(to, from, length, true);
}

int calls_put(uintptr_t to, const void *from, size_t length)
{
	return copy_bytes((uint8_t *)from, to, length, false);
}
