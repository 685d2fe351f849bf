/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loading text. Each thread reads the next block of whole lines, parses it, and appends its rows
 * when its turn comes, so that rows keep their order. The turn also knows how many lines came
 * before, for messages.
 */
#include "table/text/parse.h"
#include "table/write/writer.h"

#include "base/options.h"
#include "base/text_input.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINE_MAX_BYTES ((size_t)1 << 30)

struct load {
	struct fth_table_writer *writer;
	const struct fth_table_text *text;
	const char *const *paths;
	unsigned files;
	fth_table_progress progress;
	void *user;
	uint64_t total; /* bytes of all files, 0: unknown */

	pthread_mutex_t reading;  /* for those below */
	unsigned file;		  /* the present one */
	struct text_input *input; /* NULL: not open */
	uint64_t position;	  /* in it, of what was taken */
	bool at_start;		  /* nothing of it was taken yet */
	uint32_t *order, fields;  /* the columns of its fields */
	char *rest;		  /* read, but not of a whole line yet */
	size_t rest_length, rest_room;
	uint64_t next_turn;

	pthread_mutex_t lock; /* for those below */
	pthread_cond_t turned;
	uint64_t turn;
	unsigned line_file; /* the file that `line` counts in */
	uint64_t line;	    /* lines before the block whose turn it is */
	int rc;
	char error[FTH_ERROR_TEXT_MAX];

	pthread_mutex_t telling; /* progress, for one thread at a time */
	uint64_t done;		 /* bytes of the files */
};

struct text_block {
	char *bytes;
	size_t length, room;
	uint64_t turn;
	unsigned file;
	unsigned skipped; /* lines of a header */
	uint64_t packed;  /* bytes of the file that it was made of */
};

/* ---- reading ---- */

static const char *name_input(const struct load *l, unsigned file)
{
	return strcmp(l->paths[file], "-") == 0 ? "standard input" : l->paths[file];
}

/*
 * Whether a read should end: the load has failed, or progress says so. A thread that has rows to
 * tell of hears it itself.
 */
static bool is_canceled(void *user)
{
	struct load *l = user;
	bool canceled;

	pthread_mutex_lock(&l->lock);
	canceled = l->rc < 0;
	pthread_mutex_unlock(&l->lock);
	if (!canceled && l->progress && pthread_mutex_trylock(&l->telling) == 0) {
		canceled = l->progress(l->done, l->total, l->user) != 0;
		pthread_mutex_unlock(&l->telling);
	}
	return canceled;
}

