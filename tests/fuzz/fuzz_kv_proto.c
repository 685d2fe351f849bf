/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines of memcached's protocol: whatever a line says, the command that comes of it holds together.
 * Its texts are inside the line, its numbers inside their ranges, and an answer can be made of it.
 * Seeds: lines of commands.
 */
#include "kv/server/proto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 1048576u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "not so: %s\n", what);
		abort();
	}
}

static void check_key(const struct kvp_line *line, const char *text, size_t length)
{
	uint8_t bytes[FTH_KV_KEY_MAX];
	char coded[FTH_KV_KEY_MAX * 4 / 3 + 4];
	int n;

	require(line->key.length >= 1 && line->key.length <= FTH_KV_KEY_MAX, "a key's length");
	require(line->key.at >= text && line->key.at + line->key.length <= text + length,
		"the key is in the line");
	n = kvp_base64_decode(line->key, bytes, sizeof(bytes));
	require(n >= -1 && n <= (int)sizeof(bytes), "a decoded key's length");
	if (n > 0)
		require(kvp_base64_encode(bytes, (size_t)n, coded) == line->key.length,
			"the same length again");
}

static void check_line(const char *text, size_t length)
{
	struct kvp_line line;

	kvp_parse(text, length, VALUE_MAX, &line);
	require((unsigned)line.command < KVP_COMMANDS, "a command");
	require(line.order_count <= KVP_FLAGS_MAX && line.opaque_length <= KVP_OPAQUE_MAX,
		"flags fit");
	require(!line.has_bytes || line.bytes < INT32_MAX, "no endless skipping");
	if (line.error) {
		require(strstr(line.error, "ERROR") != NULL, "an error says so");
		return;
	}
	require(line.command != KVP_NONE, "a command or an error");
	require((unsigned)line.verb < FTH_KV_VERB_COUNT, "a verb");
	require(!line.has_bytes || line.bytes <= VALUE_MAX, "a value that may be stored");
	for (unsigned i = 0; i < line.order_count; i++)
		require(kvp_has(&line, line.order[i]), "a flag is there both ways");
	if (line.command == KVP_GET || line.command == KVP_STORE || line.command == KVP_COUNT ||
	    (line.command >= KVP_META_GET && line.command != KVP_META_NOOP))
		check_key(&line, text, length);
	(void)kvp_expires(line.expires, 1000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *end;

	/* Each line in memory of its own length, so that a sanitizer sees what reads beyond. */
	while (size) {
		size_t length;
		char *copy;

		end = memchr(text, '\n', size);
		length = end ? (size_t)(end - text) : size;
		copy = malloc(length ? length : 1);
		if (!copy)
			return 0;
		memcpy(copy, text, length);
		check_line(copy, length);
		free(copy);
		text += length + (end != NULL);
		size -= length + (end != NULL);
	}
	return 0;
}
