/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls whose buffers are in the region. A long buffer is done in parts, as far as the call
 * allows it: a read or write that is shorter than asked for is made longer by another call only
 * where the kernel would not have stopped either.
 */
#include "flat/preload/calls.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FUTEX_TRIES 1000

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

/* ---- calls with a buffer and its length ---- */

enum use {
	READS,	/* the kernel reads the buffer */
	WRITES, /* as many units as it returns */
	BOTH,	/* any of it */
};

static const struct buffer_call {
	short nr;
	signed char buffer, length; /* arguments */
	unsigned char unit;	    /* bytes that `length` counts */
	unsigned char extra;	    /* bytes in front that it does not count */
	enum use use;
	enum calls_more more;
	signed char offset; /* argument that advances; -1: none */
	bool waits;	    /* for others, unless it is for a file */
} buffer_calls[] = {
	{SYS_read, 1, 2, 1, 0, WRITES, CALLS_IN_FILES, -1, true},
	{SYS_write, 1, 2, 1, 0, READS, CALLS_ALWAYS, -1, true},
	{SYS_pread64, 1, 2, 1, 0, WRITES, CALLS_IN_FILES, 3, true},
	{SYS_pwrite64, 1, 2, 1, 0, READS, CALLS_ALWAYS, 3, true},
	{SYS_recvfrom, 1, 2, 1, 0, WRITES, CALLS_IF_ASKED, -1, true},
	{SYS_sendto, 1, 2, 1, 0, READS, CALLS_ALWAYS, -1, true},
	{SYS_epoll_wait, 1, 2, sizeof(struct epoll_event), 0, WRITES, CALLS_NEVER, -1, true},
	{SYS_epoll_pwait, 1, 2, sizeof(struct epoll_event), 0, WRITES, CALLS_NEVER, -1, true},
	{SYS_epoll_pwait2, 1, 2, sizeof(struct epoll_event), 0, WRITES, CALLS_NEVER, -1, true},
	{SYS_poll, 0, 1, sizeof(struct pollfd), 0, BOTH, CALLS_NEVER, -1, true},
	{SYS_ppoll, 0, 1, sizeof(struct pollfd), 0, BOTH, CALLS_NEVER, -1, true},
	{SYS_msgsnd, 1, 2, 1, sizeof(long), READS, CALLS_NEVER, -1, true},
	{SYS_msgrcv, 1, 2, 1, sizeof(long), WRITES, CALLS_NEVER, -1, true},
	{SYS_mq_timedsend, 1, 2, 1, 0, READS, CALLS_NEVER, -1, true},
	{SYS_mq_timedreceive, 1, 2, 1, 0, WRITES, CALLS_NEVER, -1, true},
	{SYS_getrandom, 0, 1, 1, 0, WRITES, CALLS_ALWAYS, -1, false},
	{SYS_getdents64, 1, 2, 1, 0, WRITES, CALLS_NEVER, -1, false},
	{SYS_getdents, 1, 2, 1, 0, WRITES, CALLS_NEVER, -1, false},
	{SYS_getcwd, 0, 1, 1, 0, WRITES, CALLS_NEVER, -1, false},
	{SYS_readlink, 1, 2, 1, 0, WRITES, CALLS_NEVER, -1, false},
	{SYS_readlinkat, 2, 3, 1, 0, WRITES, CALLS_NEVER, -1, false},
	{SYS_getgroups, 1, 0, 4, 0, WRITES, CALLS_NEVER, -1, false},
	{SYS_setgroups, 1, 0, 4, 0, READS, CALLS_NEVER, -1, false},
	{SYS_getxattr, 2, 3, 1, 0, WRITES, CALLS_NEVER, -1, false},
	{SYS_lgetxattr, 2, 3, 1, 0, WRITES, CALLS_NEVER, -1, false},
	{SYS_fgetxattr, 2, 3, 1, 0, WRITES, CALLS_NEVER, -1, false},
	{SYS_setxattr, 2, 3, 1, 0, READS, CALLS_NEVER, -1, false},
	{SYS_lsetxattr, 2, 3, 1, 0, READS, CALLS_NEVER, -1, false},
	{SYS_fsetxattr, 2, 3, 1, 0, READS, CALLS_NEVER, -1, false},
	{SYS_listxattr, 1, 2, 1, 0, WRITES, CALLS_NEVER, -1, false},
	{SYS_llistxattr, 1, 2, 1, 0, WRITES, CALLS_NEVER, -1, false},
	{SYS_flistxattr, 1, 2, 1, 0, WRITES, CALLS_NEVER, -1, false},
	{SYS_setsockopt, 3, 4, 1, 0, READS, CALLS_NEVER, -1, false},
};

