/* SPDX-License-Identifier: BSD-2-Clause */
/* The window against registers played by hand: where it is, what it says, and what is refused. */
#include "fth_test.h"

#include "driver_internal.h"
#include "dev/mmio.h"

#include "fathom/hd/wait.h"
#include "nvme/window.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#define BAR_SIZE 65536u
#define PMR_BAR	 4u
#define GOOD_CAP                                                             \
	(PMR_BAR << FTH_NVME_PMRCAP_BIR_SHIFT | FTH_NVME_PMRCAP_WBM_STATUS | \
	 1u << FTH_NVME_PMRCAP_PMRTO_SHIFT)

struct fake {
	struct fth_nvme_transport base;
	struct fth_nvme nvme;
	uint32_t cmbloc, cmbsz, cmbmsc;
	uint32_t pmrcap, pmrctl, pmrsts, pmrebs, pmrswtp; /* pmrsts without NRDY */
	unsigned slow;	/* reads of PMRSTS until the region follows PMRCTL */
	unsigned delay; /* of them that are left */
	bool stuck_on;	/* it never turns off */
	unsigned status_reads;
	bool gone;
	unsigned bar;
	uint64_t offset, size; /* as mapped */
	char *memory;
};

static struct fake *fake_of(struct fth_nvme_transport *t)
{
	return (struct fake *)t;
}

static uint32_t read_pmrsts(struct fake *fake)
{
	bool ready = fake->pmrctl & FTH_NVME_PMRCTL_EN || fake->stuck_on;

	fake->status_reads++;
	if (fake->delay > 0) {
		fake->delay--;
		ready = !ready;
	}
	return fake->pmrsts | (ready ? 0 : FTH_NVME_PMRSTS_NRDY);
}

static uint32_t fake_read32(struct fth_nvme_transport *t, uint32_t offset)
{
	struct fake *fake = fake_of(t);
	bool shown = fake->cmbmsc & FTH_NVME_CMBMSC_CRE || !(fake->nvme.cap & FTH_NVME_CAP_CMBS);

	if (fake->gone)
		return UINT32_MAX;
	switch (offset) {
	case FTH_NVME_REG_CMBLOC:
		return shown ? fake->cmbloc : 0;
	case FTH_NVME_REG_CMBSZ:
		return shown ? fake->cmbsz : 0;
	case FTH_NVME_REG_PMRCAP:
		return fake->pmrcap;
	case FTH_NVME_REG_PMRCTL:
		return fake->pmrctl;
	case FTH_NVME_REG_PMRSTS:
		return read_pmrsts(fake);
	case FTH_NVME_REG_PMREBS:
		return fake->pmrebs;
	case FTH_NVME_REG_PMRSWTP:
		return fake->pmrswtp;
	default:
		return 0;
	}
}

static void fake_write32(struct fth_nvme_transport *t, uint32_t offset, uint32_t value)
{
	struct fake *fake = fake_of(t);

	if (offset == FTH_NVME_REG_CMBMSC)
		fake->cmbmsc = value;
	if (offset == FTH_NVME_REG_PMRCTL) {
		fake->delay = value == fake->pmrctl ? 0 : fake->slow;
		fake->pmrctl = value;
	}
}

static int fake_bar_size(struct fth_nvme_transport *t, unsigned bar, uint64_t *size)
{
	(void)t;
	*size = BAR_SIZE;
	return bar == 1 ? -ENODEV : 0;
}

static int fake_bar(struct fth_nvme_transport *t, unsigned bar, uint64_t offset, uint64_t size,
		    void **out)
{
	struct fake *fake = fake_of(t);

	fake->bar = bar;
	fake->offset = offset;
	fake->size = size;
	*out = fake->memory + offset;
	return 0;
}

static void fake_bar_unmap(struct fth_nvme_transport *t, void *addr, uint64_t size)
{
	assert_ptr_equal(addr, fake_of(t)->memory + fake_of(t)->offset);
	assert_int_equal(size, fake_of(t)->size);
	fake_of(t)->size = 0;
}

