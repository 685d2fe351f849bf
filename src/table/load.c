/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loading text. Each thread reads the next block of whole lines, parses it, and appends its rows when its turn
 * comes, so that rows keep their order. The turn also knows how many lines came before, for messages.
 */
#include "table/parse.h"
#include "table/writer.h"

#include "base/options.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES    ((size_t)2 << 20)
#define LINE_MAX_BYTES ((size_t)1 << 30)

struct load {
	struct fth_table_writer *writer;
	const struct fth_table_text *text;
	const char *const *paths;
	unsigned files;
	fth_table_progress progress;
	void *user;
	uint64_t total; /* bytes of all files, 0: unknown */

	pthread_mutex_t reading; /* for those below */
	unsigned file;		 /* the present one */
	int fd;			 /* -1: not open */
	bool at_start;		 /* nothing of it was taken yet */
	char *rest;		 /* read, but not of a whole line yet */
	size_t rest_length, rest_room;
	uint64_t next_turn;

	pthread_mutex_t lock; /* for those below */
	pthread_cond_t turned;
	uint64_t turn;
	unsigned line_file; /* the file that `line` counts in */
	uint64_t line;	    /* lines before the block whose turn it is */
	uint64_t done;	    /* bytes */
	int rc;
	char error[FTH_ERROR_TEXT_MAX];
};

struct text_block {
	char *bytes;
	size_t length, room;
	uint64_t turn;
	unsigned file;
	unsigned skipped; /* lines of a header */
};

/* ---- reading ---- */

