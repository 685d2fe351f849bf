/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flat_run_hard TOPIC: as flat_run_program, with many threads at once: calls that wait, vectors
 * with many parts, memory that is protected while others use it, signals that are sent; and with
 * uses of memory that are rare: stacks, copies by process_vm_readv(). It prints "ok" if all was as
 * it should be.
 */
#include "flat_run_memory.h"

#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* ---- calls that wait ---- */

#define WAITERS 96
#define BUFFER	(128u * 1024)

struct waiter {
	pthread_t thread;
	int kind, fds[2], tid; /* it waits at fds[0] */
	uint8_t *buffer;
	ssize_t result;
};

static void *wait_for_bytes(void *raw)
{
	struct waiter *w = raw;
	struct iovec *vector;
	struct msghdr *m;
	struct pollfd *fds;

	switch (w->kind) {
	case 0:
		__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
		w->result = read(w->fds[0], w->buffer, BUFFER);
		break;
	case 1:
		__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
		w->result = syscall(SYS_recvfrom, w->fds[0], w->buffer, BUFFER, 0, NULL, NULL);
		break;
	case 2:
		vector = (struct iovec *)w->buffer;
		vector[0] = (struct iovec){w->buffer + PAGE, 5};
		vector[1] = (struct iovec){w->buffer + PAGE + 5, BUFFER - PAGE - 5};
		__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
		w->result = readv(w->fds[0], vector, 2);
		memmove(w->buffer, w->buffer + PAGE, 100);
		break;
	case 3:
		m = (struct msghdr *)w->buffer;
		vector = (struct iovec *)(m + 1);
		*vector = (struct iovec){w->buffer + PAGE, BUFFER - PAGE};
		*m = (struct msghdr){.msg_iov = vector, .msg_iovlen = 1};
		__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
		w->result = recvmsg(w->fds[0], m, 0);
		memmove(w->buffer, w->buffer + PAGE, 100);
		break;
	default:
		fds = (struct pollfd *)w->buffer;
		memset(fds, 0xff, BUFFER); /* all but one are no descriptors */
		fds[900] = (struct pollfd){.fd = w->fds[0], .events = POLLIN};
		__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
		CHECK(poll(fds, 1000, -1) == 1 && fds[900].revents == POLLIN);
		w->result = read(w->fds[0], w->buffer, BUFFER);
	}
	return NULL;
}

static void *write_bytes(void *raw)
{
	struct waiter *w = raw;

	__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
	w->result = write(w->fds[1], w->buffer, BUFFER); /* twice what the pipe takes */
	return NULL;
}

/* It sleeps in the kernel. */
static void await_sleep(const int *tid)
{
	char name[64], text[256], state = 0;

	while (__atomic_load_n(tid, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", *tid);
	for (int seen = 0; seen < 3; usleep(1000)) {
		FILE *file = fopen(name, "r");

		CHECK(file && fgets(text, sizeof(text), file));
		fclose(file);
		state = strrchr(text, ')')[2];
		seen = state == 'S' ? seen + 1 : 0;
	}
}

/* As many threads wait as would hold all of DRAM, and more; the others have it all the same. */
static void waiting(void)
{
	static struct waiter waiters[WAITERS];
	size_t n = 256 * 1024;
	uint8_t *file_bytes, *read_back, some[100];
	char name[] = "flat_run_XXXXXX";
	int fd = mkstemp(name);
	pthread_attr_t small;

	start();
	CHECK(fd >= 0 && unlink(name) == 0);
	CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 65536) == 0);
	for (int i = 0; i < WAITERS; i++) {
		struct waiter *w = &waiters[i];

		w->kind = i % 6;
		w->buffer = cold(BUFFER);
		if (w->kind == 1 || w->kind == 3)
			CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, w->fds) == 0);
		else
			CHECK(pipe(w->fds) == 0);
		CHECK(pthread_create(&w->thread, &small,
				     w->kind == 5 ? write_bytes : wait_for_bytes, w) == 0);
	}
	for (int i = 0; i < WAITERS; i++)
		await_sleep(&waiters[i].tid);
	for (int round = 0; round < 4; round++) {
		file_bytes = cold(n);
		read_back = cold(n);
		CHECK(pwrite(fd, file_bytes, n, 0) == (ssize_t)n && is_filled(file_bytes, n));
		CHECK(pread(fd, read_back, n, 0) == (ssize_t)n);
		CHECK(memcmp(file_bytes, read_back, n) == 0);
	}
	for (int i = 0; i < WAITERS; i++) {
		struct waiter *w = &waiters[i];

		if (w->kind == 5) {
			for (size_t got = 0; got < BUFFER;) {
				ssize_t one = read(w->fds[0], some, sizeof(some));

				CHECK(one > 0);
				CHECK(memcmp(some, w->buffer + got, (size_t)one) == 0);
				got += (size_t)one;
			}
		} else {
			memset(some, i, sizeof(some));
			CHECK(write(w->fds[1], some, sizeof(some)) == sizeof(some));
		}
		CHECK(pthread_join(w->thread, NULL) == 0);
		CHECK(w->result == (ssize_t)(w->kind == 5 ? BUFFER : sizeof(some)));
		CHECK(w->kind == 5 || memcmp(w->buffer, some, sizeof(some)) == 0);
		close(w->fds[0]);
		close(w->fds[1]);
	}
}