static const struct fth_nvme_transport_ops fake_ops = {
	.read32 = fake_read32,
	.write32 = fake_write32,
	.bar_size = fake_bar_size,
	.bar = fake_bar,
	.bar_unmap = fake_bar_unmap,
};

static char memory[BAR_SIZE] __attribute__((aligned(4096)));

/* A drive with both windows; each test bends what it is about. */
static struct fake *new_fake(void)
{
	static struct fake fake;

	memset(&fake, 0, sizeof(fake));
	memset(memory, 0, sizeof(memory));
	fake.base.ops = &fake_ops;
	fake.nvme.transport = &fake.base;
	fake.nvme.cap = FTH_NVME_CAP_PMRS | FTH_NVME_CAP_CMBS;
	fake.memory = memory;
	fake.pmrcap = GOOD_CAP;
	fake.cmbloc = 2 | 1u << FTH_NVME_CMBLOC_OFST_SHIFT;
	fake.cmbsz = 2u << FTH_NVME_CMBSZ_SZ_SHIFT | FTH_NVME_CMBSZ_SQS | FTH_NVME_CMBSZ_WDS;
	return &fake;
}

static int open_pmr(struct fake *fake, struct fth_nvme_window **window)
{
	return fth_nvme_window_open(&fake->nvme, FTH_NVME_WINDOW_PMR, window);
}

static int open_cmb(struct fake *fake, struct fth_nvme_window **window)
{
	return fth_nvme_window_open(&fake->nvme, FTH_NVME_WINDOW_CMB, window);
}

/* ---- CMB ---- */

static void a_cmb_is_where_its_registers_say(void **state)
{
	struct fake *fake = new_fake();
	struct fth_nvme_window *window;
	const struct fth_nvme_window_info *info;

	(void)state;
	assert_ok(open_cmb(fake, &window));
	info = fth_nvme_window_info(window);
	assert_int_equal(info->bar, 2);
	assert_int_equal(info->bar_offset, 4096);
	assert_int_equal(info->size, 8192);
	assert_ptr_equal(info->base, memory + 4096);
	assert_int_equal(info->flags, FTH_NVME_WINDOW_SQS | FTH_NVME_WINDOW_WDS);
	assert_int_equal(fake->cmbmsc, FTH_NVME_CMBMSC_CRE);
	fth_nvme_window_close(window);
	assert_int_equal(fake->cmbmsc, 0);
	assert_int_equal(fake->size, 0);

	fake->cmbsz = 2u << FTH_NVME_CMBSZ_SZ_SHIFT | FTH_NVME_CMBSZ_CQS | FTH_NVME_CMBSZ_LISTS |
		      FTH_NVME_CMBSZ_RDS;
	assert_ok(open_cmb(fake, &window));
	assert_int_equal(fth_nvme_window_info(window)->flags,
			 FTH_NVME_WINDOW_CQS | FTH_NVME_WINDOW_LISTS | FTH_NVME_WINDOW_RDS);
	fth_nvme_window_close(window);
}

static void a_cmb_of_before_1_4_needs_no_permission(void **state)
{
	struct fake *fake = new_fake();
	struct fth_nvme_window *window;

	(void)state;
	fake->nvme.cap = 0;
	assert_ok(open_cmb(fake, &window));
	assert_int_equal(fth_nvme_window_info(window)->size, 8192);
	assert_int_equal(fake->cmbmsc, 0);
	fth_nvme_window_close(window);
}

