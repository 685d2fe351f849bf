/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine=threads with a kernel that the test controls: its system calls are wrapped (see
 * CMakeLists.txt), so that they can hang, fail and do less than they were asked for.
 */
#include "dev/file/dev_file_fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#define UNIT	   4096u
#define FILE_BYTES (64u * UNIT)
#define SOON	   fth_deadline_ns(20000000)
#define ORDER_MAX  256

/* ---- the kernel ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t hang_from, hang_to; /* transfers that begin here hang until let_go() */
	unsigned hanging;
	off_t order[ORDER_MAX]; /* offsets of the transfers that were begun */
	unsigned begun;
	int answers[4]; /* of the next transfers, in place of doing them; 0: none */
	size_t most;	/* bytes that one transfer moves */
	unsigned syncs;
	int sync_errno; /* of the next fdatasync */
	unsigned threads_allowed;
} kernel = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.most = SIZE_MAX,
	.threads_allowed = UINT32_MAX,
};

ssize_t __real_preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
ssize_t __real_pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
int __real_fdatasync(int fd);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);
ssize_t __wrap_pread(int fd, void *to, size_t len, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t offset);
ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
ssize_t __wrap_pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
int __wrap_fdatasync(int fd);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);

static void hang(off_t from, off_t to)
{
	pthread_mutex_lock(&kernel.lock);
	kernel.hang_from = (uint64_t)from;
	kernel.hang_to = (uint64_t)to;
	pthread_mutex_unlock(&kernel.lock);
}

static void let_go(void)
{
	hang(0, 0);
	pthread_cond_broadcast(&kernel.changed);
}

static void await_hanging(unsigned n)
{
	pthread_mutex_lock(&kernel.lock);
	while (kernel.hanging < n)
		pthread_cond_wait(&kernel.changed, &kernel.lock);
	pthread_mutex_unlock(&kernel.lock);
}

/* Note a transfer, and hang if it is to. Returns an answer to give in its place, or 0. */
static int enter(off_t offset)
{
	int answer;

	pthread_mutex_lock(&kernel.lock);
	answer = kernel.answers[0];
	if (kernel.begun < ORDER_MAX)
		kernel.order[kernel.begun++] = offset;
	memmove(kernel.answers, kernel.answers + 1, sizeof(kernel.answers) - sizeof(int));
	kernel.hanging++;
	pthread_cond_broadcast(&kernel.changed);
	while ((uint64_t)offset >= kernel.hang_from && (uint64_t)offset < kernel.hang_to)
		pthread_cond_wait(&kernel.changed, &kernel.lock);
	kernel.hanging--;
	pthread_mutex_unlock(&kernel.lock);
	return answer;
}

static ssize_t transfer(int fd, const struct iovec *iov, int count, off_t offset, bool write)
{
	struct iovec first = iov[0];
	int answer = enter(offset);

	if (answer < 0) {
		errno = -answer;
		return -1;
	}
	if (kernel.most < SIZE_MAX) {
		first.iov_len = first.iov_len < kernel.most ? first.iov_len : kernel.most;
		iov = &first;
		count = 1;
	}
	return write ? __real_pwritev2(fd, iov, count, offset, 0)
		     : __real_preadv2(fd, iov, count, offset, 0);
}

ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	if (flags & RWF_NOWAIT) {
		errno = EAGAIN;
		return -1;
	}
	return transfer(fd, iov, count, offset, false);
}

ssize_t __wrap_pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	(void)flags;
	return transfer(fd, iov, count, offset, true);
}

ssize_t __wrap_pread(int fd, void *to, size_t len, off_t offset)
{
	struct iovec iov = {.iov_base = to, .iov_len = len};

	return transfer(fd, &iov, 1, offset, false);
}

/* The cast is safe: a write only reads its buffer. */
ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t offset)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)from, .iov_len = len};

	return transfer(fd, &iov, 1, offset, true);
}

int __wrap_fdatasync(int fd)
{
	int err;

	enter(-1);
	pthread_mutex_lock(&kernel.lock);
	kernel.syncs++;
	err = kernel.sync_errno;
	kernel.sync_errno = 0;
	pthread_mutex_unlock(&kernel.lock);
	if (err) {
		errno = err;
		return -1;
	}
	return __real_fdatasync(fd);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg)
{
	if (kernel.threads_allowed == 0)
		return EAGAIN;
	kernel.threads_allowed--;
	return __real_pthread_create(thread, attr, fn, arg);
}

/* ---- devices and requests ---- */

static struct fth_dev *dev;
static char *buf;

static void set_up(const char *options)
{
	kernel.most = SIZE_MAX;
	kernel.threads_allowed = UINT32_MAX;
	make_file(0, FILE_BYTES);
	assert_ok(open_a(0, options, &dev));
	buf = fth_dev_buf_alloc(dev, FILE_BYTES);
	kernel.begun = 0;
	kernel.syncs = 0;
}

