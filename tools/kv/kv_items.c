/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv_items.h"

#include "cli.h"
#include "json.h"

#include "fathom/base/error.h"

#include "kv/server/proto.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE_MAX_BYTES 2048u
#define BASE64_KEY_MAX ((FTH_KV_KEY_MAX + 2) / 3 * 4)

/* ---- writing ---- */

/* Bytes above 127 are fine: keys in UTF-8 are common. */
static bool is_word(const struct fth_kv_image_item *item)
{
	const uint8_t *key = item->key;

	for (uint32_t i = 0; i < item->key_length; i++)
		if (key[i] <= ' ' || key[i] == 0x7f)
			return false;
	return true;
}

static bool is_ascii(const struct fth_kv_image_item *item)
{
	const uint8_t *key = item->key;

	for (uint32_t i = 0; i < item->key_length; i++)
		if (key[i] < ' ' || key[i] > '~')
			return false;
	return true;
}

static void put_text(FILE *out, const struct fth_kv_image_item *item)
{
	char key[BASE64_KEY_MAX];

	if (is_word(item)) {
		fprintf(out, "set %.*s %" PRIu32 " %" PRIu32 " %" PRIu32 "\r\n",
			(int)item->key_length, (const char *)item->key, item->flags, item->expires,
			item->value_length);
	} else {
		size_t n = kvp_base64_encode(item->key, item->key_length, key);

		fprintf(out, "ms %.*s %" PRIu32 " b F%" PRIu32, (int)n, key, item->value_length,
			item->flags);
		if (item->expires)
			fprintf(out, " T%" PRIu32, item->expires);
		fputs("\r\n", out);
	}
	fwrite(item->value, 1, item->value_length, out);
	fputs("\r\n", out);
}

static void put_key(FILE *out, const struct fth_kv_image_item *item)
{
	const uint8_t *key = item->key;

	for (uint32_t i = 0; i < item->key_length; i++)
		if (key[i] > ' ' && key[i] <= '~' && key[i] != '%')
			putc(key[i], out);
		else
			fprintf(out, "%%%02X", key[i]);
	putc('\n', out);
}

static void put_base64(struct fth_json *j, const char *name, const void *data, size_t length)
{
	char *text = malloc((length + 2) / 3 * 4 + 1);

	if (text) {
		text[kvp_base64_encode(data, length, text)] = 0;
		fth_json_string(j, name, text);
	} else {
		fth_json_string(j, name, NULL);
	}
	free(text);
}

static void put_json(FILE *out, bool value, const struct fth_kv_image_item *item)
{
	char key[FTH_KV_KEY_MAX + 1];
	struct fth_json j;

	fth_json_begin(&j, out);
	memcpy(key, item->key, item->key_length);
	key[item->key_length] = 0;
	if (is_ascii(item))
		fth_json_string(&j, "key", key);
	else
		put_base64(&j, "key_base64", item->key, item->key_length);
	fth_json_u64(&j, "flags", item->flags);
	fth_json_u64(&j, "expires", item->expires);
	fth_json_u64(&j, "bytes", item->value_length);
	if (value)
		put_base64(&j, "value_base64", item->value, item->value_length);
	fth_json_end(&j); /* without the flush of fth_json_finish(): there are many */
	putc('\n', out);
}

void fth_kv_items_put(FILE *out, enum fth_kv_items_form form, const struct fth_kv_image_item *item)
{
	if (form == FTH_KV_ITEMS_TEXT)
		put_text(out, item);
	else if (form == FTH_KV_ITEMS_KEYS)
		put_key(out, item);
	else
		put_json(out, form == FTH_KV_ITEMS_JSON, item);
}

/* ---- reading ---- */

static int bad_line(const struct fth_kv_items_reader *r, const char *what)
{
	return fth_fail(EBADMSG, "%s, line %llu: %s", r->name, (unsigned long long)r->line, what);
}

static int read_failed(const struct fth_kv_items_reader *r)
{
	if (fth_cli_stopped())
		return -ECANCELED;
	return fth_fail(errno, "%s: %s", r->name, strerror(errno));
}

