/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom kv load: items of a dump into a server or into a cache on flash.
 *
 * A server gets many at a time: a ring of operations of the client, each with a copy of its item.
 * The oldest is waited for before its place is used again, or when too many bytes are under way.
 */
#include "cmd_kv.h"
#include "json.h"
#include "kv_stats_view.h"
#include "kv_items.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"
#include "fathom/kv/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WINDOW	     256u	  /* operations under way */
#define WINDOW_BYTES (16u << 20)  /* of their values */
#define WAIT_NS	     30000000000u /* for one of them */
#define TOLD_MAX     10u	  /* refused items that are named */

struct slot {
	struct fth_kvc_op op;
	uint64_t line;
	bool busy;
	uint8_t key[FTH_KV_KEY_MAX];
	uint8_t *value;
	size_t room;
};

struct load {
	const char *path, *server, *flash, *auth_file;
	struct fth_kv_options kv;
	uint64_t size; /* of the file; 0: not known */

	/* to a server */
	bool tls;
	const char *tls_ca;
	struct fth_kvc *client;
	struct slot *slots;
	uint64_t next;	/* its slot is next % WINDOW */
	uint64_t first; /* the oldest one under way */
	uint64_t bytes_under_way;

	/* to flash */
	struct fth_kv *cache;
	struct fth_kv_worker *worker;

	uint64_t loaded, bytes, expired, refused;
};

/* ---- the file ---- */

/* As read(), but it ends when the user wants that: a pipe may have nothing for a long time. */
static ssize_t read_some(void *cookie, char *buf, size_t room)
{
	struct pollfd p = {.fd = *(int *)cookie, .events = POLLIN};

	for (;;) {
		int n = poll(&p, 1, 200);

		if (fth_cli_stopped()) {
			errno = ECANCELED;
			return -1;
		}
		if (n > 0)
			return read(p.fd, buf, room);
		if (n < 0 && errno != EINTR)
			return -1;
	}
}