static void a_cmb_is_cut_to_its_bar(void **state)
{
	struct fake *fake = new_fake();
	struct fth_nvme_window *window;

	(void)state;
	fake->cmbloc = 0; /* 1 MiB at the start of BAR 0 */
	fake->cmbsz = 1u << FTH_NVME_CMBSZ_SZ_SHIFT | 2u << FTH_NVME_CMBSZ_SZU_SHIFT;
	assert_ok(open_cmb(fake, &window));
	assert_int_equal(fth_nvme_window_info(window)->bar, 0);
	assert_int_equal(fth_nvme_window_info(window)->size, BAR_SIZE);
	fth_nvme_window_close(window);

	fake->cmbloc = 2 | 1u << FTH_NVME_CMBLOC_OFST_SHIFT; /* now behind its end */
	assert_int_equal(open_cmb(fake, &window), -EIO);
	assert_null(window);
	fake->cmbsz = 1u << FTH_NVME_CMBSZ_SZ_SHIFT | 7u << FTH_NVME_CMBSZ_SZU_SHIFT;
	assert_int_equal(open_cmb(fake, &window), -EIO);
	fake->cmbsz = 0;
	assert_int_equal(open_cmb(fake, &window), -EOPNOTSUPP);
	assert_int_equal(fake->cmbmsc, 0); /* off again after each failure */
	assert_int_equal(fake->nvme.windows, 0);
}

/* ---- PMR ---- */

static void a_pmr_tells_its_figures(void **state)
{
	struct fake *fake = new_fake();
	const struct fth_nvme_window_info *info;
	struct fth_nvme_window *window;

	(void)state;
	fake->pmrcap |= FTH_NVME_PMRCAP_WBM_READ | FTH_NVME_PMRCAP_RDS | FTH_NVME_PMRCAP_WDS;
	fake->pmrebs = 3u << 8 | FTH_NVME_PMREBS_RBB | 1;
	fake->pmrswtp = 2u << 8 | 3;
	assert_ok(open_pmr(fake, &window));
	info = fth_nvme_window_info(window);
	assert_int_equal(info->bar, PMR_BAR);
	assert_int_equal(info->bar_offset, 0);
	assert_int_equal(info->size, BAR_SIZE);
	assert_int_equal(info->elasticity, 3u << 10);
	assert_int_equal(info->sustained, 2ull << 30);
	assert_int_equal(info->flags, FTH_NVME_WINDOW_PERSISTENT | FTH_NVME_WINDOW_BARRIER_READ |
					      FTH_NVME_WINDOW_BARRIER_STATUS |
					      FTH_NVME_WINDOW_READ_BYPASS | FTH_NVME_WINDOW_RDS |
					      FTH_NVME_WINDOW_WDS);
	fth_nvme_window_close(window);
	assert_int_equal(fth_nvme_pmr_bytes(5u << 8 | 0), 5);
	assert_int_equal(fth_nvme_pmr_bytes(5u << 8 | 2), 5u << 20);
	assert_int_equal(fth_nvme_pmr_bytes(5u << 8 | 4), 0); /* a reserved unit */
}

static void a_pmr_may_take_its_time(void **state)
{
	struct fake *fake = new_fake();
	struct fth_nvme_window *window, *second;

	(void)state;
	fake->slow = 20;
	fake->pmrctl = FTH_NVME_PMRCTL_EN; /* left on by someone: it is turned off first */
	assert_ok(open_pmr(fake, &window));
	assert_int_equal(fake->pmrctl, FTH_NVME_PMRCTL_EN);
	assert_true(fake->status_reads > 40);
	assert_int_equal(open_pmr(fake, &second), -EBUSY);
	fth_nvme_window_close(window);
	assert_int_equal(fake->pmrctl, 0);
}

static void a_pmr_that_does_not_follow_is_given_up(void **state)
{
	struct fake *fake = new_fake();
	struct fth_nvme_window *window;

	(void)state;
	fake->slow = UINT32_MAX;
	assert_int_equal(open_pmr(fake, &window), -ETIMEDOUT);
	assert_null(window);
	assert_int_equal(fake->pmrctl, 0);
	assert_int_equal(fake->size, 0); /* unmapped */

	fake = new_fake();
	fake->pmrctl = FTH_NVME_PMRCTL_EN;
	fake->stuck_on = true;
	assert_int_equal(open_pmr(fake, &window), -ETIMEDOUT);
	assert_int_equal(fake->nvme.windows, 0);
}

