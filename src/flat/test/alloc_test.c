/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fault may come while the program's allocator holds its lock: copying into a block, say, that
 * realloc() moves. So handling a fault must not allocate, on any device. Here malloc() and its
 * family are the test's own, and note calls that are made in the handler.
 */
#include "fth_test.h"

#include "fathom/base/rng.h"
#include "fathom/flat.h"

#include <errno.h>
#include <execinfo.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE   4096u
#define SIZE   (4u << 20)
#define BUDGET (64u * PAGE)

/* ---- the allocator ---- */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *at);

static __thread bool in_handler __attribute__((tls_model("initial-exec")));
static unsigned wrong; /* calls in the handler; atomic */

static void note_call(void)
{
	void *callers[16];

	if (!in_handler)
		return;
	in_handler = false; /* backtrace() may allocate */
	if (__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED) == 0)
		backtrace_symbols_fd(callers, backtrace(callers, 16), 2);
	in_handler = true;
}

void *malloc(size_t size)
{
	note_call();
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	note_call();
	return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	note_call();
	return __libc_realloc(old, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	note_call();
	return __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
	note_call();
	*out = __libc_memalign(align, size);
	return *out ? 0 : ENOMEM;
}

void free(void *at)
{
	if (at)
		note_call();
	__libc_free(at);
}

/* ---- faults ---- */

static sigjmp_buf jump;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	int mine;

	in_handler = true;
	mine = fth_flat_fault(sig, info, context);
	in_handler = false;
	if (!mine)
		siglongjmp(jump, 1);
}

static struct fth_flat *open_region(const char *uri, enum fth_flat_policy policy, uint64_t log)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct fth_flat *flat;

	options.policy = policy;
	options.log = log;
	assert_ok(fth_flat_open(uri, BUDGET, &options, &flat));
	sigaction(SIGBUS, &action, NULL);
	return flat;
}

/* Loads and stores, of one page after the other and of any; some fail on some of the devices. */
static void use(struct fth_flat *flat)
{
	volatile uint8_t *bytes = fth_flat_base(flat);
	uint64_t size = fth_flat_size(flat);
	struct fth_rng rng = {5};

	for (volatile unsigned i = 0; i < 1200; i++) {
		uint64_t at = i < 400 ? i * (uint64_t)PAGE % size : fth_rng_below(&rng, size);

		if (sigsetjmp(jump, 1) != 0)
			continue;
		if (i % 3)
			bytes[at]++;
		else
			(void)bytes[at];
	}
}

static void no_fault_allocates(const char *uri)
{
	for (int policy = FTH_FLAT_DEFAULT; policy < FTH_FLAT_POLICY_COUNT; policy++) {
		struct fth_flat *flat = open_region(uri, (enum fth_flat_policy)policy, 0);

		use(flat);
		assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_WRITE_BACKS) > 0);
		fth_flat_discard(flat);
		if (wrong)
			fail_msg("%s, policy %d: %u calls of the allocator in faults", uri, policy,
				 __atomic_exchange_n(&wrong, 0, __ATOMIC_RELAXED));
	}
}

static void memory(void **unused)
{
	(void)unused;
	no_fault_allocates("mem:4M");
	no_fault_allocates("delay(mem:4M)?read_us=1");
}

static void files(void **unused)
{
	char path[] = "/tmp/flat_alloc_test.XXXXXX", uri[80];
	int fd = mkstemp(path);

	(void)unused;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	close(fd);
	snprintf(uri, sizeof(uri), "file:%s", path);
	no_fault_allocates(uri);
	snprintf(uri, sizeof(uri), "file:%s?engine=threads", path);
	no_fault_allocates(uri);
	unlink(path);
}

static void soft_nvme(void **unused)
{
	(void)unused;
	no_fault_allocates("softnvme(mem:4M)");
}

static void failing_devices(void **unused)
{
	(void)unused;
	no_fault_allocates("fault(mem:4M)?kind=read,write&rate=0.05&seed=7");
	no_fault_allocates("fault(mem:4M)?kind=read,write&rate=0.05&seed=7&mode=late");
	no_fault_allocates("fault(mem:4M)?kind=write&rate=0.05&seed=7&mode=torn");
}

static void crashing_devices(void **unused)
{
	(void)unused;
	no_fault_allocates("crash(mem:4M)");
	no_fault_allocates("crash(mem:4M)?limit=256K");
	no_fault_allocates("crash(mem:4M)?crash_at=150");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory),	    cmocka_unit_test(files),
		cmocka_unit_test(soft_nvme),	    cmocka_unit_test(failing_devices),
		cmocka_unit_test(crashing_devices),
	};
	struct fth_flat *flat;
	void *callers[1];
	int rc = fth_flat_open("mem:1M", BUDGET, NULL, &flat);

	if (rc == -ENOTSUP) {
		printf("skipped: %s\n", fth_error_text(rc));
		return 77;
	}
	fth_flat_discard(flat);
	(void)backtrace(callers, 1); /* loads a library the first time */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
