/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls whose buffers are in the region. Their pages are moved to DRAM and held there during the call. A long buffer
 * is done in parts of run.chunk bytes, as far as the call allows it: a read or write that is shorter than asked for is
 * made longer by another call only where the kernel would not have stopped either.
 *
 * A handler of the program may interrupt a call that blocks, and leave it by longjmp(). Then the holds of the call are still noted
 * in the thread, with the stack pointer at which they were taken; the next call finds and releases them.
 */
#include "flat/preload/run.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "flat/preload/heap.h"

#include "fathom/flat.h"
#include "fathom/hd/wait.h"

#define HOLDS	     40 /* ranges of a call */
#define NESTED	     4	/* calls of a thread, each interrupted by a handler that makes the next */
#define ANY_BYTES    4096u /* what a pointer points to, if nothing else is known */
#define VECTORS	     32	   /* parts of a vector that are done at once */
#define HOLD_WAIT_NS UINT64_C(10000000000)
#define FUTEX_TRIES  1000

struct hold {
	uintptr_t at;
	uint64_t length;
};

struct record {
	uintptr_t sp;
	unsigned n;
	struct hold holds[HOLDS];
};

static __thread struct {
	unsigned depth;
	struct record records[NESTED];
} held __attribute__((tls_model("initial-exec")));

/* ---- the program's memory, which may be wrong ---- */

static long copy_self(long nr, void *ours, uintptr_t theirs, size_t length)
{
	struct iovec local = {ours, length}, remote = {(void *)theirs, length};

	return gate_call(nr, getpid(), (long)(uintptr_t)&local, 1, (long)(uintptr_t)&remote, 1, 0);
}

int calls_get(void *to, uintptr_t from, size_t length)
{
	long rc;

	if (!run_touches(from, length)) {
		rc = copy_self(SYS_process_vm_readv, to, from, length);
		if (rc != -ENOSYS && rc != -EPERM)
			return rc == (long)length ? 0 : -EFAULT;
	}
	memcpy(to, (const void *)from, length);
	return 0;
}

int calls_put(uintptr_t to, const void *from, size_t length)
{
	long rc;

	if (!run_touches(to, length)) {
		rc = copy_self(SYS_process_vm_writev, (void *)from, to, length);
		if (rc != -ENOSYS && rc != -EPERM)
			return rc == (long)length ? 0 : -EFAULT;
	}
	memcpy((void *)to, from, length);
	return 0;
}

/* ---- holds ---- */

static void release_record(struct record *record)
{
	while (record->n > 0) {
		const struct hold *hold = &record->holds[--record->n];

		fth_flat_release(run.flat, (void *)hold->at, hold->length);
	}
}

/* A call whose frame is not below this one on its stack is over. */
static bool is_abandoned(const struct record *record, uintptr_t sp)
{
	bool now = signals_on_stack(sp), then = signals_on_stack(record->sp);

	return now == then ? record->sp <= sp : then;
}

/* A thread that was cancelled in a call, or left it, ends. */
static pthread_key_t end_key;

static void end_thread(void *unused)
{
	struct run_before before = run_enter();

	(void)unused;
	while (held.depth > 0)
		release_record(&held.records[--held.depth]);
	run_leave(before);
}

int calls_open(void)
{
	return -pthread_key_create(&end_key, end_thread);
}

static struct record *begin_record(void)
{
	uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
	struct record *record;

	if (!pthread_getspecific(end_key))
		(void)pthread_setspecific(end_key, &held); /* an early key: it needs no memory */

	while (held.depth > 0 && is_abandoned(&held.records[held.depth - 1], sp))
		release_record(&held.records[--held.depth]);
	if (held.depth == NESTED)
		return NULL;
	record = &held.records[held.depth++];
	record->sp = sp;
	record->n = 0;
	return record;
}

static void end_record(struct record *record)
{
	release_record(record);
	held.depth = (unsigned)(record - held.records);
}

