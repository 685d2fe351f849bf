/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The system calls that programs make most, in place of the C library's: they need no signal to
 * find out whether a buffer is in the region. Like the C library's they are points where a thread
 * can be cancelled.
 */
#include "flat/preload/run.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#define P(pointer) ((long)(uintptr_t)(pointer))

static long result(long rc)
{
	if (rc < 0 && rc > -4096) {
		errno = (int)-rc;
		return -1;
	}
	return rc;
}

static long raw(long nr, const long a[6])
{
	return direct_call(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* A process without a region, or a child of one, has it simpler. */
static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	long args[6] = {a, b, c, d, e, f}, rc;
	int type;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	if (run_program() && calls_touch(nr, args)) {
		struct run_before before = run_enter();

		rc = calls_do(nr, args, before.mask);
		run_leave(before);
	} else {
		rc = direct_call(nr, a, b, c, d, e, f);
	}
	pthread_setcanceltype(type, NULL);
	return result(rc);
}

RUN_EXPORT ssize_t read(int fd, void *buffer, size_t n)
{
	return call(SYS_read, fd, P(buffer), (long)n, 0, 0, 0);
}

RUN_EXPORT ssize_t write(int fd, const void *buffer, size_t n)
{
	return call(SYS_write, fd, P(buffer), (long)n, 0, 0, 0);
}

RUN_EXPORT ssize_t pread64(int fd, void *buffer, size_t n, off64_t offset)
{
	return call(SYS_pread64, fd, P(buffer), (long)n, offset, 0, 0);
}

RUN_EXPORT ssize_t pwrite64(int fd, const void *buffer, size_t n, off64_t offset)
{
	return call(SYS_pwrite64, fd, P(buffer), (long)n, offset, 0, 0);
}

RUN_EXPORT ssize_t pread(int fd, void *buffer, size_t n, off_t offset)
{
	return pread64(fd, buffer, n, offset);
}

RUN_EXPORT ssize_t pwrite(int fd, const void *buffer, size_t n, off_t offset)
{
	return pwrite64(fd, buffer, n, offset);
}

RUN_EXPORT ssize_t readv(int fd, const struct iovec *vector, int n)
{
	return call(SYS_readv, fd, P(vector), n, 0, 0, 0);
}

RUN_EXPORT ssize_t writev(int fd, const struct iovec *vector, int n)
{
	return call(SYS_writev, fd, P(vector), n, 0, 0, 0);
}

RUN_EXPORT ssize_t recvfrom(int fd, void *restrict buffer, size_t n, int flags, __SOCKADDR_ARG from,
			    socklen_t *restrict length)
{
	return call(SYS_recvfrom, fd, P(buffer), (long)n, flags, P(from.__sockaddr__), P(length));
}

RUN_EXPORT ssize_t sendto(int fd, const void *buffer, size_t n, int flags, __CONST_SOCKADDR_ARG to,
			  socklen_t length)
{
	return call(SYS_sendto, fd, P(buffer), (long)n, flags, P(to.__sockaddr__), length);
}

RUN_EXPORT ssize_t recv(int fd, void *buffer, size_t n, int flags)
{
	return call(SYS_recvfrom, fd, P(buffer), (long)n, flags, 0, 0);
}

RUN_EXPORT ssize_t send(int fd, const void *buffer, size_t n, int flags)
{
	return call(SYS_sendto, fd, P(buffer), (long)n, flags, 0, 0);
}

RUN_EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	return call(SYS_recvmsg, fd, P(message), flags, 0, 0, 0);
}

RUN_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	return call(SYS_sendmsg, fd, P(message), flags, 0, 0, 0);
}

RUN_EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	return (int)call(SYS_poll, P(fds), (long)n, timeout, 0, 0, 0);
}

RUN_EXPORT int epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
	return (int)call(SYS_epoll_wait, fd, P(events), n, timeout, 0, 0);
}

/* What the C library calls them when it checks lengths. */
void __chk_fail(void) __attribute__((noreturn));

RUN_EXPORT ssize_t __read_chk(int fd, void *buffer, size_t n, size_t room)
{
	if (n > room)
		__chk_fail();
	return read(fd, buffer, n);
}

RUN_EXPORT ssize_t __recv_chk(int fd, void *buffer, size_t n, size_t room, int flags)
{
	if (n > room)
		__chk_fail();
	return recv(fd, buffer, n, flags);
}

/* ---- mappings ---- */

RUN_EXPORT void *mmap64(void *at, size_t length, int protection, int flags, int fd, off64_t offset)
{
	long a[6] = {P(at), (long)length, protection, flags, fd, offset};

	return (void *)result(run_program() ? memory_map(a, true) : raw(SYS_mmap, a));
}

RUN_EXPORT void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
	return mmap64(at, length, protection, flags, fd, offset);
}

RUN_EXPORT int munmap(void *at, size_t length)
{
	long a[6] = {P(at), (long)length};

	return (int)result(run_program() ? memory_unmap((uintptr_t)at, length)
					 : raw(SYS_munmap, a));
}

RUN_EXPORT int madvise(void *at, size_t length, int advice)
{
	long a[6] = {P(at), (long)length, advice};

	return (int)result(run_program() ? memory_advise((uintptr_t)at, length, advice)
					 : raw(SYS_madvise, a));
}

RUN_EXPORT void *mremap(void *at, size_t old, size_t new, int flags, ...)
{
	long a[6] = {P(at), (long)old, (long)new, flags, 0, 0};
	va_list args;

	va_start(args, flags);
	if (flags & MREMAP_FIXED)
		a[4] = P(va_arg(args, void *));
	va_end(args);
	return (void *)result(run_program() ? memory_remap(a) : raw(SYS_mremap, a));
}

/* ---- stacks of coroutines ---- */

void *wrap_makecontext(const ucontext_t *context) __attribute__((visibility("hidden")));

/*
 * The stack leaves the region: the kernel stores frames of signals there. Returns the C library's
 * function.
 */
void *wrap_makecontext(const ucontext_t *context)
{
	static void *next;
	void *found = __atomic_load_n(&next, __ATOMIC_RELAXED);

	if (!found) {
		found = dlsym(RTLD_NEXT, "makecontext");
		__atomic_store_n(&next, found, __ATOMIC_RELAXED);
	}
	if (run_program())
		(void)memory_leave((uintptr_t)context->uc_stack.ss_sp, context->uc_stack.ss_size,
				   true);
	return found;
}

/* It has any number of arguments, in registers and on the stack: they stay where they are. */
__asm__(".pushsection .text\n"
	".globl makecontext\n"
	".type makecontext, @function\n"
	"makecontext:\n"
	"	push %rdi\n"
	"	push %rsi\n"
	"	push %rdx\n"
	"	push %rcx\n"
	"	push %r8\n"
	"	push %r9\n"
	"	push %rax\n"
	"	call wrap_makecontext\n"
	"	mov %rax, %r11\n"
	"	pop %rax\n"
	"	pop %r9\n"
	"	pop %r8\n"
	"	pop %rcx\n"
	"	pop %rdx\n"
	"	pop %rsi\n"
	"	pop %rdi\n"
	"	jmp *%r11\n"
	".size makecontext, . - makecontext\n"
	".popsection\n");