static void every_state_is_an_errno(void **state)
{
	static const struct {
		uint32_t pmrsts;
		int rc;
	} cases[] = {
		{0, 0},
		{FTH_NVME_PMR_RESTORE_ERROR << FTH_NVME_PMRSTS_HSTS_SHIFT, 0},
		{FTH_NVME_PMR_READ_ONLY << FTH_NVME_PMRSTS_HSTS_SHIFT, -EROFS},
		{FTH_NVME_PMR_UNRELIABLE << FTH_NVME_PMRSTS_HSTS_SHIFT, -EIO},
		{5u << FTH_NVME_PMRSTS_HSTS_SHIFT, -EIO}, /* reserved */
		{1, -EIO},
		{0x80, -EIO},
		{FTH_NVME_PMRSTS_NRDY, -ENXIO},
		{UINT32_MAX, -ENODEV},
	};
	struct fake *fake = new_fake();
	struct fth_nvme_window *window;

	(void)state;
	assert_ok(open_pmr(fake, &window));
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake->pmrsts = cases[i].pmrsts;
		assert_int_equal(fth_nvme_window_check(window), cases[i].rc);
		assert_int_equal(fth_nvme_window_persist(window, 0, 1, FTH_NEVER), cases[i].rc);
	}
	fake->pmrsts = 0;
	fth_nvme_window_close(window);
}

static void a_bad_state_is_found_when_opening(void **state)
{
	struct fake *fake = new_fake();
	struct fth_nvme_window *window;

	(void)state;
	fake->pmrsts = FTH_NVME_PMR_UNRELIABLE << FTH_NVME_PMRSTS_HSTS_SHIFT;
	assert_int_equal(open_pmr(fake, &window), -EIO);
	assert_int_equal(fake->pmrctl, 0);
	fake->pmrsts = FTH_NVME_PMR_READ_ONLY << FTH_NVME_PMRSTS_HSTS_SHIFT;
	assert_ok(open_pmr(fake, &window));
	assert_true(fth_nvme_window_info(window)->flags & FTH_NVME_WINDOW_READ_ONLY);
	assert_int_equal(fth_nvme_window_store(window, 0, "a", 1), -EROFS);
	assert_int_equal(memory[0], 0);
	fth_nvme_window_close(window);
	fake->gone = true;
	assert_int_equal(open_pmr(fake, &window), -ENODEV);
	assert_int_equal(open_cmb(fake, &window), -ENODEV);
}

static void what_is_not_there_is_refused(void **state)
{
	struct fth_nvme_transport_ops no_bars = fake_ops;
	struct fake *fake = new_fake();
	struct fth_nvme_window *window;

	(void)state;
	fake->nvme.cap = 0;
	assert_int_equal(open_pmr(fake, &window), -EOPNOTSUPP);
	fake->nvme.cap = FTH_NVME_CAP_PMRS;
	fake->pmrcap = 1u << FTH_NVME_PMRCAP_BIR_SHIFT; /* BAR 1 is no memory */
	assert_int_equal(open_pmr(fake, &window), -ENODEV);
	no_bars.bar = NULL;
	fake->base.ops = &no_bars;
	assert_int_equal(open_pmr(fake, &window), -EOPNOTSUPP);
	assert_int_equal(open_cmb(fake, &window), -EOPNOTSUPP);
}

/* ---- accesses ---- */

/* Always aligned, never beyond the end, and as wide as that allows. */
static void accesses_are_aligned_and_inside(void **state)
{
	(void)state;
	for (uintptr_t at = 0; at < 16; at++) {
		for (uint64_t left = 1; left < 20; left++) {
			unsigned width = mmio_width(memory + at, left);

			assert_true(width == 1 || width == 2 || width == 4 || width == 8);
			assert_int_equal(at % width, 0);
			assert_true(width <= left);
			assert_true(width == 8 || at % (2 * width) || 2 * width > left);
		}
	}
}

/* ---- the barrier ---- */

static volatile sig_atomic_t touched;

static void on_touch(int signal)
{
	(void)signal;
	touched++;
	if (mprotect(memory, BAR_SIZE, PROT_READ | PROT_WRITE) != 0)
		_Exit(1);
}