/* Other threads hold all that may be held: wait for them. */
static int hold_patiently(uintptr_t at, uint64_t length, bool write)
{
	uint64_t deadline = fth_deadline_ns(HOLD_WAIT_NS);
	struct fth_backoff backoff = {0};
	int rc;

	for (;;) {
		rc = fth_flat_hold(run.flat, (void *)at, length, write);
		if ((rc != -ENOMEM && rc != -EBUSY) || fth_now_ns() >= deadline)
			return rc;
		fth_backoff_pause(&backoff);
	}
}

/* Hold what of [at, at + length) is in the region. Returns 0 or -EFAULT, as the kernel for memory that it cannot get. */
static int hold(struct record *record, uintptr_t at, uint64_t length, bool write)
{
	uintptr_t end = length > run.end - at ? run.end : at + length;
	uint64_t page, last;

	if (!run_touches(at, length))
		return 0;
	if (at < run.start)
		at = run.start;
	page = (at - run.start) / run.page;
	last = (end - run.start + run.page - 1) / run.page;
	while (page < last) {
		uint64_t from = heap_foreign(page, last, false),
			 to = heap_foreign(from, last, true);
		struct hold one = {run.start + from * run.page, (to - from) * run.page};

		if (from == to)
			break;
		if (record->n == HOLDS || hold_patiently(one.at, one.length, write) < 0)
			return -EFAULT;
		record->holds[record->n++] = one;
		page = to;
	}
	return 0;
}

