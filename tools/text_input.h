/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A text that a command reads once, from a file or standard input. Text that was compressed by gzip
 * or zstd is recognised by its first bytes, whatever its name is, and unpacked in a bounded amount of
 * memory. Ctrl-C ends a read that waits for a pipe or a terminal.
 */
#ifndef FTH_TOOLS_TEXT_INPUT_H
#define FTH_TOOLS_TEXT_INPUT_H

#include <stdio.h>

struct fth_text_input;

/* path "-" is standard input. 0 or a negative errno with a text that begins with the path. */
int fth_text_input_open(const char *path, struct fth_text_input **out);
/* Read from it until its end. It is the input's: do not close it. */
FILE *fth_text_input_stream(const struct fth_text_input *input);
/*
 * Close it. If reading has failed (rc < 0) because the input is damaged, the error text says how.
 * Returns rc. Accepts NULL.
 */
int fth_text_input_close(struct fth_text_input *input, int rc);

#endif
