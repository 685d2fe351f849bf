/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The external sort of labels.
 *
 * 1. A record is its prefix, its place, the length of its text and the text. Records are added to
 *    an arena; an entry for each, a prefix and where it is, is what is sorted.
 * 2. A full arena is written to a temporary file without a name, in order, as a run. What fits into
 *    one arena never goes to a file.
 * 3. Otherwise finish() writes the last run too, and merges the first runs into one until few
 *    enough are left for one merge. A cursor always has a whole record in its buffer, or is at its
 *    end.
 */
#include "graph/label/label.h"

#include "graph/build/merge.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD	   18u /* bytes before the text of a record */
#define RECORD_MAX (HEAD + FTH_GRAPH_LABEL_MAX)
#define READ_BYTES 65536u
#define FAN_IN_MAX 512u
#define TELL_EVERY ((uint64_t)1 << 16)

struct label_entry {
	uint64_t prefix;
	uint64_t at; /* in the arena */
};

struct label_run {
	uint64_t at, bytes;
};

struct label_cursor {
	uint64_t at, left; /* what of the run is still in the file: bytes */
	uint8_t *buffer;
	size_t position, used;
	struct fth_label label; /* where it stands */
	uint64_t place;
};

struct label_merge {
	unsigned count;
	struct label_cursor *cursors;
	unsigned *heap; /* cursors that are not at their end, the smallest label first */
	unsigned heap_count;
};

struct fth_label_sort {
	uint64_t memory;
	const char *directory;
	uint8_t *arena;
	uint64_t used, capacity;
	struct label_entry *entries;
	uint64_t entry_count, entry_capacity;
	int fd;
	uint64_t tail, records, run_total;
	struct label_run *runs;
	unsigned run_count, run_capacity;
	struct label_merge merge; /* if there are runs, and */
	bool taken;		  /* the label it stands at was given out; otherwise */
	uint64_t next_entry;
};

/* ---- records ---- */

static size_t record_put(uint8_t *to, const struct fth_label *label, uint64_t place)
{
	uint16_t length = (uint16_t)label->length;

	memcpy(to, &label->prefix, 8);
	memcpy(to + 8, &place, 8);
	memcpy(to + 16, &length, 2);
	memcpy(to + HEAD, label->text, length);
	return HEAD + length;
}

static size_t record_get(const uint8_t *from, struct fth_label *label, uint64_t *place)
{
	uint16_t length;

	memcpy(&label->prefix, from, 8);
	memcpy(place, from + 8, 8);
	memcpy(&length, from + 16, 2);
	label->length = length;
	label->text = (const char *)from + HEAD;
	return HEAD + length;
}

/* The bytes that all words in the arena begin with. */
static uint32_t shared_bytes(const struct fth_label_sort *sort)
{
	struct fth_label first = {0}, label;
	uint32_t shared = UINT32_MAX;
	uint64_t place;

	for (uint64_t i = 0; i < sort->entry_count && shared > 0; i++) {
		uint32_t n = 0;

		record_get(sort->arena + sort->entries[i].at, &label, &place);
		if (label.prefix < FTH_GRAPH_LABEL_WORDS)
			continue;
		if (!first.text)
			first = label;
		while (n < shared && n < label.length && n < first.length &&
		       label.text[n] == first.text[n])
			n++;
		shared = n;
	}
	return first.text ? shared : 0;
}

/*
 * Words often begin alike, as addresses do. Their entries get a prefix of what follows, so that
 * most comparisons are of entries alone; the order stays the same.
 */
static void skip_shared(struct fth_label_sort *sort)
{
	uint32_t shared = shared_bytes(sort);
	struct fth_label label;
	uint64_t place;

	for (uint64_t i = 0; i < sort->entry_count && shared > 0; i++) {
		struct label_entry *entry = &sort->entries[i];

		if (entry->prefix < FTH_GRAPH_LABEL_WORDS)
			continue;
		record_get(sort->arena + entry->at, &label, &place);
		entry->prefix = fth_graph_word_prefix(label.text + shared, label.length - shared);
	}
}

