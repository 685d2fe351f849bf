/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv/server/proto.h"

#include <string.h>

#define MONTH (60 * 60 * 24 * 30)

static const char bad_format[] = "CLIENT_ERROR bad command line format";
static const char bad_chunk[] = "CLIENT_ERROR bad data chunk";
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

/* ---- commands ---- */

static void fail(struct kvp_line *out, const char *error)
{
	out->error = error;
}

static bool take_key(struct kvp_text *rest, struct kvp_line *out)
{
	out->key = kvp_word(rest);
	if (out->key.length == 0)
		fail(out, unknown);
	else if (out->key.length > FTH_KV_KEY_MAX)
		fail(out, bad_format);
	return !out->error;
}

/* The last word may be noreply; anything else there is ignored, as memcached does. */
static void take_noreply(struct kvp_text *rest, struct kvp_line *out)
{
	struct kvp_text word;

	while ((word = kvp_word(rest)).length)
		out->noreply = kvp_is(word, "noreply");
}

static void parse_get(struct kvp_text *rest, struct kvp_line *out)
{
	out->command = KVP_GET;
	if (out->touch && !kvp_i64(kvp_word(rest), &out->expires)) {
		fail(out, "CLIENT_ERROR invalid exptime argument");
		return;
	}
	if (take_key(rest, out))
		out->rest = *rest;
}

static void parse_store(struct kvp_text *rest, bool cas, uint64_t value_max, struct kvp_line *out)
{
	bool good;

	out->command = KVP_STORE;
	if (!take_key(rest, out) && out->error == unknown)
		return;
	good = u32(kvp_word(rest), &out->flags);
	good = kvp_i64(kvp_word(rest), &out->expires) && good;
	out->has_bytes = kvp_u64(kvp_word(rest), &out->bytes);
	if (cas)
		good = kvp_u64(kvp_word(rest), &out->cas) && good;
	take_noreply(rest, out);
	if (!good || !out->has_bytes)
		fail(out, bad_format);
	else if (out->bytes > value_max && !out->error)
		fail(out, too_large);
}

static void parse_count(struct kvp_text *rest, struct kvp_line *out)
{
	out->command = KVP_COUNT;
	if (!take_key(rest, out))
		return;
	if (!kvp_u64(kvp_word(rest), &out->delta))
		fail(out, "CLIENT_ERROR invalid numeric delta argument");
	take_noreply(rest, out);
}