/* Small things that calls point to, while they wait. */
static void small_things(void)
{
	struct sockaddr_un *name = cold(sizeof(*name)), *peer = cold(sizeof(*peer));
	struct timespec *nap = cold(sizeof(*nap)), *rest = cold(sizeof(*rest));
	struct flock *lock = cold(sizeof(*lock));
	socklen_t *length = cold(sizeof(*length));
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), one = socket(AF_UNIX, SOCK_STREAM, 0), two;
	int *status = cold(PAGE), file = open(".", O_TMPFILE | O_RDWR, 0600), ends[2];
	siginfo_t *info = cold(sizeof(*info));
	sigset_t *set = cold(sizeof(*set));
	fd_set *reads = cold(sizeof(*reads));
	off_t *from = cold(sizeof(*from));
	pid_t pid;

	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	snprintf(name->sun_path, sizeof(name->sun_path), "flat_run_%d", (int)getpid());
	*length = sizeof(*peer);
	CHECK(bind(listener, (struct sockaddr *)name, sizeof(*name)) == 0);
	CHECK(listen(listener, 1) == 0);
	CHECK(connect(one, (struct sockaddr *)name, sizeof(*name)) == 0);
	two = accept(listener, (struct sockaddr *)peer, length);
	CHECK(two >= 0 && *length == 2 && peer->sun_family == AF_UNIX);
	CHECK(unlink(name->sun_path) == 0);
	*nap = (struct timespec){.tv_nsec = 1000000};
	CHECK(nanosleep(nap, rest) == 0);
	CHECK(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, nap, rest) == 0);
	status[1] = 77;
	pid = fork();
	if (pid == 0)
		_exit(9);
	CHECK(wait4(pid, status, 0, cold(sizeof(struct rusage) + PAGE)) == pid);
	CHECK(WEXITSTATUS(*status) == 9 && status[1] == 77);
	*lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
	CHECK(file < 0 || fcntl(file, F_SETLKW, lock) == 0);
	sigemptyset(set);
	sigaddset(set, SIGUSR1);
	CHECK(sigprocmask(SIG_BLOCK, set, NULL) == 0 && kill(getpid(), SIGUSR1) == 0);
	CHECK(sigtimedwait(set, info, nap) == SIGUSR1 && info->si_pid == getpid());
	CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
	FD_ZERO(reads);
	FD_SET(ends[0], reads);
	CHECK(pselect(ends[0] + 1, reads, NULL, NULL, nap, set) == 1 && FD_ISSET(ends[0], reads));
	CHECK(file < 0 || (pwrite(file, "from here", 9, 0) == 9));
	*from = 5;
	CHECK(file < 0 || (splice(file, from, ends[1], NULL, 4, 0) == 4 && *from == 9));
}

/* ---- vectors ---- */

static ssize_t stream_bytes;

