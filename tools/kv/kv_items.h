/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Items of a cache as text: what `fathom kv dump` writes and `fathom kv load` reads.
 *
 * The text is the memcached commands that store the items, so that netcat can send it to a server:
 *
 *	set KEY FLAGS EXPIRES BYTES\r\n
 *	value\r\n
 *
 * A key with a blank or a control character, which `set` cannot carry, is in base64:
 *
 *	ms KEY BYTES b F<flags> T<expires>\r\n
 *	value\r\n
 *
 * EXPIRES is in seconds since 1970; 0, or no T: never.
 */
#ifndef FTH_TOOLS_KV_ITEMS_H
#define FTH_TOOLS_KV_ITEMS_H

#include "fathom/kv/image.h"

#include <stdio.h>

enum fth_kv_items_form {
	FTH_KV_ITEMS_TEXT,
	FTH_KV_ITEMS_KEYS, /* a key a line; bytes that are not printable ASCII, and %, as %XX */
	FTH_KV_ITEMS_JSON, /* an object a line: key or key_base64, flags, expires, value_base64 */
	FTH_KV_ITEMS_JSON_KEYS, /* the same without the value, but with its length */
};

/* Write one item. Errors stay in the FILE. */
void fth_kv_items_put(FILE *out, enum fth_kv_items_form form, const struct fth_kv_image_item *item);

/* Zero-initialise, set name and in. */
struct fth_kv_items_reader {
	const char *name; /* for messages */
	FILE *in;
	uint64_t line;	/* of the last one read, from 1; newlines in values count */
	uint64_t bytes; /* read so far */
	bool cr;	/* that line ended in CR and LF */
	uint8_t key[FTH_KV_KEY_MAX];
	uint8_t *value;
	size_t room;
};

/*
 * Read the next item of a text; it is valid until the next call. 1: there is one. 0: the text has
 * ended. -EBADMSG: a line is bad, and fth_error_text() names it. `set`, `add` and `ms` are
 * accepted.
 */
int fth_kv_items_next(struct fth_kv_items_reader *reader, struct fth_kv_image_item *item);
void fth_kv_items_release(struct fth_kv_items_reader *reader);

#endif