/* The call, as the program would make it. */
static long kernel_call(long nr, const long a[6], run_mask mask)
{
	long rc;

	gate_selector = GATE_BLOCK;
	(void)run_set_mask(mask);
	rc = gate_call(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	(void)run_set_mask(~RUN_FAULTS);
	gate_selector = GATE_ALLOW;
	return rc;
}

/* ---- calls with a buffer and its length ---- */

enum more {
	NEVER,	  /* less than asked for is as good */
	ALWAYS,	  /* until all is done */
	IN_FILES, /* regular files: all that is there is read at once */
	IF_ASKED, /* MSG_WAITALL */
};

static const struct buffer_call {
	short nr;
	signed char buffer, length; /* arguments */
	unsigned char unit;	    /* bytes that `length` counts */
	bool writes;		    /* to the buffer */
	enum more more;
	signed char offset; /* argument that advances; -1: none */
} buffer_calls[] = {
	{SYS_read, 1, 2, 1, true, IN_FILES, -1},
	{SYS_write, 1, 2, 1, false, ALWAYS, -1},
	{SYS_pread64, 1, 2, 1, true, IN_FILES, 3},
	{SYS_pwrite64, 1, 2, 1, false, ALWAYS, 3},
	{SYS_recvfrom, 1, 2, 1, true, IF_ASKED, -1},
	{SYS_sendto, 1, 2, 1, false, ALWAYS, -1},
	{SYS_getrandom, 0, 1, 1, true, ALWAYS, -1},
	{SYS_getdents64, 1, 2, 1, true, NEVER, -1},
	{SYS_getdents, 1, 2, 1, true, NEVER, -1},
	{SYS_getcwd, 0, 1, 1, true, NEVER, -1},
	{SYS_readlink, 1, 2, 1, true, NEVER, -1},
	{SYS_readlinkat, 2, 3, 1, true, NEVER, -1},
	{SYS_epoll_wait, 1, 2, sizeof(struct epoll_event), true, NEVER, -1},
	{SYS_epoll_pwait, 1, 2, sizeof(struct epoll_event), true, NEVER, -1},
	{SYS_poll, 0, 1, sizeof(struct pollfd), true, NEVER, -1},
	{SYS_ppoll, 0, 1, sizeof(struct pollfd), true, NEVER, -1},
	{SYS_getgroups, 1, 0, 4, true, NEVER, -1},
	{SYS_setgroups, 1, 0, 4, false, NEVER, -1},
	{SYS_getxattr, 2, 3, 1, true, NEVER, -1},
	{SYS_lgetxattr, 2, 3, 1, true, NEVER, -1},
	{SYS_fgetxattr, 2, 3, 1, true, NEVER, -1},
	{SYS_setxattr, 2, 3, 1, false, NEVER, -1},
	{SYS_lsetxattr, 2, 3, 1, false, NEVER, -1},
	{SYS_fsetxattr, 2, 3, 1, false, NEVER, -1},
	{SYS_listxattr, 1, 2, 1, true, NEVER, -1},
	{SYS_llistxattr, 1, 2, 1, true, NEVER, -1},
	{SYS_flistxattr, 1, 2, 1, true, NEVER, -1},
	{SYS_setsockopt, 3, 4, 1, false, NEVER, -1},
	{SYS_msgsnd, 1, 2, 1, false, NEVER, -1},
	{SYS_msgrcv, 1, 2, 1, true, NEVER, -1},
	{SYS_mq_timedsend, 1, 2, 1, false, NEVER, -1},
	{SYS_mq_timedreceive, 1, 2, 1, true, NEVER, -1},
};

static const struct buffer_call *find_buffer_call(long nr)
{
	for (unsigned i = 0; i < sizeof(buffer_calls) / sizeof(buffer_calls[0]); i++)
		if (buffer_calls[i].nr == nr)
			return &buffer_calls[i];
	return NULL;
}

static bool is_regular(long fd)
{
	struct stat st;

	return gate_call(SYS_fstat, fd, (long)(uintptr_t)&st, 0, 0, 0, 0) == 0 &&
	       S_ISREG(st.st_mode);
}

static bool goes_on(enum more more, const long a[6], bool socket)
{
	return more == ALWAYS || (more == IN_FILES && is_regular(a[0])) ||
	       (more == IF_ASKED && socket && (a[3] & MSG_WAITALL));
}

/* Pointers beside the buffer: addresses, times, masks. */
static int hold_others(struct record *record, const long a[6], int but)
{
	int rc = 0;

	for (int i = 0; i < 6 && rc == 0; i++)
		if (i != but && run_touches((uintptr_t)a[i], 1))
			rc = hold(record, (uintptr_t)a[i], ANY_BYTES, true);
	return rc;
}

static long do_buffer(const struct buffer_call *call, const long a[6], run_mask mask)
{
	uint64_t total = (uint64_t)a[call->length], done = 0, most = run.chunk / call->unit, part;
	long b[6], rc;

	memcpy(b, a, sizeof(b));
	do {
		struct record *record = begin_record();

		part = total - done < most || call->unit > 1 ? total - done : most;
		b[call->buffer] = a[call->buffer] + (long)done;
		b[call->length] = (long)part;
		if (call->offset >= 0)
			b[call->offset] = a[call->offset] + (long)done;
		rc = record ? hold_others(record, a, call->buffer) : -EFAULT;
		if (rc == 0)
			rc = hold(record, (uintptr_t)b[call->buffer], part * call->unit,
				  call->writes);
		if (rc == 0)
			rc = kernel_call(call->nr, b, mask);
		if (record)
			end_record(record);
		if (rc <= 0)
			break;
		done += (uint64_t)rc;
	} while (done < total && (uint64_t)rc == part &&
		 goes_on(call->more, a, call->nr == SYS_recvfrom));
	return done ? (long)done : rc;
}

/* ---- vectors ---- */

static const struct vector_call {
	short nr;
	bool writes;
	enum more more;
	signed char offset;
} vector_calls[] = {
	{SYS_readv, true, IN_FILES, -1},	   {SYS_writev, false, ALWAYS, -1},
	{SYS_preadv, true, IN_FILES, 3},	   {SYS_pwritev, false, ALWAYS, 3},
	{SYS_preadv2, true, IN_FILES, 3},	   {SYS_pwritev2, false, ALWAYS, 3},
	{SYS_vmsplice, false, ALWAYS, -1},	   {SYS_process_vm_readv, true, NEVER, -1},
	{SYS_process_vm_writev, false, NEVER, -1},
};

static const struct vector_call *find_vector_call(long nr)
{
	for (unsigned i = 0; i < sizeof(vector_calls) / sizeof(vector_calls[0]); i++)
		if (vector_calls[i].nr == nr)
			return &vector_calls[i];
	return NULL;
}

static bool vector_touches(uintptr_t vector, unsigned long n)
{
	struct iovec one;

	if (n > IOV_MAX)
		return false; /* the kernel refuses it */
	if (run_touches(vector, n * sizeof(one)))
		return true;
	for (unsigned long i = 0; i < n; i++)
		if (calls_get(&one, vector + i * sizeof(one), sizeof(one)) == 0 &&
		    run_touches((uintptr_t)one.iov_base, one.iov_len))
			return true;
	return false;
}

/* A copy of up to VECTORS parts from byte `skip` on, run.chunk bytes at most. Sets *bytes. */
static int take_vectors(uintptr_t vector, unsigned long n, uint64_t skip, struct iovec out[VECTORS],
			unsigned *count, uint64_t *bytes)
{
	struct iovec one;

	*count = 0;
	*bytes = 0;
	for (unsigned long i = 0; i < n && *count < VECTORS && *bytes < run.chunk; i++) {
		if (calls_get(&one, vector + i * sizeof(one), sizeof(one)) < 0)
			return -EFAULT;
		if (skip >= one.iov_len) {
			skip -= one.iov_len;
			continue;
		}
		one.iov_base = (char *)one.iov_base + skip;
		one.iov_len -= skip;
		skip = 0;
		if (one.iov_len > run.chunk - *bytes)
			one.iov_len = run.chunk - *bytes;
		out[(*count)++] = one;
		*bytes += one.iov_len;
	}
	return 0;
}

static int hold_vectors(struct record *record, const struct iovec *vectors, unsigned n, bool write)
{
	int rc = 0;

	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = hold(record, (uintptr_t)vectors[i].iov_base, vectors[i].iov_len, write);
	return rc;
}

static long do_vector(const struct vector_call *call, const long a[6], run_mask mask)
{
	struct iovec vectors[VECTORS];
	uint64_t done = 0, part;
	long b[6], rc;

	if ((unsigned long)a[2] > IOV_MAX)
		return -EINVAL;
	memcpy(b, a, sizeof(b));
	b[1] = (long)(uintptr_t)vectors;
	do {
		struct record *record = begin_record();
		unsigned count;

		rc = record ? take_vectors((uintptr_t)a[1], (unsigned long)a[2], done, vectors,
					   &count, &part)
			    : -EFAULT;
		if (rc == 0)
			rc = hold_vectors(record, vectors, count, call->writes);
		if (rc == 0) {
			b[2] = count;
			if (call->offset >= 0 && a[call->offset] >= 0)
				b[call->offset] = a[call->offset] + (long)done;
			rc = kernel_call(call->nr, b, mask);
		}
		if (record)
			end_record(record);
		if (rc <= 0)
			break;
		done += (uint64_t)rc;
	} while ((uint64_t)rc == part && goes_on(call->more, a, false));
	return done ? (long)done : rc;
}

/* ---- messages ---- */

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

/* One part: a stream takes the rest by another call, and a datagram is never longer than that. */
static long do_message(long nr, long fd, uintptr_t at, long flags, run_mask mask)
{
	bool receives = nr == SYS_recvmsg;
	struct iovec vectors[VECTORS];
	struct record *record;
	struct msghdr m, local;
	unsigned count;
	uint64_t bytes;
	long rc = calls_get(&m, at, sizeof(m));

	if (rc == 0)
		rc = m.msg_iovlen > IOV_MAX ? -EMSGSIZE
					    : take_vectors((uintptr_t)m.msg_iov, m.msg_iovlen, 0,
							   vectors, &count, &bytes);
	if (rc < 0)
		return rc;
	local = m;
	local.msg_iov = vectors;
	local.msg_iovlen = count;
	record = begin_record();
	if (!record)
		return -EFAULT;
	rc = hold_vectors(record, vectors, count, receives);
	if (rc == 0)
		rc = hold(record, (uintptr_t)m.msg_name, m.msg_namelen, receives);
	if (rc == 0)
		rc = hold(record, (uintptr_t)m.msg_control, m.msg_controllen, receives);
	if (rc == 0) {
		long a[6] = {fd, (long)(uintptr_t)&local, flags};

		rc = kernel_call(nr, a, mask);
	}
	end_record(record);
	if (rc >= 0 && receives) {
		m.msg_namelen = local.msg_namelen;
		m.msg_controllen = local.msg_controllen;
		m.msg_flags = local.msg_flags;
		if (calls_put(at, &m, sizeof(m)) < 0)
			rc = -EFAULT;
	}
	return rc;
}

static bool messages_touch(uintptr_t at, unsigned n)
{
	for (unsigned i = 0; i < n && i < IOV_MAX; i++)
		if (message_touches(at + i * sizeof(struct mmsghdr)))
			return true;
	return false;
}

static long do_messages(const long a[6], bool receives, run_mask mask)
{
	unsigned n = (unsigned)a[2] < IOV_MAX ? (unsigned)a[2] : IOV_MAX;
	long flags = a[3] & ~(long)MSG_WAITFORONE, rc = 0;

	for (unsigned i = 0; i < n; i++) {
		uintptr_t at = (uintptr_t)a[1] + i * sizeof(struct mmsghdr);
		unsigned length;

		if (i > 0 && receives && (a[3] & MSG_WAITFORONE))
			flags |= MSG_DONTWAIT;
		rc = do_message(receives ? SYS_recvmsg : SYS_sendmsg, a[0], at, flags, mask);
		if (rc < 0)
			return i > 0 ? (long)i : rc;
		length = (unsigned)rc;
		if (calls_put(at + offsetof(struct mmsghdr, msg_len), &length, sizeof(length)) < 0)
			return -EFAULT;
	}
	return n;
}

/* ---- futexes ---- */

/*
 * A thread may sleep long, and more threads than a page can be held for may sleep at one page. The kernel looks at the word before
 * it does anything else, and says EFAULT if it is not there: the page is brought in until it has seen it.
 */
static long do_futex(const long a[6], run_mask mask)
{
	long rc = -EFAULT;

	for (unsigned try = 0; try < FUTEX_TRIES && rc == -EFAULT; try++) {
		struct record *record = begin_record();

		if (!record || hold_others(record, a, -1) < 0)
			try = FUTEX_TRIES;
		if (record)
			end_record(record);
		rc = kernel_call(SYS_futex, a, mask);
	}
	return rc;
}

/* ---- exec: its strings are copied, however many there are ---- */

struct strings {
	char *at, *end; /* NULL: only count */
	size_t bytes;
};

static uintptr_t keep_string(struct strings *s, uintptr_t from)
{
	size_t length;
	char *to = s->at;

	if (!run_touches(from, 1))
		return from;
	length = strlen((const char *)from) + 1;
	s->bytes += length;
	if (!to || length > (size_t)(s->end - to))
		return from;
	memcpy(to, (const char *)from, length);
	s->at += length;
	return (uintptr_t)to;
}

/* The copy of a vector of strings, ended by NULL. */
static uintptr_t keep_strings(struct strings *s, uintptr_t from)
{
	uintptr_t *to, one = 1;
	size_t n = 0;

	if (!from)
		return 0;
	while (one && calls_get(&one, from + n * sizeof(one), sizeof(one)) == 0)
		n++;
	to = (uintptr_t *)s->at;
	s->bytes += (n + 1) * sizeof(one);
	if (to && n * sizeof(one) <= (size_t)(s->end - s->at))
		s->at += n * sizeof(one);
	else
		to = NULL;
	for (size_t i = 0; i < n; i++) {
		if (calls_get(&one, from + i * sizeof(one), sizeof(one)) < 0)
			return from;
		one = keep_string(s, one);
		if (to)
			to[i] = one;
	}
	return to ? (uintptr_t)to : from;
}

static void keep_exec(struct strings *s, long b[6], unsigned path)
{
	b[path + 1] = (long)keep_strings(s, (uintptr_t)b[path + 1]);
	b[path + 2] = (long)keep_strings(s, (uintptr_t)b[path + 2]);
	b[path] = (long)keep_string(s, (uintptr_t)b[path]);
}

static bool exec_touches(const long a[6], unsigned path)
{
	if (run_touches((uintptr_t)a[path], 1))
		return true;
	for (unsigned v = path + 1; v <= path + 2; v++)
		for (uintptr_t at = (uintptr_t)a[v], one = 1; at && one; at += sizeof(one))
			if (run_touches(at, sizeof(one)) || calls_get(&one, at, sizeof(one)) < 0 ||
			    run_touches(one, 1))
				return true;
	return false;
}

static long do_exec(long nr, const long a[6], run_mask mask)
{
	unsigned path = nr == SYS_execveat;
	struct strings s = {0};
	long b[6], rc;
	size_t size;

	memcpy(b, a, sizeof(b));
	keep_exec(&s, b, path);
	size = (s.bytes + 4096) & ~(size_t)4095;
	s.at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s.at == MAP_FAILED)
		return -ENOMEM;
	s.end = s.at + size;
	memcpy(b, a, sizeof(b));
	keep_exec(&s, b, path);
	rc = kernel_call(nr, b, mask);
	munmap(s.end - size,
	       size); /* a child that borrows our memory and succeeds leaves it there */
	return rc;
}