static int open_input(struct load *l)
{
	int rc = text_input_open(l->paths[l->file], is_canceled, l, &l->input);

	l->at_start = true;
	l->position = 0;
	return rc;
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
		ssize_t n = text_input_read(l->input, block->bytes + block->length,
					    length - block->length);

		if (n < 0)
			return (int)n;
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
	size_t want = l->writer->block_bytes, whole = 0;
	int rc = 0;

	while (rc == 0 && !*end && whole == 0) {
		want = block->length + 1 > want ? block->length * 2 : want;
		if (want > LINE_MAX_BYTES)
			return fth_fail(
				EINVAL,
				"%s: a line is longer than %zu bytes, or a quote is not closed",
				name_input(l, l->file), LINE_MAX_BYTES);
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

/*
 * What parsing relies on: a newline behind the text, and padding. The newline of the last line
 * stays: an empty last line is a row of a file with one column.
 */
static void end_text(struct text_block *block)
{
	memset(block->bytes + block->length, '\n', 1);
	memset(block->bytes + block->length + 1, 0, PARSE_PADDING);
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

/* The length of the first record of a block, and the number of its lines. */
static size_t measure_header(const struct load *l, const struct text_block *block, unsigned *lines)
{
	size_t n = 0;
	bool inside = false;

	*lines = 1;
	while (n < block->length && (inside || block->bytes[n] != '\n')) {
		inside ^= l->text->quote && block->bytes[n] == l->text->quote;
		*lines += block->bytes[n] == '\n';
		n++;
	}
	return n;
}

/* Take the first record from a block, and the order of columns from it. */
static int take_header(struct load *l, struct text_block *block, struct parser *p)
{
	unsigned lines;
	size_t length = measure_header(l, block, &lines);
	int rc = 0;

	if (l->text->header == FTH_TABLE_HEADER_NAMES) {
		end_text(block);
		rc = text_parser_header(p, block->bytes, length, l->order, &l->fields);
	}
	if (rc == -EINVAL)
		return fth_fail(EINVAL, "%s:1: %s", name_input(l, l->file), p->error);
	block->skipped = lines;
	drop_front(block, length + (length < block->length));
	return rc;
}

/* What comes before the rows of a file. */
static int take_start(struct load *l, struct text_block *block, struct parser *p)
{
	l->at_start = false;
	skip_byte_order_mark(block);
	l->fields = fth_table_writer_schema(l->writer)->columns;
	for (uint32_t c = 0; c < l->fields; c++)
		l->order[c] = c;
	return l->text->header != FTH_TABLE_HEADER_NONE ? take_header(l, block, p) : 0;
}

/* The next block of the present file; *end: and it was the last one. */
static int next_of_file(struct load *l, struct text_block *block, struct parser *p, bool *end)
{
	int rc = l->input ? 0 : open_input(l);

	if (rc == 0)
		rc = reserve_block(block,
				   l->rest_length + l->writer->block_bytes + 1 + PARSE_PADDING);
	if (rc < 0)
		return rc;
	if (l->rest_length)
		memcpy(block->bytes, l->rest, l->rest_length);
	block->length = l->rest_length;
	if (l->at_start)
		block->skipped = 0;
	block->file = l->file;
	rc = read_lines(l, block, end);
	if (rc == 0 && l->at_start && block->length)
		rc = take_start(l, block, p);
	if (rc < 0)
		return rc;
	block->packed += text_input_position(l->input) - l->position;
	l->position = text_input_position(l->input);
	if (*end) {
		text_input_close(l->input);
		l->input = NULL;
		l->file++;
	}
	return 0;
}

/* 1 and the next block of lines, 0 at the end. */
static int next_block(struct load *l, struct text_block *block, struct parser *p)
{
	int rc = 0;
	bool end = false;

	block->length = block->skipped = block->packed = 0;
	pthread_mutex_lock(&l->reading);
	while (rc == 0 && l->file < l->files && block->length == 0) {
		end = false;
		rc = next_of_file(l, block, p, &end);
	}
	if (rc == 0 && block->length)
		text_parser_fields(p, l->order, l->fields);
	if (rc < 0)
		l->file = l->files; /* nobody reads on */
	block->turn = l->next_turn++;
	pthread_mutex_unlock(&l->reading);
	if (rc < 0 || block->length == 0)
		return rc;
	end_text(block);
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
	return fth_fail(EINVAL, "%s:%llu: %s", name_input(l, block->file),
			(unsigned long long)(l->line + block->skipped + p->lines + 1), p->error);
}

/* True if the load is to end. */
static bool tell(struct load *l, uint64_t packed)
{
	bool canceled;

	pthread_mutex_lock(&l->telling);
	l->done += packed;
	canceled = l->progress && l->progress(l->done, l->total, l->user) != 0;
	pthread_mutex_unlock(&l->telling);
	return canceled;
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
		return fth_fail_in(rc, name_input(l, block->file));
	l->line += block->skipped + p->lines;
	return tell(l, block->packed) ? fth_fail(ECANCELED, "canceled") : 0;
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
		rc = next_block(l, &block, &parser);
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
	};
	int rc = fth_options_check("table", text->size, sizeof(*text));

	if (rc == 0 && (text->delimiter == '\n' || text->delimiter == '\r' ||
			text->delimiter == 0 || text->delimiter == text->quote))
		rc = fth_fail(EINVAL, "table: invalid delimiter or quote");
	if (rc < 0)
		return rc;
	l.order = calloc(fth_table_writer_schema(writer)->columns, sizeof(*l.order));
	if (!l.order)
		return -ENOMEM;
	l.total = total_bytes(paths, n);
	pthread_mutex_init(&l.reading, NULL);
	pthread_mutex_init(&l.lock, NULL);
	pthread_mutex_init(&l.telling, NULL);
	pthread_cond_init(&l.turned, NULL);
	rc = run_threads(&l, writer->threads);
	text_input_close(l.input);
	free(l.rest);
	free(l.order);
	pthread_cond_destroy(&l.turned);
	pthread_mutex_destroy(&l.telling);
	pthread_mutex_destroy(&l.lock);
	pthread_mutex_destroy(&l.reading);
	return rc < 0 ? writer_fail(writer, rc) : 0;
}
