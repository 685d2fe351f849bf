/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv/client/reply.h"

#include "fathom/kv.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *word;
	enum kvc_reply_kind kind;
} words[] = {
	{"END", KVC_END},	{"STORED", KVC_STORED},	      {"NOT_STORED", KVC_NOT_STORED},
	{"EXISTS", KVC_EXISTS}, {"NOT_FOUND", KVC_NOT_FOUND}, {"DELETED", KVC_DELETED},
	{"ERROR", KVC_ERROR},
};

/* A line without its end, taken word by word. */
struct cursor {
	const char *at, *end;
};

static uint32_t take_word(struct cursor *c, const char **word)
{
	const char *space;

	while (c->at < c->end && *c->at == ' ')
		c->at++;
	*word = c->at;
	space = memchr(c->at, ' ', (size_t)(c->end - c->at));
	c->at = space ? space : c->end;
	return (uint32_t)(c->at - *word);
}

static int to_number(const char *word, uint32_t length, uint64_t max, uint64_t *out)
{
	uint64_t n = 0;

	if (length == 0 || length > 20)
		return -EPROTO;
	for (uint32_t i = 0; i < length; i++) {
		unsigned digit = (unsigned)(unsigned char)word[i] - '0';

		if (digit > 9 || n > (UINT64_MAX - digit) / 10)
			return -EPROTO;
		n = n * 10 + digit;
	}
	*out = n;
	return n > max ? -EPROTO : 0;
}

static int take_number(struct cursor *c, uint64_t max, uint64_t *out)
{
	const char *word;
	uint32_t length = take_word(c, &word);

	return to_number(word, length, max, out);
}

/* VALUE key flags bytes [cas] */
static int parse_value(struct cursor *c, uint32_t value_max, struct kvc_reply *out)
{
	uint64_t flags, length;
	const char *word;
	uint32_t cas_length;

	out->kind = KVC_VALUE;
	out->key_length = take_word(c, &out->key);
	if (out->key_length == 0 || out->key_length > FTH_KV_KEY_MAX ||
	    take_number(c, UINT32_MAX, &flags) < 0 || take_number(c, value_max, &length) < 0)
		return -EPROTO;
	out->flags = (uint32_t)flags;
	out->length = (uint32_t)length;
	cas_length = take_word(c, &word);
	if (cas_length && to_number(word, cas_length, UINT64_MAX, &out->cas) < 0)
		return -EPROTO;
	return take_word(c, &word) ? -EPROTO : 0;
}

static int is_word(const char *word, uint32_t length, const char *expected)
{
	return length == strlen(expected) && memcmp(word, expected, length) == 0;
}

static int parse_line(struct cursor *c, uint32_t value_max, struct kvc_reply *out)
{
	const char *word;
	uint32_t length = take_word(c, &word);

	if (is_word(word, length, "VALUE"))
		return parse_value(c, value_max, out);
	if (is_word(word, length, "CLIENT_ERROR") || is_word(word, length, "SERVER_ERROR")) {
		out->kind = *word == 'C' ? KVC_CLIENT_ERROR : KVC_SERVER_ERROR;
		while (c->at < c->end && *c->at == ' ')
			c->at++;
		out->text = c->at;
		out->text_length = (uint32_t)(c->end - c->at);
		return 0;
	}
	if (to_number(word, length, UINT64_MAX, &out->number) == 0) {
		out->kind = KVC_NUMBER;
		return c->at == c->end ? 0 : -EPROTO;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (is_word(word, length, words[i].word)) {
			out->kind = words[i].kind;
			return c->at == c->end ? 0 : -EPROTO;
		}
	return -EPROTO;
}

ssize_t kvc_reply_parse(const char *data, size_t n, uint32_t value_max, struct kvc_reply *out,
			size_t *need)
{
	const char *line_end = memchr(data, '\n', n < KVC_LINE_MAX ? n : KVC_LINE_MAX);
	struct cursor c = {data, line_end};
	size_t header;

	memset(out, 0, sizeof(*out));
	*need = n + 1;
	if (!line_end)
		return n < KVC_LINE_MAX ? 0 : -EPROTO;
	header = (size_t)(line_end - data) + 1;
	if (header < 2 || line_end[-1] != '\r')
		return -EPROTO;
	c.end--;
	if (parse_line(&c, value_max, out) < 0)
		return -EPROTO;
	if (out->kind != KVC_VALUE)
		return (ssize_t)header;
	*need = header + out->length + 2;
	if (n < *need)
		return 0;
	out->data = data + header;
	return memcmp(out->data + out->length, "\r\n", 2) == 0 ? (ssize_t)*need : -EPROTO;
}
