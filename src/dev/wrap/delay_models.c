/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Published figures of drives, and what a request costs by them. A figure that no source gives is
 * 0 here (no latency of its own, no cap), never a guess.
 */
#include "fathom/dev/delay.h"

#include "fathom/dev/driver.h"

#include <string.h>

#define US 1000u
#define K  1000u
#define M  1000000u

/*
 * Qureshi et al., GPU-Initiated On-Demand High-Throughput Storage Access in the BaM System
 * Architecture (ASPLOS 2023), Table 2: measured random IOPS at 512 B and 4 KiB, and the average
 * device latency, which it does not split by kind. It gives a range for the 980 PRO; the middle
 * is what Table 2.1 of Qureshi's dissertation on BaM has. Neither has a figure for flush.
 */
#define BAM_TABLE "Qureshi et al., BaM, ASPLOS 2023, Table 2"

/*
 * Abulila et al., FlatFlash (ASPLOS 2019). It has no table for a Z-SSD: the write of a page is in
 * 3.3 (16 us, after Samsung's white paper), and 20 us is the flash latency of Figure 14. No rate
 * is given, so there is no cap.
 */
#define FLATFLASH_TEXT	"Abulila et al., FlatFlash, ASPLOS 2019, 3.3 and Figure 14"
#define FLATFLASH_TABLE "Abulila et al., FlatFlash, ASPLOS 2019, Table 2"

static const struct fth_dev_model models[] = {
	{
		.name = "p5800x",
		.drive = "Intel Optane P5800X",
		.source = BAM_TABLE,
		.read = {.latency_ns = 10 * US, .iops_512 = 5100 * K, .iops_4k = 1500 * K},
		.write = {.latency_ns = 10 * US, .iops_512 = 1 * M, .iops_4k = 1500 * K},
	},
	{
		.name = "pm1735",
		.drive = "Samsung PM1735 (Z-NAND)",
		.source = BAM_TABLE,
		.read = {.latency_ns = 25 * US, .iops_512 = 1100 * K, .iops_4k = 1600 * K},
		.write = {.latency_ns = 25 * US, .iops_512 = 351 * K, .iops_4k = 351 * K},
	},
	{
		.name = "980pro",
		.drive = "Samsung 980 PRO (NAND)",
		.source = BAM_TABLE,
		.read = {.latency_ns = 100 * US, .iops_512 = 750 * K, .iops_4k = 750 * K},
		.write = {.latency_ns = 100 * US, .iops_512 = 172 * K, .iops_4k = 172 * K},
	},
	{
		.name = "zssd",
		.drive = "Z-SSD as FlatFlash assumes it",
		.source = FLATFLASH_TEXT,
		.read = {.latency_ns = 20 * US},
		.write = {.latency_ns = 16 * US},
	},
	{.name = NULL},
};

static const struct fth_dev_window_model windows[] = {
	{
		.name = "flatflash",
		.source = FLATFLASH_TABLE,
		.line_bytes = 64,
		.page_bytes = 4096,
		.line_read_ns = 4800,
		.line_write_ns = 600,
		.promote_page_ns = 12100,
		.pte_update_ns = 1400,
		.table_walk_ns = 700,
	},
	{.name = NULL},
};

const struct fth_dev_model *fth_dev_models(void)
{
	return models;
}

const struct fth_dev_model *fth_dev_model(const char *name)
{
	for (const struct fth_dev_model *m = models; m->name; m++)
		if (strcmp(m->name, name) == 0)
			return m;
	return NULL;
}

const struct fth_dev_window_model *fth_dev_window_model(const char *name)
{
	for (const struct fth_dev_window_model *w = windows; w->name; w++)
		if (strcmp(w->name, name) == 0)
			return w;
	return NULL;
}

static uint64_t cost_at(uint64_t iops)
{
	const uint64_t second = 1000000000u * (uint64_t)FTH_DEV_COST_PER_NS;

	/* Rounded up: rather a little below the rate than above it. */
	return (second + iops - 1) / iops;
}

uint64_t fth_dev_speed_cost(const struct fth_dev_speed *speed, uint64_t length)
{
	uint64_t small, page;

	if (speed->iops_512 == 0 || speed->iops_4k == 0)
		return 0;
	small = cost_at(speed->iops_512);
	page = cost_at(speed->iops_4k);
	if (length <= 512)
		return small;
	if (length > 4096)
		return (uint64_t)((unsigned __int128)page * length / 4096);
	/* The line may fall: small requests cost some drives more than pages do. */
	return (small * (4096 - length) + page * (length - 512)) / (4096 - 512);
}