static int compare_entries(const void *a, const void *b, void *arena)
{
	const struct label_entry *x = a, *y = b;
	struct fth_label p, q;
	uint64_t place;

	if (x->prefix != y->prefix)
		return x->prefix < y->prefix ? -1 : 1;
	record_get((uint8_t *)arena + x->at, &p, &place);
	record_get((uint8_t *)arena + y->at, &q, &place);
	return fth_label_compare(&p, &q);
}

static void sort_entries(struct fth_label_sort *sort)
{
	skip_shared(sort);
	qsort_r(sort->entries, sort->entry_count, sizeof(*sort->entries), compare_entries,
		sort->arena);
}

/* ---- runs ---- */

/* Collects records for the end of the file. */
struct run_writer {
	uint8_t buffer[READ_BYTES];
	size_t used;
	struct label_run run;
};

static int run_flush(struct fth_label_sort *sort, struct run_writer *writer)
{
	int rc = fth_edge_file_write(sort->fd, writer->buffer, writer->used,
				     writer->run.at + writer->run.bytes);

	writer->run.bytes += writer->used;
	writer->used = 0;
	return rc;
}

static int run_put(struct fth_label_sort *sort, struct run_writer *writer,
		   const struct fth_label *label, uint64_t place)
{
	int rc = writer->used + RECORD_MAX > sizeof(writer->buffer) ? run_flush(sort, writer) : 0;

	if (rc == 0)
		writer->used += record_put(writer->buffer + writer->used, label, place);
	return rc;
}