static void parse_delete(struct kvp_text *rest, struct kvp_line *out)
{
	struct kvp_text word;

	out->command = KVP_DELETE;
	out->verb = FTH_KV_DELETE;
	if (!take_key(rest, out))
		return;
	word = kvp_word(rest);
	if (kvp_is(word, "0"))
		word = kvp_word(rest);
	if (kvp_is(word, "noreply"))
		out->noreply = true;
	else if (word.length)
		fail(out, "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
}

static void parse_touch(struct kvp_text *rest, struct kvp_line *out)
{
	out->command = KVP_TOUCH;
	if (!take_key(rest, out))
		return;
	if (!kvp_i64(kvp_word(rest), &out->expires))
		fail(out, "CLIENT_ERROR invalid exptime argument");
	take_noreply(rest, out);
}

static void parse_flush_all(struct kvp_text *rest, struct kvp_line *out)
{
	struct kvp_text word = kvp_word(rest);

	out->command = KVP_FLUSH_ALL;
	if (kvp_is(word, "noreply")) {
		out->noreply = true;
		return;
	}
	if (word.length && !kvp_i64(word, &out->expires))
		fail(out, bad_format);
	take_noreply(rest, out);
}

/* ---- meta commands ---- */

static void take_flags(struct kvp_text *rest, struct kvp_line *out)
{
	struct kvp_text word;

	while ((word = kvp_word(rest)).length) {
		if (kvp_flag(&out->meta, word.at[0])) {
			fail(out, "CLIENT_ERROR duplicate flag");
			return;
		}
		if (out->meta.count == KVP_FLAGS_MAX) {
			fail(out, "CLIENT_ERROR options flags too long");
			return;
		}
		out->meta.flag[out->meta.count].name = word.at[0];
		out->meta.flag[out->meta.count++].value =
			(struct kvp_text){word.at + 1, word.length - 1};
	}
}

const struct kvp_text *kvp_flag(const struct kvp_flags *flags, char name)
{
	for (unsigned i = 0; i < flags->count; i++)
		if (flags->flag[i].name == name)
			return &flags->flag[i].value;
	return NULL;
}

static void parse_meta(struct kvp_text *rest, enum kvp_command command, uint64_t value_max,
		       struct kvp_line *out)
{
	out->command = command;
	if (!take_key(rest, out) && out->error == unknown) {
		out->error = bad_format;
		return;
	}
	if (command == KVP_META_SET) {
		out->has_bytes = kvp_u64(kvp_word(rest), &out->bytes);
		if (!out->has_bytes) {
			fail(out, bad_chunk);
			return;
		}
	}
	take_flags(rest, out);
	if (command == KVP_META_SET && !out->error && out->bytes > value_max)
		fail(out, too_large);
}

/* ---- all ---- */

static const struct {
	const char *name;
	enum fth_kv_verb verb;
} stores[] = {
	{"set", FTH_KV_SET},	   {"add", FTH_KV_ADD},		{"replace", FTH_KV_REPLACE},
	{"append", FTH_KV_APPEND}, {"prepend", FTH_KV_PREPEND},
};

static const struct {
	const char *name;
	bool with_cas, touch;
} gets[] = {
	{"get", false, false},
	{"gets", true, false},
	{"gat", false, true},
	{"gats", true, true},
};

static const struct {
	const char *name;
	enum kvp_command command;
} others[] = {
	{"mg", KVP_META_GET},	      {"ms", KVP_META_SET},  {"md", KVP_META_DELETE},
	{"ma", KVP_META_COUNT},	      {"mn", KVP_META_NOOP}, {"me", KVP_META_DEBUG},
	{"version", KVP_VERSION},     {"stats", KVP_STATS},  {"quit", KVP_QUIT},
	{"verbosity", KVP_VERBOSITY},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static void parse_other(struct kvp_text name, struct kvp_text *rest, uint64_t value_max,
			struct kvp_line *out)
{
	for (size_t i = 0; i < COUNT(others); i++) {
		if (!kvp_is(name, others[i].name))
			continue;
		out->command = others[i].command;
		if (out->command >= KVP_META_GET && out->command != KVP_META_NOOP)
			parse_meta(rest, out->command, value_max, out);
		out->rest = *rest;
		if (out->command == KVP_VERBOSITY && kvp_word(rest).length == 0)
			fail(out, unknown);
		if (out->command == KVP_VERBOSITY)
			take_noreply(rest, out);
		return;
	}
	fail(out, unknown);
}

void kvp_parse(const char *line, size_t length, uint64_t value_max, struct kvp_line *out)
{
	struct kvp_text rest = {line, length}, name = kvp_word(&rest);

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < COUNT(gets); i++)
		if (kvp_is(name, gets[i].name)) {
			out->with_cas = gets[i].with_cas;
			out->touch = gets[i].touch;
			parse_get(&rest, out);
			return;
		}
	for (size_t i = 0; i < COUNT(stores); i++)
		if (kvp_is(name, stores[i].name)) {
			out->verb = stores[i].verb;
			parse_store(&rest, false, value_max, out);
			return;
		}
	if (kvp_is(name, "cas")) {
		out->verb = FTH_KV_SET;
		parse_store(&rest, true, value_max, out);
	} else if (kvp_is(name, "incr") || kvp_is(name, "decr")) {
		out->verb = kvp_is(name, "incr") ? FTH_KV_INCREMENT : FTH_KV_DECREMENT;
		parse_count(&rest, out);
	} else if (kvp_is(name, "delete")) {
		parse_delete(&rest, out);
	} else if (kvp_is(name, "touch")) {
		parse_touch(&rest, out);
	} else if (kvp_is(name, "flush_all")) {
		parse_flush_all(&rest, out);
	} else {
		parse_other(name, &rest, value_max, out);
	}
}
