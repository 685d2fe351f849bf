/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls with vectors of buffers, and messages. A vector is gathered into one copy, or scattered
 * from it, so that a message stays one, however many parts it has. Only files get the parts
 * themselves, if there are few.
 */
#include "flat/preload/calls.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define PEEKED	  32u  /* parts that are looked at together */
#define NAME_MOST 512u /* bytes of an address; the kernel takes fewer */

static const struct vector_call {
	short nr;
	bool writes; /* to the buffers */
	enum calls_more more;
	signed char offset; /* argument that advances; -1: none */
	bool pages; /* the kernel keeps the pages (vmsplice), or has them of another process */
} vector_calls[] = {
	{SYS_readv, true, CALLS_IN_FILES, -1, false},
	{SYS_writev, false, CALLS_ALWAYS, -1, false},
	{SYS_preadv, true, CALLS_IN_FILES, 3, false},
	{SYS_pwritev, false, CALLS_ALWAYS, 3, false},
	{SYS_preadv2, true, CALLS_IN_FILES, 3, false},
	{SYS_pwritev2, false, CALLS_ALWAYS, 3, false},
	{SYS_vmsplice, false, CALLS_ALWAYS, -1, true},
	{SYS_process_vm_readv, true, CALLS_NEVER, -1, true},
	{SYS_process_vm_writev, false, CALLS_NEVER, -1, true},
};

/* vmsplice() with the end of a pipe that is read: the kernel copies what is there. */
static const struct vector_call unsplice = {SYS_vmsplice, true, CALLS_NEVER, -1, false};

static const struct vector_call *find_call(long nr)
{
	for (unsigned i = 0; i < sizeof(vector_calls) / sizeof(vector_calls[0]); i++)
		if (vector_calls[i].nr == nr)
			return &vector_calls[i];
	return NULL;
}

bool vectors_has(long nr)
{
	return find_call(nr) || nr == SYS_sendmsg || nr == SYS_recvmsg || nr == SYS_sendmmsg ||
	       nr == SYS_recvmmsg;
}

/* ---- which calls use the region ---- */

static bool vector_touches(uintptr_t vector, unsigned long n)
{
	struct iovec some[PEEKED];

	if (n > IOV_MAX)
		return false; /* the kernel refuses it */
	if (run_touches(vector, n * sizeof(some[0])))
		return true;
	while (n > 0) {
		unsigned long count = n < PEEKED ? n : PEEKED;

		if (calls_get(some, vector, count * sizeof(some[0])) < 0)
			return false; /* the kernel says so too */
		for (unsigned long i = 0; i < count; i++)
			if (run_touches((uintptr_t)some[i].iov_base, some[i].iov_len))
				return true;
		vector += count * sizeof(some[0]);
		n -= count;
	}
	return false;
}

static bool message_touches(uintptr_t at)
{
	struct msghdr m;

	if (run_touches(at, sizeof(m)))
		return true;
	if (calls_get(&m, at, sizeof(m)) < 0)
		return false;
	return run_touches((uintptr_t)m.msg_name, m.msg_namelen) ||
	       run_touches((uintptr_t)m.msg_control, m.msg_controllen) ||
	       vector_touches((uintptr_t)m.msg_iov, m.msg_iovlen);
}

static bool messages_touch(uintptr_t at, unsigned n)
{
	for (unsigned i = 0; i < n && i < IOV_MAX; i++)
		if (message_touches(at + i * sizeof(struct mmsghdr)))
			return true;
	return false;
}

