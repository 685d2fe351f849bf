/* SPDX-License-Identifier: BSD-2-Clause */
/* The window through the driver, on the software controller: access, durability, power loss. */
#include "fth_test.h"

#include "fathom/base/rng.h"
#include "fathom/dev/delay.h"
#include "fathom/hd/wait.h"
#include "nvme/ctrl.h"
#include "nvme/soft.h"
#include "nvme/window.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE  FTH_NVME_CTRL_PMR_LINE
#define SIZE  4096u
#define LINES (SIZE / LINE)

/* A device with its window open. */
struct rig {
	struct fth_dev *dev;
	struct fth_nvme *nvme;
	struct fth_nvme_ctrl *ctrl;
	struct fth_nvme_window *window;
};

static void rig_open(struct rig *rig, const char *uri, enum fth_nvme_window_kind kind)
{
	assert_ok(fth_dev_open(uri, &rig->dev));
	rig->nvme = fth_nvme_of_dev(rig->dev);
	rig->ctrl = fth_nvme_soft_ctrl(rig->nvme);
	assert_non_null(rig->ctrl);
	assert_ok(fth_nvme_window_open(rig->nvme, kind, &rig->window));
}

static void rig_close(struct rig *rig)
{
	fth_nvme_window_close(rig->window);
	fth_dev_close(rig->dev);
}

static void rig_reopen(struct rig *rig)
{
	fth_nvme_window_close(rig->window);
	assert_ok(fth_nvme_window_open(rig->nvme, FTH_NVME_WINDOW_PMR, &rig->window));
}

static uint8_t byte_at(struct rig *rig, uint64_t offset)
{
	uint8_t byte;

	assert_ok(fth_nvme_window_load(rig->window, offset, &byte, 1));
	return byte;
}

static void store_byte(struct rig *rig, uint64_t offset, uint8_t byte)
{
	assert_ok(fth_nvme_window_store(rig->window, offset, &byte, 1));
}

static void fill(void *to, size_t length, struct fth_rng *rng)
{
	for (size_t i = 0; i < length; i++)
		((char *)to)[i] = (char)fth_rng_next(rng);
}

/* ---- finding it ---- */

static void windows_are_found_where_they_are(void **state)
{
	static const struct {
		const char *uri;
		int cmb, pmr;
	} cases[] = {
		{"mem:1M", -ENODEV, -ENODEV},
		{"softnvme(mem:1M)", -EOPNOTSUPP, -EOPNOTSUPP},
		{"softnvme(mem:1M)?pmr=64K", -EOPNOTSUPP, 0},
		{"softnvme(mem:1M)?cmb=8K", 0, -EOPNOTSUPP},
		{"softnvme(mem:1M)?cmb=8K&pmr=64K", 0, 0},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fth_nvme_window *cmb, *pmr;
		struct fth_nvme *nvme;
		struct fth_dev *dev;

		assert_ok(fth_dev_open(cases[i].uri, &dev));
		nvme = fth_nvme_of_dev(dev);
		assert_int_equal(fth_nvme_window_open(nvme, FTH_NVME_WINDOW_CMB, &cmb),
				 cases[i].cmb);
		assert_int_equal(fth_nvme_window_open(nvme, FTH_NVME_WINDOW_PMR, &pmr),
				 cases[i].pmr);
		if (cmb)
			assert_int_equal(fth_nvme_window_info(cmb)->size, 8192);
		if (pmr)
			assert_int_equal(fth_nvme_window_info(pmr)->size, 65536);
		fth_nvme_window_close(cmb);
		fth_nvme_window_close(pmr);
		fth_dev_close(dev);
	}
}

