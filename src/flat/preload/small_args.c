/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that wait, and the small things that they point to: times, addresses, masks. The kernel
 * gets copies. Afterwards only the bytes that it has changed are copied back: others may have
 * stored to their neighbours meanwhile.
 */
#include "flat/preload/calls.h"

#include <errno.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

#define SETS_MOST (1l << 20) /* descriptors of select() */
#define OPS_MOST  4096l	     /* of semop() */

/* Bytes that depend on other arguments. */
enum { OF_SETS = -1, OF_OPS = -2 };

#define TIME   ((short)sizeof(struct timespec))
#define NAME   ((short)sizeof(struct sockaddr_storage))
#define LENGTH ((short)sizeof(socklen_t))
#define USAGE  ((short)sizeof(struct rusage))
#define INFO   ((short)sizeof(siginfo_t))
#define MASK   ((short)sizeof(run_mask))
#define LOCK   ((short)32) /* struct flock, and all else that fcntl() points to */
#define OFFSET ((short)sizeof(int64_t))

static const struct {
	short nr, argument, bytes;
} table[] = {
	{SYS_accept, 1, NAME},
	{SYS_accept, 2, LENGTH},
	{SYS_accept4, 1, NAME},
	{SYS_accept4, 2, LENGTH},
	{SYS_connect, 1, NAME},
	{SYS_recvfrom, 4, NAME},
	{SYS_recvfrom, 5, LENGTH},
	{SYS_sendto, 4, NAME},
	{SYS_nanosleep, 0, TIME},
	{SYS_nanosleep, 1, TIME},
	{SYS_clock_nanosleep, 2, TIME},
	{SYS_clock_nanosleep, 3, TIME},
	{SYS_wait4, 1, sizeof(int)},
	{SYS_wait4, 3, USAGE},
	{SYS_waitid, 2, INFO},
	{SYS_waitid, 4, USAGE},
	{SYS_rt_sigtimedwait, 0, MASK},
	{SYS_rt_sigtimedwait, 1, INFO},
	{SYS_rt_sigtimedwait, 2, TIME},
	{SYS_rt_sigsuspend, 0, MASK},
	{SYS_select, 1, OF_SETS},
	{SYS_select, 2, OF_SETS},
	{SYS_select, 3, OF_SETS},
	{SYS_select, 4, TIME},
	{SYS_pselect6, 1, OF_SETS},
	{SYS_pselect6, 2, OF_SETS},
	{SYS_pselect6, 3, OF_SETS},
	{SYS_pselect6, 4, TIME},
	{SYS_pselect6, 5, 2 * sizeof(long)},
	{SYS_ppoll, 2, TIME},
	{SYS_ppoll, 3, MASK},
	{SYS_epoll_pwait, 4, MASK},
	{SYS_epoll_pwait2, 3, TIME},
	{SYS_epoll_pwait2, 4, MASK},
	{SYS_semop, 1, OF_OPS},
	{SYS_semtimedop, 1, OF_OPS},
	{SYS_semtimedop, 3, TIME},
	{SYS_mq_timedsend, 4, TIME},
	{SYS_mq_timedreceive, 3, sizeof(int)},
	{SYS_mq_timedreceive, 4, TIME},
	{SYS_fcntl, 2, LOCK},
	{SYS_splice, 1, OFFSET},
	{SYS_splice, 3, OFFSET},
	{SYS_sendfile, 2, OFFSET},
	{SYS_copy_file_range, 1, OFFSET},
	{SYS_copy_file_range, 3, OFFSET},
};
#define ENTRIES (sizeof(table) / sizeof(table[0]))

bool small_has(long nr)
{
	for (unsigned i = 0; i < ENTRIES; i++)
		if (table[i].nr == nr)
			return true;
	return false;
}

/* Where the count is absurd, 0: the kernel looks at that first. */
static size_t bytes_of(short bytes, const long a[6])
{
	if (bytes == OF_SETS)
		return a[0] > 0 && a[0] <= SETS_MOST ? ((size_t)a[0] + 63) / 64 * 8 : 0;
	if (bytes == OF_OPS)
		return a[2] > 0 && a[2] <= OPS_MOST ? (size_t)a[2] * sizeof(struct sembuf) : 0;
	return (size_t)bytes;
}

/* What is behind the end of the region may not be memory. */
static size_t readable_bytes(uintptr_t at, size_t bytes)
{
	return bytes > run.end - at ? run.end - at : bytes;
}

int small_copy(struct calls_record *record, size_t bytes, long *argument, struct small *small)
{
	uintptr_t theirs = (uintptr_t)*argument;
	uint8_t *ours;

	if (!run_touches(theirs, 1) || bytes == 0)
		return 0;
	ours = calls_room(record, 2 * bytes);
	if (!ours)
		return -ENOMEM;
	memset(ours, 0, bytes);
	small->copies[small->n].theirs = theirs;
	small->copies[small->n].ours = ours;
	small->copies[small->n].before = ours + bytes;
	small->copies[small->n++].bytes = bytes;
	if (calls_get(ours, theirs, readable_bytes(theirs, bytes)) < 0)
		return -EFAULT;
	memcpy(ours + bytes, ours, bytes);
	*argument = (long)(uintptr_t)ours;
	return 0;
}

int small_take(struct calls_record *record, long nr, long a[6], struct small *small)
{
	int rc = 0;

	small->n = 0;
	for (unsigned i = 0; i < ENTRIES && rc == 0; i++)
		if (table[i].nr == nr)
			rc = small_copy(record, bytes_of(table[i].bytes, a), &a[table[i].argument],
					small);
	return rc;
}

int small_give_back(const struct small *small)
{
	int rc = 0;

	for (unsigned i = 0; i < small->n; i++) {
		const uint8_t *ours = small->copies[i].ours, *before = small->copies[i].before;
		size_t bytes = small->copies[i].bytes, from = 0, to;

		for (; from < bytes && rc == 0; from = to + 1) {
			to = from;
			while (to < bytes && ours[to] != before[to])
				to++;
			if (to > from)
				rc = calls_put(small->copies[i].theirs + from, ours + from,
					       to - from);
		}
	}
	return rc;
}

long small_do(long nr, const long a[6], run_mask mask)
{
	struct calls_record *record = calls_begin();
	struct small small;
	long b[6], rc;

	if (!record)
		return -EFAULT;
	memcpy(b, a, sizeof(b));
	rc = small_take(record, nr, b, &small);
	if (rc == 0) {
		rc = calls_kernel(nr, b, mask);
		if (small_give_back(&small) < 0)
			rc = -EFAULT;
	}
	calls_end(record);
	return rc;
}