/* Between two places of this process, by its own number. */
static bool is_within(long nr, const long a[6])
{
	return (nr == SYS_process_vm_readv || nr == SYS_process_vm_writev) && a[5] == 0 &&
	       a[0] == direct_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

bool vectors_touch(long nr, const long a[6])
{
	if (nr == SYS_sendmsg || nr == SYS_recvmsg)
		return message_touches((uintptr_t)a[1]);
	if (nr == SYS_sendmmsg || nr == SYS_recvmmsg)
		return messages_touch((uintptr_t)a[1], (unsigned)a[2]) ||
		       run_touches((uintptr_t)a[4], 1);
	return vector_touches((uintptr_t)a[1], (unsigned long)a[2]) ||
	       run_touches((uintptr_t)a[3], 1) ||
	       (is_within(nr, a) && vector_touches((uintptr_t)a[3], (unsigned long)a[4]));
}

/* ---- vectors ---- */

/* A vector of the program, copied. */
struct vector {
	const struct iovec *parts;
	unsigned long n;
	uint64_t bytes;
};

static int read_vector(struct calls_record *record, uintptr_t at, unsigned long n,
		       struct vector *out)
{
	struct iovec *parts;

	*out = (struct vector){.n = n};
	if (n == 0)
		return 0;
	parts = calls_room(record, n * sizeof(*parts));
	if (!parts)
		return -ENOMEM;
	if (calls_get(parts, at, n * sizeof(*parts)) < 0)
		return -EFAULT;
	for (unsigned long i = 0; i < n; i++) {
		if (parts[i].iov_len > (uint64_t)SSIZE_MAX - out->bytes)
			return -EINVAL;
		out->bytes += parts[i].iov_len;
	}
	out->parts = parts;
	return 0;
}

/* Copy `bytes` of a vector, from byte `skip` on, to or from `ours`. */
static int copy_vector(const struct vector *v, uint64_t skip, uint8_t *ours, uint64_t bytes,
		       bool get)
{
	int rc = 0;

	for (unsigned long i = 0; i < v->n && bytes > 0 && rc == 0; i++) {
		uint64_t length = v->parts[i].iov_len;
		uintptr_t at = (uintptr_t)v->parts[i].iov_base + skip;

		if (skip >= length) {
			skip -= length;
			continue;
		}
		length -= skip;
		skip = 0;
		length = length < bytes ? length : bytes;
		rc = get ? calls_get(ours, at, length) : calls_put(at, ours, length);
		ours += length;
		bytes -= length;
	}
	return rc;
}

/* One part of a call: the bytes from `done` on. *part: how many were asked for. */
static long copied_part(const struct vector_call *call, const long a[6], uint64_t done,
			run_mask mask, struct calls_record *record, uint64_t *part)
{
	long b[6], rc;
	struct vector v;
	struct iovec one;

	rc = read_vector(record, (uintptr_t)a[1], (unsigned long)a[2], &v);
	if (rc < 0)
		return rc;
	*part = v.bytes > done ? v.bytes - done : 0;
	if (!call->pages)
		*part = calls_part(a[0], *part, call->writes, false);
	one = (struct iovec){calls_room(record, *part ? *part : 1), *part};
	if (!one.iov_base)
		return -ENOMEM;
	rc = call->writes ? 0 : copy_vector(&v, done, one.iov_base, *part, true);
	if (rc == 0 && call->pages) /* the others may wait, and have no other pointers */
		rc = calls_hold_arguments(record, a, 1);
	if (rc < 0)
		return rc;
	memcpy(b, a, sizeof(b));
	b[1] = (long)(uintptr_t)&one;
	b[2] = 1;
	if (call->offset >= 0 && a[call->offset] >= 0)
		b[call->offset] = a[call->offset] + (long)done;
	record->referenced = call->pages;
	rc = calls_kernel(call->nr, b, mask);
	if (rc > 0 && call->writes && copy_vector(&v, done, one.iov_base, (uint64_t)rc, false) < 0)
		rc = -EFAULT;
	return rc;
}

/*
 * Up to CALLS_HELD_VECTORS parts from byte `done` on, run.chunk bytes at most, with their pages
 * held.
 */
static long held_part(const struct vector_call *call, const long a[6], uint64_t done, run_mask mask,
		      struct calls_record *record, uint64_t *part)
{
	struct iovec parts[CALLS_HELD_VECTORS];
	uint64_t skip = done;
	long b[6], rc, n = 0;
	struct vector v;

	rc = read_vector(record, (uintptr_t)a[1], (unsigned long)a[2], &v);
	*part = 0;
	for (unsigned long i = 0; i < v.n && rc == 0 && *part < run.chunk; i++) {
		struct iovec one = v.parts[i];

		if (skip >= one.iov_len) {
			skip -= one.iov_len;
			continue;
		}
		one.iov_base = (char *)one.iov_base + skip;
		one.iov_len -= skip;
		skip = 0;
		if (one.iov_len > run.chunk - *part)
			one.iov_len = run.chunk - *part;
		rc = calls_hold(record, (uintptr_t)one.iov_base, one.iov_len, call->writes);
		parts[n++] = one;
		*part += one.iov_len;
	}
	if (rc == 0)
		rc = calls_hold_arguments(record, a, 1);
	if (rc < 0)
		return rc;
	memcpy(b, a, sizeof(b));
	b[1] = (long)(uintptr_t)parts;
	b[2] = n;
	if (call->offset >= 0 && a[call->offset] >= 0)
		b[call->offset] = a[call->offset] + (long)done;
	return calls_kernel(call->nr, b, mask);
}

/*
 * The vectors are read once, as the kernel does it: the copy may change them. Returns the bytes, or
 * a negative errno.
 */
static long copy_within(const struct vector_call *call, const long a[6],
			struct calls_record *record)
{
	struct vector here, there;
	uint64_t all, part;
	uint8_t *between;
	int rc = read_vector(record, (uintptr_t)a[1], (unsigned long)a[2], &here);

	if (rc == 0)
		rc = read_vector(record, (uintptr_t)a[3], (unsigned long)a[4], &there);
	if (rc < 0)
		return rc;
	all = here.bytes < there.bytes ? here.bytes : there.bytes;
	between = calls_room(record, CALLS_STREAM);
	if (!between)
		return -ENOMEM;
	for (uint64_t done = 0; done < all; done += part) {
		part = all - done < CALLS_STREAM ? all - done : CALLS_STREAM;
		rc = copy_vector(call->writes ? &there : &here, done, between, part, true);
		if (rc == 0)
			rc = copy_vector(call->writes ? &here : &there, done, between, part, false);
		if (rc < 0)
			return done ? (long)done : rc;
	}
	return (long)all;
}

/*
 * process_vm_readv() and process_vm_writev() of this process: the kernel cannot reach cold pages of
 * either side.
 */
static long do_within(const struct vector_call *call, const long a[6])
{
	struct calls_record *record;
	long rc;

	if ((unsigned long)a[2] > IOV_MAX || (unsigned long)a[4] > IOV_MAX)
		return -EINVAL;
	record = calls_begin();
	if (!record)
		return -EFAULT;
	rc = copy_within(call, a, record);
	calls_end(record);
	return rc;
}

static long do_vector(const struct vector_call *call, const long a[6], run_mask mask)
{
	bool copied =
		(unsigned long)a[2] > CALLS_HELD_VECTORS || (!call->pages && !calls_is_file(a[0]));
	uint64_t done = 0, part;
	long rc;

	if ((unsigned long)a[2] > IOV_MAX)
		return -EINVAL;
	do {
		struct calls_record *record = calls_begin();

		if (!record)
			return done ? (long)done : -EFAULT;
		rc = (copied ? copied_part : held_part)(call, a, done, mask, record, &part);
		calls_end(record);
		if (rc == -EBUSY && !copied) { /* others hold too much */
			copied = true;
			rc = (long)(part = 0);
			continue;
		}
		if (rc <= 0)
			break;
		done += (uint64_t)rc;
	} while ((uint64_t)rc == part && (part == 0 || calls_go_on(call->more, a, false)));
	return done ? (long)done : rc;
}

/* ---- messages ---- */

/* What goes to the kernel in place of a message of the program. */
struct message {
	struct msghdr theirs, ours;
	struct iovec data;
	struct vector vector;
};

/*
 * Name and control data are copied to the kernel in any case: a receiver's control data may be read
 * too.
 */
static int copy_side(struct calls_record *record, void **side, size_t bytes, bool get)
{
	void *theirs = *side;

	if (!theirs || bytes == 0 || !run_touches((uintptr_t)theirs, bytes))
		return 0;
	*side = calls_room(record, bytes);
	if (!*side)
		return -ENOMEM;
	return get ? calls_get(*side, (uintptr_t)theirs, bytes) : 0;
}

static int read_message(struct calls_record *record, long fd, uintptr_t at, long flags,
			uint64_t done, bool receives, struct message *m)
{
	uint64_t part;
	int rc = calls_get(&m->theirs, at, sizeof(m->theirs));

	if (rc == 0 && m->theirs.msg_iovlen > IOV_MAX)
		rc = -EMSGSIZE;
	if (rc == 0)
		rc = read_vector(record, (uintptr_t)m->theirs.msg_iov, m->theirs.msg_iovlen,
				 &m->vector);
	if (rc < 0)
		return rc;
	part = calls_part(fd, m->vector.bytes - done, receives,
			  (flags & CALLS_UNCUT) ||
				  (m->theirs.msg_control && m->theirs.msg_controllen));
	m->data = (struct iovec){calls_room(record, part ? part : 1), part};
	if (!m->data.iov_base)
		return -ENOMEM;
	m->ours = m->theirs;
	m->ours.msg_iov = &m->data;
	m->ours.msg_iovlen = 1;
	if (done > 0) { /* they went with the first part */
		m->ours.msg_control = NULL;
		m->ours.msg_controllen = 0;
	}
	rc = copy_side(record, &m->ours.msg_name,
		       m->ours.msg_namelen < NAME_MOST ? m->ours.msg_namelen : NAME_MOST, true);
	if (rc == 0)
		rc = copy_side(record, &m->ours.msg_control, m->ours.msg_controllen, !receives);
	if (rc < 0 || (receives && !(flags & MSG_TRUNC))) /* TCP writes nothing then */
		return rc;
	return copy_vector(&m->vector, done, m->data.iov_base, part, true);
}

static int give_side(void *theirs, const void *ours, size_t room, size_t bytes)
{
	return ours && ours != theirs
		       ? calls_put((uintptr_t)theirs, ours, bytes < room ? bytes : room)
		       : 0;
}

/* What was received: `bytes` of data from `done` on, and the rest in the first part. */
static int give_message(const struct message *m, uintptr_t at, uint64_t done, uint64_t bytes)
{
	struct msghdr out = m->theirs;
	int rc;

	bytes = bytes < m->data.iov_len ? bytes : m->data.iov_len; /* MSG_TRUNC */
	rc = copy_vector(&m->vector, done, m->data.iov_base, bytes, false);
	if (rc < 0 || done > 0)
		return rc;
	rc = give_side(m->theirs.msg_name, m->ours.msg_name,
		       m->theirs.msg_namelen < NAME_MOST ? m->theirs.msg_namelen : NAME_MOST,
		       m->ours.msg_namelen);
	if (rc == 0)
		rc = give_side(m->theirs.msg_control, m->ours.msg_control, m->theirs.msg_controllen,
			       m->ours.msg_controllen);
	out.msg_namelen = m->ours.msg_namelen;
	out.msg_controllen = m->ours.msg_controllen;
	out.msg_flags = m->ours.msg_flags;
	return rc < 0 ? rc : calls_put(at, &out, sizeof(out));
}

/* The bytes from `done` on. *more: the rest follows with another call, on a stream. */
static long message_part(long nr, long fd, uintptr_t at, long flags, run_mask mask, uint64_t done,
			 bool *more)
{
	struct calls_record *record = calls_begin();
	bool receives = nr == SYS_recvmsg;
	struct message m;
	long rc;

	*more = false;
	if (!record)
		return -EFAULT;
	rc = read_message(record, fd, at, flags, done, receives, &m);
	if (rc == 0) {
		long a[6] = {fd, (long)(uintptr_t)&m.ours, flags};

		record->referenced = !receives && (flags & MSG_ZEROCOPY);
		rc = calls_kernel(nr, a, mask);
		*more = rc > 0 && (uint64_t)rc == m.data.iov_len &&
			done + (uint64_t)rc < m.vector.bytes &&
			(!receives || (flags & (MSG_WAITALL | MSG_PEEK)) == MSG_WAITALL);
		if (rc >= 0 && receives && give_message(&m, at, done, (uint64_t)rc) < 0)
			rc = -EFAULT;
	}
	calls_end(record);
	return rc;
}

static long do_message(long nr, long fd, uintptr_t at, long flags, run_mask mask)
{
	uint64_t done = 0;
	bool more = true;
	long rc = 0;

	while (more) {
		rc = message_part(nr, fd, at, flags, mask, done, &more);
		done += rc > 0 ? (uint64_t)rc : 0;
	}
	return done ? (long)done : rc;
}

/* As the kernel: the time is looked at after each message. */
static int read_deadline(uintptr_t at, uint64_t *deadline)
{
	struct timespec wait;

	*deadline = UINT64_MAX;
	if (!at)
		return 0;
	if (calls_get(&wait, at, sizeof(wait)) < 0)
		return -EFAULT;
	if (wait.tv_sec < 0 || wait.tv_nsec < 0 || wait.tv_nsec >= 1000000000)
		return -EINVAL;
	if (wait.tv_sec < INT_MAX)
		*deadline =
			fth_now_ns() + (uint64_t)wait.tv_sec * 1000000000u + (uint64_t)wait.tv_nsec;
	return 0;
}

static long do_messages(const long a[6], bool receives, run_mask mask)
{
	unsigned n = (unsigned)a[2] < IOV_MAX ? (unsigned)a[2] : IOV_MAX, i = 0;
	long flags = a[3] & ~(long)MSG_WAITFORONE, rc;
	uint64_t deadline = UINT64_MAX;

	rc = receives ? read_deadline((uintptr_t)a[4], &deadline) : 0;
	while (rc >= 0 && i < n && (i == 0 || fth_now_ns() < deadline)) {
		uintptr_t at = (uintptr_t)a[1] + i * sizeof(struct mmsghdr);
		unsigned length;

		if (i > 0 && receives && (a[3] & MSG_WAITFORONE))
			flags |= MSG_DONTWAIT;
		rc = do_message(receives ? SYS_recvmsg : SYS_sendmsg, a[0], at, flags, mask);
		if (rc < 0)
			break;
		length = (unsigned)rc;
		if (calls_put(at + offsetof(struct mmsghdr, msg_len), &length, sizeof(length)) < 0)
			return -EFAULT;
		i++;
	}
	return i > 0 ? (long)i : rc;
}

long vectors_do(long nr, const long a[6], run_mask mask)
{
	if (nr == SYS_sendmsg || nr == SYS_recvmsg)
		return do_message(nr, a[0], (uintptr_t)a[1], a[2], mask);
	if (nr == SYS_sendmmsg || nr == SYS_recvmmsg)
		return do_messages(a, nr == SYS_recvmmsg, mask);
	if (nr == SYS_vmsplice &&
	    (direct_call(SYS_fcntl, a[0], F_GETFL, 0, 0, 0, 0) & O_ACCMODE) == O_RDONLY)
		return do_vector(&unsplice, a, mask);
	if (is_within(nr, a))
		return do_within(find_call(nr), a);
	return do_vector(find_call(nr), a, mask);
}