static int open_input(struct load *l)
{
	const char *path = l->paths[l->file];

	if (strcmp(path, "-") == 0) {
		fth_fd_reserve();
		l->fd = fth_fd_high(dup(STDIN_FILENO));
		fth_fd_release();
	} else {
		l->fd = fth_fd_open(path, O_RDONLY | O_CLOEXEC, 0);
	}
	if (l->fd < 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	posix_fadvise(l->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	l->at_start = true;
	return 0;
}

static int reserve_block(struct text_block *block, size_t room)
{
	char *grown;

	if (room <= block->room)
		return 0;
	grown = realloc(block->bytes, room);
	if (!grown)
		return -ENOMEM;
	block->bytes = grown;
	block->room = room;
	return 0;
}

/* Fill a block up to `length` bytes. *end: the file has no more. */
static int fill_block(struct load *l, struct text_block *block, size_t length, bool *end)
{
	while (block->length < length) {
		ssize_t n = read(l->fd, block->bytes + block->length, length - block->length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fth_fail(errno, "%s: %s", l->paths[l->file], strerror(errno));
		*end = n == 0;
		if (n == 0)
			break;
		block->length += (size_t)n;
	}
	return 0;
}

static int keep_rest(struct load *l, const char *rest, size_t length)
{
	if (length > l->rest_room) {
		char *grown = realloc(l->rest, length);

		if (!grown)
			return -ENOMEM;
		l->rest = grown;
		l->rest_room = length;
	}
	if (length)
		memcpy(l->rest, rest, length);
	l->rest_length = length;
	return 0;
}

/* Whole lines of the present file, as many as fit; more memory if one does not. */
static int read_lines(struct load *l, struct text_block *block, bool *end)
{
	size_t want = BLOCK_BYTES, whole = 0;
	int rc = 0;

	while (rc == 0 && !*end && whole == 0) {
		want = block->length + 1 > want ? block->length * 2 : want;
		if (want > LINE_MAX_BYTES)
			return fth_fail(
				EINVAL,
				"%s: a line is longer than %zu bytes, or a quote is not closed",
				l->paths[l->file], LINE_MAX_BYTES);
		rc = reserve_block(block, want + 1 + PARSE_PADDING);
		if (rc == 0)
			rc = fill_block(l, block, want, end);
		if (rc == 0)
			whole = parse_whole(l->text, block->bytes, block->length);
	}
	if (rc < 0)
		return rc;
	/* The last line of a file needs no newline. */
	whole = *end ? block->length : whole;
	rc = keep_rest(l, block->bytes + whole, block->length - whole);
	block->length = whole;
	return rc;
}

static void drop_front(struct text_block *block, size_t length)
{
	memmove(block->bytes, block->bytes + length, block->length - length);
	block->length -= length;
}

/* Some programs write a byte order mark before UTF-8 text; it is not data. */
static void skip_byte_order_mark(struct text_block *block)
{
	static const char mark[3] = {'\xef', '\xbb', '\xbf'};

	if (block->length >= sizeof(mark) && memcmp(block->bytes, mark, sizeof(mark)) == 0)
		drop_front(block, sizeof(mark));
}

/* Remove the first record from a block. */
static void skip_header(struct load *l, struct text_block *block)
{
	size_t n = 0;
	bool inside = false;

	while (n < block->length && (inside || block->bytes[n] != '\n')) {
		inside ^= l->text->quote && block->bytes[n] == l->text->quote;
		block->skipped += block->bytes[n] == '\n';
		n++;
	}
	n += n < block->length;
	block->skipped++;
	drop_front(block, n);
}

/* The next block of the present file; *end: and it was the last one. */
static int next_of_file(struct load *l, struct text_block *block, bool *end)
{
	int rc = l->fd < 0 ? open_input(l) : 0;

	if (rc == 0)
		rc = reserve_block(block, l->rest_length + BLOCK_BYTES + 1 + PARSE_PADDING);
	if (rc < 0)
		return rc;
	if (l->rest_length)
		memcpy(block->bytes, l->rest, l->rest_length);
	block->length = l->rest_length;
	block->file = l->file;
	block->skipped = 0;
	rc = read_lines(l, block, end);
	if (rc == 0 && l->at_start && block->length) {
		l->at_start = false;
		skip_byte_order_mark(block);
		if (l->text->header)
			skip_header(l, block);
	}
	if (rc == 0 && *end) {
		close(l->fd);
		l->fd = -1;
		l->file++;
	}
	return rc;
}

/* 1 and the next block of lines, 0 at the end. */
static int next_block(struct load *l, struct text_block *block)
{
	int rc = 0;
	bool end = false;

	block->length = 0;
	pthread_mutex_lock(&l->reading);
	while (rc == 0 && l->file < l->files && block->length == 0) {
		end = false;
		rc = next_of_file(l, block, &end);
	}
	block->turn = l->next_turn++;
	pthread_mutex_unlock(&l->reading);
	if (rc < 0)
		return rc;
	if (block->length == 0)
		return 0;
	/*
	 * What parsing relies on: a newline behind the text, and padding. The newline of the last line stays: an empty
	 * last line is a row of a table with one column.
	 */
	memset(block->bytes + block->length, '\n', 1);
	memset(block->bytes + block->length + 1, 0, PARSE_PADDING);
	return 1;
}

/* ---- taking turns ---- */

static void fail_load(struct load *l, int rc)
{
	if (l->rc == 0) {
		l->rc = rc;
		snprintf(l->error, sizeof(l->error), "%s", fth_error_text(rc));
	}
	pthread_cond_broadcast(&l->turned);
}

/* Wait for the turn of a block. False if the load failed meanwhile. */
static bool await_turn(struct load *l, const struct text_block *block)
{
	while (l->rc == 0 && l->turn != block->turn)
		pthread_cond_wait(&l->turned, &l->lock);
	if (l->rc == 0 && l->line_file != block->file) {
		l->line_file = block->file;
		l->line = 0;
	}
	return l->rc == 0;
}

static int say_line(struct load *l, const struct text_block *block, const struct parser *p)
{
	const char *path = l->paths[block->file];

	return fth_fail(EINVAL, "%s:%llu: %s", strcmp(path, "-") == 0 ? "standard input" : path,
			(unsigned long long)(l->line + block->skipped + p->lines + 1), p->error);
}

/* What a thread does with its block when it is its turn; no other thread does so now. */
static int take_turn(struct load *l, const struct text_block *block, const struct parser *p,
		     int parsed)
{
	int rc;

	if (parsed < 0)
		return parsed == -EINVAL ? say_line(l, block, p) : parsed;
	rc = fth_table_writer_append(l->writer, p->vector, p->rows);
	if (rc < 0)
		return fth_fail_in(rc, l->paths[block->file]);
	l->line += block->skipped + p->lines;
	l->done += block->length;
	if (l->progress && l->progress(l->done, l->total, l->user) != 0)
		return fth_fail(ECANCELED, "canceled");
	return 0;
}

static int load_block(struct load *l, const struct text_block *block, struct parser *p)
{
	int parsed = text_parser_run(p, block->bytes, block->length), rc;
	bool mine;

	pthread_mutex_lock(&l->lock);
	mine = await_turn(l, block);
	pthread_mutex_unlock(&l->lock);
	if (!mine)
		return -ECANCELED;
	rc = take_turn(l, block, p, parsed);
	pthread_mutex_lock(&l->lock);
	if (rc < 0)
		fail_load(l, rc);
	l->turn++;
	pthread_cond_broadcast(&l->turned);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

static void *load_blocks(void *argument)
{
	struct load *l = argument;
	struct text_block block = {0};
	struct parser parser;
	int rc = text_parser_init(&parser, fth_table_writer_schema(l->writer), l->text);

	while (rc == 0) {
		rc = next_block(l, &block);
		if (rc <= 0)
			break;
		rc = load_block(l, &block, &parser);
	}
	if (rc < 0) {
		pthread_mutex_lock(&l->lock);
		fail_load(l, rc);
		pthread_mutex_unlock(&l->lock);
	}
	free(block.bytes);
	text_parser_release(&parser);
	return NULL;
}

/* ---- all of it ---- */

static uint64_t total_bytes(const char *const *paths, unsigned n)
{
	uint64_t total = 0;
	struct stat st;

	for (unsigned i = 0; i < n; i++) {
		if (strcmp(paths[i], "-") == 0 || stat(paths[i], &st) < 0 || !S_ISREG(st.st_mode))
			return 0;
		total += (uint64_t)st.st_size;
	}
	return total;
}

static int run_threads(struct load *l, unsigned threads)
{
	pthread_t *thread = calloc(threads, sizeof(*thread));
	unsigned started = 0;

	if (!thread)
		return -ENOMEM;
	/* This thread is one of them. */
	while (started + 1 < threads && pthread_create(&thread[started], NULL, load_blocks, l) == 0)
		started++;
	load_blocks(l);
	while (started)
		pthread_join(thread[--started], NULL);
	free(thread);
	return l->rc < 0 ? fth_fail(-l->rc, "%s", l->error) : 0;
}

int fth_table_load(struct fth_table_writer *writer, const char *const *paths, unsigned n,
		   const struct fth_table_text *text, fth_table_progress progress, void *user)
{
	struct load l = {
		.writer = writer,
		.text = text,
		.paths = paths,
		.files = n,
		.progress = progress,
		.user = user,
		.fd = -1,
	};
	int rc = fth_options_check("table", text->size, sizeof(*text));

	if (rc == 0 && (text->delimiter == '\n' || text->delimiter == '\r' ||
			text->delimiter == 0 || text->delimiter == text->quote))
		rc = fth_fail(EINVAL, "table: invalid delimiter or quote");
	if (rc < 0)
		return rc;
	l.total = total_bytes(paths, n);
	pthread_mutex_init(&l.reading, NULL);
	pthread_mutex_init(&l.lock, NULL);
	pthread_cond_init(&l.turned, NULL);
	rc = run_threads(&l, writer->threads);
	if (l.fd >= 0)
		close(l.fd);
	free(l.rest);
	pthread_cond_destroy(&l.turned);
	pthread_mutex_destroy(&l.lock);
	pthread_mutex_destroy(&l.reading);
	return rc < 0 ? writer_fail(writer, rc) : 0;
}