static void a_window_says_what_it_is(void **state)
{
	const struct fth_nvme_window_info *info;
	struct rig rig;

	(void)state;
	rig_open(&rig, "softnvme(mem:1M)?pmr=64K", FTH_NVME_WINDOW_PMR);
	info = fth_nvme_window_info(rig.window);
	assert_int_equal(info->kind, FTH_NVME_WINDOW_PMR);
	assert_int_equal(info->bar, FTH_NVME_CTRL_PMR_BAR);
	assert_int_equal(info->flags, FTH_NVME_WINDOW_PERSISTENT | FTH_NVME_WINDOW_EMULATED |
					      FTH_NVME_WINDOW_BARRIER_STATUS);
	store_byte(&rig, 5, 77);
	assert_int_equal(((const uint8_t *)info->base)[5], 77);
	rig_close(&rig);
	rig_open(&rig, "softnvme(mem:1M)?cmb=64K", FTH_NVME_WINDOW_CMB);
	assert_int_equal(fth_nvme_window_info(rig.window)->flags, 0);
	assert_int_equal(fth_nvme_window_persist(rig.window, 0, 1, FTH_NEVER), -EOPNOTSUPP);
	assert_ok(fth_nvme_window_check(rig.window));
	rig_close(&rig);
}

static void it_is_enabled_while_it_is_open(void **state)
{
	struct fth_nvme_window *second;
	struct rig rig;

	(void)state;
	rig_open(&rig, "softnvme(mem:1M)?pmr=4K&cmb=4K", FTH_NVME_WINDOW_PMR);
	assert_int_equal(fth_nvme_ctrl_read32(rig.ctrl, FTH_NVME_REG_PMRCTL), FTH_NVME_PMRCTL_EN);
	assert_int_equal(fth_nvme_ctrl_read32(rig.ctrl, FTH_NVME_REG_PMRSTS), 0);
	assert_int_equal(fth_nvme_window_open(rig.nvme, FTH_NVME_WINDOW_PMR, &second), -EBUSY);
	assert_null(second);
	assert_ok(fth_nvme_window_open(rig.nvme, FTH_NVME_WINDOW_CMB, &second));
	assert_true(fth_nvme_ctrl_read32(rig.ctrl, FTH_NVME_REG_CMBSZ) != 0);
	fth_nvme_window_close(second);
	assert_int_equal(fth_nvme_ctrl_read32(rig.ctrl, FTH_NVME_REG_CMBSZ), 0);
	fth_nvme_window_close(rig.window);
	assert_int_equal(fth_nvme_ctrl_read32(rig.ctrl, FTH_NVME_REG_PMRCTL), 0);
	assert_int_equal(fth_nvme_ctrl_read32(rig.ctrl, FTH_NVME_REG_PMRSTS), FTH_NVME_PMRSTS_NRDY);
	assert_ok(fth_nvme_window_open(rig.nvme, FTH_NVME_WINDOW_PMR, &rig.window));
	rig_close(&rig);
}

/* ---- loads and stores ---- */

static void beyond_the_end_is_refused(void **state)
{
	static const struct {
		uint64_t offset, length;
		int rc;
	} cases[] = {
		{0, SIZE, 0},		{SIZE - 1, 1, 0},	  {SIZE, 0, 0},
		{SIZE, 1, -ERANGE},	{SIZE - 1, 2, -ERANGE},	  {SIZE + 1, 0, -ERANGE},
		{0, SIZE + 1, -ERANGE}, {1, UINT64_MAX, -ERANGE}, {UINT64_MAX, 1, -ERANGE},
	};
	char buf[SIZE] = {0};
	struct rig rig;

	(void)state;
	rig_open(&rig, "softnvme(mem:1M)?pmr=4K", FTH_NVME_WINDOW_PMR);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t offset = cases[i].offset, length = cases[i].length;

		assert_int_equal(fth_nvme_window_load(rig.window, offset, buf, length),
				 cases[i].rc);
		assert_int_equal(fth_nvme_window_store(rig.window, offset, buf, length),
				 cases[i].rc);
		assert_int_equal(fth_nvme_window_persist(rig.window, offset, length, FTH_NEVER),
				 cases[i].rc);
	}
	rig_close(&rig);
}

