/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes one JSON object on one line.
 *
 *	struct fth_json j;
 *
 *	fth_json_begin(&j, stdout);
 *	fth_json_string(&j, "bench", "queue");
 *	fth_json_array(&j, "threads");
 *	fth_json_u64(&j, NULL, 16);
 *	fth_json_end(&j);
 *	fth_json_finish(&j);
 *
 * gives {"bench":"queue","threads":[16]} and a newline. Keys are NULL inside arrays. Write errors
 * stay in the FILE, for ferror().
 */
#ifndef FTH_TOOLS_JSON_H
#define FTH_TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define FTH_JSON_NESTING_MAX 16

struct fth_json {
	FILE *out;
	unsigned depth;
	bool comma;			  /* a value was written at this depth */
	char close[FTH_JSON_NESTING_MAX]; /* what ends each open object or array */
};

/* Open the outermost object. */
void fth_json_begin(struct fth_json *j, FILE *out);

void fth_json_string(struct fth_json *j, const char *key, const char *value); /* NULL: null */
void fth_json_u64(struct fth_json *j, const char *key, uint64_t value);
void fth_json_i64(struct fth_json *j, const char *key, int64_t value);
void fth_json_double(struct fth_json *j, const char *key, double value); /* not finite: null */
void fth_json_digits(struct fth_json *j, const char *key, const char *digits); /* any length */
void fth_json_bool(struct fth_json *j, const char *key, bool value);

/* Open an object or array inside; close the innermost one. */
void fth_json_object(struct fth_json *j, const char *key);
void fth_json_array(struct fth_json *j, const char *key);
void fth_json_end(struct fth_json *j);

/* Write a string of `length` bytes by itself, in quotes; bytes that are no UTF-8 become U+FFFD. */
void fth_json_text(FILE *out, const char *text, size_t length);

/* Close everything, end the line and flush it. */
void fth_json_finish(struct fth_json *j);

#endif