static void tear_down(void)
{
	fth_dev_buf_free(dev, buf, FILE_BYTES);
	fth_dev_close(dev);
}

static struct fth_dev_chan *channel(void)
{
	struct fth_dev_chan *chan;

	assert_ok(fth_dev_chan_open(dev, 64, &chan));
	return chan;
}

static void start(struct fth_dev_chan *chan, struct fth_dev_req *req, enum fth_dev_op op,
		  unsigned unit)
{
	fth_dev_req_init(req, op, buf + unit * UNIT, UNIT, unit * UNIT);
	assert_int_equal(fth_dev_submit(chan, &req, 1), 1);
}

static void expect(struct fth_dev_chan *chan, const struct fth_dev_req *req, int result)
{
	struct fth_dev_req *done = NULL;

	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_NEVER), 1);
	if (req)
		assert_ptr_equal(done, req);
	assert_int_equal(done->result, result);
}

static unsigned count_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* ---- calls that hang ---- */

static void a_call_that_hangs_stops_nobody_else(void **state)
{
	struct fth_dev_chan *a, *b;
	struct fth_dev_req stuck, fine, *done;

	(void)state;
	set_up("?threads=2");
	a = channel();
	b = channel();
	hang(0, 1);
	start(a, &stuck, FTH_DEV_READ, 0);
	await_hanging(1);
	start(a, &fine, FTH_DEV_READ, 1);
	expect(a, &fine, 0);
	start(b, &fine, FTH_DEV_WRITE, 2);
	expect(b, &fine, 0);
	assert_int_equal(fth_dev_reap(a, &done, 1, 1, SOON), -ETIME);
	assert_int_equal(fth_dev_reap(a, &done, 1, 1, 0), -ETIME);
	assert_int_equal(fth_dev_chan_in_flight(a), 1);
	let_go();
	expect(a, &stuck, 0);
	assert_true(all_are(buf, UNIT, 0xee));
	fth_dev_chan_close(a);
	fth_dev_chan_close(b);
	tear_down();
}

static void *let_go_later(void *arg)
{
	const struct timespec pause = {0, 20000000};

	(void)arg;
	nanosleep(&pause, NULL);
	let_go();
	return NULL;
}

static void closing_waits_for_what_is_in_flight(void **state)
{
	struct fth_dev_req reqs[8];
	struct fth_dev_chan *a;
	pthread_t thread;

	(void)state;
	set_up("?threads=2");
	a = channel();
	hang(0, FILE_BYTES);
	for (unsigned i = 0; i < 8; i++)
		start(a, &reqs[i], FTH_DEV_READ, i);
	await_hanging(2);
	assert_int_equal(pthread_create(&thread, NULL, let_go_later, NULL), 0);
	fth_dev_chan_close(a);
	assert_int_equal(kernel.begun, 8);
	assert_true(all_are(buf, 8 * UNIT, 0xee));
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_READS), 8);
	pthread_join(thread, NULL);
	tear_down();
}

/* ---- threads ---- */

static void threads_are_started_as_they_are_needed(void **state)
{
	unsigned before = count_threads();
	struct fth_dev_req reqs[16];
	struct fth_dev_chan *a;

	(void)state;
	set_up("?threads=4");
	assert_int_equal(count_threads(), before);
	a = channel();
	assert_int_equal(count_threads(), before + 1);
	hang(0, FILE_BYTES);
	for (unsigned i = 0; i < 16; i++)
		start(a, &reqs[i], FTH_DEV_READ, i);
	await_hanging(4);
	assert_int_equal(count_threads(), before + 4);
	let_go();
	for (unsigned i = 0; i < 16; i++)
		expect(a, NULL, 0);
	fth_dev_chan_close(a);
	tear_down();
	/* A thread that was joined may be listed for a moment. */
	while (count_threads() != before)
		sched_yield();
}

static void threads_that_cannot_be_started_are_done_without(void **state)
{
	struct fth_dev_req reqs[8];
	struct fth_dev_chan *a;

	(void)state;
	set_up("?threads=4");
	kernel.threads_allowed = 0;
	assert_int_equal(fth_dev_chan_open(dev, 8, &a), -EAGAIN);
	assert_non_null(strstr(fth_error_text(-EAGAIN), "thread"));
	kernel.threads_allowed = 1;
	a = channel();
	for (unsigned i = 0; i < 8; i++)
		start(a, &reqs[i], FTH_DEV_READ, i);
	for (unsigned i = 0; i < 8; i++)
		expect(a, &reqs[i], 0);
	fth_dev_chan_close(a);
	tear_down();
}

static volatile sig_atomic_t caught;

static void catch_signal(int number)
{
	(void)number;
	caught = 1;
}

