/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines from a terminal, edited and remembered by readline, which is loaded when it is needed. */
#ifndef FTH_TOOLS_SQL_LINE_H
#define FTH_TOOLS_SQL_LINE_H

#include <stdbool.h>

/*
 * The words that may complete what was typed: a name that begins with `text`, from malloc(), the
 * next one each time until NULL; state is 0 the first time.
 */
typedef char *(*fth_sql_words)(const char *text, int state);

/* Begin, with the history of earlier sessions. Without readline lines are read as they come. */
void fth_sql_line_start(fth_sql_words words);
/*
 * The next line, from malloc(), without its newline; NULL at the end of input. *canceled: Ctrl-C
 * was typed instead.
 */
char *fth_sql_line_read(const char *prompt, bool *canceled);
/* Remember a statement. */
void fth_sql_line_add(const char *text);
/* Write the history. */
void fth_sql_line_end(void);

#endif