/* Store at every alignment of both sides, and look at all of the window after each. */
static void check_access(struct rig *rig, char *shadow, uint64_t offset, uint64_t length,
			 struct fth_rng *rng)
{
	const char *base = fth_nvme_window_info(rig->window)->base;
	char from[128 + 8], to[128 + 8];
	uint64_t skew = fth_rng_below(rng, 8);

	fill(from + skew, length, rng);
	memcpy(shadow + offset, from + skew, length);
	assert_ok(fth_nvme_window_store(rig->window, offset, from + skew, length));
	assert_memory_equal(base, shadow, SIZE);
	memset(to, 0x5a, sizeof(to));
	skew = fth_rng_below(rng, 7);
	assert_ok(fth_nvme_window_load(rig->window, offset, to + skew, length));
	assert_memory_equal(to + skew, shadow + offset, length);
	assert_int_equal(to[skew + length], 0x5a);
	assert_true(skew == 0 || to[skew - 1] == 0x5a);
}

static void any_size_and_alignment(void **state)
{
	static const enum fth_nvme_window_kind kinds[] = {FTH_NVME_WINDOW_CMB, FTH_NVME_WINDOW_PMR};
	struct fth_rng rng = {42};

	(void)state;
	for (unsigned k = 0; k < 2; k++) {
		char shadow[SIZE] = {0};
		struct rig rig;

		rig_open(&rig, "softnvme(mem:1M)?cmb=4K&pmr=4K", kinds[k]);
		for (uint64_t offset = 0; offset < 16; offset++)
			for (uint64_t length = 0; length < 41; length++)
				check_access(&rig, shadow, offset, length, &rng);
		for (unsigned i = 0; i < 2000; i++) {
			uint64_t length = fth_rng_below(&rng, 128);

			check_access(&rig, shadow, fth_rng_below(&rng, SIZE - length + 1), length,
				     &rng);
		}
		rig_close(&rig);
	}
}

/* ---- power loss ---- */

/* What the region must hold, by lines: durable for certain, or as stored. */
struct model {
	char durable[SIZE], memory[SIZE];
	unsigned step;	     /* what a barrier covers as a whole: a line, or a block of pmr_dev */
	unsigned kept, lost; /* lines that were not persisted */
};

static void model_store(struct model *model, struct rig *rig, struct fth_rng *rng)
{
	uint64_t length = 1 + fth_rng_below(rng, 3 * LINE);
	uint64_t offset = fth_rng_below(rng, SIZE - length + 1);

	fill(model->memory + offset, length, rng);
	assert_ok(fth_nvme_window_store(rig->window, offset, model->memory + offset, length));
}

static void model_persist(struct model *model, struct rig *rig, struct fth_rng *rng)
{
	uint64_t length = 1 + fth_rng_below(rng, 8 * LINE);
	uint64_t offset = fth_rng_below(rng, SIZE - length + 1);
	uint64_t first = offset / model->step * model->step;
	uint64_t end = (offset + length + model->step - 1) / model->step * model->step;

	assert_ok(fth_nvme_window_persist(rig->window, offset, length, FTH_NEVER));
	memcpy(model->durable + first, model->memory + first, end - first);
}

static void model_check(struct model *model, struct rig *rig)
{
	char now[SIZE];

	assert_ok(fth_nvme_window_load(rig->window, 0, now, SIZE));
	for (unsigned at = 0; at < SIZE; at += LINE) {
		bool is_old = memcmp(now + at, model->durable + at, LINE) == 0;
		bool is_new = memcmp(now + at, model->memory + at, LINE) == 0;

		if (!is_old && !is_new)
			fail_msg("line %u is neither what was persisted nor what was stored",
				 at / LINE);
		model->lost += !is_new;
		model->kept += !is_old;
	}
	memcpy(model->durable, now, SIZE);
	memcpy(model->memory, now, SIZE);
}

static void lose_power(struct rig *rig, uint64_t seed)
{
	assert_ok(fth_nvme_ctrl_pmr_power_loss(rig->ctrl, seed));
	assert_int_equal(fth_nvme_window_persist(rig->window, 0, 1, FTH_NEVER), -ENXIO);
	rig_reopen(rig);
}