static void *read_stream(void *raw)
{
	static uint8_t some[65536];
	int fd = *(int *)raw;
	ssize_t n;

	while ((n = read(fd, some, sizeof(some))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			CHECK(some[i] == (uint8_t)((stream_bytes + i) * 5));
		stream_bytes += n;
	}
	return NULL;
}

/* `n` parts of `each` bytes, on cold pages. */
static struct iovec *make_vector(unsigned n, size_t each, int fill_them)
{
	struct iovec *vector = cold(n * sizeof(*vector));
	uint8_t *bytes = cold(2 * n * each);

	for (unsigned i = 0; i < n; i++) {
		vector[i] = (struct iovec){bytes + 2 * i * each, each};
		for (size_t k = 0; k < each; k++)
			bytes[2 * i * each + k] = fill_them ? (uint8_t)((i * each + k) * 5) : 0;
	}
	return vector;
}

static void check_vector(const struct iovec *vector, unsigned n, size_t each)
{
	for (unsigned i = 0; i < n; i++)
		for (size_t k = 0; k < each; k++)
			CHECK(((uint8_t *)vector[i].iov_base)[k] == (uint8_t)((i * each + k) * 5));
}

static void vectors(void)
{
	unsigned n = IOV_MAX;
	struct msghdr *m;
	struct mmsghdr *many;
	struct iovec *from, *to;
	int datagrams[2], stream[2], ends[2], fd;
	char name[] = "flat_run_XXXXXX";
	pthread_t reader;

	start();
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, stream) == 0 && pipe(ends) == 0);
	m = cold(sizeof(*m));
	from = make_vector(n, 40, 1);
	*m = (struct msghdr){.msg_iov = from, .msg_iovlen = n};
	CHECK(sendmsg(datagrams[0], m, 0) == (ssize_t)n * 40);
	m->msg_iov = to = make_vector(n, 40, 0);
	CHECK(recvmsg(datagrams[1], m, 0) == (ssize_t)n * 40 && m->msg_flags == 0);
	check_vector(to, n, 40);
	many = cold(2 * sizeof(*many));
	for (int i = 0; i < 2; i++)
		many[i] = (struct mmsghdr){
			.msg_hdr = {.msg_iov = make_vector(100, 30, 1), .msg_iovlen = 100}};
	CHECK(sendmmsg(datagrams[0], many, 2, 0) == 2 && many[1].msg_len == 3000);
	for (int i = 0; i < 2; i++)
		many[i].msg_hdr.msg_iov = make_vector(100, 30, 0);
	CHECK(recvmmsg(datagrams[1], many, 2, 0, NULL) == 2 && many[0].msg_len == 3000);
	for (int i = 0; i < 2; i++)
		check_vector(many[i].msg_hdr.msg_iov, 100, 30);
	/* a datagram by writev() */
	CHECK(writev(datagrams[0], (from = make_vector(n, 60, 1)), (int)n) == (ssize_t)n * 60);
	CHECK(readv(datagrams[1], (to = make_vector(n, 60, 0)), (int)n) == (ssize_t)n * 60);
	check_vector(to, n, 60);
	/* all of it goes to a stream, by one call */
	CHECK(pthread_create(&reader, NULL, read_stream, &stream[1]) == 0);
	from = make_vector(n, 700, 1);
	*m = (struct msghdr){.msg_iov = from, .msg_iovlen = n};
	CHECK(sendmsg(stream[0], m, 0) == (ssize_t)n * 700);
	close(stream[0]);
	CHECK(pthread_join(reader, NULL) == 0 && stream_bytes == (ssize_t)n * 700);
	/* files and pipes */
	fd = mkstemp(name);
	CHECK(fd >= 0 && unlink(name) == 0);
	CHECK(pwritev(fd, from, (int)n, 3) == (ssize_t)n * 700);
	CHECK(preadv2(fd, (to = make_vector(n, 700, 0)), (int)n, 3, 0) == (ssize_t)n * 700);
	check_vector(to, n, 700);
	CHECK(syscall(SYS_writev, ends[1], (from = make_vector(500, 20, 1)), 500) == 10000);
	CHECK(syscall(SYS_readv, ends[0], (to = make_vector(500, 20, 0)), 500) == 10000);
	check_vector(to, 500, 20);
	CHECK(writev(ends[1], from, 500) == 10000);
	CHECK(vmsplice(ends[0], (to = make_vector(500, 20, 0)), 500, 0) == 10000);
	check_vector(to, 500, 20);
	CHECK(writev(fd, from, IOV_MAX + 1) == -1 && errno == EINVAL);
	m->msg_iovlen = IOV_MAX + 1;
	CHECK(sendmsg(datagrams[0], m, 0) == -1 && errno == EMSGSIZE);
	CHECK(is_filled(heap + SIZE - 16 * MIB, 16 * MIB));
}