/* How often persist touches the region itself: the first time is seen, by a trap. */
static int touches_of_persist(struct fth_nvme_window *window, int *rc)
{
	struct sigaction trap = {.sa_handler = on_touch}, old;

	touched = 0;
	assert_int_equal(sigaction(SIGSEGV, &trap, &old), 0);
	assert_int_equal(mprotect(memory, BAR_SIZE, PROT_NONE), 0);
	*rc = fth_nvme_window_persist(window, 100, 28, FTH_NEVER);
	assert_int_equal(mprotect(memory, BAR_SIZE, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(sigaction(SIGSEGV, &old, NULL), 0);
	return touched;
}

static void the_barrier_is_the_one_the_drive_names(void **state)
{
	static const struct {
		uint32_t wbm;
		int touches, rc;
		unsigned status_reads;
	} cases[] = {
		{FTH_NVME_PMRCAP_WBM_STATUS, 0, 0, 1},
		{FTH_NVME_PMRCAP_WBM_READ, 1, 0, 1}, /* and PMRSTS, for errors */
		{FTH_NVME_PMRCAP_WBM_READ | FTH_NVME_PMRCAP_WBM_STATUS, 0, 0, 1},
		{0, 0, -EOPNOTSUPP, 0},
	};
	const uint32_t both = FTH_NVME_PMRCAP_WBM_READ | FTH_NVME_PMRCAP_WBM_STATUS;

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fake *fake = new_fake();
		struct fth_nvme_window *window;
		int rc;

		fake->pmrcap = (fake->pmrcap & ~both) | cases[i].wbm;
		assert_ok(open_pmr(fake, &window));
		fake->status_reads = 0;
		assert_int_equal(touches_of_persist(window, &rc), cases[i].touches);
		assert_int_equal(rc, cases[i].rc);
		assert_int_equal(fake->status_reads, cases[i].status_reads);
		fth_nvme_window_close(window);
	}
}

static void the_report_says_what_the_drive_promises(void **state)
{
	struct fake *fake = new_fake();
	struct fth_nvme_window *window;
	char text[1024], small[8];
	int length;

	(void)state;
	fake->pmrsts = FTH_NVME_PMR_RESTORE_ERROR << FTH_NVME_PMRSTS_HSTS_SHIFT;
	assert_ok(open_pmr(fake, &window));
	length = fth_nvme_window_report(window, text, sizeof(text));
	assert_int_equal(length, strlen(text));
	assert_non_null(strstr(text, "by a read of PMRSTS, survives a power loss"));
	assert_non_null(strstr(text, "may not have restored"));
	assert_non_null(strstr(text, "the drive's promise"));
	assert_null(strstr(text, "software"));
	assert_int_equal(fth_nvme_window_report(window, small, sizeof(small)), length);
	assert_string_equal(small, "Persist");
	fth_nvme_window_close(window);
	fake->pmrcap &= ~FTH_NVME_PMRCAP_WBM_STATUS;
	assert_ok(open_pmr(fake, &window));
	fth_nvme_window_report(window, text, sizeof(text));
	assert_non_null(strstr(text, "names no write barrier"));
	fth_nvme_window_close(window);
	assert_ok(open_cmb(fake, &window));
	fth_nvme_window_report(window, text, sizeof(text));
	assert_non_null(strstr(text, "nothing survives"));
	fth_nvme_window_close(window);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cmb_is_where_its_registers_say),
		cmocka_unit_test(a_cmb_of_before_1_4_needs_no_permission),
		cmocka_unit_test(a_cmb_is_cut_to_its_bar),
		cmocka_unit_test(a_pmr_tells_its_figures),
		cmocka_unit_test(a_pmr_may_take_its_time),
		cmocka_unit_test(a_pmr_that_does_not_follow_is_given_up),
		cmocka_unit_test(every_state_is_an_errno),
		cmocka_unit_test(a_bad_state_is_found_when_opening),
		cmocka_unit_test(what_is_not_there_is_refused),
		cmocka_unit_test(accesses_are_aligned_and_inside),
		cmocka_unit_test(the_barrier_is_the_one_the_drive_names),
		cmocka_unit_test(the_report_says_what_the_drive_promises),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
