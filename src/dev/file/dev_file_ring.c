/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Engine "uring": a channel is one io_uring.
 *
 * A channel may move from thread to thread, even with requests in flight, so the ring is not
 * bound to one (no SINGLE_ISSUER, no DEFER_TASKRUN, no registered ring descriptor).
 *
 * What could not be handed to the kernel at once, because it was short of memory, stays queued
 * in the ring or in the channel's `again` list; each call tries again. So submit takes all
 * requests that it is given, and errors come out of reap.
 *
 * The ring's own descriptor is readable exactly while the ring holds an answer, but it knows
 * nothing of requests that were completed without the ring (transfers inside submit, refusals,
 * flushes that shared a call) and of those that wait in `again`. For fth_dev_chan_fd() there is an
 * eventfd for these, and an epoll set that joins the two. Only the channel's thread changes the
 * eventfd, at the end of submit and reap, so its state is exact. A registered eventfd, which the
 * kernel signals for each answer, would be one descriptor less, but the kernel signals it after the
 * answer can be seen: a reap that was quick would leave it readable with nothing in flight.
 */
#include "dev/file/dev_file.h"
#include "dev/lock.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/hd/atomic.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES_MAX 4096 /* of a submission ring; a larger batch takes more system calls */
#define FREED_NS    2000000000u

/* ---- opening and closing ---- */

/*
 * Rings are mapped and unmapped by liburing with system calls of its own, so ThreadSanitizer does
 * not see that a new ring is new memory and no longer the closed ring of another thread. Under
 * one lock, it sees the order in which they lived.
 */
static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER;

/* A thread that had the mutex during fork() is not in the child. */
static void rings_forked(void)
{
	pthread_mutex_init(&life_lock, NULL);
}

__attribute__((constructor)) static void rings_watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, rings_forked);
}

/* Not 0 to 2 even if the program closed one of these while the ring was made. */
static int ring_fd_high(struct io_uring *ring)
{
	int fd;

	if (ring->ring_fd >= FTH_FD_MIN)
		return 0;
	fd = fth_fd_high(ring->ring_fd);
	ring->ring_fd = fd;
	ring->enter_ring_fd = fd;
	if (fd < 0)
		io_uring_queue_exit(ring);
	return fd < 0 ? fd : 0;
}

static int ring_init(struct io_uring *ring, unsigned entries, struct io_uring_params *params)
{
	int rc;

	pthread_mutex_lock(&life_lock);
	fth_fd_reserve();
	rc = io_uring_queue_init_params(entries, ring, params);
	if (rc == 0)
		rc = ring_fd_high(ring);
	fth_fd_release();
	pthread_mutex_unlock(&life_lock);
	return rc;
}

static void ring_exit(struct io_uring *ring)
{
	pthread_mutex_lock(&life_lock);
	io_uring_queue_exit(ring);
	pthread_mutex_unlock(&life_lock);
}

/*
 * COOP_TASKRUN: the kernel does not interrupt this thread when a request completes, and handles
 * it when the thread comes by. TASKRUN_FLAG: and a poll sees that it should come by.
 * SUBMIT_ALL: an entry that is refused gets its answer, and those after it go on. Kernels before
 * 5.19 have none or only some of these, and need none.
 */
static int setup(struct io_uring *ring, unsigned depth)
{
	unsigned entries = depth < ENTRIES_MAX ? depth : ENTRIES_MAX;
	struct io_uring_params params = {
		.flags = IORING_SETUP_CQSIZE | IORING_SETUP_COOP_TASKRUN |
			 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
		.cq_entries = depth,
	};
	int rc = ring_init(ring, entries, &params);

	if (rc != -EINVAL)
		return rc;
	memset(&params, 0, sizeof(params));
	params.flags = IORING_SETUP_CQSIZE;
	params.cq_entries = depth;
	return ring_init(ring, entries, &params);
}

/*
 * The memory of rings counts towards the user's RLIMIT_MEMLOCK, and the kernel returns that of a
 * closed ring some time after its descriptor was closed. Where memory is short, this waits for
 * rings of before.
 */
static int setup_when_freed(struct io_uring *ring, unsigned depth)
{
	uint64_t deadline = fth_deadline_ns(FREED_NS);
	struct timespec nap = {.tv_nsec = 5000000};
	int rc;

	while ((rc = setup(ring, depth)) == -ENOMEM && fth_now_ns() < deadline)
		nanosleep(&nap, NULL);
	return rc;
}