static void run_losses(const char *uri, unsigned step, unsigned seeds)
{
	static struct model model;
	struct rig rig;

	memset(&model, 0, sizeof(model));
	model.step = step;
	rig_open(&rig, uri, FTH_NVME_WINDOW_PMR);
	for (unsigned seed = 0; seed < seeds; seed++) {
		struct fth_rng rng = {seed};
		unsigned n = (unsigned)fth_rng_below(&rng, 20);

		for (unsigned i = 0; i < n; i++) {
			model_store(&model, &rig, &rng);
			if (fth_rng_below(&rng, 3) == 0)
				model_persist(&model, &rig, &rng);
		}
		lose_power(&rig, seed);
		model_check(&model, &rig);
	}
	assert_true(model.kept > seeds && model.lost > seeds); /* several lines each time */
	rig_close(&rig);
}

static void a_power_loss_keeps_what_was_persisted(void **state)
{
	(void)state;
	run_losses("softnvme(mem:1M)?pmr=4K", LINE, 5000);
	run_losses("softnvme(mem:1M)?pmr=4K&pmr_dev=mem:8K%3Fblock=512", 512, 2000);
	run_losses("softnvme(mem:1M)?pmr=4K&pmr_dev=mem:4K%3Fblock=1", LINE, 1000);
}

/* Three lines stored and not persisted: each of the eight outcomes comes about. */
static void every_outcome_of_a_power_loss_occurs(void **state)
{
	unsigned seen[8] = {0};
	struct rig rig;

	(void)state;
	rig_open(&rig, "softnvme(mem:1M)?pmr=4K", FTH_NVME_WINDOW_PMR);
	for (unsigned seed = 0; seed < 1000; seed++) {
		unsigned outcome = 0;

		for (unsigned line = 0; line < 3; line++)
			store_byte(&rig, line * LINE, 1);
		assert_ok(fth_nvme_window_persist(rig.window, 0, SIZE, FTH_NEVER));
		for (unsigned line = 0; line < 3; line++)
			store_byte(&rig, line * LINE, 2);
		lose_power(&rig, seed);
		for (unsigned line = 0; line < 3; line++)
			outcome |= (byte_at(&rig, line * LINE) == 2u) << line;
		seen[outcome]++;
	}
	for (unsigned i = 0; i < 8; i++)
		assert_in_range(seen[i], 60, 200); /* 125 expected */
	rig_close(&rig);
}

static void a_read_of_the_status_register_covers_everything(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, "softnvme(mem:1M)?pmr=64K", FTH_NVME_WINDOW_PMR);
	for (unsigned seed = 0; seed < 200; seed++) {
		uint64_t at = seed * 300;

		store_byte(&rig, at, (uint8_t)seed);
		assert_int_equal(fth_nvme_ctrl_read32(rig.ctrl, FTH_NVME_REG_PMRSTS), 0);
		lose_power(&rig, seed);
		assert_int_equal(byte_at(&rig, at), (uint8_t)seed);
	}
	rig_close(&rig);
}

static void power_losses_that_can_not_be(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, "softnvme(mem:1M)?cmb=4K", FTH_NVME_WINDOW_CMB);
	assert_int_equal(fth_nvme_ctrl_pmr_power_loss(rig.ctrl, 1), -ENODEV);
	assert_int_equal(fth_nvme_ctrl_pmr_health(rig.ctrl, 1), -ENODEV);
	assert_null(fth_nvme_ctrl_pmr_dev(rig.ctrl));
	rig_close(&rig);
	rig_open(&rig, "softnvme(mem:1M)?pmr=4K", FTH_NVME_WINDOW_PMR);
	assert_ok(fth_nvme_ctrl_pmr_power_loss(rig.ctrl, 1));
	assert_int_equal(fth_nvme_ctrl_pmr_power_loss(rig.ctrl, 1), -ENXIO);
	assert_int_equal(fth_nvme_ctrl_pmr_health(rig.ctrl, 4), -EINVAL);
	rig_close(&rig);
	assert_null(fth_nvme_soft_ctrl(NULL));
}