/* ---- messages that cannot be cut ---- */

#define STREAM_BYTES 300000u /* more than the part that is received at a time with 4 MiB of DRAM */

static void make_tcp(int ends[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(bind(listener, (struct sockaddr *)&at, length) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(ends[0], (struct sockaddr *)&at, length) == 0);
	ends[1] = accept(listener, NULL, NULL);
	CHECK(ends[1] >= 0 && close(listener) == 0);
}

static void make_pair(int ends[2])
{
	int room = 212992; /* the kernel doubles it */

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	CHECK(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) == 0);
}

/* What was sent is there, once, however often it is looked at. */
static void peek(void)
{
	size_t n = STREAM_BYTES;
	uint8_t *from = cold(n), *to = cold(n);
	struct iovec *one = cold(sizeof(*one));
	struct msghdr *m = cold(sizeof(*m));
	int ends[2];

	make_pair(ends);
	CHECK(send(ends[0], from, n, 0) == (ssize_t)n);
	CHECK(recv(ends[1], to, n, MSG_PEEK | MSG_WAITALL) == (ssize_t)n);
	CHECK(memcmp(from, to, n) == 0);
	*one = (struct iovec){to = cold(n), n};
	*m = (struct msghdr){.msg_iov = one, .msg_iovlen = 1};
	CHECK(recvmsg(ends[1], m, MSG_PEEK | MSG_WAITALL) == (ssize_t)n);
	CHECK(memcmp(from, to, n) == 0);
	CHECK(recv(ends[1], (to = cold(n)), n, MSG_WAITALL) == (ssize_t)n);
	CHECK(memcmp(from, to, n) == 0);
}

/* TCP throws the bytes away, and leaves the buffer alone. */
static void throw_away(void)
{
	uint8_t *from = cold(PAGE), *to = cold(PAGE);
	struct iovec *one = cold(sizeof(*one));
	struct msghdr *m = cold(sizeof(*m));
	int ends[2];

	make_tcp(ends);
	CHECK(send(ends[0], from, PAGE, 0) == PAGE);
	CHECK(recv(ends[1], to, 1000, MSG_TRUNC | MSG_WAITALL) == 1000);
	*one = (struct iovec){to + 1000, 1000};
	*m = (struct msghdr){.msg_iov = one, .msg_iovlen = 1};
	CHECK(recvmsg(ends[1], m, MSG_TRUNC | MSG_WAITALL) == 1000 && is_filled(to, PAGE));
	CHECK(recv(ends[1], to, PAGE - 2000, MSG_WAITALL) == PAGE - 2000);
	CHECK(memcmp(from + 2000, to, PAGE - 2000) == 0);
}

/* A descriptor that comes with the last bytes. */
static void pass_descriptor(void)
{
	size_t n = STREAM_BYTES;
	uint8_t *bytes = cold(n);
	struct cmsghdr *control = cold(CMSG_SPACE(sizeof(int)));
	struct iovec *one = cold(sizeof(*one));
	struct msghdr *m = cold(sizeof(*m));
	int ends[2];

	make_pair(ends);
	CHECK(send(ends[0], bytes, n - 100, 0) == (ssize_t)n - 100);
	*control = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
				    .cmsg_level = SOL_SOCKET,
				    .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(control), &ends[0], sizeof(int));
	*one = (struct iovec){bytes + n - 100, 100};
	*m = (struct msghdr){.msg_iov = one,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = CMSG_SPACE(sizeof(int))};
	CHECK(sendmsg(ends[0], m, 0) == 100);
	memset(control, 0, CMSG_SPACE(sizeof(int)));
	*one = (struct iovec){cold(n), n};
	CHECK(recvmsg(ends[1], m, MSG_WAITALL) == (ssize_t)n && m->msg_flags == 0);
	CHECK(m->msg_controllen >= CMSG_LEN(sizeof(int)) && control->cmsg_type == SCM_RIGHTS);
	CHECK(memcmp(bytes, one->iov_base, n) == 0);
}

