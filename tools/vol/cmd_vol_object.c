/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom vol new, rm, mv, resize: one change of the catalog each. */
#include "commands.h"
#include "vol_source.h"

#include "fathom/base/error.h"
#include "fathom/base/uri.h"

/* Open the volume args[0] for writing, call change, close. */
static int change(char **args, int (*operation)(struct fth_vol *vol, char **args, void *how),
		  void *how)
{
	struct fth_vol *vol;
	int rc;

	if (fth_vol_source_open(args[0], 0, &vol) < 0)
		return FTH_EXIT_FAILED;
	rc = operation(vol, args + 1, how);
	fth_vol_close(vol);
	return rc < 0 ? fth_vol_complain(args[0], rc) : FTH_EXIT_OK;
}

static bool parse_size(const char *text, uint64_t *size)
{
	if (fth_parse_size(text, size) == 0)
		return true;
	fth_cli_error("%s: expected a size, such as 64M or 4G", text);
	return false;
}

/* ---- new ---- */

struct creation {
	uint64_t size;
	struct fth_vol_object_options options;
};

static int do_new(struct fth_vol *vol, char **args, void *how)
{
	struct creation *creation = how;

	return fth_vol_create(vol, args[0], creation->size, &creation->options);
}

static int run_new(int argc, char **argv)
{
	struct fth_vol_shape shape = {0};
	struct creation how;
	bool zero = false;
	const struct fth_cli_option options[] = {
		FTH_VOL_SHAPE_OPTIONS(shape),
		{"zero", FTH_CLI_FLAG, &zero, 0, 0, "filled with zeroes"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "vol new VOLUME NAME SIZE",
		.text = "Make an object. What it holds is undefined until it is written, unless\n"
			"it is zeroed or has replicas.\n" FTH_VOL_SYNTAX,
		.options = options,
		.min_args = 3,
		.max_args = 3,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!parse_size(args[2], &how.size))
		return FTH_EXIT_USAGE;
	how.options = fth_vol_shape_options(&shape);
	how.options.zero = zero;
	return change(args, do_new, &how);
}

const struct fth_command fth_cmd_vol_new = {
	.name = "new", .summary = "make an object", .run = run_new};

/* ---- rm ---- */

static int do_rm(struct fth_vol *vol, char **args, void *how)
{
	int rc = 0;

	(void)how;
	for (; rc == 0 && *args; args++)
		rc = fth_vol_remove(vol, *args);
	return rc;
}

static int run_rm(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "vol rm VOLUME NAME...",
		.text = "Remove objects, one after the other.\n" FTH_VOL_SYNTAX,
		.min_args = 2,
		.max_args = 1000000,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	return status != FTH_CLI_GO_ON ? status : change(args, do_rm, NULL);
}

const struct fth_command fth_cmd_vol_rm = {
	.name = "rm", .summary = "remove objects", .run = run_rm};

/* ---- mv ---- */

static int do_mv(struct fth_vol *vol, char **args, void *how)
{
	return fth_vol_rename(vol, args[0], args[1], *(bool *)how);
}

static int run_mv(int argc, char **argv)
{
	bool replace = false;
	const struct fth_cli_option options[] = {
		FTH_CLI_FORCE(&replace, "replace an object that has the new name"),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "vol mv VOLUME NAME NEW-NAME",
		.text = "Give an object another name.\n" FTH_VOL_SYNTAX,
		.options = options,
		.min_args = 3,
		.max_args = 3,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	return status != FTH_CLI_GO_ON ? status : change(args, do_mv, &replace);
}

const struct fth_command fth_cmd_vol_mv = {
	.name = "mv", .summary = "rename an object", .run = run_mv};

/* ---- resize ---- */

struct resizing {
	uint64_t size;
	bool zero;
};

static int do_resize(struct fth_vol *vol, char **args, void *how)
{
	struct resizing *resizing = how;

	return fth_vol_resize(vol, args[0], resizing->size, resizing->zero);
}

static int run_resize(int argc, char **argv)
{
	struct resizing how = {0};
	const struct fth_cli_option options[] = {
		{"zero", FTH_CLI_FLAG, &how.zero, 0, 0, "what is added is filled with zeroes"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "vol resize VOLUME NAME SIZE",
		.text = "Make an object longer or shorter. What is cut off is "
			"lost.\n" FTH_VOL_SYNTAX,
		.options = options,
		.min_args = 3,
		.max_args = 3,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!parse_size(args[2], &how.size))
		return FTH_EXIT_USAGE;
	return change(args, do_resize, &how);
}

const struct fth_command fth_cmd_vol_resize = {
	.name = "resize", .summary = "make an object longer or shorter", .run = run_resize};
