/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom dev: look at devices. */
#include "commands.h"
#include "json.h"

#include "fathom/base/error.h"
#include "fathom/dev/delay.h"

#include "dev/testkit/dev_conformance.h"
#include "dev/schemes.h"

#include <stdio.h>

/* ---- stat ---- */

static void print_stat(struct fth_dev *dev)
{
	const struct fth_dev_info *info = fth_dev_info(dev);
	char size[FTH_CLI_BYTES_MAX], most[FTH_CLI_BYTES_MAX];

	printf("device       %s\n", fth_dev_uri(dev));
	printf("size         %s (%llu bytes)\n", fth_cli_bytes(size, info->size),
	       (unsigned long long)info->size);
	printf("block        %u bytes\n", info->block);
	printf("alignment    %u bytes\n", info->align);
	printf("engine       %s\n", info->engine ? info->engine : "-");
	printf("per request  at most %s in %u iovecs\n", fth_cli_bytes(most, info->max_length),
	       info->max_iov);
}

static void print_stat_json(struct fth_dev *dev)
{
	const struct fth_dev_info *info = fth_dev_info(dev);
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_string(&j, "uri", fth_dev_uri(dev));
	fth_json_u64(&j, "size", info->size);
	fth_json_u64(&j, "block", info->block);
	fth_json_u64(&j, "align", info->align);
	fth_json_u64(&j, "max_length", info->max_length);
	fth_json_u64(&j, "max_iov", info->max_iov);
	if (info->engine)
		fth_json_string(&j, "engine", info->engine);
	fth_json_finish(&j);
}

static int run_stat(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "dev stat URI",
		.text = "Open a device and print its size, its limits and its engine: how "
			"requests\n"
			"reach it.",
		.min_args = 1,
		.max_args = 1,
	};
	struct fth_dev *dev;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	rc = fth_dev_open_flags(args[0], FTH_DEV_READONLY, &dev);
	if (rc < 0) {
		fth_cli_error("%s: %s", args[0], fth_error_text(rc));
		return FTH_EXIT_FAILED;
	}
	if (fth_cli_json())
		print_stat_json(dev);
	else
		print_stat(dev);
	fth_dev_close(dev);
	return FTH_EXIT_OK;
}

static const struct fth_command stat_command = {
	.name = "stat",
	.summary = "print the size and limits of a device",
	.run = run_stat,
};

/* ---- schemes ---- */

static void print_schemes(void)
{
	for (unsigned i = 0; fth_dev_builtin_schemes[i]; i++)
		printf("%s%s\n", fth_dev_builtin_schemes[i]->name,
		       fth_dev_builtin_schemes[i]->wrapper ? "(DEVICE)" : ":PATH");
}

static void print_schemes_json(void)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_array(&j, "schemes");
	for (unsigned i = 0; fth_dev_builtin_schemes[i]; i++) {
		fth_json_object(&j, NULL);
		fth_json_string(&j, "name", fth_dev_builtin_schemes[i]->name);
		fth_json_bool(&j, "wrapper", fth_dev_builtin_schemes[i]->wrapper);
		fth_json_end(&j);
	}
	fth_json_finish(&j);
}

static int run_schemes(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "dev schemes",
		.text = "List the kinds of devices that can be opened, and how each is written.",
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (fth_cli_json())
		print_schemes_json();
	else
		print_schemes();
	return FTH_EXIT_OK;
}

static const struct fth_command schemes_command = {
	.name = "schemes",
	.summary = "list the kinds of devices",
	.run = run_schemes,
};

/* ---- models ---- */

static void print_speed(const struct fth_dev_speed *speed)
{
	printf(" %8.1f %9llu %9llu", (double)speed->latency_ns / 1000,
	       (unsigned long long)speed->iops_512, (unsigned long long)speed->iops_4k);
}

static void print_models(void)
{
	printf("%-8s %28s %28s\n", "", "read", "write");
	printf("%-8s %8s %9s %9s %8s %9s %9s  %s\n", "name", "us", "IOPS 512", "IOPS 4K", "us",
	       "IOPS 512", "IOPS 4K", "drive");
	for (const struct fth_dev_model *model = fth_dev_models(); model->name; model++) {
		printf("%-8s", model->name);
		print_speed(&model->read);
		print_speed(&model->write);
		printf("  %s\n", model->drive);
	}
	printf("\n0: no limit. Use a model with any device: mem:4G?model=p5800x\n");
}