static void messages(void)
{
	start();
	peek();
	throw_away();
	pass_descriptor();
}

/* ---- memory that is protected or locked while others use it ---- */

#define USERS	    3
#define LEFT_PAGES  512u
#define LEFT_ROUNDS 6u

static uint8_t *leaving;
static int leaving_stop;

/* Each thread counts in its own word of each page, and knows what is there. */
static void *count_in_pages(void *raw)
{
	static uint64_t expected_counts[USERS][LEFT_PAGES];
	size_t me = (size_t)raw;
	uint64_t rounds = 0;

	memset(expected_counts[me], 0, sizeof(expected_counts[me]));
	while (!__atomic_load_n(&leaving_stop, __ATOMIC_ACQUIRE) || rounds == 0) {
		for (size_t i = 0; i < LEFT_PAGES; i++) {
			volatile uint64_t *word =
				(uint64_t *)(void *)(leaving + i * PAGE) + 1 + me * 64;

			CHECK(*word == expected_counts[me][i]);
			*word = ++expected_counts[me][i];
		}
		rounds++;
	}
	for (size_t i = 0; i < LEFT_PAGES; i++)
		CHECK(((uint64_t *)(void *)(leaving + i * PAGE))[1 + me * 64] ==
		      expected_counts[me][i]);
	return NULL;
}

static volatile sig_atomic_t bus_signals;
static sigjmp_buf bus_jump;

static void on_bus(int sig)
{
	bus_signals += sig == SIGBUS;
	siglongjmp(bus_jump, 1);
}

/* A file is mapped over a page, and ends before it: that is the program's own fault. */
static void bus_of_a_file(void)
{
	struct sigaction action = {.sa_handler = on_bus}, before;
	char name[] = "flat_run_XXXXXX";
	int fd = mkstemp(name);
	uint8_t *at = heap + PAGE - (uintptr_t)heap % PAGE + 10 * PAGE;

	CHECK(fd >= 0 && unlink(name) == 0 && sigaction(SIGBUS, &action, &before) == 0);
	CHECK(mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == at);
	for (int i = 0; i < 3; i++)
		if (sigsetjmp(bus_jump, 1) == 0) {
			*(volatile uint8_t *)at = 1;
			CHECK(!"it went through");
		}
	CHECK(bus_signals == 3);
	CHECK(ftruncate(fd, PAGE) == 0);
	*(volatile uint8_t *)at = 1;
	CHECK(sigaction(SIGBUS, &before, NULL) == 0);
	close(fd);
}