static int explain(int rc)
{
	switch (rc) {
	case -ENOSYS:
		return fth_fail(ENOSYS,
				"this kernel does not support io_uring: use engine=threads");
	case -EPERM:
	case -EACCES:
		return fth_fail(-rc, "io_uring is disabled by sysctl kernel.io_uring_disabled or a "
				     "container's seccomp filter: use engine=threads");
	case -ENOMEM:
		return fth_fail(
			ENOMEM,
			"no memory for an io_uring: raise RLIMIT_MEMLOCK or use engine=threads");
	default:
		return fth_fail(-rc, "io_uring: %s", strerror(-rc));
	}
}

/* EXT_ARG (Linux 5.11): a wait with a deadline that needs no request of its own. */
static int check_features(const struct io_uring *ring)
{
	if (ring->features & IORING_FEAT_EXT_ARG)
		return 0;
	return fth_fail(ENOSYS,
			"this kernel's io_uring is older than Linux 5.11: use engine=threads");
}

static int ring_probe(void)
{
	struct io_uring ring;
	int rc = setup(&ring, 1);

	if (rc < 0)
		return explain(rc);
	rc = check_features(&ring);
	ring_exit(&ring);
	return rc;
}

/*
 * Register the file, for speed, and the lock of the file, which then outlives a process that is
 * killed until its requests have ended (dev/lock.h). Both are optional.
 */
static void register_files(struct chan_ring *chan, bool fixed)
{
	int files[] = {fixed ? chan->file.fd : -1, fth_dev_lock_of(chan->file.fd)};
	unsigned n = files[1] >= 0 ? 2 : 1;

	if ((fixed || n == 2) && io_uring_register_files(&chan->ring, files, n) == 0) {
		chan->has_file_slot = fixed;
		chan->has_files = true;
	}
	if (files[1] >= 0)
		close(files[1]);
}

static int ring_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	struct dev_file *file = (struct dev_file *)dev;
	struct chan_ring *chan = calloc(1, sizeof(*chan));
	int rc;

	if (!chan)
		return -ENOMEM;
	rc = setup_when_freed(&chan->ring, depth);
	if (rc < 0) {
		free(chan);
		return explain(rc);
	}
	chan->wait_fd = -1;
	chan->more = (struct fth_wake)FTH_WAKE_NONE;
	chan_file_init(&chan->file, file);
	register_files(chan, file->fixed);
	chan_ring_map_init(chan);
	*out = &chan->file.chan;
	return 0;
}

static void close_wait_fds(struct chan_ring *chan)
{
	fth_wake_close(&chan->more);
	if (chan->wait_fd >= 0)
		close(chan->wait_fd);
	chan->wait_fd = -1;
}

static void ring_chan_close(struct fth_dev_chan *base)
{
	struct chan_ring *chan = (struct chan_ring *)base;

	close_wait_fds(chan);
	/*
	 * At once, since the kernel takes a ring apart later; it would wait for requests under way.
	 */
	if (chan->has_files && !chan->file.with_kernel)
		(void)io_uring_unregister_files(&chan->ring);
	ring_exit(&chan->ring);
	chan_file_release(&chan->file);
	free(chan);
}

/* ---- a descriptor to wait for ---- */

/* Called when submit and reap are about to return. */
static void update_wait(struct chan_ring *chan)
{
	if (chan->wait_fd >= 0)
		fth_wake_set(&chan->more, chan->file.done.first || chan->file.again.first ||
						  io_uring_sq_ready(&chan->ring) > 0);
}

static int open_wait_fds(struct chan_ring *chan)
{
	int rc = fth_wake_open(&chan->more);

	if (rc < 0)
		return rc;
	chan->wait_fd = fth_wake_set_new();
	if (chan->wait_fd < 0)
		return chan->wait_fd;
	rc = fth_wake_set_add(chan->wait_fd, chan->ring.ring_fd);
	return rc < 0 ? rc : fth_wake_set_add(chan->wait_fd, chan->more.fd);
}

static int ring_chan_fd(struct fth_dev_chan *base)
{
	struct chan_ring *chan = (struct chan_ring *)base;
	int rc;

	if (chan->wait_fd >= 0)
		return chan->wait_fd;
	rc = open_wait_fds(chan);
	if (rc < 0) {
		close_wait_fds(chan);
		return rc;
	}
	update_wait(chan);
	return chan->wait_fd;
}

