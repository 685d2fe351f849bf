/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv/server/proto.h"

#include <string.h>

#define MONTH	  (60 * 60 * 24 * 30)
#define WORDS_MAX 8u
/* A longer value is a line that makes no sense: nothing is skipped for it. */
#define BYTES_MAX ((uint64_t)INT32_MAX - 2)

static const char bad_format[] = "CLIENT_ERROR bad command line format";
static const char bad_token[] = "CLIENT_ERROR bad token in command line format";
static const char bad_flags[] = "CLIENT_ERROR invalid or duplicate flag";
static const char bad_time[] = "CLIENT_ERROR invalid exptime argument";
static const char too_large[] = "SERVER_ERROR object too large for cache";
static const char unknown[] = "ERROR";

/* ---- words ---- */

struct kvp_text kvp_word(struct kvp_text *rest)
{
	struct kvp_text word;

	while (rest->length && *rest->at == ' ') {
		rest->at++;
		rest->length--;
	}
	word.at = rest->at;
	word.length = 0;
	while (word.length < rest->length && word.at[word.length] != ' ')
		word.length++;
	rest->at += word.length;
	rest->length -= word.length;
	return word;
}

bool kvp_is(struct kvp_text word, const char *name)
{
	return strlen(name) == word.length && memcmp(word.at, name, word.length) == 0;
}

bool kvp_u64(struct kvp_text word, uint64_t *out)
{
	uint64_t n = 0;

	if (word.length == 0)
		return false;
	for (size_t i = 0; i < word.length; i++) {
		uint64_t digit = (uint64_t)(word.at[i] - '0');

		if (digit > 9 || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, digit, &n))
			return false;
	}
	*out = n;
	return true;
}

bool kvp_i64(struct kvp_text word, int64_t *out)
{
	bool minus = word.length && *word.at == '-';
	uint64_t n;

	word.at += minus;
	word.length -= minus;
	if (!kvp_u64(word, &n) || n > INT64_MAX)
		return false;
	*out = minus ? -(int64_t)n : (int64_t)n;
	return true;
}

static bool u32(struct kvp_text word, uint32_t *out)
{
	uint64_t n;

	if (!kvp_u64(word, &n) || n > UINT32_MAX)
		return false;
	*out = (uint32_t)n;
	return true;
}

uint32_t kvp_expires(int64_t seconds, uint32_t now)
{
	if (seconds == 0)
		return 0;
	if (seconds < 0)
		return 1; /* long ago */
	if (seconds <= MONTH)
		return now + (uint32_t)seconds;
	return seconds > UINT32_MAX ? UINT32_MAX : (uint32_t)seconds;
}

/* ---- base64 ---- */

static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int kvp_base64_decode(struct kvp_text text, uint8_t *to, size_t room)
{
	size_t length = text.length, n = 0;

	if (length == 0 || length % 4)
		return -1;
	while (length > text.length - 2 && text.at[length - 1] == '=')
		length--;
	for (size_t i = 0; i < length; i += 4) {
		uint32_t bits = 0;
		unsigned have = length - i < 4 ? (unsigned)(length - i) : 4;

		for (unsigned j = 0; j < have; j++) {
			int digit = base64_digit(text.at[i + j]);

			if (digit < 0)
				return -1;
			bits |= (uint32_t)digit << (18 - 6 * j);
		}
		for (unsigned j = 0; j + 1 < have; j++) {
			if (n == room)
				return -1;
			to[n++] = (uint8_t)(bits >> (16 - 8 * j));
		}
	}
	return (int)n;
}

size_t kvp_base64_encode(const uint8_t *from, size_t length, char *to)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t n = 0;

	for (size_t i = 0; i < length; i += 3) {
		size_t have = length - i < 3 ? length - i : 3;
		uint32_t bits = (uint32_t)from[i] << 16;

		if (have > 1)
			bits |= (uint32_t)from[i + 1] << 8;
		if (have > 2)
			bits |= from[i + 2];
		to[n++] = digits[bits >> 18];
		to[n++] = digits[bits >> 12 & 63];
		to[n++] = have > 1 ? digits[bits >> 6 & 63] : '=';
		to[n++] = have > 2 ? digits[bits & 63] : '=';
	}
	return n;
}

/* ---- classic commands ---- */

static void fail(struct kvp_line *out, const char *error)
{
	out->error = error;
}

/* The words of a line, at most WORDS_MAX of them; no command has so many. */
static unsigned split(struct kvp_text line, struct kvp_text words[WORDS_MAX])
{
	unsigned n = 0;

	while (n < WORDS_MAX && (words[n] = kvp_word(&line)).length)
		n++;
	return n;
}

