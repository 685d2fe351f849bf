/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The third part of `fathom demo`: a cache server with four times as many items as its memory holds, which
 * is killed and started again. The server is this program, `fathom kv serve`; the client library
 * stores and reads items whose values follow from their keys, and compares every byte.
 */
#include "demo.h"

#include "cli.h"
#include "kv_summary.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/base/uri.h"
#include "fathom/hd/wait.h"
#include "fathom/kv/client.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY_BYTES (4u << 20)
#define MEMORY_TEXT  "4M"
#define VALUE_BYTES  1024u
#define ITEMS	     (4 * MEMORY_BYTES / VALUE_BYTES)
#define BATCH	     128u
#define WAIT_NS	     60000000000u

struct demo {
	struct fth_json *json; /* NULL: text */
	uint64_t seed;
	char folder[512];
	char file[560];
	char flash[1800];
	pid_t server;
	char where[32]; /* HOST:PORT */
	double recovery_s;
	uint64_t recovered;
	uint64_t wrong;
};

/* One row of the table. */
struct row {
	const char *what;
	uint64_t ops, hits, wrong;
	uint64_t ns;
	struct fth_kv_figures before, after;
};

/* ---- the server ---- */

/* The number behind "name": in a line of JSON that the server has printed. */
static double number_in(const char *line, const char *name)
{
	char wanted[64];
	const char *at;

	snprintf(wanted, sizeof(wanted), "\"%s\":", name);
	at = strstr(line, wanted);
	return at ? strtod(at + strlen(wanted), NULL) : 0;
}

static void exec_server(const struct demo *demo, int out)
{
	char *const arguments[] = {"fathom",	"--json",	 "kv",		"serve",
				   "--memory",	MEMORY_TEXT,	 "--flash",	(char *)demo->flash,
				   "--persist", "write-through", "--listen",	"127.0.0.1:0",
				   "--chunk",	"256K",		 "--value-max", "64K",
				   NULL};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* not without this program */
	(void)dup2(out, STDOUT_FILENO);
	execv("/proc/self/exe", arguments);
	_exit(127);
}

static int start_server(struct demo *demo)
{
	char line[1024] = "";
	int pipes[2];
	FILE *in;

	if (pipe(pipes) < 0)
		return fth_fail(errno, "pipe: %s", strerror(errno));
	fflush(stdout);
	demo->server = fork();
	if (demo->server == 0)
		exec_server(demo, pipes[1]);
	close(pipes[1]);
	in = demo->server < 0 ? NULL : fdopen(pipes[0], "r");
	if (!in) {
		close(pipes[0]);
		return fth_fail(errno, "the server cannot be started: %s", strerror(errno));
	}
	/* One line when it serves; none if it could not, and then it has said why. */
	if (!fgets(line, sizeof(line), in) || number_in(line, "port") <= 0) {
		fclose(in);
		return fth_fail(EIO, "the server did not start");
	}
	fclose(in);
	snprintf(demo->where, sizeof(demo->where), "127.0.0.1:%.0f", number_in(line, "port"));
	demo->recovered = (uint64_t)number_in(line, "items");
	demo->recovery_s = number_in(line, "recovery_seconds");
	return 0;
}

static void kill_server(struct demo *demo)
{
	if (demo->server > 0) {
		kill(demo->server, SIGKILL);
		waitpid(demo->server, NULL, 0);
	}
	demo->server = 0;
}

/* ---- items ---- */

static void fill_value(const struct demo *demo, uint64_t item, uint64_t value[VALUE_BYTES / 8])
{
	for (unsigned i = 0; i < VALUE_BYTES / 8; i++)
		value[i] = fth_mix64(demo->seed ^ (item << 16 | i));
}

struct batch {
	struct fth_kvc_op ops[BATCH];
	uint64_t items[BATCH];
	char keys[BATCH][24];
	uint64_t values[BATCH][VALUE_BYTES / 8];
};

static void set_up(struct batch *batch, unsigned i, enum fth_kv_verb verb, uint64_t item)
{
	int n = snprintf(batch->keys[i], sizeof(batch->keys[i]), "item-%llu",
			 (unsigned long long)item);

	batch->items[i] = item;
	batch->ops[i] =
		(struct fth_kvc_op){.verb = verb, .key = batch->keys[i], .key_length = (uint32_t)n};
}

