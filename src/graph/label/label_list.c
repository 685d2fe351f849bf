/* SPDX-License-Identifier: BSD-2-Clause */
/* In the file, each label is its length, 2 bytes, and its bytes. */
#include "graph/label/label.h"

#include "graph/build/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER	     (256u << 10)
#define LENGTH_BYTES 2u

_Static_assert(FTH_GRAPH_LABEL_MAX <= UINT16_MAX, "a length fits");

int fth_label_list_init(struct fth_label_list *list, const char *directory)
{
	*list = (struct fth_label_list){.directory = directory, .fd = -1};
	list->buffer = malloc(BUFFER);
	return list->buffer ? 0 : -ENOMEM;
}

void fth_label_list_release(struct fth_label_list *list)
{
	if (list->buffer && list->fd >= 0)
		close(list->fd);
	free(list->buffer);
	list->buffer = NULL;
}

static int list_flush(struct fth_label_list *list)
{
	int rc;

	if (list->fd < 0)
		list->fd = fth_edge_file_open(list->directory);
	if (list->fd < 0)
		return list->fd;
	rc = fth_edge_file_write(list->fd, list->buffer, list->used, list->tail);
	list->tail += list->used;
	list->used = 0;
	return rc;
}

int fth_label_list_add(struct fth_label_list *list, const char *text, uint32_t length)
{
	uint16_t bytes = (uint16_t)length;
	int rc = list->used + LENGTH_BYTES + length > BUFFER ? list_flush(list) : 0;

	if (rc < 0)
		return rc;
	memcpy(list->buffer + list->used, &bytes, LENGTH_BYTES);
	memcpy(list->buffer + list->used + LENGTH_BYTES, text, length);
	list->used += LENGTH_BYTES + length;
	return 0;
}

int fth_label_list_rewind(struct fth_label_list *list)
{
	int rc = list->reading ? 0 : list_flush(list);

	list->reading = true;
	list->at = 0;
	list->used = list->position = 0;
	return rc;
}

/* Have the next label in the buffer as a whole, if the file has one. */
static int list_fill(struct fth_label_list *list)
{
	size_t rest = list->used - list->position, room;
	uint64_t left = list->tail - list->at;
	int rc;

	if (rest >= LENGTH_BYTES + FTH_GRAPH_LABEL_MAX || left == 0)
		return 0;
	memmove(list->buffer, list->buffer + list->position, rest);
	room = BUFFER - rest < left ? BUFFER - rest : (size_t)left;
	rc = fth_edge_file_read(list->fd, list->buffer + rest, room, list->at);
	list->at += room;
	list->position = 0;
	list->used = rest + room;
	return rc;
}

int fth_label_list_next(struct fth_label_list *list, const char **text, uint32_t *length)
{
	uint16_t bytes;
	int rc = list_fill(list);

	if (rc < 0)
		return rc;
	if (list->position == list->used)
		return 0;
	memcpy(&bytes, list->buffer + list->position, LENGTH_BYTES);
	*text = (const char *)list->buffer + list->position + LENGTH_BYTES;
	*length = bytes;
	list->position += LENGTH_BYTES + bytes;
	return 1;
}
