/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom gpu: look at GPUs. cmd_gpu_read.c reads from one. */
#include "commands.h"
#include "gpu_engine.h"
#include "json.h"

#include "fathom/base/error.h"
#include "fathom/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINK_MAX 64

/* ---- ls ---- */

/* What sysfs says of a PCI function, without the newline; "" if nothing. */
static void read_link(const char *pci, const char *name, char text[LINK_MAX])
{
	char path[128];
	FILE *file;

	text[0] = '\0';
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", pci, name);
	file = fopen(path, "re");
	if (!file)
		return;
	if (!fgets(text, LINK_MAX, file))
		text[0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	fclose(file);
}

/* Why kernels of this build can not use storage there; NULL if they can. */
static const char *obstacle(const struct gpu_engine_device *d)
{
	if (!d->code)
		return "this build has no code for it";
	if (!d->maps_host)
		return "its kernels do not reach memory of the host";
	return NULL;
}

static void print_device(unsigned number, const struct gpu_engine_device *d)
{
	char all[FTH_CLI_BYTES_MAX], free_memory[FTH_CLI_BYTES_MAX];
	char speed[LINK_MAX], width[LINK_MAX];
	const char *why = obstacle(d);

	read_link(d->pci, "current_link_speed", speed);
	read_link(d->pci, "current_link_width", width);
	printf("GPU %-9u%s\n", number, d->name);
	printf("capability   %d.%d, %u multiprocessors, %u concurrent threads\n", d->major,
	       d->minor, d->processors, d->threads);
	printf("memory       %s, %s free\n", fth_cli_bytes(all, d->memory),
	       fth_cli_bytes(free_memory, d->free_memory));
	printf("PCI          %s", d->pci);
	if (speed[0] && width[0])
		printf(", %s, %s lanes", speed, width);
	printf("\nFathom       %s%s\n",
	       why ? "not usable: " : "usable: gpu: drives, and any device through CPU threads",
	       why ? why : "");
	if (!why)
		printf("blocks       of devices: up to %u bytes\n", FTH_GPU_BLOCK_MAX);
	printf("GPUDirect    %s\n", d->gpudirect ? "peer-to-peer access by drives is possible"
						 : "no peer-to-peer access by drives");
}

static void json_device(struct fth_json *j, const struct gpu_engine_device *d)
{
	char speed[LINK_MAX], width[LINK_MAX];
	const char *why = obstacle(d);

	read_link(d->pci, "current_link_speed", speed);
	read_link(d->pci, "current_link_width", width);
	fth_json_object(j, NULL);
	fth_json_string(j, "name", d->name);
	fth_json_i64(j, "major", d->major);
	fth_json_i64(j, "minor", d->minor);
	fth_json_u64(j, "processors", d->processors);
	fth_json_u64(j, "threads", d->threads);
	fth_json_u64(j, "memory", d->memory);
	fth_json_u64(j, "free_memory", d->free_memory);
	fth_json_string(j, "pci", d->pci);
	fth_json_string(j, "link_speed", speed[0] ? speed : NULL);
	fth_json_string(j, "link_width", width[0] ? width : NULL);
	fth_json_bool(j, "gpudirect", d->gpudirect);
	fth_json_bool(j, "usable", !why);
	fth_json_string(j, "why_not", why);
	fth_json_u64(j, "block_max", FTH_GPU_BLOCK_MAX);
	fth_json_end(j);
}

static void print_json(const struct gpu_engine_device *devices, int n, const char *reason)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_array(&j, "gpus");
	for (int i = 0; i < n; i++)
		json_device(&j, &devices[i]);
	fth_json_end(&j);
	if (reason)
		fth_json_string(&j, "reason", reason);
	fth_json_finish(&j);
}

static int run_ls(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "gpu ls",
		.text = "List the GPUs, and what of Fathom their threads can use.",
	};
	static struct gpu_engine_device devices[GPU_ENGINE_DEVICES_MAX];
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), n;

	if (status != FTH_CLI_GO_ON)
		return status;
	n = gpu_engine_devices(devices);
	if (fth_cli_json())
		print_json(devices, n, n < 0 ? fth_error_text(n) : NULL);
	if (n < 0) {
		fth_cli_error("%s", fth_error_text(n));
		return n == -EOPNOTSUPP ? FTH_EXIT_IMPOSSIBLE : FTH_EXIT_FAILED;
	}
	for (int i = 0; i < n && !fth_cli_json(); i++)
		print_device((unsigned)i, &devices[i]);
	return FTH_EXIT_OK;
}

static const struct fth_command ls_command = {
	.name = "ls",
	.summary = "list the GPUs and what their threads can use",
	.run = run_ls,
};

/* ---- the command ---- */

static const struct fth_command *const subcommands[] = {&ls_command, &fth_cmd_gpu_read, NULL};

static int run(int argc, char **argv)
{
	return fth_cli_dispatch("fathom gpu", subcommands, argc, argv);
}

const struct fth_command fth_cmd_gpu = {
	.name = "gpu",
	.summary = "list GPUs, and test reads from GPU threads",
	.run = run,
};
