/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom pm dump: bytes of persistent memory, or the entries of a log in it. */
#include "commands.h"
#include "json.h"
#include "pm_source.h"

#include "fathom/base/error.h"
#include "fathom/pm/log.h"
#include "pm/areas/wal_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW 16u

/* ---- bytes ---- */

static void print_row(uint64_t at, const uint8_t *bytes, unsigned n)
{
	printf("%012" PRIx64 " ", at);
	for (unsigned i = 0; i < ROW; i++)
		if (i < n)
			printf("%s%02x", i == ROW / 2 ? "  " : " ", bytes[i]);
		else
			printf("%s", i == ROW / 2 ? "    " : "   ");
	printf("  |");
	for (unsigned i = 0; i < n; i++)
		putchar(bytes[i] >= ' ' && bytes[i] < 127 ? bytes[i] : '.');
	printf("|\n");
}

/* As hexdump does it: rows that repeat are one star. */
static void print_bytes(const uint8_t *base, uint64_t from, uint64_t to)
{
	bool starred = false;

	for (uint64_t at = from; at < to; at += ROW) {
		unsigned n = to - at < ROW ? (unsigned)(to - at) : ROW;

		if (at > from && n == ROW && memcmp(base + at, base + at - ROW, ROW) == 0) {
			if (!starred)
				printf("*\n");
			starred = true;
			continue;
		}
		starred = false;
		print_row(at, base + at, n);
	}
	printf("%012" PRIx64 "\n", to);
}

static void print_hex(FILE *out, const uint8_t *bytes, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		fprintf(out, "%02x", bytes[i]);
}

static int dump_bytes(struct fth_pm *pm, uint64_t from, uint64_t bytes)
{
	const uint8_t *base = fth_pm_base(pm);

	if (from > fth_pm_size(pm)) {
		fth_cli_error("%s: offset %" PRIu64 " is beyond the end at %" PRIu64,
			      fth_pm_name(pm), from, fth_pm_size(pm));
		return FTH_EXIT_FAILED;
	}
	if (bytes > fth_pm_size(pm) - from)
		bytes = fth_pm_size(pm) - from;
	if (!fth_cli_json()) {
		print_bytes(base, from, from + bytes);
		return FTH_EXIT_OK;
	}
	printf("{\"from\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"hex\":\"", from, bytes);
	print_hex(stdout, base + from, bytes);
	printf("\"}\n");
	return FTH_EXIT_OK;
}

/* ---- entries ---- */

#define ENTRY_START (64u << 10) /* of the buffer; it grows with the entries */

struct entry_buffer {
	uint8_t *data;
	uint32_t capacity;
};

static void print_entry(uint32_t part, uint64_t number, const uint8_t *data, uint64_t bytes,
			bool first)
{
	if (fth_cli_json())
		printf("%s{\"part\":%" PRIu32 ",\"entry\":%" PRIu64 ",\"hex\":\"", first ? "" : ",",
		       part, number);
	else
		printf("%" PRIu32 " %" PRIu64 " ", part, number);
	print_hex(stdout, data, bytes);
	printf("%s", fth_cli_json() ? "\"}" : "\n");
}

static int grow_buffer(struct entry_buffer *buffer)
{
	uint32_t capacity = buffer->capacity ? 2 * buffer->capacity : ENTRY_START;
	uint8_t *data = realloc(buffer->data, capacity);

	if (!data)
		return fth_fail(ENOMEM, "no memory for an entry of more than %" PRIu32 " bytes",
				buffer->capacity);
	*buffer = (struct entry_buffer){data, capacity};
	return 0;
}

/* A log, or a write-ahead log; the other one is NULL. */
struct source {
	struct fth_pm_log *log;
	struct fth_pm_wal *wal;
};

/* As fth_pm_log_read(); entries have up to 1 GiB. */
static int64_t read_entry(const struct source *source, uint32_t part, uint64_t *cursor,
			  struct entry_buffer *buffer)
{
	int64_t n = -EMSGSIZE;

	while (n == -EMSGSIZE) {
		int rc = buffer->data ? 0 : grow_buffer(buffer);

		if (rc == 0 && source->wal)
			n = fth_pm_wal_read(source->wal, cursor, buffer->data, buffer->capacity);
		else if (rc == 0)
			n = fth_pm_log_read(source->log, part, cursor, buffer->data,
					    buffer->capacity);
		if (rc == 0 && n == -EMSGSIZE)
			rc = grow_buffer(buffer);
		if (rc < 0)
			return rc;
	}
	return n;
}

static int dump_source(const struct source *source)
{
	struct entry_buffer buffer = {0};
	struct fth_pm_log_info info = {.parts = 1};
	bool first = true;
	int64_t n = 0;

	if (source->log)
		fth_pm_log_info(source->log, &info);
	for (uint32_t part = 0; part < info.parts && n >= 0 && !fth_cli_stopped(); part++) {
		uint64_t cursor = 0, number = 0;

		while ((n = read_entry(source, part, &cursor, &buffer)) >= 0) {
			print_entry(part, number++, buffer.data, (uint64_t)n, first);
			first = false;
		}
		n = n == -ENOENT ? 0 : n;
	}
	free(buffer.data);
	return n < 0 ? (int)n : 0;
}

static bool is_wal(struct fth_pm *pm, uint64_t offset)
{
	uint64_t magic = 0;

	if (offset < fth_pm_size(pm) && fth_pm_size(pm) - offset >= sizeof(magic))
		memcpy(&magic, (const uint8_t *)fth_pm_base(pm) + offset, sizeof(magic));
	return magic == WAL_MAGIC;
}

static int dump_entries(struct fth_pm *pm, uint64_t offset)
{
	struct source source = {0};
	int rc = is_wal(pm, offset) ? fth_pm_wal_open(pm, offset, &source.wal)
				    : fth_pm_log_open(pm, offset, &source.log);

	if (rc < 0)
		return fth_pm_complain(fth_pm_name(pm), rc);
	if (fth_cli_json())
		printf("{\"entries\":[");
	rc = dump_source(&source);
	if (fth_cli_json())
		printf("]}\n");
	fth_pm_log_close(source.log);
	fth_pm_wal_close(source.wal);
	return rc < 0 ? fth_pm_complain(fth_pm_name(pm), rc) : FTH_EXIT_OK;
}

static int run_dump(int argc, char **argv)
{
	uint64_t from = 0, bytes = UINT64_MAX, log = UINT64_MAX;
	const struct fth_cli_option options[] = {
		{"from", FTH_CLI_SIZE, &from, 0, 0, "offset of the first byte"},
		{"bytes", FTH_CLI_SIZE, &bytes, 0, 0, "number of bytes; default: to the end"},
		{"log", FTH_CLI_SIZE, &log, 0, 0,
		 "print the entries of the log at this offset: part, number and bytes of each"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "pm dump NAME",
		.text = "Print the bytes of persistent memory, or the entries of a "
			"log.\n" FTH_PM_NAMES,
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};
	struct fth_pm *pm;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status == FTH_CLI_GO_ON)
		status = fth_pm_source_open(args[0], &pm);
	else
		return status;
	if (status != FTH_CLI_GO_ON)
		return status;
	status = log == UINT64_MAX ? dump_bytes(pm, from, bytes) : dump_entries(pm, log);
	fth_pm_unmap(pm);
	return status;
}

const struct fth_command fth_cmd_pm_dump = {
	.name = "dump", .summary = "print bytes or entries of a log", .run = run_dump};
