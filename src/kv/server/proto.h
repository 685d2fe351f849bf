/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memcached's text protocol, as far as it needs no connection: from a line to a command. Nothing
 * here allocates or does I/O. The answers are those of memcached 1.6.18 unless README.md says
 * otherwise.
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
	KVP_SHUTDOWN,
	KVP_QUIT,     /* or the request line of HTTP */
	KVP_META_GET, /* from here on: meta commands */
	KVP_META_SET,
	KVP_META_DELETE,
	KVP_META_COUNT,
	KVP_META_NOOP,
	KVP_META_DEBUG,
	KVP_COMMANDS
};

struct kvp_text {
	const char *at;
	size_t length;
};

#define KVP_FLAGS_MAX  24u
#define KVP_OPAQUE_MAX 31u

/* A command line. Texts point into the line. */
struct kvp_line {
	enum kvp_command command;
	const char *error; /* the answer instead of doing anything, or NULL */
	struct kvp_text key;
	struct kvp_text rest; /* STATS: the arguments */
	enum fth_kv_verb verb;
	bool with_cas, touch, noreply;
	bool has_bytes;	 /* `bytes` is valid; with an error: skip so many, and the line end */
	bool has_cas;	 /* change the item only if it has the number `cas` */
	bool too_large;	 /* the error is that; a set then removes the item that is there */
	uint32_t flags;	 /* of the item */
	int64_t expires; /* as given; see kvp_expires() */
	uint64_t bytes;	 /* STORE, META_SET: of the value that follows */
	uint64_t cas, delta;
	uint64_t initial; /* ma: the value of a new counter (J) */
	int64_t vivify;	  /* ma, mg: the time to live of an item that is made (N) */
	int64_t recache;  /* mg: take the token if the item has less time to live (R) */
	uint64_t meta;	  /* the flags of a meta command, a bit each: see kvp_has() */
	uint8_t order_count;
	uint8_t opaque_length;
	char order[KVP_FLAGS_MAX]; /* the same, in their order */
	char opaque[KVP_OPAQUE_MAX + 1];
};

/* Parse a line without its end. Always leaves *out usable: a bad line has an error text. */
void kvp_parse(const char *line, size_t length, uint64_t value_max, struct kvp_line *out);

/* Does a meta command have the flag with this letter? */
bool kvp_has(const struct kvp_line *line, char name);

/* The next word, and what is left; an empty text at the end. */
struct kvp_text kvp_word(struct kvp_text *rest);
bool kvp_is(struct kvp_text word, const char *name);
bool kvp_u64(struct kvp_text word, uint64_t *out);
bool kvp_i64(struct kvp_text word, int64_t *out);

/* memcached's rule: 0 never, negative at once, up to 30 days from now, otherwise since 1970. */
uint32_t kvp_expires(int64_t seconds, uint32_t now);

/* Base64 of keys with bytes that a line cannot hold. -1: it is none, or longer than `room`. */
int kvp_base64_decode(struct kvp_text text, uint8_t *to, size_t room);
size_t kvp_base64_encode(const uint8_t *from, size_t length, char *to); /* 4 bytes for each 3 */

#endif