static void print_speed_json(struct fth_json *j, const char *key, const struct fth_dev_speed *speed)
{
	fth_json_object(j, key);
	fth_json_u64(j, "latency_ns", speed->latency_ns);
	fth_json_u64(j, "iops_512", speed->iops_512);
	fth_json_u64(j, "iops_4k", speed->iops_4k);
	fth_json_end(j);
}

static void print_models_json(void)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_array(&j, "models");
	for (const struct fth_dev_model *model = fth_dev_models(); model->name; model++) {
		fth_json_object(&j, NULL);
		fth_json_string(&j, "name", model->name);
		fth_json_string(&j, "drive", model->drive);
		fth_json_string(&j, "source", model->source);
		print_speed_json(&j, "read", &model->read);
		print_speed_json(&j, "write", &model->write);
		fth_json_u64(&j, "flush_ns", model->flush_ns);
		fth_json_end(&j);
	}
	fth_json_finish(&j);
}

static int run_models(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "dev models",
		.text = "List the drives whose published latency and rate any device can be "
			"given,\n"
			"with ?model=NAME. With --json also where the figures come from.",
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (fth_cli_json())
		print_models_json();
	else
		print_models();
	return FTH_EXIT_OK;
}

static const struct fth_command models_command = {
	.name = "models",
	.summary = "list the drives whose latency can be emulated",
	.run = run_models,
};

/* ---- check ---- */

static void print_check(const char *uri, int rc)
{
	struct fth_json j;

	if (!fth_cli_json()) {
		if (rc == 0)
			printf("%s passes all checks\n", uri);
		return;
	}
	fth_json_begin(&j, stdout);
	fth_json_string(&j, "uri", uri);
	fth_json_bool(&j, "ok", rc == 0);
	fth_json_string(&j, "error", rc < 0 ? fth_error_text(rc) : NULL);
	fth_json_finish(&j);
}

static int run_check(int argc, char **argv)
{
	struct fth_conformance_options how = FTH_CONFORMANCE_DEFAULTS;
	uint64_t threads = how.threads, operations = how.operations;
	bool force = false;
	const struct fth_cli_option options[] = {
		FTH_CLI_FORCE(&force, "overwrite the device"),
		{"size", FTH_CLI_SIZE, &how.bytes, 1, UINT32_MAX, "use this much of it at most"},
		{"ops", FTH_CLI_U64, &operations, 1, UINT32_MAX, "random operations"},
		{"threads", FTH_CLI_U64, &threads, 1, 64, "threads at once"},
		{"seed", FTH_CLI_U64, &how.seed, 0, UINT64_MAX, "of all random choices"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "dev check --force URI",
		.text = "Check that a device keeps every promise of fathom/dev.h. This OVERWRITES "
			"the\n"
			"beginning of the device.",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	status = fth_cli_take_over(args[0], force);
	if (status != FTH_CLI_GO_ON)
		return status;
	how.threads = (unsigned)threads;
	how.operations = (unsigned)operations;
	how.stopped = fth_cli_stopped;
	rc = fth_dev_conformance(args[0], &how);
	if (fth_cli_stopped())
		return FTH_EXIT_INTERRUPTED;
	print_check(args[0], rc);
	if (rc < 0)
		fth_cli_error("%s: %s", args[0], fth_error_text(rc));
	return rc < 0 ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

static const struct fth_command check_command = {
	.name = "check",
	.summary = "check that a device keeps its guarantees; overwrites it",
	.run = run_check,
};

/* ---- the command ---- */

static const struct fth_command *const subcommands[] = {
	&check_command, &models_command, &schemes_command, &stat_command, &fth_cmd_dev_stress, NULL,
};

static int run(int argc, char **argv)
{
	return fth_cli_dispatch("fathom dev", subcommands, argc, argv);
}

const struct fth_command fth_cmd_dev = {
	.name = "dev",
	.summary = "inspect, check and stress storage devices",
	.run = run,
};