static bool take_key(struct kvp_text word, struct kvp_line *out)
{
	out->key = word;
	if (word.length == 0)
		fail(out, unknown);
	else if (word.length > FTH_KV_KEY_MAX)
		fail(out, bad_format);
	return !out->error;
}

static void take_noreply(const struct kvp_text *words, unsigned n, struct kvp_line *out)
{
	out->noreply = kvp_is(words[n - 1], "noreply");
}

/* Only up to the first key: the others are taken one by one while the line comes in. */
static void parse_get(struct kvp_text line, struct kvp_line *out)
{
	(void)kvp_word(&line);
	out->verb = out->touch ? FTH_KV_TOUCH : FTH_KV_GET;
	if (out->touch) {
		struct kvp_text word = kvp_word(&line);

		if (word.length == 0) {
			fail(out, unknown);
			return;
		}
		if (!kvp_i64(word, &out->expires)) {
			fail(out, bad_time);
			return;
		}
	}
	(void)take_key(kvp_word(&line), out);
}

static void take_bytes(struct kvp_text word, struct kvp_line *out)
{
	out->has_bytes = kvp_u64(word, &out->bytes) && out->bytes <= BYTES_MAX;
	if (!out->has_bytes)
		fail(out, bad_format);
}

static void check_bytes(uint64_t value_max, struct kvp_line *out)
{
	if (out->error || out->bytes <= value_max)
		return;
	fail(out, too_large);
	out->too_large = true;
}

static void parse_store(const struct kvp_text *words, unsigned n, uint64_t value_max,
			struct kvp_line *out)
{
	unsigned want = out->has_cas ? 6 : 5;

	if (n != want && n != want + 1) {
		fail(out, unknown);
		return;
	}
	take_noreply(words, n, out);
	(void)take_key(words[1], out);
	if (!u32(words[2], &out->flags) || !kvp_i64(words[3], &out->expires) ||
	    (out->has_cas && !kvp_u64(words[5], &out->cas)))
		fail(out, bad_format);
	take_bytes(words[4], out);
	check_bytes(value_max, out);
}

static void parse_count(const struct kvp_text *words, unsigned n, struct kvp_line *out)
{
	if (n != 3 && n != 4) {
		fail(out, unknown);
		return;
	}
	take_noreply(words, n, out);
	if (take_key(words[1], out) && !kvp_u64(words[2], &out->delta))
		fail(out, "CLIENT_ERROR invalid numeric delta argument");
}