static const struct buffer_call *find_buffer_call(long nr)
{
	for (unsigned i = 0; i < sizeof(buffer_calls) / sizeof(buffer_calls[0]); i++)
		if (buffer_calls[i].nr == nr)
			return &buffer_calls[i];
	return NULL;
}

static mode_t kind_of_fd(long fd)
{
	struct stat st;

	return direct_call(SYS_fstat, fd, (long)(uintptr_t)&st, 0, 0, 0, 0) == 0
		       ? st.st_mode & S_IFMT
		       : 0;
}

bool calls_is_file(long fd)
{
	mode_t kind = kind_of_fd(fd);

	return kind == S_IFREG || kind == S_IFBLK;
}

bool calls_go_on(enum calls_more more, const long a[6], bool socket)
{
	return more == CALLS_ALWAYS || (more == CALLS_IN_FILES && kind_of_fd(a[0]) == S_IFREG) ||
	       (more == CALLS_IF_ASKED && socket &&
		(a[3] & (MSG_WAITALL | CALLS_UNCUT)) == MSG_WAITALL);
}

/* Bytes that go one after the other, and not in messages that have ends. */
static bool is_stream(long fd)
{
	int type;
	socklen_t length = sizeof(type);

	if (direct_call(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, (long)(uintptr_t)&type,
			(long)(uintptr_t)&length, 0) == 0)
		return type == SOCK_STREAM;
	return kind_of_fd(fd) == S_IFIFO || calls_is_file(fd);
}

uint64_t calls_part(long fd, uint64_t total, bool writes, bool uncut)
{
	uint64_t most = writes ? run.chunk : CALLS_STREAM;

	if (total <= most)
		return total;
	if (uncut || !is_stream(fd))
		most = CALLS_WHOLE;
	return total < most ? total : most;
}

/* One part of a call with its buffer held: `part` units from `done` on. */
static long held_part(const struct buffer_call *call, long b[6], uint64_t part, run_mask mask,
		      struct calls_record *record)
{
	long rc = calls_hold_arguments(record, b, call->buffer);

	if (rc == 0)
		rc = calls_hold(record, (uintptr_t)b[call->buffer], part * call->unit + call->extra,
				call->use != READS);
	return rc < 0 ? rc : calls_kernel(call->nr, b, mask);
}

/* The kernel writes to a copy, of which the program gets what is new. */
static long receive_copy(const struct buffer_call *call, const long b[6], uint64_t bytes,
			 run_mask mask, struct calls_record *record)
{
	uint8_t *ours = calls_room(record, bytes + call->extra);
	uint64_t got;
	long c[6], rc;

	if (!ours)
		return -ENOMEM;
	if (call->nr == SYS_recvfrom && (b[3] & MSG_TRUNC) && /* TCP says so, and writes nothing */
	    calls_get(ours, (uintptr_t)b[call->buffer], bytes) < 0)
		return -EFAULT;
	memcpy(c, b, sizeof(c));
	c[call->buffer] = (long)(uintptr_t)ours;
	rc = calls_kernel(call->nr, c, mask);
	if (rc < 0)
		return rc;
	got = (uint64_t)rc * call->unit;
	got = (got < bytes ? got : bytes) + call->extra; /* MSG_TRUNC says more */
	return calls_put((uintptr_t)b[call->buffer], ours, got) < 0 ? -EFAULT : rc;
}

static long send_copy(const struct buffer_call *call, const long b[6], uint64_t bytes,
		      run_mask mask, struct calls_record *record)
{
	uint8_t *ours = calls_room(record, bytes + call->extra);
	long c[6];

	if (!ours)
		return -ENOMEM;
	if (calls_get(ours, (uintptr_t)b[call->buffer], bytes + call->extra) < 0)
		return -EFAULT;
	memcpy(c, b, sizeof(c));
	c[call->buffer] = (long)(uintptr_t)ours;
	record->referenced = call->nr == SYS_sendto && (b[3] & MSG_ZEROCOPY);
	return calls_kernel(call->nr, c, mask);
}

/* The same with copies, also of what other arguments point to. */
static long copied_part(const struct buffer_call *call, long b[6], uint64_t part, run_mask mask,
			struct calls_record *record)
{
	uint64_t bytes = part * call->unit;
	struct small small;
	long rc = small_take(record, call->nr, b, &small);