/* A line without its end. 0: the text has ended. */
static int read_line(struct fth_kv_items_reader *r, char line[LINE_MAX_BYTES], size_t *length)
{
	size_t n = 0;
	int c;

	r->line++;
	while ((c = getc(r->in)) != EOF && c != '\n') {
		if (n == LINE_MAX_BYTES)
			return bad_line(r, "longer than the maximum command length");
		line[n++] = (char)c;
	}
	r->bytes += n + (c == '\n');
	if (c == EOF && ferror(r->in))
		return read_failed(r);
	if (c == EOF && n > 0)
		return bad_line(r, "unexpected end of file in the line");
	r->cr = n > 0 && line[n - 1] == '\r';
	n -= r->cr;
	*length = n;
	return c != EOF;
}

static int read_value(struct fth_kv_items_reader *r, uint64_t bytes)
{
	uint64_t first = r->line;
	int c;

	if (bytes > r->room || !r->value) {
		free(r->value);
		r->room = 0;
		r->value = malloc(bytes + 1);
		if (!r->value)
			return -ENOMEM;
		r->room = bytes;
	}
	if (fread(r->value, 1, bytes, r->in) != bytes) {
		if (ferror(r->in))
			return read_failed(r);
		return bad_line(r, "unexpected end of file in the value that follows");
	}
	for (const uint8_t *at = r->value, *end = at + bytes;
	     (at = memchr(at, '\n', (size_t)(end - at))); at++)
		r->line++;
	/* It ends as its command does: with a line feed alone if that was changed by an editor. */
	c = getc(r->in);
	if (r->cr)
		c = c == '\r' ? getc(r->in) : 0;
	r->bytes += bytes + 2;
	r->line++;
	if (c == EOF && ferror(r->in))
		return read_failed(r);
	return c == '\n'
		       ? 0
		       : fth_fail(EBADMSG,
				  "%s, line %llu: the value that follows does not have %llu bytes",
				  r->name, (unsigned long long)first, (unsigned long long)bytes);
}

/*
 * The parser of the server takes no key of more than 250 characters, but one in base64 may have
 * more: it gets a short one instead, and the real one is decoded here.
 */
static void parse_meta(const char *line, size_t length, struct kvp_line *out)
{
	struct kvp_text rest = {line, length}, key;
	char other[LINE_MAX_BYTES + 16];
	int n;

	(void)kvp_word(&rest);
	key = kvp_word(&rest);
	n = snprintf(other, sizeof(other), "ms AAAA %.*s", (int)rest.length, rest.at);
	kvp_parse(other, (size_t)n, FTH_KV_VALUE_MAX, out);
	out->key = key;
}

static int take_key(struct fth_kv_items_reader *r, const struct kvp_line *line)
{
	struct kvp_text key = line->key;
	int n = (int)key.length;

	if (kvp_has(line, 'b'))
		n = kvp_base64_decode(key, r->key, sizeof(r->key));
	else if (key.length <= sizeof(r->key))
		memcpy(r->key, key.at, key.length);
	if (n <= 0 || n > (int)sizeof(r->key))
		return bad_line(r, "the key is empty or not valid base64");
	return n;
}

static bool is_store(const struct kvp_line *line)
{
	return (line->command == KVP_META_SET || line->command == KVP_STORE) &&
	       (line->verb == FTH_KV_SET || line->verb == FTH_KV_ADD) && !line->has_cas;
}

int fth_kv_items_next(struct fth_kv_items_reader *r, struct fth_kv_image_item *item)
{
	char line[LINE_MAX_BYTES];
	struct kvp_line command;
	size_t length = 0;
	int rc, key;

	rc = read_line(r, line, &length);
	if (rc <= 0)
		return rc;
	if (length > 3 && memcmp(line, "ms ", 3) == 0)
		parse_meta(line, length, &command);
	else
		kvp_parse(line, length, FTH_KV_VALUE_MAX, &command);
	if (!is_store(&command) || (command.error && strcmp(command.error, "ERROR") == 0))
		return bad_line(r, "expected set KEY FLAGS EXPIRES BYTES, add or ms");
	if (command.error)
		return bad_line(r, strncmp(command.error, "CLIENT_ERROR ", 13) == 0
					   ? command.error + 13
					   : command.error);
	key = take_key(r, &command);
	if (key < 0)
		return key;
	rc = read_value(r, command.bytes);
	if (rc < 0)
		return rc;
	*item = (struct fth_kv_image_item){
		.key = r->key,
		.key_length = (uint32_t)key,
		.value = r->value,
		.value_length = (uint32_t)command.bytes,
		.flags = command.flags,
		.expires = kvp_expires(command.expires, (uint32_t)time(NULL)),
	};
	return 1;
}

void fth_kv_items_release(struct fth_kv_items_reader *r)
{
	free(r->value);
	r->value = NULL;
}
