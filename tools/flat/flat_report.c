/* SPDX-License-Identifier: BSD-2-Clause */
#include "flat_report.h"

#include "cli.h"
#include "json.h"

#include "fathom/flat.h"

static const char *const count_names[RUN_COUNTS] = {
	[RUN_ALLOCATIONS] = "allocations",  [RUN_BYTES] = "bytes",
	[RUN_BYTES_MOST] = "bytes_most",    [RUN_LEFT] = "bytes_left",
	[RUN_FULL] = "refused_allocations", [RUN_CALLS] = "calls_caught",
	[RUN_HELD] = "calls_held",
};

static unsigned long long figure(const struct run_shared *run, enum fth_flat_stat which)
{
	return __atomic_load_n(&run->flat[which], __ATOMIC_RELAXED);
}

static unsigned long long count(const struct run_shared *run, enum run_count which)
{
	return __atomic_load_n(&run->counts[which], __ATOMIC_RELAXED);
}

static uint64_t in_memory(const struct run_shared *run)
{
	return (figure(run, FTH_FLAT_STAT_PAGES_DRAM) + figure(run, FTH_FLAT_STAT_PAGES_CACHED)) *
	       run->page;
}

#define READ_OFTEN 4 /* times that each page was read: more is thrashing */

/*
 * Pages that leave and come back often mean that the budget is too small: say which options help.
 */
static void advise(FILE *out, const struct run_shared *run)
{
	uint64_t most = count(run, RUN_BYTES_MOST), read = figure(run, FTH_FLAT_STAT_MISSES);
	uint64_t pages = most / (run->page ? run->page : 1);
	char all[FTH_CLI_BYTES_MAX];

	if (most <= run->dram || pages == 0 || read < READ_OFTEN * pages)
		return;
	fprintf(out,
		"  advice        each page was read %llu times on average; a --memory well above "
		"%s "
		"would hold them all%s\n",
		(unsigned long long)(read / pages), fth_cli_bytes(all, most),
		run->policy == FTH_FLAT_ALWAYS
			? ", --policy counters uses rarely used ones in place"
			: "");
}

void fth_flat_report(FILE *out, const struct run_shared *run)
{
	char a[FTH_CLI_BYTES_MAX], b[FTH_CLI_BYTES_MAX], c[FTH_CLI_BYTES_MAX], d[FTH_CLI_BYTES_MAX];

	fprintf(out, "%s (process %d), %s in %s of memory\n", run->program, run->pid,
		fth_cli_bytes(a, count(run, RUN_BYTES_MOST)), fth_cli_bytes(b, run->dram));
	fprintf(out, "  region        %s in use, %s at most, %s in memory; %llu allocations\n",
		fth_cli_bytes(a, count(run, RUN_BYTES)),
		fth_cli_bytes(b, count(run, RUN_BYTES_MOST)), fth_cli_bytes(c, in_memory(run)),
		count(run, RUN_ALLOCATIONS));
	fprintf(out, "  cold          %llu loads and %llu stores without moving the page\n",
		figure(run, FTH_FLAT_STAT_LOADS), figure(run, FTH_FLAT_STAT_STORES));
	fprintf(out, "  pages         %llu moved to DRAM, %llu back\n",
		figure(run, FTH_FLAT_STAT_PROMOTIONS), figure(run, FTH_FLAT_STAT_DEMOTIONS));
	fprintf(out, "  device        %s read, %s written, %llu errors\n",
		fth_cli_bytes(a, figure(run, FTH_FLAT_STAT_MISSES) * run->page),
		fth_cli_bytes(b, figure(run, FTH_FLAT_STAT_WRITE_BACKS) * run->page),
		figure(run, FTH_FLAT_STAT_ERRORS));
	fprintf(out, "  system calls  %llu caught, %llu with buffers in the region\n",
		count(run, RUN_CALLS), count(run, RUN_HELD));
	if (count(run, RUN_FULL))
		fprintf(out, "  refused       %llu allocations: the region of %s was full\n",
			count(run, RUN_FULL), fth_cli_bytes(d, run->size));
	if (count(run, RUN_LEFT))
		fprintf(out,
			"  left          %s that the program protected, locked or mapped over\n",
			fth_cli_bytes(d, count(run, RUN_LEFT)));
	advise(out, run);
}

void fth_flat_report_json(FILE *out, const struct run_shared *run)
{
	struct fth_json j;

	fth_json_begin(&j, out);
	fth_json_string(&j, "program", run->program);
	fth_json_i64(&j, "pid", run->pid);
	fth_json_string(&j, "device", run->uri);
	fth_json_u64(&j, "dram", run->dram);
	fth_json_u64(&j, "size", run->size);
	fth_json_u64(&j, "min_alloc", run->min_alloc);
	fth_json_u64(&j, "page", run->page);
	fth_json_string(&j, "policy", fth_flat_policy_name((enum fth_flat_policy)run->policy));
	for (int i = 0; i < RUN_COUNTS; i++)
		fth_json_u64(&j, count_names[i], count(run, (enum run_count)i));
	for (int i = 0; i < FTH_FLAT_STAT_COUNT && i < RUN_STATS; i++)
		fth_json_u64(&j, fth_flat_stat_name((enum fth_flat_stat)i),
			     figure(run, (enum fth_flat_stat)i));
	fth_json_finish(&j);
}

void fth_flat_report_short(FILE *out, const struct run_shared *run)
{
	char a[FTH_CLI_BYTES_MAX], b[FTH_CLI_BYTES_MAX], c[FTH_CLI_BYTES_MAX], d[FTH_CLI_BYTES_MAX];

	fprintf(out, "%s: %s of %s in memory, %llu faults, %s read, %s written", run->program,
		fth_cli_bytes(a, in_memory(run)), fth_cli_bytes(b, count(run, RUN_BYTES)),
		figure(run, FTH_FLAT_STAT_FAULTS),
		fth_cli_bytes(c, figure(run, FTH_FLAT_STAT_MISSES) * run->page),
		fth_cli_bytes(d, figure(run, FTH_FLAT_STAT_WRITE_BACKS) * run->page));
}