static void parse_delete(const struct kvp_text *words, unsigned n, struct kvp_line *out)
{
	out->verb = FTH_KV_DELETE;
	if (n < 2 || n > 4) {
		fail(out, unknown);
		return;
	}
	take_noreply(words, n, out);
	/* A time of 0 is what old clients send. */
	if (take_key(words[1], out) && n > 2 && !kvp_is(words[2], "0") && !(n == 3 && out->noreply))
		fail(out, "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
	else if (n == 4 && !out->noreply && !out->error)
		fail(out, "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
}

static void parse_touch(const struct kvp_text *words, unsigned n, struct kvp_line *out)
{
	out->verb = FTH_KV_TOUCH;
	if (n != 3 && n != 4) {
		fail(out, unknown);
		return;
	}
	take_noreply(words, n, out);
	if (take_key(words[1], out) && !kvp_i64(words[2], &out->expires))
		fail(out, bad_time);
}

static void parse_flush_all(const struct kvp_text *words, unsigned n, struct kvp_line *out)
{
	out->verb = FTH_KV_FLUSH_ALL;
	if (n > 3) {
		fail(out, unknown);
		return;
	}
	take_noreply(words, n, out);
	if (n > (out->noreply ? 2u : 1u) && !kvp_i64(words[1], &out->expires))
		fail(out, bad_time);
}

static void parse_verbosity(const struct kvp_text *words, unsigned n, struct kvp_line *out)
{
	uint64_t level;

	if (n != 2 && n != 3) {
		fail(out, unknown);
		return;
	}
	take_noreply(words, n, out);
	if (!kvp_u64(words[1], &level) && !out->noreply)
		fail(out, bad_format);
}

/* ---- meta commands ---- */

static int flag_bit(char name)
{
	if (name >= 'a' && name <= 'z')
		return name - 'a';
	return name >= 'A' && name <= 'Z' ? name - 'A' + 26 : -1;
}

bool kvp_has(const struct kvp_line *line, char name)
{
	int bit = flag_bit(name);

	return bit >= 0 && line->meta >> bit & 1;
}

static const char *take_set_mode(struct kvp_text value, struct kvp_line *out)
{
	if (value.length != 1)
		return "CLIENT_ERROR incorrect length for M token";
	switch (*value.at | 0x20) {
	case 's':
		out->verb = FTH_KV_SET;
		return NULL;
	case 'e':
		out->verb = FTH_KV_ADD;
		return NULL;
	case 'a':
		out->verb = FTH_KV_APPEND;
		return NULL;
	case 'p':
		out->verb = FTH_KV_PREPEND;
		return NULL;
	case 'r':
		out->verb = FTH_KV_REPLACE;
		return NULL;
	default:
		return "CLIENT_ERROR invalid mode for ms M token";
	}
}

static const char *take_count_mode(struct kvp_text value, struct kvp_line *out)
{
	if (value.length != 1)
		return bad_flags;
	switch (*value.at) {
	case 'I':
	case 'i':
	case '+':
		out->verb = FTH_KV_INCREMENT;
		return NULL;
	case 'D':
	case 'd':
	case '-':
		out->verb = FTH_KV_DECREMENT;
		return NULL;
	default:
		return "CLIENT_ERROR invalid mode for ma M token";
	}
}

static const char *take_mode(struct kvp_text value, struct kvp_line *out)
{
	if (out->command == KVP_META_SET)
		return take_set_mode(value, out);
	if (out->command == KVP_META_COUNT)
		return take_count_mode(value, out);
	return value.length == 1 ? NULL : "CLIENT_ERROR incorrect length for M token";
}

static const char *take_opaque(struct kvp_text value, struct kvp_line *out)
{
	if (value.length > KVP_OPAQUE_MAX)
		return "CLIENT_ERROR opaque token too long";
	memcpy(out->opaque, value.at, value.length);
	out->opaque_length = (uint8_t)value.length;
	return NULL;
}

/* A flag, with the text after its letter. NULL, or what is wrong with it. */
static const char *take_flag(char name, struct kvp_text value, struct kvp_line *out)
{
	switch (name) {
	case 'O':
		return take_opaque(value, out);
	case 'M':
		return take_mode(value, out);
	case 'T':
		return kvp_i64(value, &out->expires) ? NULL : bad_token;
	case 'N':
		return kvp_i64(value, &out->vivify) ? NULL : bad_token;
	case 'R':
		return kvp_i64(value, &out->recache) ? NULL : bad_token;
	case 'C':
		out->has_cas = true;
		return kvp_u64(value, &out->cas) ? NULL : bad_token;
	case 'D':
		return kvp_u64(value, &out->delta) ? NULL : bad_token;
	case 'J':
		return kvp_u64(value, &out->initial) ? NULL : bad_token;
	case 'F':
		return u32(value, &out->flags) ? NULL : bad_format;
	default:
		return name && strchr("bcfhklqstvIPL", name) ? NULL : "CLIENT_ERROR invalid flag";
	}
}

static void take_flags(struct kvp_text rest, struct kvp_line *out)
{
	/* memcached has one text for every wrong flag of these. */
	bool vague = out->command == KVP_META_DELETE || out->command == KVP_META_COUNT;
	struct kvp_text word;

	while ((word = kvp_word(&rest)).length) {
		int bit = flag_bit(*word.at);
		const char *error;

		if (out->order_count == KVP_FLAGS_MAX) {
			fail(out, "CLIENT_ERROR options flags are too long");
			return;
		}
		if (bit >= 0 && kvp_has(out, *word.at)) {
			fail(out, vague ? bad_flags : "CLIENT_ERROR duplicate flag");
			return;
		}
		error = take_flag(*word.at, (struct kvp_text){word.at + 1, word.length - 1}, out);
		if (error) {
			fail(out,
			     vague && (error == bad_token || bit < 0 || !strchr("OM", *word.at))
				     ? bad_flags
				     : error);
			return;
		}
		out->meta |= UINT64_C(1) << bit;
		out->order[out->order_count++] = *word.at;
	}
}

static void parse_meta(struct kvp_text line, uint64_t value_max, struct kvp_line *out)
{
	(void)kvp_word(&line);
	out->delta = 1;
	out->verb = out->command == KVP_META_SET      ? FTH_KV_SET
		    : out->command == KVP_META_DELETE ? FTH_KV_DELETE
		    : out->command == KVP_META_COUNT  ? FTH_KV_INCREMENT
						      : FTH_KV_GET;
	if (!take_key(kvp_word(&line), out) && out->key.length == 0) {
		if (out->command == KVP_META_DEBUG)
			fail(out, bad_format);
		return;
	}
	if (out->command == KVP_META_SET) {
		take_bytes(kvp_word(&line), out);
		if (!out->has_bytes)
			return;
	}
	if (out->error)
		return;
	/* me takes no flags but b, and minds no others. */
	if (out->command == KVP_META_DEBUG) {
		struct kvp_text word;

		while ((word = kvp_word(&line)).length)
			if (kvp_is(word, "b"))
				out->meta |= UINT64_C(1) << flag_bit('b');
		return;
	}
	take_flags(line, out);
	if (out->command == KVP_META_GET && kvp_has(out, 'T'))
		out->verb = FTH_KV_TOUCH;
	if (out->verb == FTH_KV_ADD)
		out->has_cas = false; /* what is not there has no number */
	if (out->command == KVP_META_DELETE && kvp_has(out, 'I'))
		out->verb = FTH_KV_INVALIDATE;
	if (out->command == KVP_META_SET)
		check_bytes(value_max, out);
}

/* ---- all ---- */

static const struct {
	const char *name;
	enum kvp_command command;
	enum fth_kv_verb verb;
	bool with_cas, touch; /* of a get */
	bool has_cas;	      /* of a store */
} commands[] = {
	{"get", KVP_GET, 0, false, false, false},
	{"gets", KVP_GET, 0, true, false, false},
	{"gat", KVP_GET, 0, false, true, false},
	{"gats", KVP_GET, 0, true, true, false},
	{"mg", KVP_META_GET, 0, false, false, false},
	{"ms", KVP_META_SET, 0, false, false, false},
	{"md", KVP_META_DELETE, 0, false, false, false},
	{"ma", KVP_META_COUNT, 0, false, false, false},
	{"mn", KVP_META_NOOP, 0, false, false, false},
	{"me", KVP_META_DEBUG, 0, false, false, false},
	{"set", KVP_STORE, FTH_KV_SET, false, false, false},
	{"add", KVP_STORE, FTH_KV_ADD, false, false, false},
	{"replace", KVP_STORE, FTH_KV_REPLACE, false, false, false},
	{"append", KVP_STORE, FTH_KV_APPEND, false, false, false},
	{"prepend", KVP_STORE, FTH_KV_PREPEND, false, false, false},
	{"cas", KVP_STORE, FTH_KV_SET, false, false, true},
	{"incr", KVP_COUNT, FTH_KV_INCREMENT, false, false, false},
	{"decr", KVP_COUNT, FTH_KV_DECREMENT, false, false, false},
	{"delete", KVP_DELETE, 0, false, false, false},
	{"touch", KVP_TOUCH, 0, false, false, false},
	{"flush_all", KVP_FLUSH_ALL, 0, false, false, false},
	{"version", KVP_VERSION, 0, false, false, false},
	{"verbosity", KVP_VERBOSITY, 0, false, false, false},
	{"stats", KVP_STATS, 0, false, false, false},
	{"shutdown", KVP_SHUTDOWN, 0, false, false, false},
	{"quit", KVP_QUIT, 0, false, false, false},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static void parse_words(struct kvp_text line, uint64_t value_max, struct kvp_line *out)
{
	struct kvp_text words[WORDS_MAX];
	unsigned n = split(line, words);

	switch (out->command) {
	case KVP_STORE:
		parse_store(words, n, value_max, out);
		return;
	case KVP_COUNT:
		parse_count(words, n, out);
		return;
	case KVP_DELETE:
		parse_delete(words, n, out);
		return;
	case KVP_TOUCH:
		parse_touch(words, n, out);
		return;
	case KVP_FLUSH_ALL:
		parse_flush_all(words, n, out);
		return;
	case KVP_VERBOSITY:
		parse_verbosity(words, n, out);
		return;
	case KVP_SHUTDOWN:
		fail(out, "ERROR: shutdown not enabled");
		return;
	default:
		return;
	}
}

/*
 * A web page can make a browser send a request to any port, with commands in its body: the
 * connection ends at the request line, METHOD TARGET HTTP/1.1.
 */
static bool is_http(struct kvp_text line)
{
	static const char http[] = "HTTP/";
	struct kvp_text word, last = {NULL, 0};

	while ((word = kvp_word(&line)).length)
		last = word;
	return last.length >= sizeof(http) - 1 && memcmp(last.at, http, sizeof(http) - 1) == 0;
}

void kvp_parse(const char *line, size_t length, uint64_t value_max, struct kvp_line *out)
{
	struct kvp_text text = {line, length}, rest = text, name = kvp_word(&rest);
	size_t i = 0;

	memset(out, 0, sizeof(*out));
	while (i < COUNT(commands) && !kvp_is(name, commands[i].name))
		i++;
	if (i == COUNT(commands)) {
		if (is_http(text))
			out->command = KVP_QUIT;
		else
			fail(out, unknown);
		return;
	}
	out->command = commands[i].command;
	out->verb = commands[i].verb;
	out->with_cas = commands[i].with_cas;
	out->touch = commands[i].touch;
	out->has_cas = commands[i].has_cas;
	out->rest = rest;
	if (out->command == KVP_GET)
		parse_get(text, out);
	else if (out->command >= KVP_META_GET && out->command != KVP_META_NOOP)
		parse_meta(text, value_max, out);
	else
		parse_words(text, value_max, out);
}