/* No store is lost on the way from the region to ordinary memory. */
static void leaves(void)
{
	pthread_t threads[USERS];

	start();
	bus_of_a_file(); /* and from now on mprotect() has an effect */
	for (unsigned round = 0; round < LEFT_ROUNDS; round++) {
		leaving = mmap(NULL, LEFT_PAGES * PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(leaving != MAP_FAILED);
		leaving_stop = 0;
		for (size_t i = 0; i < USERS; i++)
			CHECK(pthread_create(&threads[i], NULL, count_in_pages, (void *)i) == 0);
		for (size_t i = 0; i < LEFT_PAGES; i += 4) {
			if (round % 2)
				CHECK(mprotect(leaving + i * PAGE, 4 * PAGE,
					       PROT_READ | PROT_WRITE) == 0);
			else
				(void)mlock(leaving + i * PAGE, 4 * PAGE); /* or refused */
			if (i % 32 == 0)
				usleep(100);
		}
		__atomic_store_n(&leaving_stop, 1, __ATOMIC_RELEASE);
		for (size_t i = 0; i < USERS; i++)
			CHECK(pthread_join(threads[i], NULL) == 0);
		CHECK(munmap(leaving, LEFT_PAGES * PAGE) == 0);
	}
	CHECK(is_filled(heap + MIB, SIZE - MIB));
}

/* ---- signals that are sent ---- */

#define SENT 400

static volatile int got[2], got_value; /* SIGBUS, SIGSEGV */

static void on_sent(int sig, siginfo_t *info, void *context)
{
	(void)context;
	CHECK(info->si_code <= 0 && info->si_pid == getpid());
	got_value = info->si_code == SI_QUEUE ? info->si_value.sival_int : sig;
	CHECK(is_filled(heap + (size_t)got[0] % 1000 * PAGE, 10)); /* it may use any memory */
	__atomic_fetch_add(&got[sig == SIGSEGV], 1, __ATOMIC_RELEASE);
}

static pthread_t target;
static int target_stop;

/*
 * The kernel keeps one SIGBUS at a time for a thread: what is sent at the very moment of a fault
 * may be merged with that. So it is sent until it arrives; SIGSEGV once.
 */
static void send_one(int i)
{
	int sig = i & 1 ? SIGSEGV : SIGBUS, before = got[i & 1];

	for (unsigned tries = 0; __atomic_load_n(&got[i & 1], __ATOMIC_ACQUIRE) == before;
	     tries++) {
		if (tries > 0 && (sig == SIGSEGV || tries % 100)) {
			usleep(10);
			continue;
		}
		if (i & 2)
			CHECK(pthread_sigqueue(target, sig, (union sigval){.sival_int = i}) == 0);
		else
			CHECK(pthread_kill(target, sig) == 0);
	}
	CHECK(sig == SIGBUS || (got[1] == before + 1 && got_value == (i & 2 ? i : sig)));
}

static void *send_signals(void *raw)
{
	(void)raw;
	for (int i = 0; i < SENT; i++)
		send_one(i);
	__atomic_store_n(&target_stop, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* SIGSEGV and SIGBUS from others, while this thread has faults of both kinds all the time. */
static void sent(void)
{
	struct sigaction action = {.sa_sigaction = on_sent, .sa_flags = SA_SIGINFO};
	uint8_t *bytes;
	pthread_t sender;
	sigset_t set;
	int fd = open("/dev/zero", O_RDONLY);

	start();
	target = pthread_self();
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
	CHECK(pthread_create(&sender, NULL, send_signals, NULL) == 0);
	for (size_t at = 0; !__atomic_load_n(&target_stop, __ATOMIC_ACQUIRE); at += 7 * PAGE) {
		bytes = heap + 8 * MIB + at % (32 * MIB);
		CHECK(is_filled(bytes, 100));
		CHECK(read(fd, bytes, 50) == 50);
		fill(bytes, 50);
	}
	CHECK(pthread_join(sender, NULL) == 0 && got[1] == SENT / 2);
	/* blocked: it comes later */
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0 && pthread_kill(target, SIGSEGV) == 0);
	CHECK(is_filled(heap, 8 * MIB) && got[1] == SENT / 2);
	CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0 && got[1] == SENT / 2 + 1);
	/* ignored */
	action.sa_flags = 0;
	action.sa_handler = SIG_IGN;
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(kill(getpid(), SIGSEGV) == 0 && raise(SIGBUS) == 0);
	CHECK(is_filled(heap, SIZE));
}

static void sent_by_default(void)
{
	start();
	CHECK(kill(getpid(), SIGSEGV) == 0);
	for (;;)
		CHECK(is_filled(heap, SIZE));
}

/* ---- stacks ---- */

#define STACK (2u * MIB)

static void *use_stack(void *raw)
{
	volatile uint8_t below[100000];

	for (size_t i = 0; i < sizeof(below); i++)
		below[i] = (uint8_t)i;
	CHECK(is_filled(heap, SIZE)); /* each page is a fault, on that stack */
	for (size_t i = 0; i < sizeof(below); i++)
		CHECK(below[i] == (uint8_t)i);
	return raw;
}

static ucontext_t outside, coroutine;
static int steps;

static void run_coroutine(int a, int b, int c, int d, int e, int f, int g, int h)
{
	CHECK(a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8);
	use_stack(NULL);
	steps++;
	swapcontext(&coroutine, &outside);
	use_stack(NULL);
	steps++;
}

static int run_clone(void *raw)
{
	use_stack(raw);
	return 5;
}

/* Stacks that the program allocates are in the region at first, and cold. */
static void stacks(void)
{
	uint8_t *stack = malloc(STACK), *other = malloc(STACK), *third = malloc(STACK);
	pthread_attr_t attr;
	pthread_t thread;
	int status;
	pid_t child;
	void *out;

	CHECK(stack && other && third);
	memset(stack, 1, STACK);
	memset(other, 1, STACK);
	memset(third, 1, STACK);
	start();
	CHECK(pthread_attr_init(&attr) == 0);
	CHECK(pthread_attr_setstack(&attr, stack, STACK) == 0);
	CHECK(pthread_create(&thread, &attr, use_stack, stack) == 0);
	CHECK(pthread_join(thread, &out) == 0 && out == stack);
	CHECK(getcontext(&coroutine) == 0);
	coroutine.uc_stack.ss_sp = other;
	coroutine.uc_stack.ss_size = STACK;
	coroutine.uc_link = &outside;
	makecontext(&coroutine, (void (*)(void))run_coroutine, 8, 1, 2, 3, 4, 5, 6, 7, 8);
	CHECK(swapcontext(&outside, &coroutine) == 0 && steps == 1);
	CHECK(is_filled(heap, SIZE));
	CHECK(swapcontext(&outside, &coroutine) == 0 && steps == 2);
	child = clone(run_clone, third + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
	pthread_attr_destroy(&attr);
	free(stack);
	free(other);
	free(third);
}

/* ---- copies within the process ---- */

static void within(void)
{
	static uint8_t plain[100000];
	struct iovec here, there[2], *own;
	pid_t self = getpid();

	start();
	there[0] = (struct iovec){cold(PAGE), 1000};
	there[1] = (struct iovec){cold(sizeof(plain)), sizeof(plain) - 1000};
	here = (struct iovec){plain, sizeof(plain)};
	CHECK(process_vm_readv(self, &here, 1, there, 2, 0) == sizeof(plain));
	CHECK(memcmp(plain, there[0].iov_base, 1000) == 0);
	CHECK(memcmp(plain + 1000, there[1].iov_base, sizeof(plain) - 1000) == 0);
	/* both sides in the region */
	here.iov_base = cold(sizeof(plain));
	there[0] = (struct iovec){cold(sizeof(plain)), sizeof(plain)};
	CHECK(process_vm_readv(self, &here, 1, there, 1, 0) == sizeof(plain));
	CHECK(memcmp(here.iov_base, there[0].iov_base, sizeof(plain)) == 0);
	memset(plain, 3, sizeof(plain));
	here = (struct iovec){plain, sizeof(plain)};
	there[0] = (struct iovec){cold(sizeof(plain)), sizeof(plain)};
	CHECK(process_vm_writev(self, &here, 1, there, 1, 0) == sizeof(plain));
	CHECK(memcmp(plain, there[0].iov_base, sizeof(plain)) == 0);
	/* over its own vector */
	own = cold(sizeof(plain));
	*own = (struct iovec){own, sizeof(plain)};
	there[0] = (struct iovec){plain, sizeof(plain)};
	CHECK(process_vm_readv(self, own, 1, there, 1, 0) == sizeof(plain));
	CHECK(memcmp(plain, own, sizeof(plain)) == 0);
	/* what is wrong stays wrong */
	there[0] = (struct iovec){NULL, 100};
	here.iov_base = cold(PAGE);
	CHECK(process_vm_readv(self, &here, 1, there, 1, 0) == -1 && errno == EFAULT);
}

static void calls_that_wait(void)
{
	waiting();
	small_things();
}

static const struct {
	const char *name;
	void (*run)(void);
} topics[] = {
	{"waiting", calls_that_wait}, {"vectors", vectors}, {"messages", messages},
	{"leaves", leaves},	      {"sent", sent},	    {"sent-by-default", sent_by_default},
	{"stacks", stacks},	      {"within", within},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(topics) / sizeof(topics[0]); i++)
		if (strcmp(argv[1], topics[i].name) == 0) {
			topics[i].run();
			printf("ok\n");
			return 0;
		}
	fprintf(stderr, "usage: flat_run_hard TOPIC\n");
	return 2;
}
