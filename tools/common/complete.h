/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion for shells: `fathom --complete WORD...` prints what the last word, which may be empty,
 * can become: names of commands and of options, a line each, with a tab and a description. It
 * prints nothing where a file or a value belongs. The scripts in contrib/completion call it.
 *
 * The same tables are used as for running: the words before the last one select a command as ever,
 * and its fth_cli_dispatch() or fth_cli_parse() prints candidates instead of doing its work.
 */
#ifndef FTH_TOOLS_COMPLETE_H
#define FTH_TOOLS_COMPLETE_H

#include "cli.h"

#define FTH_COMPLETE_OPTION "--complete"

/* Is this what argv asks for? Then it is remembered, and argv has the words before the last one. */
bool fth_complete_start(int *argc, char **argv);

/* The last word, or NULL if nothing is to be completed. */
const char *fth_complete_word(void);

/* For dispatch.c and options.c. */
void fth_complete_command(const struct fth_command *const *table);
void fth_complete_option(const struct fth_cli_usage *usage, int argc, char **argv);

#endif