/* ---- what keeps it ---- */

static void a_region_in_memory_ends_with_its_device(void **state)
{
	static const char *const uris[] = {"softnvme(mem:1M)?pmr=4K",
					   "softnvme(mem:1M)?pmr=4K&pmr_dev=mem:4K"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct rig rig;

		rig_open(&rig, uris[i], FTH_NVME_WINDOW_PMR);
		store_byte(&rig, 9, 9);
		assert_ok(fth_nvme_window_persist(rig.window, 9, 1, FTH_NEVER));
		rig_reopen(&rig); /* the window may come and go */
		assert_int_equal(byte_at(&rig, 9), 9);
		rig_close(&rig);
		rig_open(&rig, uris[i], FTH_NVME_WINDOW_PMR);
		assert_int_equal(byte_at(&rig, 9), 0);
		rig_close(&rig);
	}
}

static void a_region_in_a_file_survives(void **state)
{
	char path[] = "/tmp/fathom_window_XXXXXX", uri[256], text[1024];
	struct fth_dev *probe;
	struct rig rig;
	int fd = mkstemp(path), rc;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 65536), 0);
	close(fd);
	snprintf(uri, sizeof(uri), "file:%s", path);
	rc = fth_dev_open(uri, &probe);
	if (rc == -EPERM || rc == -ENOSYS) { /* no io_uring here */
		unlink(path);
		skip();
	}
	assert_ok(rc);
	fth_dev_close(probe);
	snprintf(uri, sizeof(uri), "softnvme(mem:1M)?pmr=64K&pmr_dev=file:%s", path);
	rig_open(&rig, uri, FTH_NVME_WINDOW_PMR);
	fth_nvme_window_report(rig.window, text, sizeof(text));
	assert_non_null(strstr(text, path));
	store_byte(&rig, 60000, 1);
	assert_ok(fth_nvme_window_persist(rig.window, 60000, 1, FTH_NEVER));
	store_byte(&rig, 60001, 2); /* kept by the orderly end */
	rig_close(&rig);
	rig_open(&rig, uri, FTH_NVME_WINDOW_PMR);
	assert_int_equal(byte_at(&rig, 60000), 1);
	assert_int_equal(byte_at(&rig, 60001), 2);
	rig_close(&rig);
	unlink(path);
}

/* ---- errors ---- */

static void a_medium_that_fails_is_told(void **state)
{
	static const char *const uris[] = {
		"softnvme(mem:1M)?pmr=4K&pmr_dev=fault%28mem:4K%29%3Fkind=write%26nth=1",
		"softnvme(mem:1M)?pmr=4K&pmr_dev=fault%28mem:4K%29%3Fkind=flush%26nth=1",
	};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct rig rig;

		rig_open(&rig, uris[i], FTH_NVME_WINDOW_PMR);
		store_byte(&rig, 0, 1);
		assert_int_equal(fth_nvme_window_persist(rig.window, 0, 1, FTH_NEVER), -EIO);
		assert_int_equal(fth_nvme_window_persist(rig.window, 0, 1, FTH_NEVER), -EIO);
		assert_int_equal(fth_nvme_window_check(rig.window), -EIO);
		rig_reopen(&rig); /* the fault is over: it works again */
		assert_ok(fth_nvme_window_check(rig.window));
		assert_int_equal(byte_at(&rig, 0), i); /* the failed write is not there */
		store_byte(&rig, 0, 7);
		assert_ok(fth_nvme_window_persist(rig.window, 0, 1, FTH_NEVER));
		rig_reopen(&rig);
		assert_int_equal(byte_at(&rig, 0), 7);
		rig_close(&rig);
	}
}