/* ---- a request as an entry of the ring ---- */

static void prepare_piece(struct chan_ring *chan, struct io_uring_sqe *sqe, bool write,
			  struct iovec piece, uint64_t offset)
{
	int slot = chan_ring_map_slot(chan, piece.iov_base, piece.iov_len);
	unsigned len = (unsigned)piece.iov_len;

	if (slot >= 0) {
		io_uring_prep_rw(write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED, sqe, -1,
				 piece.iov_base, len, offset);
		sqe->buf_index = (__u16)slot;
	} else {
		io_uring_prep_rw(write ? IORING_OP_WRITE : IORING_OP_READ, sqe, -1, piece.iov_base,
				 len, offset);
	}
}

static void prepare_transfer(struct chan_ring *chan, struct io_uring_sqe *sqe,
			     struct fth_dev_req *req)
{
	bool write = req->op == FTH_DEV_WRITE;
	uint64_t done = req->scratch[0];

	if (req->iov_count == 1 || done > 0)
		prepare_piece(chan, sqe, write, dev_file_req_rest(req), req->offset + done);
	else
		io_uring_prep_rw(write ? IORING_OP_WRITEV : IORING_OP_READV, sqe, -1, req->iov,
				 req->iov_count, req->offset);
	if (req->flags & FTH_DEV_FUA)
		sqe->rw_flags = RWF_DSYNC;
}

static void prepare_fallocate(struct io_uring_sqe *sqe, const struct fth_dev_req *req, int mode)
{
	io_uring_prep_fallocate(sqe, -1, mode | FALLOC_FL_KEEP_SIZE, (off_t)req->offset,
				(off_t)req->length);
}

static void prepare_zero(struct chan_ring *chan, struct io_uring_sqe *sqe, struct fth_dev_req *req)
{
	struct dev_file *file = chan_file_dev(&chan->file);
	uint64_t left = req->length - req->scratch[0];

	/* relaxed: an old value costs one more attempt. */
	req->scratch[1] = fth_load_relaxed_dev32(&file->zero_way);
	if (req->scratch[1] == FILE_ZERO_RANGE)
		prepare_fallocate(sqe, req, FALLOC_FL_ZERO_RANGE);
	else if (req->scratch[1] == FILE_ZERO_PUNCH)
		prepare_fallocate(sqe, req, FALLOC_FL_PUNCH_HOLE);
	else
		io_uring_prep_rw(IORING_OP_WRITE, sqe, -1, file->zeroes,
				 left < FILE_ZEROES_BYTES ? (unsigned)left : FILE_ZEROES_BYTES,
				 req->offset + req->scratch[0]);
}

void chan_ring_prepare(struct chan_ring *chan, struct io_uring_sqe *sqe, struct fth_dev_req *req)
{
	switch (req->op) {
	case FTH_DEV_READ:
	case FTH_DEV_WRITE:
		prepare_transfer(chan, sqe, req);
		break;
	case FTH_DEV_FLUSH:
		io_uring_prep_fsync(sqe, -1, IORING_FSYNC_DATASYNC);
		break;
	case FTH_DEV_DISCARD:
		prepare_fallocate(sqe, req, FALLOC_FL_PUNCH_HOLE);
		break;
	default:
		prepare_zero(chan, sqe, req);
		break;
	}
	if (chan->has_file_slot) {
		sqe->fd = 0;
		sqe->flags = IOSQE_FIXED_FILE;
	} else {
		sqe->fd = chan->file.fd;
	}
	sqe->user_data = (uint64_t)(uintptr_t)req;
}

/* ---- submitting ---- */

/* Hand what is queued to the kernel; what it does not take stays queued. */
static void push(struct chan_ring *chan)
{
	struct io_uring_sqe *sqe;
	int rc = 1;

	while (chan->file.again.first && (sqe = io_uring_get_sqe(&chan->ring)))
		chan_ring_prepare(chan, sqe, file_list_pop(&chan->file.again));
	while ((rc > 0 || rc == -EINTR) && io_uring_sq_ready(&chan->ring) > 0)
		rc = io_uring_submit(&chan->ring);
}

static struct io_uring_sqe *next_entry(struct chan_ring *chan)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&chan->ring);

	if (sqe)
		return sqe;
	push(chan);
	return io_uring_get_sqe(&chan->ring);
}