static int store_all(const struct demo *demo, struct fth_kvc *client, struct batch *batch,
		     struct row *row)
{
	for (uint64_t first = 0; first < ITEMS; first += BATCH) {
		for (unsigned i = 0; i < BATCH; i++) {
			set_up(batch, i, FTH_KV_SET, first + i);
			fill_value(demo, first + i, batch->values[i]);
			batch->ops[i].value = batch->values[i];
			batch->ops[i].value_length = VALUE_BYTES;
		}
		if (fth_kvc_do_many(client, batch->ops, BATCH, fth_deadline_ns(WAIT_NS)) != BATCH)
			return fth_fail(EIO, "a set has failed");
		row->ops += BATCH;
		if (fth_cli_stopped())
			return -ECANCELED;
	}
	return 0;
}

/* Returns an error only if something else than a hit or a miss comes back. */
static int check_gets(const struct demo *demo, struct batch *batch, struct row *row)
{
	uint64_t value[VALUE_BYTES / 8];

	for (unsigned i = 0; i < BATCH; i++) {
		const struct fth_kvc_op *op = &batch->ops[i];

		row->ops++;
		if (op->result == -ENOENT)
			continue;
		if (op->result < 0)
			return fth_fail(-op->result, "a get has failed: %s", strerror(-op->result));
		row->hits++;
		fill_value(demo, batch->items[i], value);
		row->wrong += op->length != VALUE_BYTES ||
			      memcmp(value, batch->values[i], VALUE_BYTES) != 0;
	}
	return 0;
}

/* As many gets as there are items: of random ones, or each once. */
static int read_all(const struct demo *demo, struct fth_kvc *client, struct batch *batch,
		    bool random, struct row *row)
{
	struct fth_rng rng = {demo->seed + 1};
	int rc = 0;

	for (uint64_t first = 0; first < ITEMS && rc == 0; first += BATCH) {
		for (unsigned i = 0; i < BATCH; i++) {
			set_up(batch, i, FTH_KV_GET,
			       random ? fth_rng_below(&rng, ITEMS) : first + i);
			batch->ops[i].buffer = batch->values[i];
			batch->ops[i].room = VALUE_BYTES;
		}
		(void)fth_kvc_do_many(client, batch->ops, BATCH, fth_deadline_ns(WAIT_NS));
		rc = check_gets(demo, batch, row);
		if (fth_cli_stopped())
			rc = -ECANCELED;
	}
	return rc;
}

/* ---- telling ---- */

static void print_head(const struct demo *demo)
{
	if (demo->json) {
		fth_json_object(demo->json, "kv");
		fth_json_u64(demo->json, "items", ITEMS);
		fth_json_u64(demo->json, "value_bytes", VALUE_BYTES);
		fth_json_u64(demo->json, "memory_bytes", MEMORY_BYTES);
		fth_json_array(demo->json, "runs");
		return;
	}
	printf("\nA cache server (fathom kv serve) with %u MiB of memory and %u items of %u bytes, "
	       "four\n"
	       "times as much; the rest is in a file. What it has acknowledged is durable, and "
	       "every\n"
	       "value that comes back is compared.\n\n",
	       MEMORY_BYTES >> 20, ITEMS, VALUE_BYTES);
	printf("  %-22s %8s %10s %8s %12s %15s %7s\n", "what", "ops", "ops/s", "hits", "from flash",
	       "reads per such", "wrong");
}

static void print_row(struct demo *demo, struct row *row)
{
	struct fth_kv_summary s;
	double seconds = (double)row->ns / 1e9;
	char hits[FTH_KV_TEXT_MAX], flash[FTH_KV_TEXT_MAX], reads[FTH_KV_TEXT_MAX] = "-";

	fth_kv_summarize(&row->before, &row->after, NULL, NULL, &s);
	demo->wrong += row->wrong;
	if (!isnan(s.reads_per_hit))
		snprintf(reads, sizeof(reads), "%.2f", s.reads_per_hit);
	if (!demo->json) {
		printf("  %-22s %8llu %10.0f %8s %12s %15s %7llu\n", row->what,
		       (unsigned long long)row->ops, (double)row->ops / seconds,
		       fth_kv_percent_text(hits, s.hit_rate),
		       fth_kv_percent_text(flash, s.flash_share), reads,
		       (unsigned long long)row->wrong);
		fflush(stdout);
		return;
	}
	fth_json_object(demo->json, NULL);
	fth_json_string(demo->json, "what", row->what);
	fth_json_u64(demo->json, "ops", row->ops);
	fth_json_double(demo->json, "seconds", seconds);
	fth_json_double(demo->json, "hit_rate", s.hit_rate);
	fth_json_double(demo->json, "flash_share", s.flash_share);
	fth_json_double(demo->json, "reads_per_flash_hit", s.reads_per_hit);
	fth_json_u64(demo->json, "wrong", row->wrong);
	fth_json_end(demo->json);
}

