/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom kv dump: every live item of a cache on flash that no server uses. */
#include "cmd_kv.h"
#include "kv_items.h"
#include "vol/vol_target.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dump {
	const char *flash, *output;
	bool keys, replace;
	enum fth_kv_items_form form;
	FILE *out;
	uint64_t written, stale;
	struct fth_kv_image_counts counts;
};

static int put_item(const struct fth_kv_image_item *item, void *user)
{
	struct dump *dump = user;

	/* Loaded from a dump, it would be fresh again. */
	if (item->state & FTH_KV_ITEM_STALE) {
		dump->stale++;
		return fth_cli_stopped();
	}
	fth_kv_items_put(dump->out, dump->form, item);
	dump->written++;
	return ferror(dump->out) || fth_cli_stopped();
}

static int show_progress(uint64_t done, uint64_t total, void *user)
{
	(void)user;
	fth_cli_progress("dump", done, total);
	return fth_cli_stopped();
}

static int walk(struct dump *dump, struct fth_kv_image *image)
{
	struct fth_kv_image_visit visit = FTH_KV_IMAGE_VISIT_INIT;
	int rc;

	visit.item = put_item;
	visit.progress = show_progress;
	visit.user = dump;
	rc = fth_kv_image_walk(image, &visit, &dump->counts);
	fth_cli_progress_end();
	if (rc >= 0)
		rc = 0; /* what is damaged is told at the end */
	if (!fth_cli_stopped() && (ferror(dump->out) || (rc == 0 && fflush(dump->out) != 0)))
		rc = fth_fail(errno, "writing %s: %s",
			      dump->output ? dump->output : "to standard output", strerror(errno));
	return rc;
}

static int dump_to_file(struct dump *dump, struct fth_kv_image *image)
{
	struct fth_vol_target target;
	int rc = fth_vol_target_open(&target, dump->output, 0, dump->replace), fd;

	if (rc < 0)
		return rc;
	fd = dup(target.fd);
	dump->out = fd < 0 ? NULL : fdopen(fd, "w");
	if (dump->out) {
		rc = walk(dump, image);
		if (fclose(dump->out) != 0 && rc == 0)
			rc = fth_fail(errno, "writing %s: %s", dump->output, strerror(errno));
	} else {
		rc = fth_fail(errno, "%s: %s", dump->output, strerror(errno));
		if (fd >= 0)
			close(fd);
	}
	return fth_vol_target_close(&target, rc);
}

static int dump_image(struct dump *dump)
{
	struct fth_kv_image *image;
	int rc = fth_kv_image_open(dump->flash, &image);

	if (rc < 0)
		return rc;
	dump->out = stdout;
	rc = dump->output ? dump_to_file(dump, image) : walk(dump, image);
	fth_kv_image_close(image);
	return rc;
}

/* Standard output may be the dump, so that this goes to standard error. */
static int report(const struct dump *dump)
{
	const struct fth_kv_image_counts *c = &dump->counts;

	if (dump->output || isatty(STDERR_FILENO)) {
		fprintf(stderr, "%llu items", (unsigned long long)dump->written);
		if (dump->stale)
			fprintf(stderr, "; %llu stale items skipped",
				(unsigned long long)dump->stale);
		fputc('\n', stderr);
	}
	if (!c->lost_items && !c->forgotten)
		return FTH_EXIT_OK;
	if (c->lost_items)
		fth_cli_error("%s: skipped %llu damaged items; run `fathom kv check` for details",
			      dump->flash, (unsigned long long)c->lost_items);
	if (c->forgotten)
		fth_cli_error("%s: part of the log is missing; older items were skipped",
			      dump->flash);
	return FTH_EXIT_FAILED;
}

static int run(int argc, char **argv)
{
	struct dump dump = {0};
	const struct fth_cli_option options[] = {
		{"flash", FTH_CLI_STRING, &dump.flash, 0, 0, "URI of the device; needed"},
		{"output", FTH_CLI_STRING, &dump.output, 0, 0, "file; default standard output"},
		FTH_CLI_FORCE(&dump.replace, "replace a file"),
		{"keys", FTH_CLI_FLAG, &dump.keys, 0, 0, "keys only"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "kv dump --flash URI [options]",
		.text = "Write every live item of a persistent cache that no server uses now, the\n"
			"oldest first, as memcached commands: `set KEY FLAGS EXPIRES BYTES` and "
			"the\n"
			"value. netcat can send them to a server, `fathom kv load` to a server or "
			"to\n"
			"another device. With --json each item is a line of JSON, values in "
			"base64.\n"
			"The device is opened for reading only. A file appears when it is "
			"complete.\n"
			"Exit status 1 if damaged items were left out.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!dump.flash) {
		fth_cli_error("--flash is required: the device to read");
		return FTH_EXIT_USAGE;
	}
	dump.form = fth_cli_json() ? dump.keys ? FTH_KV_ITEMS_JSON_KEYS : FTH_KV_ITEMS_JSON
		    : dump.keys	   ? FTH_KV_ITEMS_KEYS
				   : FTH_KV_ITEMS_TEXT;
	rc = dump_image(&dump);
	if (rc < 0 && fth_cli_stopped())
		return FTH_EXIT_INTERRUPTED;
	if (rc < 0) {
		fth_cli_error("%s: %s", dump.flash, fth_error_text(rc));
		return FTH_EXIT_FAILED;
	}
	return report(&dump);
}

const struct fth_command fth_cmd_kv_dump = {
	.name = "dump",
	.summary = "write the items of a cache on flash as text",
	.run = run,
};