static void a_region_that_was_not_restored_says_so(void **state)
{
	char text[1024];
	struct rig rig;

	(void)state;
	rig_open(&rig, "softnvme(mem:1M)?pmr=4K&pmr_dev=fault%28mem:4K%29%3Fkind=read%26nth=1",
		 FTH_NVME_WINDOW_PMR);
	assert_true(fth_nvme_window_info(rig.window)->flags & FTH_NVME_WINDOW_RESTORE_ERROR);
	fth_nvme_window_report(rig.window, text, sizeof(text));
	assert_non_null(strstr(text, "may not have restored"));
	store_byte(&rig, 0, 1);
	assert_ok(fth_nvme_window_persist(rig.window, 0, 1, FTH_NEVER));
	rig_reopen(&rig);
	assert_false(fth_nvme_window_info(rig.window)->flags & FTH_NVME_WINDOW_RESTORE_ERROR);
	assert_int_equal(byte_at(&rig, 0), 1);
	rig_close(&rig);
}

static void a_region_that_wears_out(void **state)
{
	struct fth_nvme_window *window;
	struct rig rig;

	(void)state;
	rig_open(&rig, "softnvme(mem:1M)?pmr=4K", FTH_NVME_WINDOW_PMR);
	store_byte(&rig, 0, 1);
	assert_ok(fth_nvme_window_persist(rig.window, 0, 1, FTH_NEVER));
	assert_ok(fth_nvme_ctrl_pmr_health(rig.ctrl, FTH_NVME_PMR_READ_ONLY));
	store_byte(&rig, 0, 2); /* swallowed: only persist tells */
	assert_int_equal(fth_nvme_window_persist(rig.window, 0, 1, FTH_NEVER), -EROFS);
	assert_int_equal(byte_at(&rig, 0), 1);
	rig_reopen(&rig);
	assert_int_equal(fth_nvme_window_store(rig.window, 0, "a", 1), -EROFS);
	assert_int_equal(byte_at(&rig, 0), 1);
	assert_ok(fth_nvme_ctrl_pmr_health(rig.ctrl, FTH_NVME_PMR_UNRELIABLE));
	assert_int_equal(fth_nvme_window_persist(rig.window, 0, 1, FTH_NEVER), -EIO);
	fth_nvme_window_close(rig.window);
	assert_int_equal(fth_nvme_window_open(rig.nvme, FTH_NVME_WINDOW_PMR, &window), -EIO);
	fth_dev_close(rig.dev);
}

static void bad_options_are_refused(void **state)
{
	static const char *const bad[] = {
		"softnvme(mem:1M)?pmr=2K",
		"softnvme(mem:1M)?pmr=12K",
		"softnvme(mem:1M)?cmb=12K",
		"softnvme(mem:1M)?cmb=4G",
		"softnvme(mem:1M)?pmr_dev=mem:4K",
		"softnvme(mem:1M)?pmr=8K&pmr_dev=mem:4K",
		"softnvme(mem:1M)?pmr=4K&pmr_dev=mem:64K%3Fblock=8192",
		"softnvme(mem:1M)?pmr=4K&pmr_dev=nosuch:1",
		"softnvme(mem:1M)?pmr=4K&window_model=zebra",
	};
	struct fth_dev *dev;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (fth_dev_open(bad[i], &dev) != -EINVAL)
			fail_msg("\"%s\" was opened", bad[i]);
}

/* ---- resets, threads, speed ---- */

static void a_reset_leaves_the_region_alone(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, "softnvme(mem:1M)?pmr=4K", FTH_NVME_WINDOW_PMR);
	store_byte(&rig, 0, 3);
	fth_nvme_fail(rig.nvme, EIO);
	store_byte(&rig, 1, 4);
	assert_ok(fth_nvme_window_persist(rig.window, 0, 2, FTH_NEVER));
	assert_ok(fth_nvme_recover(rig.nvme));
	assert_ok(fth_nvme_window_check(rig.window));
	assert_int_equal(byte_at(&rig, 0), 3);
	assert_int_equal(byte_at(&rig, 1), 4);
	rig_close(&rig);
}

#define THREADS 4u
#define ROUNDS	200u

struct writer {
	struct rig *rig;
	unsigned index;
	int rc;
};