static void print_restart(const struct demo *demo)
{
	if (!demo->json)
		printf("  kill -9, started again: %llu items found in %.3f s\n",
		       (unsigned long long)demo->recovered, demo->recovery_s);
}

static void print_end(const struct demo *demo)
{
	if (!demo->json)
		return;
	fth_json_end(demo->json);
	fth_json_u64(demo->json, "recovered", demo->recovered);
	fth_json_double(demo->json, "recovery_seconds", demo->recovery_s);
	fth_json_end(demo->json);
}

/* ---- the scene ---- */

enum act { STORE, READ_RANDOM, READ_ALL };

static int run_act(struct demo *demo, enum act act, const char *what)
{
	const char *servers[] = {demo->where};
	struct fth_kv_link link = {.server = demo->where, .timeout_ns = WAIT_NS, .fd = -1};
	struct batch *batch = calloc(1, sizeof(*batch));
	struct row row = {.what = what};
	struct fth_kvc *client = NULL;
	uint64_t begin;
	int rc = batch ? fth_kvc_open(servers, 1, NULL, &client) : -ENOMEM;

	if (rc == 0)
		rc = fth_kv_link_stats(&link, "", &row.before);
	begin = fth_now_ns();
	if (rc == 0)
		rc = act == STORE ? store_all(demo, client, batch, &row)
				  : read_all(demo, client, batch, act == READ_RANDOM, &row);
	row.ns = fth_now_ns() - begin;
	if (rc == 0)
		rc = fth_kv_link_stats(&link, "", &row.after);
	if (rc == 0)
		print_row(demo, &row);
	if (rc == 0 && act != STORE && row.hits != row.ops)
		rc = fth_fail(ENOENT, "%llu of %llu items are gone",
			      (unsigned long long)(row.ops - row.hits),
			      (unsigned long long)row.ops);
	fth_kv_link_close(&link);
	fth_kv_figures_release(&row.before);
	fth_kv_figures_release(&row.after);
	fth_kvc_close(client);
	free(batch);
	return rc;
}

static int run_acts(struct demo *demo)
{
	int rc = start_server(demo);

	if (rc < 0)
		return rc;
	print_head(demo);
	rc = run_act(demo, STORE, "store all");
	if (rc == 0)
		rc = run_act(demo, READ_RANDOM, "read at random");
	kill_server(demo);
	if (rc == 0)
		rc = start_server(demo);
	if (rc == 0) {
		print_restart(demo);
		rc = run_act(demo, READ_ALL, "read each once");
	}
	kill_server(demo);
	print_end(demo);
	return rc;
}

/* Some machines do not allow io_uring; that is no fault of what is shown. */
static int try_file(const struct demo *demo)
{
	struct fth_dev *dev;
	int rc = fth_dev_open(demo->flash, &dev);

	if (rc == 0)
		fth_dev_close(dev);
	return rc;
}

int demo_kv(struct fth_json *j, uint64_t seed)
{
	struct demo demo = {.json = j, .seed = seed};
	const char *folder = getenv("TMPDIR");
	char escaped[3 * sizeof(demo.file)];
	int rc;

	snprintf(demo.folder, sizeof(demo.folder), "%s/fathom-demo-XXXXXX",
		 folder ? folder : "/tmp");
	if (!mkdtemp(demo.folder))
		return fth_fail(errno, "%s: %s", demo.folder, strerror(errno));
	snprintf(demo.file, sizeof(demo.file), "%s/cache", demo.folder);
	rc = fth_uri_escape(demo.file, escaped, sizeof(escaped));
	snprintf(demo.flash, sizeof(demo.flash), "file:%s?create=on&size=64M", escaped);
	if (rc == 0)
		rc = try_file(&demo);
	if (rc == -EPERM || rc == -ENOSYS) {
		fth_cli_error("kv: %s (going on without)", fth_error_text(rc));
		rc = 0;
	} else if (rc == 0) {
		rc = run_acts(&demo);
	}
	unlink(demo.file);
	rmdir(demo.folder);
	return rc < 0 ? rc : demo.wrong > 0;
}
