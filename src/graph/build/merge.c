/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph/build/merge.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fth_edge_cursor {
	uint64_t *records;	/* a buffer, or the run's own memory */
	uint64_t position, end; /* records of these that are there */
	uint64_t capacity;	/* of the buffer */
	uint64_t at, left;	/* what of the run is still in the file: bytes, records */
	uint64_t *buffer;	/* to be freed */
};

/* ---- the file ---- */

int fth_edge_file_open(const char *directory)
{
	char path[4096];
	int fd;

	if (!directory)
		directory = getenv("TMPDIR");
	if (!directory || !*directory)
		directory = "/tmp";
	fd = fth_fd_open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	/* A filesystem that has no files without names. */
	if (snprintf(path, sizeof(path), "%s/fathom-sort-XXXXXX", directory) >= (int)sizeof(path))
		return fth_fail(ENAMETOOLONG, "%s: the path is too long", directory);
	fth_fd_reserve();
	fd = fth_fd_high(mkostemp(path, O_CLOEXEC));
	fth_fd_release();
	if (fd < 0)
		return fth_fail(errno, "%s: cannot create a temporary file: %s", directory,
				strerror(errno));
	unlink(path);
	return fd;
}

int fth_edge_file_read(int fd, void *buf, size_t length, uint64_t at)
{
	for (size_t done = 0; done < length;) {
		ssize_t n = pread(fd, (char *)buf + done, length - done, (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fth_fail(n < 0 ? errno : EIO,
					"cannot read a temporary file of the sort");
		done += (size_t)n;
	}
	return 0;
}

int fth_edge_file_write(int fd, const void *buf, size_t length, uint64_t at)
{
	for (size_t done = 0; done < length;) {
		ssize_t n = pwrite(fd, (const char *)buf + done, length - done, (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fth_fail(errno, "cannot write a temporary file of the sort: %s",
					strerror(errno));
		done += (size_t)n;
	}
	return 0;
}

/* ---- one run ---- */

static int cursor_open(struct fth_edge_cursor *cursor, const struct fth_edge_run *run,
		       size_t buffer_bytes, unsigned words)
{
	*cursor = (struct fth_edge_cursor){0};
	if (run->memory) {
		cursor->records = run->memory;
		cursor->end = run->records;
		return 0;
	}
	cursor->capacity = buffer_bytes / (8 * words);
	cursor->buffer = malloc(cursor->capacity * 8 * words);
	cursor->records = cursor->buffer;
	cursor->at = run->at;
	cursor->left = run->records;
	return cursor->buffer ? 0 : -ENOMEM;
}

/* 1 if it stands at a record, 0 at the end of the run, or a negative errno. */
static int cursor_fill(struct fth_edge_cursor *cursor, int fd, unsigned words)
{
	uint64_t n = cursor->left < cursor->capacity ? cursor->left : cursor->capacity;
	int rc;

	if (cursor->position < cursor->end)
		return 1;
	if (n == 0)
		return 0;
	rc = fth_edge_file_read(fd, cursor->buffer, n * 8 * words, cursor->at);
	if (rc < 0)
		return rc;
	cursor->at += n * 8 * words;
	cursor->left -= n;
	cursor->position = 0;
	cursor->end = n;
	return 1;
}

/* ---- the heap ---- */

/* The place at the top has got a larger key: move it down to where it belongs. */
static void sink(struct fth_edge_merge *merge, unsigned i)
{
	struct fth_edge_place *heap = merge->heap, moving = heap[i];

	for (;;) {
		unsigned child = 2 * i + 1;

		if (child >= merge->heap_count)
			break;
		if (child + 1 < merge->heap_count && heap[child + 1].key < heap[child].key)
			child++;
		if (heap[child].key >= moving.key)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = moving;
}

/* The cursor at the top moves on by one record. */
static int step(struct fth_edge_merge *merge)
{
	struct fth_edge_place *top = &merge->heap[0];
	struct fth_edge_cursor *cursor = &merge->cursors[top->cursor];
	int rc;

	cursor->position++;
	rc = cursor_fill(cursor, merge->fd, merge->words);
	if (rc < 0)
		return rc;
	if (rc > 0)
		top->key = cursor->records[cursor->position * merge->words];
	else
		*top = merge->heap[--merge->heap_count];
	sink(merge, 0);
	return 0;
}

static uint32_t top_weight(const struct fth_edge_merge *merge)
{
	const struct fth_edge_cursor *cursor = &merge->cursors[merge->heap[0].cursor];

	return merge->words == 2 ? (uint32_t)cursor->records[cursor->position * 2 + 1] : 0;
}

int fth_edge_merge_next(struct fth_edge_merge *merge, uint64_t *key, uint32_t *weight)
{
	int rc;

	if (merge->heap_count == 0)
		return 0;
	*key = merge->heap[0].key;
	*weight = UINT32_MAX;
	do {
		uint32_t w = top_weight(merge);

		*weight = w < *weight ? w : *weight;
		rc = step(merge);
	} while (rc == 0 && merge->heap_count && merge->heap[0].key == *key);
	return rc < 0 ? rc : 1;
}

/* ---- all of it ---- */

static int start(struct fth_edge_merge *merge, unsigned i)
{
	struct fth_edge_cursor *cursor = &merge->cursors[i];
	int rc = cursor_fill(cursor, merge->fd, merge->words);

	if (rc > 0)
		merge->heap[merge->heap_count++] = (struct fth_edge_place){
			cursor->records[cursor->position * merge->words], i};
	return rc < 0 ? rc : 0;
}

int fth_edge_merge_open(struct fth_edge_merge *merge, int fd, unsigned words,
			const struct fth_edge_run *runs, unsigned count, size_t buffer_bytes)
{
	int rc = 0;

	*merge = (struct fth_edge_merge){.fd = fd, .words = words};
	merge->cursors = calloc(count + 1, sizeof(*merge->cursors));
	merge->heap = calloc(count + 1, sizeof(*merge->heap));
	if (!merge->cursors || !merge->heap)
		rc = -ENOMEM;
	for (; rc == 0 && merge->count < count; merge->count++) {
		rc = cursor_open(&merge->cursors[merge->count], &runs[merge->count], buffer_bytes,
				 words);
		if (rc == 0)
			rc = start(merge, merge->count);
	}
	for (unsigned i = merge->heap_count / 2; rc == 0 && i-- > 0;)
		sink(merge, i);
	if (rc < 0)
		fth_edge_merge_close(merge);
	return rc;
}

void fth_edge_merge_close(struct fth_edge_merge *merge)
{
	for (unsigned i = 0; merge->cursors && i < merge->count; i++)
		free(merge->cursors[i].buffer);
	free(merge->cursors);
	free(merge->heap);
	*merge = (struct fth_edge_merge){0};
}
