/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom vol: volumes and their objects. Siblings: cmd_vol_object.c changes objects, cmd_vol_copy.c
 * imports and exports, cmd_vol_check.c checks.
 */
#include "has_data.h"
#include "commands.h"
#include "json.h"
#include "vol_source.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- create ---- */

/* Data that is not a volume; fth_vol_format() refuses volumes by itself. */
static int expect_no_data(const char *const *uris, unsigned n)
{
	int rc = 0;

	for (unsigned i = 0; i < n && rc == 0; i++) {
		struct fth_vol *vol = NULL;

		rc = fth_vol_open_uris(&uris[i], 1, FTH_VOL_MINORITY, &vol);
		fth_vol_close(vol);
		rc = rc == -EMEDIUMTYPE ? fth_tool_expect_blank(uris[i], "--force") : 0;
	}
	return rc;
}

static int create(const char *list, const struct fth_vol_format_options *options)
{
	const char **uris;
	unsigned n;
	int rc = fth_vol_split_uris(list, &uris, &n);

	if (rc < 0)
		return rc;
	rc = options->force ? 0 : expect_no_data(uris, n);
	if (rc == 0)
		rc = fth_vol_format_uris(uris, n, options);
	free(uris);
	return rc;
}

static int run_create(int argc, char **argv)
{
	struct fth_vol_format_options how = FTH_VOL_FORMAT_OPTIONS_INIT;
	uint64_t block = 0, unit = 0, replicas = 0;
	const struct fth_cli_option options[] = {
		FTH_CLI_FORCE(&how.force, "overwrite a volume or other data"),
		{"block", FTH_CLI_SIZE, &block, 0, 4096, "block size of objects; 0: the devices'"},
		{"unit", FTH_CLI_SIZE, &unit, 0, FTH_VOL_UNIT_MAX,
		 "default stripe unit; 0: 64 KiB"},
		{"replicas", FTH_CLI_U64, &replicas, 0, FTH_VOL_DEVICES_MAX,
		 "default number of copies; 0: 1"},
		{"catalog", FTH_CLI_SIZE, &how.catalog, 0, 1 << 30,
		 "bytes for the catalog; 0: 1/256 of a device, 16 KiB to 4 MiB"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "vol create VOLUME",
		.text = "Make a new, empty volume. What is on the devices is "
			"lost.\n" FTH_VOL_SYNTAX,
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	how.block = (uint32_t)block;
	how.unit = (uint32_t)unit;
	how.replicas = (uint32_t)replicas;
	rc = create(args[0], &how);
	return rc < 0 ? fth_vol_complain(args[0], rc) : FTH_EXIT_OK;
}

static const struct fth_command create_command = {
	.name = "create", .summary = "make a new volume", .run = run_create};

/* ---- ls ---- */

static int print_object(const struct fth_vol_object_info *info, void *user)
{
	char size[FTH_CLI_BYTES_MAX];

	(void)user;
	printf("%14llu  %10s  %ux%u  %s%s%s\n", (unsigned long long)info->size,
	       fth_cli_bytes(size, info->size), info->width, info->replicas, info->name,
	       info->stale ? "  (a replica is out of date)" : "",
	       info->unsynced ? "  (not in sync)" : "");
	return 0;
}

static void object_fields(struct fth_json *j, const struct fth_vol_object_info *info)
{
	fth_json_string(j, "name", info->name);
	fth_json_u64(j, "id", info->id);
	fth_json_u64(j, "size", info->size);
	fth_json_u64(j, "allocated", info->allocated);
	fth_json_u64(j, "unit", info->unit);
	fth_json_u64(j, "width", info->width);
	fth_json_u64(j, "replicas", info->replicas);
	fth_json_u64(j, "segments", info->segments);
	fth_json_u64(j, "stale", info->stale);
	fth_json_bool(j, "unsynced", info->unsynced);
}

static int print_object_json(const struct fth_vol_object_info *info, void *user)
{
	fth_json_object(user, NULL);
	object_fields(user, info);
	fth_json_end(user);
	return 0;
}

static int list(struct fth_vol *vol)
{
	struct fth_json j;
	int rc;

	if (!fth_cli_json())
		return fth_vol_list(vol, print_object, NULL);
	fth_json_begin(&j, stdout);
	fth_json_array(&j, "objects");
	rc = fth_vol_list(vol, print_object_json, &j);
	fth_json_finish(&j);
	return rc;
}

static int run_ls(int argc, char **argv)
{
	struct fth_vol_absence absence = {0};
	const struct fth_cli_option options[] = {
		FTH_VOL_ABSENCE_OPTIONS(absence),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "vol ls VOLUME",
		.options = options,
		.text = "List the objects of a volume: size, columns x replicas, "
			"name.\n" FTH_VOL_SYNTAX,
		.min_args = 1,
		.max_args = 1,
	};
	struct fth_vol *vol;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (fth_vol_source_open(args[0], FTH_VOL_READONLY | fth_vol_absence_flags(&absence), &vol) <
	    0)
		return FTH_EXIT_FAILED;
	rc = list(vol);
	fth_vol_close(vol);
	return rc < 0 ? fth_vol_complain(args[0], rc) : FTH_EXIT_OK;
}

static const struct fth_command ls_command = {
	.name = "ls", .summary = "list the objects of a volume", .run = run_ls};

/* ---- stat ---- */

static const char *device_name(struct fth_vol *vol, unsigned i)
{
	struct fth_dev *dev = fth_vol_dev(vol, i);

	return dev ? fth_dev_uri(dev) : "missing";
}

static void print_volume(struct fth_vol *vol)
{
	char uuid[FTH_VOL_UUID_TEXT], total[FTH_CLI_BYTES_MAX], left[FTH_CLI_BYTES_MAX];
	struct fth_vol_info info;

	fth_vol_info(vol, &info);
	printf("volume    %s\n", fth_vol_uuid_text(info.uuid, uuid));
	for (unsigned i = 0; i < info.devices; i++)
		printf("device %-2u %s%s\n", i, device_name(vol, i),
		       info.behind >> i & 1 ? "  (its catalog is behind)" : "");
	printf("objects   %llu\n", (unsigned long long)info.objects);
	printf("space     %s, %s free\n", fth_cli_bytes(total, info.total),
	       fth_cli_bytes(left, info.free));
	printf("block     %u bytes\n", info.block);
	printf("default   unit %u, replicas %u\n", info.unit, info.replicas);
	printf("catalog   %llu of %llu bytes, update %llu\n", (unsigned long long)info.catalog_used,
	       (unsigned long long)info.catalog, (unsigned long long)info.sequence);
}

static void print_volume_json(struct fth_vol *vol)
{
	char uuid[FTH_VOL_UUID_TEXT];
	struct fth_vol_info info;
	struct fth_json j;

	fth_vol_info(vol, &info);
	fth_json_begin(&j, stdout);
	fth_json_string(&j, "uuid", fth_vol_uuid_text(info.uuid, uuid));
	fth_json_array(&j, "devices");
	for (unsigned i = 0; i < info.devices; i++)
		fth_json_string(&j, NULL, device_name(vol, i));
	fth_json_end(&j);
	fth_json_u64(&j, "objects", info.objects);
	fth_json_u64(&j, "total", info.total);
	fth_json_u64(&j, "free", info.free);
	fth_json_u64(&j, "block", info.block);
	fth_json_u64(&j, "unit", info.unit);
	fth_json_u64(&j, "replicas", info.replicas);
	fth_json_u64(&j, "catalog", info.catalog);
	fth_json_u64(&j, "catalog_used", info.catalog_used);
	fth_json_u64(&j, "sequence", info.sequence);
	fth_json_u64(&j, "behind", info.behind);
	fth_json_u64(&j, "missing", info.missing);
	fth_json_string(&j, "warning", fth_vol_warning(vol));
	fth_json_finish(&j);
}

static int print_one(struct fth_vol *vol, const char *name)
{
	struct fth_vol_object_info info;
	char size[FTH_CLI_BYTES_MAX];
	struct fth_json j;
	int rc = fth_vol_stat(vol, name, &info);

	if (rc < 0)
		return rc;
	if (fth_cli_json()) {
		fth_json_begin(&j, stdout);
		object_fields(&j, &info);
		fth_json_finish(&j);
		return 0;
	}
	printf("object    %s, id %llu\n", info.name, (unsigned long long)info.id);
	printf("size      %s (%llu bytes)\n", fth_cli_bytes(size, info.size),
	       (unsigned long long)info.size);
	printf("stripes   of %u bytes over %u devices\n", info.unit, info.width);
	printf("replicas  %u%s\n", info.replicas, info.unsynced ? ", not in sync" : "");
	if (info.stale)
		printf("stale     on devices 0x%llx\n", (unsigned long long)info.stale);
	printf("space     %llu bytes in %u segments\n", (unsigned long long)info.allocated,
	       info.segments);
	return 0;
}

static int run_stat(int argc, char **argv)
{
	struct fth_vol_absence absence = {0};
	const struct fth_cli_option options[] = {
		FTH_VOL_ABSENCE_OPTIONS(absence),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "vol stat VOLUME [NAME]",
		.options = options,
		.text = "Print what a volume, or one of its objects, looks like.\n" FTH_VOL_SYNTAX,
		.min_args = 1,
		.max_args = 2,
	};
	struct fth_vol *vol;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc = 0;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (fth_vol_source_open(args[0], FTH_VOL_READONLY | fth_vol_absence_flags(&absence), &vol) <
	    0)
		return FTH_EXIT_FAILED;
	if (args[1])
		rc = print_one(vol, args[1]);
	else if (fth_cli_json())
		print_volume_json(vol);
	else
		print_volume(vol);
	fth_vol_close(vol);
	return rc < 0 ? fth_vol_complain(args[0], rc) : FTH_EXIT_OK;
}

static const struct fth_command stat_command = {
	.name = "stat", .summary = "print what a volume or an object looks like", .run = run_stat};

/* ---- the command ---- */

static const struct fth_command *const subcommands[] = {
	&fth_cmd_vol_check,
	&create_command,
	&fth_cmd_vol_export,
	&fth_cmd_vol_import,
	&ls_command,
	&fth_cmd_vol_mv,
	&fth_cmd_vol_new,
	&fth_cmd_vol_resize,
	&fth_cmd_vol_rm,
	&stat_command,
	NULL,
};

static int run(int argc, char **argv)
{
	return fth_cli_dispatch("fathom vol", subcommands, argc, argv);
}

const struct fth_command fth_cmd_vol = {
	.name = "vol",
	.summary = "named objects on one or more devices",
	.run = run,
};
