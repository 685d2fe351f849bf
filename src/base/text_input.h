/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A text that is read once, from a file or standard input. Text that was compressed by gzip or zstd
 * is recognised by its first bytes, whatever its name is, and unpacked in a bounded amount of
 * memory.
 */
#ifndef BASE_TEXT_INPUT_H
#define BASE_TEXT_INPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct text_input;

/*
 * path "-" is standard input; the string must stay. Each read asks stopped(user), again and again
 * while it waits for a pipe or a terminal, and fails with -ECANCELED if it returns true. stopped
 * may be NULL. 0 or a negative errno with a text that begins with the path.
 */
int text_input_open(const char *path, bool (*stopped)(void *user), void *user,
		    struct text_input **out);

/*
 * The next bytes, at most `size`: their number, 0 at the end, or a negative errno with a text that
 * begins with the path. -EILSEQ: compressed data that is damaged, or whose end is missing.
 */
ssize_t text_input_read(struct text_input *input, char *to, size_t size);

/* Bytes of the file that were read so far, compressed as they are. */
uint64_t text_input_position(const struct text_input *input);

/*
 * The same as a stream, instead of text_input_read(). It is the input's: do not close it. NULL: no
 * memory.
 */
FILE *text_input_stream(struct text_input *input);

/* The error of a read of the stream that failed, with its text; 0 if none has. */
int text_input_error(const struct text_input *input);

/* Accepts NULL. */
void text_input_close(struct text_input *input);

#endif