static int open_file(struct load *load, int *fd, FILE **out)
{
	const cookie_io_functions_t calls = {.read = read_some};
	struct stat st;

	*fd = strcmp(load->path, "-") == 0 ? dup(STDIN_FILENO)
					   : open(load->path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0 || fstat(*fd, &st) < 0)
		return fth_fail(errno, "%s: %s", load->path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return fth_fail(EISDIR, "%s is a directory", load->path);
	load->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	*out = fopencookie(fd, "r", calls);
	return *out ? 0 : -ENOMEM;
}

/* ---- both ---- */

static void refuse(struct load *load, uint64_t line, const char *why)
{
	if (load->refused++ < TOLD_MAX)
		fth_cli_error("%s, line %llu: not loaded: %s", load->path, (unsigned long long)line,
			      why);
}

/* An item was stored, or not; an error that the next item would meet as well ends the work. */
static int took(struct load *load, int result, uint64_t line, uint32_t bytes)
{
	switch (result) {
	case 0:
		load->loaded++;
		load->bytes += bytes;
		return 0;
	case -EMSGSIZE:
		refuse(load, line, "the value is too large for the cache");
		return 0;
	case -EINVAL:
		refuse(load, line,
		       "keys with spaces or control characters cannot be sent over the protocol; "
		       "use --flash");
		return 0;
	case -ENOMEM:
		refuse(load, line, "the cache is out of memory");
		return 0;
	default:
		return result;
	}
}

/* ---- to a server ---- */

static int wait_oldest(struct load *load)
{
	struct slot *slot = &load->slots[load->first++ % WINDOW];
	int rc;

	if (!slot->busy)
		return 0;
	slot->busy = false;
	rc = fth_kvc_wait(load->client, &slot->op, fth_deadline_ns(WAIT_NS));
	fth_kvc_release(&slot->op);
	load->bytes_under_way -= slot->op.value_length;
	return took(load, rc, slot->line, slot->op.value_length);
}

static int send_item(struct load *load, const struct fth_kv_image_item *item, uint64_t line)
{
	struct slot *slot = &load->slots[load->next % WINDOW];
	int rc = 0;

	while (rc == 0 && load->first < load->next &&
	       (load->next - load->first == WINDOW ||
		load->bytes_under_way + item->value_length > WINDOW_BYTES))
		rc = wait_oldest(load);
	if (rc < 0)
		return rc;
	if (slot->room < item->value_length) {
		free(slot->value);
		slot->room = 0;
		slot->value = malloc(item->value_length);
		if (!slot->value)
			return -ENOMEM;
		slot->room = item->value_length;
	}
	memcpy(slot->key, item->key, item->key_length);
	if (item->value_length)
		memcpy(slot->value, item->value, item->value_length);
	slot->op = (struct fth_kvc_op){.verb = FTH_KV_SET,
				       .key = slot->key,
				       .key_length = item->key_length,
				       .value = slot->value,
				       .value_length = item->value_length,
				       .flags = item->flags,
				       .expires = item->expires};
	slot->line = line;
	slot->busy = true;
	load->bytes_under_way += item->value_length;
	load->next++;
	fth_kvc_start(load->client, &slot->op);
	return 0;
}

static int open_server(struct load *load)
{
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;
	char password[FTH_KV_PASSWORD_MAX];
	int rc = 0;

	load->slots = calloc(WINDOW, sizeof(*load->slots));
	if (!load->slots)
		return -ENOMEM;
	if (load->auth_file)
		rc = fth_kv_read_password(load->auth_file, password);
	options.auth = load->auth_file ? password : NULL;
	options.timeout_ms = 10000;
	options.tls = load->tls;
	options.tls_ca = load->tls_ca;
	return rc < 0 ? rc : fth_kvc_open(&load->server, 1, &options, &load->client);
}

/* Every operation that was started is waited for, whatever happened. */
static int close_server(struct load *load, int rc)
{
	while (load->slots && load->first < load->next) {
		int end = wait_oldest(load);

		rc = rc < 0 ? rc : end;
	}
	fth_kvc_close(load->client);
	for (unsigned i = 0; load->slots && i < WINDOW; i++)
		free(load->slots[i].value);
	free(load->slots);
	return rc;
}

/* ---- to flash ---- */

static int store_item(struct load *load, const struct fth_kv_image_item *item, uint64_t line)
{
	struct fth_kv_op op = {.verb = FTH_KV_SET,
			       .key = item->key,
			       .key_length = item->key_length,
			       .value = item->value,
			       .value_length = item->value_length,
			       .flags = item->flags,
			       .expires = item->expires};
	int rc = fth_kv_do(load->worker, &op, FTH_NEVER);

	fth_kv_release(load->worker, &op);
	return took(load, rc, line, item->value_length);
}

static int flash_failed(const struct load *load, int rc)
{
	char text[FTH_ERROR_TEXT_MAX];

	snprintf(text, sizeof(text), "%s", fth_error_text(rc));
	return fth_fail(-rc, "%s: %s", load->flash, text);
}

static int open_flash(struct load *load)
{
	int rc;

	load->kv.flash = load->flash;
	load->kv.persistence = FTH_KV_WRITE_BACK;
	rc = fth_kv_open(&load->kv, &load->cache);
	if (rc == 0)
		rc = fth_kv_worker_open(load->cache, &load->worker);
	return rc < 0 ? flash_failed(load, rc) : 0;
}

static int close_flash(struct load *load, int rc)
{
	int end;

	fth_kv_worker_close(load->worker);
	end = load->cache ? fth_kv_close(load->cache) : 0;
	if (rc == 0 && end < 0)
		rc = flash_failed(load, end);
	return rc;
}

/* ---- the work ---- */

static int load_items(struct load *load, FILE *in)
{
	struct fth_kv_items_reader reader = {.name = load->path, .in = in};
	struct fth_kv_image_item item;
	uint64_t line = 1;
	int rc;

	while ((rc = fth_kv_items_next(&reader, &item)) == 1) {
		if (fth_cli_stopped())
			rc = -ECANCELED;
		else if (item.expires && item.expires <= (uint32_t)time(NULL))
			load->expired++;
		else if (load->flash)
			rc = store_item(load, &item, line);
		else
			rc = send_item(load, &item, line);
		if (rc < 0)
			break;
		line = reader.line + 1;
		fth_cli_progress("load", load->size ? reader.bytes : load->loaded, load->size);
	}
	fth_cli_progress_end();
	fth_kv_items_release(&reader);
	return rc < 0 ? rc : 0;
}

static int run_load(struct load *load)
{
	char text[FTH_ERROR_TEXT_MAX];
	FILE *in = NULL;
	int fd = -1, rc = open_file(load, &fd, &in);

	if (rc == 0)
		rc = load->flash ? open_flash(load) : open_server(load);
	if (rc == 0)
		rc = load_items(load, in);
	snprintf(text, sizeof(text), "%s", rc < 0 ? fth_error_text(rc) : "");
	if (rc < 0) {
		(void)(load->flash ? close_flash(load, rc) : close_server(load, rc));
		(void)fth_fail(-rc, "%s", text);
	} else {
		rc = load->flash ? close_flash(load, rc) : close_server(load, rc);
	}
	if (in)
		fclose(in);
	if (fd >= 0)
		close(fd);
	return rc;
}

static void report(const struct load *load, uint64_t ns)
{
	char bytes[FTH_CLI_BYTES_MAX];
	struct fth_json j;

	if (!fth_cli_json()) {
		printf("%llu items loaded, %s of values, in %.1f s",
		       (unsigned long long)load->loaded, fth_cli_bytes(bytes, load->bytes),
		       (double)ns / 1e9);
		if (load->expired)
			printf("; %llu have expired", (unsigned long long)load->expired);
		if (load->refused)
			printf("; %llu were not loaded", (unsigned long long)load->refused);
		putchar('\n');
		return;
	}
	fth_json_begin(&j, stdout);
	fth_json_u64(&j, "loaded", load->loaded);
	fth_json_u64(&j, "bytes", load->bytes);
	fth_json_u64(&j, "expired", load->expired);
	fth_json_u64(&j, "not_loaded", load->refused);
	fth_json_double(&j, "seconds", (double)ns / 1e9);
	fth_json_finish(&j);
}

static int load_and_report(struct load *load)
{
	uint64_t begin = fth_now_ns();
	int rc = run_load(load);

	if (rc < 0 && !fth_cli_stopped())
		fth_cli_error("%s", fth_error_text(rc));
	/* Also after an error: what was loaded stays. */
	if (rc == 0 || load->loaded)
		report(load, fth_now_ns() - begin);
	if (rc < 0 && fth_cli_stopped())
		return FTH_EXIT_INTERRUPTED;
	return rc < 0 || load->refused ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

static int run(int argc, char **argv)
{
	struct load load = {.kv = FTH_KV_OPTIONS_INIT};
	uint64_t value_max = 0, chunk = 0;
	const struct fth_cli_option options[] = {
		{"server", FTH_CLI_STRING, &load.server, 0, 0,
		 "HOST:PORT or unix:PATH; default " FTH_KV_SERVER_DEFAULT},
		{"auth", FTH_CLI_STRING, &load.auth_file, 0, 0,
		 "file whose first line is user:password"},
		{"tls", FTH_CLI_FLAG, &load.tls, 0, 0,
		 "speak TLS; verify the server by the certificates of the system"},
		{"tls-ca", FTH_CLI_STRING, &load.tls_ca, 0, 0,
		 "PEM file to verify it by instead; implies --tls"},
		{"flash", FTH_CLI_STRING, &load.flash, 0, 0,
		 "URI of a device: into a cache there that no server uses"},
		{"memory", FTH_CLI_SIZE, &load.kv.memory, 0, 0, "with --flash: as for kv serve"},
		{"items", FTH_CLI_SIZE, &load.kv.items, 0, 0, "with --flash: as for kv serve"},
		{"value-max", FTH_CLI_SIZE, &value_max, 0, FTH_KV_VALUE_MAX,
		 "with --flash: as for kv serve"},
		{"chunk", FTH_CLI_SIZE, &chunk, 0, 1 << 30, "with --flash: as for kv serve"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "kv load FILE [--server WHERE | --flash URI] [options]",
		.text = "Store the items of a dump (`fathom kv dump`, or other memcached commands "
			"set,\n"
			"add and ms), or of standard input (-), in a running server, memcached "
			"too, or\n"
			"in a persistent cache on a device that no server uses. Items that exist "
			"are\n"
			"replaced; items that have expired are left out. A bad line ends it.\n"
			"Exit status 1 if items were not loaded.",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (load.server && load.flash) {
		fth_cli_error("--server and --flash are mutually exclusive");
		return FTH_EXIT_USAGE;
	}
	load.path = args[0];
	load.server = load.server ? load.server : FTH_KV_SERVER_DEFAULT;
	load.kv.value_max = (uint32_t)value_max;
	load.kv.chunk = (uint32_t)chunk;
	return load_and_report(&load);
}

const struct fth_command fth_cmd_kv_load = {
	.name = "load",
	.summary = "store the items of a dump in a server or on flash",
	.run = run,
};