/* ---- all ---- */

bool calls_touch(long nr, const long a[6])
{
	const struct buffer_call *buffer = find_buffer_call(nr);

	if (buffer &&
	    run_touches((uintptr_t)a[buffer->buffer], (uint64_t)a[buffer->length] * buffer->unit))
		return true;
	if (find_vector_call(nr))
		return vector_touches((uintptr_t)a[1], (unsigned long)a[2]);
	if (nr == SYS_sendmsg || nr == SYS_recvmsg)
		return message_touches((uintptr_t)a[1]);
	if (nr == SYS_sendmmsg || nr == SYS_recvmmsg)
		return messages_touch((uintptr_t)a[1], (unsigned)a[2]);
	if (nr == SYS_execve || nr == SYS_execveat)
		return exec_touches(a, nr == SYS_execveat);
	for (int i = 0; i < 6; i++)
		if (run_touches((uintptr_t)a[i], 1))
			return true;
	return false;
}

/* Nothing is known of the call: what its arguments point to is held, in case they are pointers. */
static long do_any(long nr, const long a[6], run_mask mask)
{
	struct record *record = begin_record();
	long rc = record ? hold_others(record, a, -1) : -EFAULT;

	if (rc == 0)
		rc = kernel_call(nr, a, mask);
	if (record)
		end_record(record);
	return rc;
}

long calls_do(long nr, const long a[6], run_mask mask)
{
	const struct buffer_call *buffer = find_buffer_call(nr);
	const struct vector_call *vector = find_vector_call(nr);

	run_count(RUN_HELD, 1);
	if (buffer)
		return do_buffer(buffer, a, mask);
	if (vector)
		return do_vector(vector, a, mask);
	if (nr == SYS_sendmsg || nr == SYS_recvmsg)
		return do_message(nr, a[0], (uintptr_t)a[1], a[2], mask);
	if (nr == SYS_sendmmsg || nr == SYS_recvmmsg)
		return do_messages(a, nr == SYS_recvmmsg, mask);
	if (nr == SYS_futex)
		return do_futex(a, mask);
	if (nr == SYS_execve || nr == SYS_execveat)
		return do_exec(nr, a, mask);
	return do_any(nr, a, mask);
}