/* The file, and a writer that begins at its end. */
static int run_begin(struct fth_label_sort *sort, struct run_writer **out)
{
	if (sort->fd < 0)
		sort->fd = fth_edge_file_open(sort->directory);
	if (sort->fd < 0)
		return sort->fd;
	*out = malloc(sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->used = 0;
	(*out)->run = (struct label_run){.at = sort->tail};
	return 0;
}

/* Frees the writer; without an error its run is the last one. */
static int run_end(struct fth_label_sort *sort, struct run_writer *writer, int rc)
{
	if (rc == 0)
		rc = run_flush(sort, writer);
	if (rc == 0 && sort->run_count == sort->run_capacity) {
		unsigned capacity = sort->run_capacity ? 2 * sort->run_capacity : 64;
		struct label_run *runs = realloc(sort->runs, capacity * sizeof(*runs));

		if (runs) {
			sort->runs = runs;
			sort->run_capacity = capacity;
		} else {
			rc = -ENOMEM;
		}
	}
	if (rc == 0) {
		sort->tail += writer->run.bytes;
		sort->runs[sort->run_count++] = writer->run;
		sort->run_total++;
	}
	free(writer);
	return rc;
}

static int spill(struct fth_label_sort *sort)
{
	struct run_writer *writer;
	struct fth_label label;
	uint64_t place;
	int rc = run_begin(sort, &writer);

	if (rc < 0)
		return rc;
	sort_entries(sort);
	for (uint64_t i = 0; i < sort->entry_count && rc == 0; i++) {
		record_get(sort->arena + sort->entries[i].at, &label, &place);
		rc = run_put(sort, writer, &label, place);
	}
	sort->used = sort->entry_count = 0;
	return run_end(sort, writer, rc);
}

int fth_label_sort_add(struct fth_label_sort *sort, const char *text, uint32_t length,
		       uint64_t place)
{
	struct fth_label label = {fth_graph_label_prefix(text, length), text, length};
	int rc = 0;

	if (sort->used + HEAD + length > sort->capacity ||
	    sort->entry_count == sort->entry_capacity)
		rc = spill(sort);
	if (rc < 0)
		return rc;
	sort->entries[sort->entry_count++] = (struct label_entry){label.prefix, sort->used};
	sort->used += record_put(sort->arena + sort->used, &label, place);
	sort->records++;
	return 0;
}

/* ---- merging ---- */

/* Stand at the next record: 1, or 0 at the end of the run, or a negative errno. */
static int cursor_next(struct label_cursor *cursor, int fd)
{
	size_t rest = cursor->used - cursor->position, room = READ_BYTES - rest;

	if (rest < RECORD_MAX && cursor->left > 0) {
		int rc;

		memmove(cursor->buffer, cursor->buffer + cursor->position, rest);
		if (room > cursor->left)
			room = (size_t)cursor->left;
		rc = fth_edge_file_read(fd, cursor->buffer + rest, room, cursor->at);
		if (rc < 0)
			return rc;
		cursor->at += room;
		cursor->left -= room;
		cursor->position = 0;
		cursor->used = rest + room;
	}
	if (cursor->position == cursor->used)
		return 0;
	cursor->position +=
		record_get(cursor->buffer + cursor->position, &cursor->label, &cursor->place);
	return 1;
}

static bool is_before(const struct label_merge *merge, unsigned a, unsigned b)
{
	int order = fth_label_compare(&merge->cursors[a].label, &merge->cursors[b].label);

	return order < 0 || (order == 0 && a < b);
}

static void sift_down(struct label_merge *merge, unsigned at)
{
	unsigned moved = merge->heap[at];

	for (;;) {
		unsigned child = 2 * at + 1;

		if (child + 1 < merge->heap_count &&
		    is_before(merge, merge->heap[child + 1], merge->heap[child]))
			child++;
		if (child >= merge->heap_count || !is_before(merge, merge->heap[child], moved))
			break;
		merge->heap[at] = merge->heap[child];
		at = child;
	}
	merge->heap[at] = moved;
}

static void merge_close(struct label_merge *merge)
{
	for (unsigned i = 0; merge->cursors && i < merge->count; i++)
		free(merge->cursors[i].buffer);
	free(merge->cursors);
	free(merge->heap);
	*merge = (struct label_merge){0};
}

static int merge_open(struct fth_label_sort *sort, struct label_merge *merge, unsigned count)
{
	int rc;

	*merge = (struct label_merge){.count = count};
	merge->cursors = calloc(count, sizeof(*merge->cursors));
	merge->heap = calloc(count, sizeof(*merge->heap));
	rc = merge->cursors && merge->heap ? 0 : -ENOMEM;
	for (unsigned i = 0; i < count && rc >= 0; i++) {
		struct label_cursor *cursor = &merge->cursors[i];

		cursor->at = sort->runs[i].at;
		cursor->left = sort->runs[i].bytes;
		cursor->buffer = malloc(READ_BYTES);
		rc = cursor->buffer ? cursor_next(cursor, sort->fd) : -ENOMEM;
		if (rc > 0)
			merge->heap[merge->heap_count++] = i;
	}
	if (rc < 0) {
		merge_close(merge);
		return rc;
	}
	for (unsigned at = merge->heap_count / 2; at-- > 0;)
		sift_down(merge, at);
	return 0;
}

/* The cursor with the smallest label: 1, or 0 at the end. */
static int merge_peek(const struct label_merge *merge, struct label_cursor **out)
{
	if (merge->heap_count == 0)
		return 0;
	*out = &merge->cursors[merge->heap[0]];
	return 1;
}

static int merge_advance(struct fth_label_sort *sort, struct label_merge *merge)
{
	int rc = cursor_next(&merge->cursors[merge->heap[0]], sort->fd);

	if (rc < 0)
		return rc;
	if (rc == 0)
		merge->heap[0] = merge->heap[--merge->heap_count];
	if (merge->heap_count > 0)
		sift_down(merge, 0);
	return 0;
}

static int copy_merged(struct fth_label_sort *sort, struct label_merge *merge,
		       struct run_writer *writer, const struct fth_graph_job *job)
{
	struct label_cursor *cursor;
	uint64_t done = 0;
	int rc = 0;

	while (rc == 0 && merge_peek(merge, &cursor)) {
		rc = run_put(sort, writer, &cursor->label, cursor->place);
		if (rc == 0)
			rc = merge_advance(sort, merge);
		if (rc == 0 && ++done % TELL_EVERY == 0 && job->progress)
			rc = job->progress(job->context, "merging labels", done, sort->records);
	}
	return rc;
}

/* The first `count` runs become one at the end of the file, and give their room back. */
static int merge_some(struct fth_label_sort *sort, unsigned count, const struct fth_graph_job *job)
{
	struct label_merge merge;
	struct run_writer *writer;
	int rc = merge_open(sort, &merge, count);

	if (rc < 0)
		return rc;
	rc = run_begin(sort, &writer);
	if (rc == 0)
		rc = run_end(sort, writer, copy_merged(sort, &merge, writer, job));
	merge_close(&merge);
	if (rc < 0)
		return rc;
	/* Only a matter of disk space: where the file system cannot, it takes more. */
	for (unsigned i = 0; i < count; i++)
		(void)!fallocate(sort->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 (off_t)sort->runs[i].at, (off_t)sort->runs[i].bytes);
	sort->run_count -= count;
	memmove(sort->runs, sort->runs + count, sort->run_count * sizeof(*sort->runs));
	return 0;
}

int fth_label_sort_finish(struct fth_label_sort *sort, const struct fth_graph_job *job)
{
	uint64_t fan_in = sort->memory / READ_BYTES - 1;
	int rc;

	if (sort->run_count == 0) {
		sort_entries(sort);
		return 0;
	}
	rc = spill(sort);
	free(sort->arena);
	free(sort->entries);
	sort->arena = NULL;
	sort->entries = NULL;
	if (fan_in > FAN_IN_MAX)
		fan_in = FAN_IN_MAX;
	while (rc == 0 && sort->run_count > fan_in)
		rc = merge_some(sort, (unsigned)fan_in, job);
	return rc == 0 ? merge_open(sort, &sort->merge, sort->run_count) : rc;
}

/* The label of the last call lies in the buffer of its cursor, which moves on in this one. */
int fth_label_sort_next(struct fth_label_sort *sort, struct fth_label *label, uint64_t *place)
{
	struct label_cursor *cursor;

	if (sort->run_count == 0) {
		if (sort->next_entry == sort->entry_count)
			return 0;
		record_get(sort->arena + sort->entries[sort->next_entry++].at, label, place);
		return 1;
	}
	if (sort->taken) {
		int rc = merge_advance(sort, &sort->merge);

		if (rc < 0)
			return rc;
	}
	sort->taken = merge_peek(&sort->merge, &cursor);
	if (!sort->taken)
		return 0;
	*label = cursor->label;
	*place = cursor->place;
	return 1;
}

uint64_t fth_label_sort_runs(const struct fth_label_sort *sort)
{
	return sort->run_total;
}

/* ---- life ---- */

int fth_label_sort_new(uint64_t memory, const char *directory, struct fth_label_sort **out)
{
	struct fth_label_sort *sort = calloc(1, sizeof(*sort));

	*out = sort;
	if (!sort)
		return -ENOMEM;
	if (memory < FTH_LABEL_SORT_MEMORY_MIN)
		memory = FTH_LABEL_SORT_MEMORY_MIN;
	sort->memory = memory;
	sort->directory = directory;
	sort->fd = -1;
	/* qsort_r() takes as much again as the entries do. */
	sort->capacity = memory / 2;
	sort->entry_capacity = memory / 4 / sizeof(*sort->entries);
	sort->arena = malloc(sort->capacity);
	sort->entries = malloc(sort->entry_capacity * sizeof(*sort->entries));
	if (sort->arena && sort->entries)
		return 0;
	fth_label_sort_free(sort);
	*out = NULL;
	return -ENOMEM;
}

void fth_label_sort_free(struct fth_label_sort *sort)
{
	if (!sort)
		return;
	merge_close(&sort->merge);
	free(sort->arena);
	free(sort->entries);
	free(sort->runs);
	if (sort->fd >= 0)
		close(sort->fd);
	free(sort);
}
