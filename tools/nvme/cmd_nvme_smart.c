/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom nvme smart: the SMART and health log page of a drive. */
#include "commands.h"
#include "json.h"
#include "nvme_source.h"
#include "u128.h"

#include "fathom/base/error.h"

#include <stdio.h>
#include <string.h>

#define KELVIN	  273
#define DATA_UNIT 512000u /* bytes: a thousand blocks of 512 */

static const char *const warnings[] = {
	"spare capacity is below the threshold", "a temperature is out of bounds",
	"the medium is no longer reliable",	 "the medium can only be read",
	"the backup of volatile memory failed",	 "the persistent memory region is unreliable",
};
#define WARNINGS (sizeof(warnings) / sizeof(warnings[0]))

/* The counters of 128 bits. */
static const struct {
	const char *key, *label;
	size_t offset;
	bool data_units;
} counters[] = {
#define COUNTER(field, label, units)                                             \
	{                                                                        \
#field, label, offsetof(struct fth_nvme_smart_log, field), units \
	}
	COUNTER(data_units_read, "data read", true),
	COUNTER(data_units_written, "data written", true),
	COUNTER(host_reads, "read commands", false),
	COUNTER(host_writes, "write commands", false),
	COUNTER(busy_minutes, "minutes busy", false),
	COUNTER(power_cycles, "power cycles", false),
	COUNTER(power_on_hours, "hours powered", false),
	COUNTER(unsafe_shutdowns, "unsafe shutdowns", false),
	COUNTER(media_errors, "media errors", false),
	COUNTER(error_entries, "errors logged", false),
#undef COUNTER
};
#define COUNTERS (sizeof(counters) / sizeof(counters[0]))

static void counter(const struct fth_nvme_smart_log *log, unsigned i, uint64_t words[2])
{
	memcpy(words, (const char *)log + counters[i].offset, 16);
}

static int temperature(const struct fth_nvme_smart_log *log)
{
	return log->temperature[0] + 256 * log->temperature[1];
}

/* ---- text ---- */

static void print_warnings(const struct fth_nvme_smart_log *log)
{
	if (!log->critical_warning)
		printf("warnings          none\n");
	for (unsigned i = 0; i < 8; i++)
		if (log->critical_warning & 1u << i)
			printf("WARNING           %s\n",
			       i < WARNINGS ? warnings[i] : "of an unknown kind");
}

static void print_counter(const struct fth_nvme_smart_log *log, unsigned i)
{
	char text[FTH_U128_MAX], bytes[FTH_CLI_BYTES_MAX];
	uint64_t words[2];

	counter(log, i, words);
	printf("%-17s %s", counters[i].label, fth_u128_text(text, words));
	if (counters[i].data_units)
		printf(" times 512,000 bytes");
	if (counters[i].data_units && !words[1] && words[0] <= UINT64_MAX / DATA_UNIT)
		printf(" (%s)", fth_cli_bytes(bytes, words[0] * DATA_UNIT));
	putchar('\n');
}

static void print_text(const char *name, const struct fth_nvme_smart_log *log)
{
	printf("device            %s\n", name);
	print_warnings(log);
	/* 0 kelvin: not measured */
	if (temperature(log))
		printf("temperature       %d C\n", temperature(log) - KELVIN);
	printf("spare             %u %% (threshold %u %%)\n", log->available_spare,
	       log->spare_threshold);
	printf("endurance used    %u %%\n", log->percentage_used);
	for (unsigned i = 0; i < COUNTERS; i++)
		print_counter(log, i);
	printf("minutes too hot   %u (critical: %u)\n", log->warning_minutes,
	       log->critical_minutes);
	for (unsigned i = 0; i < 8; i++)
		if (log->sensors[i])
			printf("sensor %u          %d C\n", i + 1, log->sensors[i] - KELVIN);
}

/* ---- JSON ---- */

static void print_json(const char *name, const struct fth_nvme_smart_log *log)
{
	struct fth_json j;
	char text[FTH_U128_MAX];
	uint64_t words[2];

	fth_json_begin(&j, stdout);
	fth_json_string(&j, "device", name);
	fth_json_u64(&j, "critical_warning", log->critical_warning);
	fth_json_i64(&j, "temperature_kelvin", temperature(log));
	fth_json_u64(&j, "available_spare", log->available_spare);
	fth_json_u64(&j, "spare_threshold", log->spare_threshold);
	fth_json_u64(&j, "percentage_used", log->percentage_used);
	for (unsigned i = 0; i < COUNTERS; i++) {
		counter(log, i, words);
		fth_json_digits(&j, counters[i].key, fth_u128_text(text, words));
	}
	fth_json_u64(&j, "warning_minutes", log->warning_minutes);
	fth_json_u64(&j, "critical_minutes", log->critical_minutes);
	fth_json_array(&j, "sensors_kelvin");
	for (unsigned i = 0; i < 8; i++)
		fth_json_u64(&j, NULL, log->sensors[i]);
	fth_json_finish(&j);
}

static int run(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "nvme smart URI|BDF",
		.text = "Print the SMART and health log of a drive: by URI (nvme:BDF, "
			"softnvme(URI)), or by\n"
			"the PCI address of a drive, also while the kernel's driver has it.",
		.min_args = 1,
		.max_args = 1,
	};
	struct fth_nvme_smart_log log = {0};
	struct nvme_source source;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	rc = nvme_source_open(&source, args[0]);
	if (rc == 0) {
		rc = nvme_source_log(&source, FTH_NVME_LOG_SMART, &log, sizeof(log));
		nvme_source_close(&source);
	}
	if (rc < 0) {
		fth_cli_error("%s: %s", args[0], fth_error_text(rc));
		return FTH_EXIT_FAILED;
	}
	if (fth_cli_json())
		print_json(source.name, &log);
	else
		print_text(source.name, &log);
	return FTH_EXIT_OK;
}

const struct fth_command fth_cmd_nvme_smart = {
	.name = "smart",
	.summary = "print the health of a drive",
	.run = run,
};
