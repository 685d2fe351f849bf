/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom pm: persistent memory. Siblings: cmd_pm_list.c finds it, cmd_pm_dump.c prints what it
 * holds.
 */
#include "commands.h"
#include "json.h"
#include "pm_source.h"

#include "fathom/base/error.h"
#include "fathom/pm/area.h"

#include <inttypes.h>
#include <stdio.h>

int fth_pm_complain(const char *name, int rc)
{
	fth_cli_error("%s: %s", name, fth_error_text(rc));
	return FTH_EXIT_FAILED;
}

int fth_pm_source_open(const char *name, struct fth_pm **pm)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	int rc;

	options.flags = FTH_PM_READ_ONLY;
	rc = fth_pm_map(name, 0, &options, pm);
	return rc < 0 ? fth_pm_complain(name, rc) : FTH_CLI_GO_ON;
}

/* ---- stat and check ---- */

struct report {
	struct fth_json *j; /* NULL: text */
	uint64_t areas, damaged;
};

/* What the counts of an area are of. */
static const char *const part_names[FTH_PM_AREA_KINDS] = {"threads", "partitions", "groups",
							  "undo logs", "log"};
static const char *const item_names[FTH_PM_AREA_KINDS] = {"entries", "entries", "saved", "open",
							  "entries"};

static int show_area(const struct fth_pm_area *area, void *user)
{
	struct report *report = user;
	const char *kind = fth_pm_area_kind_name(area->kind);

	report->areas++;
	report->damaged += area->damage != 0;
	if (report->j) {
		fth_json_object(report->j, NULL);
		fth_json_u64(report->j, "offset", area->offset);
		fth_json_string(report->j, "kind", kind);
		fth_json_u64(report->j, "bytes", area->bytes);
		fth_json_u64(report->j, "parts", area->parts);
		fth_json_u64(report->j, "items", area->items);
		fth_json_string(report->j, "damage", area->damage ? area->text : NULL);
		fth_json_end(report->j);
	} else if (area->damage) {
		printf("  at %-12" PRIu64 " %s, damaged: %s\n", area->offset, kind, area->text);
	} else {
		printf("  at %-12" PRIu64 " %s: %" PRIu64 " %s, %" PRIu64 " %s, %" PRIu64
		       " bytes\n",
		       area->offset, kind, area->parts, part_names[area->kind], area->items,
		       item_names[area->kind], area->bytes);
	}
	return 0;
}

static void show_memory(struct fth_pm *pm, struct fth_json *j)
{
	char bytes[FTH_CLI_BYTES_MAX];

	if (j) {
		fth_json_string(j, "name", fth_pm_name(pm));
		fth_json_string(j, "kind", fth_pm_kind_name(fth_pm_kind(pm)));
		fth_json_u64(j, "bytes", fth_pm_size(pm));
		fth_json_string(j, "guarantee", fth_pm_guarantee_name(fth_pm_guarantee(pm)));
		fth_json_string(j, "text", fth_pm_guarantee_text(pm));
		fth_json_u64(j, "tag", fth_pm_tag(pm));
		fth_json_array(j, "areas");
		return;
	}
	printf("name       %s\n", fth_pm_name(pm));
	printf("kind       %s\n", fth_pm_kind_name(fth_pm_kind(pm)));
	printf("bytes      %" PRIu64 " (%s)\n", fth_pm_size(pm),
	       fth_cli_bytes(bytes, fth_pm_size(pm)));
	printf("guarantee  %s\n", fth_pm_guarantee_name(fth_pm_guarantee(pm)));
	printf("           %s\n", fth_pm_guarantee_text(pm));
	printf("tag        %016" PRIx64 "\n", fth_pm_tag(pm));
	printf("areas\n");
}

/* Both: check says by its exit status whether anything is damaged. */
static int report_on(const char *name, bool check)
{
	struct report report = {0};
	struct fth_json j;
	struct fth_pm *pm;
	int status = fth_pm_source_open(name, &pm), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (fth_cli_json()) {
		report.j = &j;
		fth_json_begin(&j, stdout);
	}
	show_memory(pm, report.j);
	rc = fth_pm_areas(pm, show_area, &report);
	if (report.j) {
		fth_json_end(&j);
		fth_json_u64(&j, "damaged", report.damaged);
		fth_json_finish(&j);
	} else if (report.areas == 0) {
		printf("  no Fathom data structure found at a multiple of 4096\n");
	}
	fth_pm_unmap(pm);
	if (rc < 0)
		return fth_pm_complain(name, rc);
	if (check && report.damaged)
		fth_cli_error("%s: %" PRIu64 " of %" PRIu64 " areas are damaged", name,
			      report.damaged, report.areas);
	return check && report.damaged ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

static int run_stat(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "pm stat NAME",
		.text = "Print size, guarantee and contents of persistent memory: logs, "
			"checkpoints "
			"and\ntransactions.\n" FTH_PM_NAMES,
		.min_args = 1,
		.max_args = 1,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	return status != FTH_CLI_GO_ON ? status : report_on(args[0], false);
}

static int run_check(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "pm check NAME",
		.text = "Verify header, logs, checkpoints and transactions. Changes nothing. The "
			"exit\n"
			"status is 1 if anything is damaged.\n" FTH_PM_NAMES,
		.min_args = 1,
		.max_args = 1,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	return status != FTH_CLI_GO_ON ? status : report_on(args[0], true);
}

static const struct fth_command stat_command = {
	.name = "stat", .summary = "print what persistent memory is and holds", .run = run_stat};
static const struct fth_command check_command = {
	.name = "check", .summary = "verify persistent memory", .run = run_check};

/* ---- rm ---- */

static int run_rm(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "pm rm NAME...",
		.text = "Remove persistent memory. Shared memory and files are unlinked, other "
			"devices\n"
			"are zeroed. Memory that is mapped is not removed; what an interrupted "
			"creation\n"
			"left is.\n" FTH_PM_NAMES,
		.min_args = 1,
		.max_args = 1000000,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	status = FTH_EXIT_OK;
	for (; *args && status == FTH_EXIT_OK; args++) {
		int rc = fth_pm_remove(*args);

		if (rc < 0)
			status = fth_pm_complain(*args, rc);
	}
	return status;
}

static const struct fth_command rm_command = {
	.name = "rm", .summary = "remove persistent memory", .run = run_rm};

/* ---- the command ---- */

static const struct fth_command *const subcommands[] = {
	&check_command, &fth_cmd_pm_dump, &fth_cmd_pm_ls, &rm_command, &stat_command, NULL,
};

static int run(int argc, char **argv)
{
	return fth_cli_dispatch("fathom pm", subcommands, argc, argv);
}

const struct fth_command fth_cmd_pm = {
	.name = "pm",
	.summary = "persistent memory: list, inspect, check, remove",
	.run = run,
};