static void signals_are_left_to_the_program(void **state)
{
	sigset_t one, pending;
	struct fth_dev_chan *a;

	(void)state;
	set_up("");
	a = channel();
	signal(SIGUSR1, catch_signal);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &one, NULL);
	kill(getpid(), SIGUSR1);
	/* Nobody took it, so it waits for this thread. */
	assert_int_equal(sigpending(&pending), 0);
	assert_true(sigismember(&pending, SIGUSR1));
	assert_int_equal(caught, 0);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	assert_int_equal(caught, 1);
	fth_dev_chan_close(a);
	tear_down();
}

static void channels_take_turns(void **state)
{
	struct fth_dev_req many[16], one;
	struct fth_dev_chan *a, *b;
	unsigned at = 0;

	(void)state;
	set_up("?threads=1");
	a = channel();
	b = channel();
	hang(0, FILE_BYTES);
	for (unsigned i = 0; i < 16; i++)
		start(a, &many[i], FTH_DEV_READ, i);
	await_hanging(1);
	start(b, &one, FTH_DEV_READ, 63);
	let_go();
	expect(b, &one, 0);
	for (unsigned i = 0; i < 16; i++)
		expect(a, &many[i], 0);
	while (kernel.order[at] != 63 * UNIT)
		at++;
	assert_in_range(at, 1, 2);
	fth_dev_chan_close(a);
	fth_dev_chan_close(b);
	tear_down();
}

/* ---- answers ---- */

static void short_and_interrupted_calls_go_on(void **state)
{
	struct iovec pieces[3] = {{0}};
	struct fth_dev_req req, *r = &req;
	struct fth_dev_chan *a;

	(void)state;
	set_up("");
	a = channel();
	kernel.most = 1024;
	kernel.answers[0] = -EINTR;
	kernel.answers[1] = -EAGAIN;
	fth_dev_req_init(&req, FTH_DEV_READ, buf, 6 * UNIT, 0);
	for (unsigned i = 0; i < 3; i++)
		pieces[i] = (struct iovec){.iov_base = buf + i * 2 * UNIT, .iov_len = 2 * UNIT};
	req.iov = pieces;
	req.iov_count = 3;
	memset(buf, 0, FILE_BYTES);
	assert_int_equal(fth_dev_submit(a, &r, 1), 1);
	expect(a, &req, 0);
	assert_true(all_are(buf, 6 * UNIT, 0xee));
	assert_true(all_are(buf + 6 * UNIT, UNIT, 0));
	assert_int_equal(kernel.begun, 2 + 6 * UNIT / 1024);
	kernel.answers[0] = -EIO;
	start(a, &req, FTH_DEV_WRITE, 0);
	expect(a, &req, -EIO);
	fth_dev_chan_close(a);
	tear_down();
}

static void flushes_share_calls(void **state)
{
	struct fth_dev_req first, more[5], stuck;
	struct fth_dev_chan *a;

	(void)state;
	set_up("?threads=1");
	a = channel();
	hang(0, 1);
	start(a, &stuck, FTH_DEV_WRITE, 0); /* keeps the thread, so that the flushes meet */
	await_hanging(1);
	start(a, &first, FTH_DEV_FLUSH, 0);
	for (unsigned i = 0; i < 5; i++)
		start(a, &more[i], FTH_DEV_FLUSH, 0);
	let_go();
	expect(a, &stuck, 0);
	for (unsigned i = 0; i < 6; i++)
		expect(a, NULL, 0);
	assert_int_equal(kernel.syncs, 2);
	fth_dev_chan_close(a);
	tear_down();
}

static void a_failed_flush_stays_failed(void **state)
{
	struct fth_dev_chan *a, *b;
	struct fth_dev_req req;

	(void)state;
	set_up("");
	a = channel();
	b = channel();
	kernel.sync_errno = ENOSPC;
	start(a, &req, FTH_DEV_FLUSH, 0);
	expect(a, &req, -ENOSPC);
	start(a, &req, FTH_DEV_FLUSH, 0);
	expect(a, &req, -ENOSPC);
	start(b, &req, FTH_DEV_FLUSH, 0);
	expect(b, &req, -ENOSPC);
	assert_int_equal(kernel.syncs, 1);
	fth_dev_chan_close(a);
	fth_dev_chan_close(b);
	tear_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_that_hangs_stops_nobody_else),
		cmocka_unit_test(closing_waits_for_what_is_in_flight),
		cmocka_unit_test(threads_are_started_as_they_are_needed),
		cmocka_unit_test(threads_that_cannot_be_started_are_done_without),
		cmocka_unit_test(signals_are_left_to_the_program),
		cmocka_unit_test(channels_take_turns),
		cmocka_unit_test(short_and_interrupted_calls_go_on),
		cmocka_unit_test(flushes_share_calls),
		cmocka_unit_test(a_failed_flush_stays_failed),
	};

	engine = dev_file_threads.name;
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