	if (rc == 0 && call->use == BOTH)
		rc = small_copy(record, bytes, &b[call->buffer], &small);
	if (rc < 0)
		return rc;
	if (!run_touches((uintptr_t)b[call->buffer], bytes + call->extra))
		rc = calls_kernel(call->nr, b, mask);
	else if (call->use == WRITES)
		rc = receive_copy(call, b, bytes, mask, record);
	else
		rc = send_copy(call, b, bytes, mask, record);
	return small_give_back(&small) < 0 ? -EFAULT : rc;
}

static bool is_copied(const struct buffer_call *call, const long a[6])
{
	bool file =
		call->more != CALLS_NEVER && call->more != CALLS_IF_ASKED && call->nr != SYS_sendto;

	return call->waits && !(file && calls_is_file(a[0]));
}

/* Units that are asked for at a time. */
static uint64_t part_of(const struct buffer_call *call, const long a[6], uint64_t left, bool copied)
{
	if (call->more == CALLS_NEVER)
		return left;
	if (copied)
		return calls_part(a[0], left, call->use != READS,
				  (call->nr == SYS_recvfrom || call->nr == SYS_sendto) &&
					  (a[3] & CALLS_UNCUT));
	return left < run.chunk ? left : run.chunk;
}

static long do_buffer(const struct buffer_call *call, const long a[6], run_mask mask)
{
	uint64_t total = (uint64_t)a[call->length], done = 0, part;
	bool copied = is_copied(call, a);
	long b[6], rc;

	if (total > (uint64_t)SSIZE_MAX / call->unit)
		return call->waits ? -EINVAL : -EFAULT;
	do {
		struct calls_record *record = calls_begin();

		if (!record)
			return done ? (long)done : -EFAULT;
		part = part_of(call, a, total - done, copied);
		memcpy(b, a, sizeof(b));
		b[call->buffer] = a[call->buffer] + (long)done;
		b[call->length] = (long)part;
		if (call->offset >= 0)
			b[call->offset] = a[call->offset] + (long)done;
		rc = (copied ? copied_part : held_part)(call, b, part, mask, record);
		calls_end(record);
		if (rc == -EBUSY && !copied) { /* others hold too much */
			copied = true;
			rc = (long)(part = 0);
			continue;
		}
		if (rc <= 0)
			break;
		done += (uint64_t)rc;
	} while (done < total && (uint64_t)rc == part &&
		 (part == 0 || calls_go_on(call->more, a, call->nr == SYS_recvfrom)));
	return done ? (long)done : rc;
}

/* ---- futexes ---- */

/*
 * A thread may sleep long, and more threads than a page can be held for may sleep at one page. The
 * kernel looks at the word before it does anything else, and says EFAULT if it is not there: the
 * page is brought in until it has seen it.
 */
static long do_futex(const long a[6], run_mask mask)
{
	long rc = -EFAULT;

	for (unsigned try = 0; try < FUTEX_TRIES && rc == -EFAULT; try++) {
		struct calls_record *record = calls_begin();

		if (!record || calls_hold_arguments(record, a, -1) < 0)
			try = FUTEX_TRIES;
		if (record)
			calls_end(record);
		rc = calls_kernel(SYS_futex, a, mask);
	}
	return rc;
}

/* ---- all ---- */

bool calls_touch(long nr, const long a[6])
{
	const struct buffer_call *buffer = find_buffer_call(nr);

	if (buffer && run_touches((uintptr_t)a[buffer->buffer],
				  (uint64_t)a[buffer->length] * buffer->unit + buffer->extra))
		return true;
	if (vectors_has(nr))
		return vectors_touch(nr, a);
	if (nr == SYS_execve || nr == SYS_execveat)
		return exec_touches(nr, a);
	for (int i = 0; i < 6; i++)
		if (run_touches((uintptr_t)a[i], 1))
			return true;
	return false;
}

/* Nothing is known of the call: what its arguments point to is held, in case they are pointers. */
static long do_any(long nr, const long a[6], run_mask mask)
{
	struct calls_record *record = calls_begin();
	long rc = record ? calls_hold_arguments(record, a, -1) : -EFAULT;

	if (rc == 0)
		rc = calls_kernel(nr, a, mask);
	if (record)
		calls_end(record);
	return rc;
}

long calls_do(long nr, const long a[6], run_mask mask)
{
	const struct buffer_call *buffer = find_buffer_call(nr);

	run_count(RUN_HELD, 1);
	if (buffer)
		return do_buffer(buffer, a, mask);
	if (vectors_has(nr))
		return vectors_do(nr, a, mask);
	if (nr == SYS_futex)
		return do_futex(a, mask);
	if (nr == SYS_execve || nr == SYS_execveat)
		return exec_do(nr, a, mask);
	if (small_has(nr))
		return small_do(nr, a, mask);
	return do_any(nr, a, mask);
}
