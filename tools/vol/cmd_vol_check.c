/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom vol check: examine a volume, and mend what has one right answer. */
#include "commands.h"
#include "json.h"
#include "vol_source.h"

#include "fathom/base/error.h"

#include <stdio.h>
#include <stdlib.h>

static const char *weight(const struct fth_vol_finding *finding)
{
	if (finding->repaired)
		return "repaired";
	return finding->harmless ? "harmless" : "damage";
}

static int print_finding(const struct fth_vol_finding *finding, void *user)
{
	(void)user;
	fth_cli_progress_end();
	printf("%-8s  %-8s  %s\n", weight(finding), fth_vol_finding_name(finding->kind),
	       finding->text);
	return fth_cli_stopped();
}

static int print_finding_json(const struct fth_vol_finding *finding, void *user)
{
	fth_json_object(user, NULL);
	fth_json_string(user, "kind", fth_vol_finding_name(finding->kind));
	fth_json_bool(user, "harmless", finding->harmless);
	fth_json_bool(user, "repaired", finding->repaired);
	fth_json_string(user, "text", finding->text);
	fth_json_end(user);
	return fth_cli_stopped();
}

static int show_progress(uint64_t done, uint64_t total, void *user)
{
	(void)user;
	fth_cli_progress("check", done, total);
	return fth_cli_stopped();
}

static int check(const char *list, unsigned flags)
{
	struct fth_json j;
	const char **uris;
	unsigned n;
	int rc = fth_vol_split_uris(list, &uris, &n);

	if (rc < 0)
		return rc;
	if (fth_cli_json()) {
		fth_json_begin(&j, stdout);
		fth_json_array(&j, "findings");
		rc = fth_vol_check_uris(uris, n, flags, print_finding_json, show_progress, &j);
		fth_json_end(&j);
		fth_json_bool(&j, "ok", rc == 0);
		fth_json_finish(&j);
	} else {
		rc = fth_vol_check_uris(uris, n, flags, print_finding, show_progress, NULL);
		if (rc == 0)
			printf("%s is sound\n", list);
	}
	fth_cli_progress_end();
	free(uris);
	return rc;
}

static int run(int argc, char **argv)
{
	bool data = false, repair = false;
	const struct fth_cli_option options[] = {
		{"data", FTH_CLI_FLAG, &data, 0, 0, "read all data, compare replicas"},
		{"repair", FTH_CLI_FLAG, &repair, 0, 0,
		 "repair damage that has one correct repair"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "vol check VOLUME",
		.text = "Examine the labels, catalogs and extents of a volume, and name "
			"everything\n"
			"that is wrong. What an interrupted update leaves behind is called "
			"harmless.\n"
			"--repair writes damaged copies of labels and catalogs anew, and copies "
			"replicas\n"
			"that are out of date from good ones. Exit status 1 if damage is "
			"left.\n" FTH_VOL_SYNTAX,
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	rc = check(args[0], (data ? FTH_VOL_CHECK_DATA : 0) | (repair ? FTH_VOL_REPAIR : 0));
	if (rc < 0)
		return fth_vol_complain(args[0], rc);
	return rc > 0 ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

const struct fth_command fth_cmd_vol_check = {
	.name = "check", .summary = "examine a volume, and repair it", .run = run};
