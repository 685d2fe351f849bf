/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memcached's text protocol, as far as it needs no connection: from a line to a command, from a
 * result to words. Nothing here allocates or does I/O.
 */
#ifndef FTH_KV_PROTO_H
#define FTH_KV_PROTO_H

#include "fathom/kv.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kvp_command {
	KVP_NONE, /* an empty line, or no command: see struct kvp_line.error */
	KVP_GET,  /* gets, gat and gats too: see with_cas, touch */
	KVP_STORE,
	KVP_DELETE,
	KVP_COUNT, /* incr, decr */
	KVP_TOUCH,
	KVP_FLUSH_ALL,
	KVP_VERSION,
	KVP_VERBOSITY,
	KVP_STATS,
	KVP_QUIT,
	KVP_META_GET,
	KVP_META_SET,
	KVP_META_DELETE,
	KVP_META_COUNT,
	KVP_META_NOOP,
	KVP_META_DEBUG,
};

struct kvp_text {
	const char *at;
	size_t length;
};

/* Flags of a meta command, each at most once. */
#define KVP_FLAGS_MAX 24u
struct kvp_flags {
	unsigned count;
	struct {
		char name;
		struct kvp_text value; /* what follows the letter */
	} flag[KVP_FLAGS_MAX];
};

/* A command line. Texts point into the line. */
struct kvp_line {
	enum kvp_command command;
	const char *error; /* what to answer instead of doing anything, or NULL */
	struct kvp_text key;
	struct kvp_text rest; /* GET: the keys after the first; STATS: arguments */
	enum fth_kv_verb verb;
	bool with_cas, touch, noreply;
	uint32_t flags;
	int64_t expires;
	uint64_t bytes; /* STORE, META_SET: of the value that follows */
	bool has_bytes; /* with an error: skip so many */
	uint64_t cas, delta;
	struct kvp_flags meta;
};

/* Parse a line without its end. Always leaves *out usable: a bad line has an error text. */
void kvp_parse(const char *line, size_t length, uint64_t value_max, struct kvp_line *out);

/* The next word, and what is left; an empty text at the end. */
struct kvp_text kvp_word(struct kvp_text *rest);
bool kvp_is(struct kvp_text word, const char *name);
bool kvp_u64(struct kvp_text word, uint64_t *out);
bool kvp_i64(struct kvp_text word, int64_t *out);

/* The value of a flag, or NULL if it is not there. */
const struct kvp_text *kvp_flag(const struct kvp_flags *flags, char name);

/* memcached's rule: 0 never, negative at once, up to 30 days from now, otherwise since 1970. */
uint32_t kvp_expires(int64_t seconds, uint32_t now);

/* Base64 of keys with bytes that a line cannot hold. -1: it is none, or longer than `room`. */
int kvp_base64_decode(struct kvp_text text, uint8_t *to, size_t room);
size_t kvp_base64_encode(const uint8_t *from, size_t length, char *to); /* 4 bytes for each 3 */

#endif
