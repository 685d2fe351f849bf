/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers that grow, and those that a worker keeps for its connections. */
#include "kv/server/server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *bytes_room(struct bytes *b, size_t n)
{
	if (b->from == b->to)
		b->from = b->to = 0;
	if (b->room - b->to < n && b->from > 0) {
		memmove(b->data, b->data + b->from, b->to - b->from);
		b->to -= b->from;
		b->from = 0;
	}
	if (b->room - b->to < n) {
		size_t room = b->room ? b->room : 2048;
		char *data;

		while (room - b->to < n)
			room *= 2;
		data = realloc(b->data, room);
		if (!data) {
			b->failed = true;
			return NULL;
		}
		b->data = data;
		b->room = room;
	}
	return b->data + b->to;
}

void bytes_put(struct bytes *b, const void *data, size_t n)
{
	char *to = bytes_room(b, n);

	if (!to || n == 0) /* an empty value has no address */
		return;
	memcpy(to, data, n);
	b->to += n;
}

void bytes_printf(struct bytes *b, const char *format, ...)
{
	char text[512];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n > 0)
		bytes_put(b, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void bytes_release(struct bytes *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}

void bytes_lend(struct bytes *to, struct kvs_worker *w)
{
	if (to->data || !w->spares)
		return;
	*to = w->spare[--w->spares];
	w->spare_bytes -= to->room;
}

void bytes_return(struct bytes *from, struct kvs_worker *w)
{
	if (bytes_count(from) || !from->data)
		return;
	from->from = from->to = 0;
	if (w->spares == SPARES || w->spare_bytes + from->room > SPARE_BYTES) {
		bytes_release(from);
	} else {
		w->spare_bytes += from->room;
		w->spare[w->spares++] = *from;
	}
	memset(from, 0, sizeof(*from));
}