/* Write a counter over one's own lines, which lie between those of others, persisting each. */
static void *write_rounds(void *arg)
{
	struct writer *writer = arg;

	for (unsigned round = 1; round <= ROUNDS && writer->rc == 0; round++) {
		for (unsigned line = writer->index; line < LINES; line += THREADS) {
			uint32_t value = round, seen = 0;
			uint64_t at = line * LINE + 8 * (round % 8);
			struct fth_nvme_window *window = writer->rig->window;

			writer->rc |= fth_nvme_window_store(window, at, &value, sizeof(value));
			writer->rc |= fth_nvme_window_persist(window, at, sizeof(value), FTH_NEVER);
			writer->rc |= fth_nvme_window_load(window, at, &seen, sizeof(seen));
			if (seen != value)
				writer->rc = -EILSEQ;
		}
		if (round % 50 == 0) /* a barrier over all of it, and so over the others' lines */
			writer->rc |= fth_nvme_window_check(writer->rig->window);
	}
	return NULL;
}

static void many_threads_store_and_persist(void **state)
{
	struct writer writers[THREADS];
	pthread_t threads[THREADS];
	struct rig rig;

	(void)state;
	rig_open(&rig, "softnvme(mem:1M)?pmr=4K&pmr_dev=mem:4K", FTH_NVME_WINDOW_PMR);
	for (unsigned i = 0; i < THREADS; i++) {
		writers[i] = (struct writer){&rig, i, 0};
		assert_int_equal(pthread_create(&threads[i], NULL, write_rounds, &writers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_ok(writers[i].rc);
	}
	lose_power(&rig, 1);
	for (unsigned line = 0; line < LINES; line++) {
		uint32_t value;

		assert_ok(fth_nvme_window_load(rig.window, line * LINE + 8 * (ROUNDS % 8), &value,
					       sizeof(value)));
		assert_int_equal(value, ROUNDS);
	}
	rig_close(&rig);
}

static void a_model_makes_it_no_faster_than_the_model(void **state)
{
	const struct fth_dev_window_model *model = fth_dev_window_model("flatflash");
	uint64_t start, lines = 3; /* bytes 60 to 188 lie in three lines */
	char buf[128] = {0};
	struct rig rig;

	(void)state;
	rig_open(&rig, "softnvme(mem:1M)?pmr=4K&window_model=flatflash", FTH_NVME_WINDOW_PMR);
	start = fth_now_ns();
	for (unsigned i = 0; i < 20; i++)
		assert_ok(fth_nvme_window_load(rig.window, 60, buf, 128));
	assert_true(fth_now_ns() - start >= 20 * lines * model->line_read_ns);
	start = fth_now_ns();
	for (unsigned i = 0; i < 20; i++)
		assert_ok(fth_nvme_window_store(rig.window, 60, buf, 128));
	assert_true(fth_now_ns() - start >= 20 * lines * model->line_write_ns);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_are_found_where_they_are),
		cmocka_unit_test(a_window_says_what_it_is),
		cmocka_unit_test(it_is_enabled_while_it_is_open),
		cmocka_unit_test(beyond_the_end_is_refused),
		cmocka_unit_test(any_size_and_alignment),
		cmocka_unit_test(a_power_loss_keeps_what_was_persisted),
		cmocka_unit_test(every_outcome_of_a_power_loss_occurs),
		cmocka_unit_test(a_read_of_the_status_register_covers_everything),
		cmocka_unit_test(power_losses_that_can_not_be),
		cmocka_unit_test(a_region_in_memory_ends_with_its_device),
		cmocka_unit_test(a_region_in_a_file_survives),
		cmocka_unit_test(a_medium_that_fails_is_told),
		cmocka_unit_test(a_region_that_was_not_restored_says_so),
		cmocka_unit_test(a_region_that_wears_out),
		cmocka_unit_test(bad_options_are_refused),
		cmocka_unit_test(a_reset_leaves_the_region_alone),
		cmocka_unit_test(many_threads_store_and_persist),
		cmocka_unit_test(a_model_makes_it_no_faster_than_the_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
