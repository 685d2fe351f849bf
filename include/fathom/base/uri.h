/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device URIs and their options.
 *
 *	uri      = leaf | wrapper | file
 *	leaf     = scheme ":" path [ "?" options ]	mem:4G   file:/data/a?direct=off
 *	wrapper  = scheme "(" uri ")" [ "?" options ]	fault(mem:4G)?kind=read&nth=3
 *	list     = scheme "(" uri { "," uri } ")" [ "?" options ]
 *							vol(file:/a,file:/b)?object=x
 *	file     = path [ "?" options ]			/data/a   ./g?direct=off
 *	options  = key "=" value { "&" key "=" value }
 *
 * A path without a scheme is that of a file: /data/a means file:/data/a. One that has a colon or
 * "(" after letters, digits, "-" and "_" alone is written with ./ in front: ./a:b.
 *
 * A path or value writes the characters % ? & ( ) and any control character as %XX. Options
 * belong to the outermost scheme; what is inside the parentheses is a whole URI of its own, so
 * wrappers stack: fault(delay(file:/data/a)?read_us=80)?rate=0.01.
 *
 * An opener takes the options it knows, each at most once, then calls fth_uri_finish(), which
 * fails if any option is left: a misspelt option is an error, never ignored.
 */
#ifndef FATHOM_BASE_URI_H
#define FATHOM_BASE_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fathom/base/decls.h"

FTH_BEGIN_DECLS

#define FTH_URI_SCHEME_MAX  32
#define FTH_URI_OPTIONS_MAX 32
#define FTH_URI_NESTING_MAX 16

struct fth_uri_option {
	char *key;
	char *value;
	bool taken;
};

/* Fill with fth_uri_parse(), end with fth_uri_release(); a zeroed object may be released. */
struct fth_uri {
	char scheme[FTH_URI_SCHEME_MAX];
	char *path;  /* of a leaf, decoded; NULL for a wrapper */
	char *inner; /* of a wrapper or list: what is inside, as written; NULL for a leaf */
	struct fth_uri_option options[FTH_URI_OPTIONS_MAX];
	unsigned option_count;
	/* How to open, as the caller of the opener wants it: never part of the text. */
	bool readonly; /* FTH_DEV_READONLY of fathom/dev.h */
};

/*
 * Parse a URI. Returns 0, -EINVAL with an error text, or -ENOMEM; after an error there is nothing
 * to release.
 */
int fth_uri_parse(struct fth_uri *uri, const char *text);
/* Free what fth_uri_parse() allocated. Accepts a zeroed object. */
void fth_uri_release(struct fth_uri *uri);

/*
 * Read an option and mark it as known. Returns 1 if the URI has it; 0 if not, with *out unchanged,
 * so that the caller stores the default there first; -EINVAL with an error text if the value does
 * not parse or is outside [min, max]. A string stays valid until fth_uri_release().
 */
int fth_uri_take_string(struct fth_uri *uri, const char *key, const char **out);
int fth_uri_take_u64(struct fth_uri *uri, const char *key, uint64_t min, uint64_t max,
		     uint64_t *out);
/* The same for a size, as fth_parse_size() reads it, and for a number with a fraction. */
int fth_uri_take_size(struct fth_uri *uri, const char *key, uint64_t min, uint64_t max,
		      uint64_t *out);
int fth_uri_take_double(struct fth_uri *uri, const char *key, double min, double max, double *out);
/* on/off, yes/no, true/false, 1/0 */
int fth_uri_take_bool(struct fth_uri *uri, const char *key, bool *out);

/* Returns 0 if all options were taken, -EINVAL with the name of the first other one. */
int fth_uri_finish(const struct fth_uri *uri);

/*
 * Escape a path or value for use in a URI. Returns 0, or -ENAMETOOLONG if `size` may be too small;
 * 3 times the length of the text plus 1 is always enough.
 */
int fth_uri_escape(const char *text, char *to, size_t size);

/*
 * A size to bytes: "512", "64K", "4G", "1.5G", "4GiB", "4GB". K, M, G, T and P are powers of 1024,
 * with or without iB; KB, MB, GB, TB and PB are powers of 1000. Upper and lower case are the same.
 * A fraction has up to 9 digits, and bytes are rounded down. Spaces are not allowed. Returns 0, or
 * -EINVAL for any other text and for a size above 2^64 - 1.
 */
int fth_parse_size(const char *text, uint64_t *out);
/* A whole number, decimal or hexadecimal after 0x. Returns 0 or -EINVAL. */
int fth_parse_u64(const char *text, uint64_t *out);

FTH_END_DECLS
#endif