static void start(struct chan_ring *chan, struct fth_dev_req *req)
{
	struct io_uring_sqe *sqe;

	if (!chan_file_begin(&chan->file, req))
		return;
	sqe = next_entry(chan);
	if (sqe)
		chan_ring_prepare(chan, sqe, req);
	else
		file_list_push(&chan->file.again, req);
}

static int ring_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct chan_ring *chan = (struct chan_ring *)base;

	chan_ring_map_sync(chan);
	chan->file.batch = n > 1;
	for (unsigned i = 0; i < n; i++)
		start(chan, reqs[i]);
	push(chan);
	update_wait(chan);
	return (int)n;
}

/* ---- reaping ---- */

/* Look at the answers that are there; those that leave something to do go round again. */
static unsigned take_answers(struct chan_ring *chan, struct fth_dev_req **done, unsigned max)
{
	struct dev_file *file = chan_file_dev(&chan->file);
	unsigned head, seen = 0, n = 0;
	struct io_uring_cqe *cqe;

	io_uring_for_each_cqe(&chan->ring, head, cqe)
	{
		struct fth_dev_req *req = (struct fth_dev_req *)(uintptr_t)cqe->user_data;

		if (n == max)
			break;
		seen++;
		if (!dev_file_req_answer(file, req, cqe->res)) {
			file_list_push(&chan->file.again, req);
			continue;
		}
		done[n++] = req;
		chan_file_end(&chan->file, req);
	}
	io_uring_cq_advance(&chan->ring, seen);
	return n;
}

static unsigned take(struct chan_ring *chan, struct fth_dev_req **done, unsigned max)
{
	unsigned n = take_answers(chan, done, max);

	n += chan_file_take_done(&chan->file, done + n, max - n);
	if (chan->file.again.first || io_uring_sq_ready(&chan->ring) > 0)
		push(chan);
	return n;
}

/* Let the kernel turn finished work into answers, if it says that it has some. */
static void poll_kernel(struct chan_ring *chan)
{
	unsigned flags = IO_URING_READ_ONCE(*chan->ring.sq.kflags);

	if (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))
		(void)io_uring_get_events(&chan->ring);
}

/* Wait for that many answers or until the deadline. 0, or an error that no retry mends. */
static int wait_answers(struct chan_ring *chan, unsigned count, uint64_t deadline, uint64_t now)
{
	struct __kernel_timespec left, *timeout = NULL;
	struct io_uring_cqe *cqe;
	int rc;

	if (deadline != FTH_NEVER) {
		left.tv_sec = (long long)((deadline - now) / 1000000000u);
		left.tv_nsec = (long long)((deadline - now) % 1000000000u);
		timeout = &left;
	}
	rc = io_uring_submit_and_wait_timeout(&chan->ring, &cqe, count, timeout, NULL);
	if (rc >= 0 || rc == -ETIME || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY)
		return 0;
	return fth_fail(-rc, "waiting for io_uring: %s", strerror(-rc));
}

static int ring_reap(struct fth_dev_chan *base, struct fth_dev_req **done, unsigned max,
		     unsigned min, uint64_t deadline)
{
	struct chan_ring *chan = (struct chan_ring *)base;
	unsigned n = take(chan, done, max);
	int rc = 0;

	if (n == 0 && (min == 0 || deadline == 0)) {
		poll_kernel(chan);
		n = take(chan, done, max);
	}
	while (n < min && deadline != 0 && rc == 0) {
		uint64_t now = deadline == FTH_NEVER ? 0 : fth_now_ns();

		if (now >= deadline)
			break;
		/* A parked flush brings no answer of its own. */
		rc = wait_answers(chan, chan->file.flush.parked ? 1 : min - n, deadline, now);
		n += take(chan, done + n, max - n);
	}
	update_wait(chan);
	return n == 0 && rc < 0 ? rc : (int)n;
}

const struct file_engine dev_file_uring = {
	.name = "uring",
	.probe = ring_probe,
	.ops =
		{
			.close = dev_file_close,
			.chan_open = ring_chan_open,
			.chan_close = ring_chan_close,
			.submit = ring_submit,
			.reap = ring_reap,
			.chan_fd = ring_chan_fd,
			.flush_forgive = dev_file_flush_forgive,
			.window_open = dev_file_window_open,
			.map = dev_file_map,
			.unmap = dev_file_unmap,
		},
};
