/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom kv check: verify a cache on flash that no server uses. */
#include "cmd_kv.h"
#include "json.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"
#include "fathom/kv/image.h"

#include <errno.h>
#include <stdio.h>

#define FINDINGS_MAX 100u /* that are shown; all are counted */

struct check {
	const char *flash;
	struct fth_json *json; /* NULL: text */
	uint64_t findings, shown, bytes, elapsed_ns;
	struct fth_kv_recovery recovery;
	struct fth_kv_image_counts counts;
};

static int show_finding(const char *text, bool harmless, void *user)
{
	struct check *check = user;

	if (check->findings++ >= FINDINGS_MAX)
		return fth_cli_stopped();
	check->shown++;
	if (check->json) {
		fth_json_object(check->json, NULL);
		fth_json_bool(check->json, "harmless", harmless);
		fth_json_string(check->json, "text", text);
		fth_json_end(check->json);
	} else {
		fth_cli_progress_end();
		printf("%-8s  %s\n", harmless ? "harmless" : "damage", text);
	}
	return fth_cli_stopped();
}

static int show_progress(uint64_t done, uint64_t total, void *user)
{
	struct check *check = user;

	check->bytes = total;
	fth_cli_progress("check", done, total);
	return fth_cli_stopped();
}

static int walk(struct check *check)
{
	struct fth_kv_image_visit visit = FTH_KV_IMAGE_VISIT_INIT;
	uint64_t begin = fth_now_ns();
	struct fth_kv_image *image;
	int rc = fth_kv_image_open(check->flash, &image);

	if (rc < 0)
		return rc;
	visit.finding = show_finding;
	visit.progress = show_progress;
	visit.user = check;
	fth_kv_image_recovery(image, &check->recovery);
	rc = fth_kv_image_walk(image, &visit, &check->counts);
	fth_kv_image_close(image);
	fth_cli_progress_end();
	check->elapsed_ns = fth_now_ns() - begin;
	return rc;
}

static void print_counts(const struct check *check, int damage)
{
	const struct fth_kv_image_counts *c = &check->counts;
	char bytes[FTH_CLI_BYTES_MAX];

	if (check->findings > check->shown)
		printf("%llu more not shown\n",
		       (unsigned long long)(check->findings - check->shown));
	printf("%s: %llu chunks, %s of log read in %.1f s; %s\n", check->flash,
	       (unsigned long long)c->chunks, fth_cli_bytes(bytes, check->bytes),
	       (double)check->elapsed_ns / 1e9,
	       c->bad_index	       ? "its index was rebuilt from the log"
	       : check->recovery.clean ? "it was closed in good order"
				       : "it was not closed: the log was replayed");
	printf("  live items        %llu\n"
	       "  expired           %llu\n"
	       "  superseded        %llu\n",
	       (unsigned long long)c->items, (unsigned long long)c->expired,
	       (unsigned long long)c->superseded);
	printf("  deletes           %llu\n"
	       "  open ends         %llu\n"
	       "  bad records       %llu\n"
	       "  bad chunks        %llu\n"
	       "  lost items        %llu\n",
	       (unsigned long long)c->deletes, (unsigned long long)c->open_ends,
	       (unsigned long long)c->bad_records, (unsigned long long)c->bad_chunks,
	       (unsigned long long)c->lost_items);
	printf("%s\n", damage ? "damaged" : "sound");
}

static void put_counts(const struct check *check, int rc)
{
	const struct fth_kv_image_counts *c = &check->counts;
	struct fth_json *j = check->json;

	fth_json_u64(j, "chunks", c->chunks);
	fth_json_u64(j, "bytes", check->bytes);
	fth_json_double(j, "seconds", (double)check->elapsed_ns / 1e9);
	fth_json_bool(j, "clean", check->recovery.clean);
	fth_json_bool(j, "went_round", check->recovery.went_round);
	fth_json_u64(j, "items", c->items);
	fth_json_u64(j, "expired", c->expired);
	fth_json_u64(j, "superseded", c->superseded);
	fth_json_u64(j, "deletes", c->deletes);
	fth_json_u64(j, "open_ends", c->open_ends);
	fth_json_u64(j, "bad_records", c->bad_records);
	fth_json_u64(j, "bad_chunks", c->bad_chunks);
	fth_json_u64(j, "lost_items", c->lost_items);
	fth_json_bool(j, "forgotten", c->forgotten);
	fth_json_bool(j, "bad_index", c->bad_index);
	fth_json_bool(j, "ok", rc == 0);
}

static int check_flash(struct check *check)
{
	struct fth_json j;
	int rc;

	if (!fth_cli_json()) {
		rc = walk(check);
		if (rc >= 0)
			print_counts(check, rc);
		return rc;
	}
	check->json = &j;
	fth_json_begin(&j, stdout);
	fth_json_array(&j, "findings");
	rc = walk(check);
	fth_json_end(&j);
	put_counts(check, rc);
	fth_json_finish(&j);
	return rc;
}

static int run(int argc, char **argv)
{
	struct check check = {0};
	const struct fth_cli_option options[] = {
		{"flash", FTH_CLI_STRING, &check.flash, 0, 0, "URI of the device; needed"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "kv check --flash URI",
		.text = "Read a persistent cache that no server uses now: verify the superblock, "
			"the\n"
			"index and every chunk and item of the log, and compare the index with "
			"the\n"
			"log. Names all damage. The device is opened for reading only.\n"
			"Exit status 1 if there is damage.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!check.flash) {
		fth_cli_error("--flash is required: the device to check");
		return FTH_EXIT_USAGE;
	}
	rc = check_flash(&check);
	if (rc < 0 && fth_cli_stopped())
		return FTH_EXIT_INTERRUPTED;
	if (rc < 0)
		fth_cli_error("%s: %s", check.flash, fth_error_text(rc));
	return rc ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

const struct fth_command fth_cmd_kv_check = {
	.name = "check",
	.summary = "verify a cache on flash",
	.run = run,
};
