/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tool needs nothing but the C library, so readline is loaded when a shell begins. Its header
 * is needed to build this; without header or library, lines are read as the terminal gives them.
 */
#include "sql_line.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HISTORY_MAX 1000

static char *read_plain(const char *prompt, bool *canceled)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;

	fputs(prompt, stdout);
	fflush(stdout);
	errno = 0;
	n = getline(&line, &room, stdin);
	if (n < 0 && errno == EINTR) {
		clearerr(stdin);
		putchar('\n');
		free(line);
		*canceled = true;
		return strdup("");
	}
	if (n < 0) {
		free(line);
		return NULL;
	}
	if (n > 0 && line[n - 1] == '\n')
		line[n - 1] = '\0';
	return line;
}

#ifdef FTH_READLINE

#include <dlfcn.h>
#include <readline/history.h>
#include <readline/readline.h>

/* All of readline that is used. */
#define FUNCTIONS(X)             \
	X(readline)              \
	X(add_history)           \
	X(read_history)          \
	X(write_history)         \
	X(stifle_history)        \
	X(rl_completion_matches) \
	X(rl_set_signals)        \
	X(rl_clear_signals)      \
	X(rl_free_line_state)    \
	X(rl_cleanup_after_signal)

#define DECLARE(name) __typeof__(&name) name##_;
static struct {
	void *library;
	FUNCTIONS(DECLARE)
	char *history;
	fth_sql_words words;
} line;

static sigjmp_buf interrupted;
static volatile sig_atomic_t reading;

static char **complete(const char *text, int start, int end)
{
	int *over = dlsym(line.library, "rl_attempted_completion_over");

	(void)start;
	(void)end;
	/* No names of files where nothing fits. */
	if (over)
		*over = 1;
	return line.rl_completion_matches_(text, line.words);
}

static bool load(void)
{
	line.library = dlopen("libreadline.so.8", RTLD_NOW | RTLD_LOCAL);
	if (!line.library)
		return false;
#define LOAD(name)                                            \
	*(void **)&line.name##_ = dlsym(line.library, #name); \
	if (!line.name##_)                                    \
		return false;
	FUNCTIONS(LOAD)
	return true;
}

static void name_history(void)
{
	const char *own = getenv("FATHOM_HISTORY"), *home = getenv("HOME");

	if (own)
		line.history = *own == '\0' ? NULL : strdup(own);
	else if (!home || asprintf(&line.history, "%s/.fathom_history", home) < 0)
		line.history = NULL;
}

void fth_sql_line_start(fth_sql_words words)
{
	rl_completion_func_t **completion;
	int *catches;

	if (!load()) {
		if (line.library)
			dlclose(line.library);
		line.library = NULL;
		return;
	}
	line.words = words;
	completion = dlsym(line.library, "rl_attempted_completion_function");
	if (completion)
		*completion = complete;
	/* Ctrl-C is ours: the shell goes on with an empty line. */
	catches = dlsym(line.library, "rl_catch_signals");
	if (catches)
		*catches = 0;
	line.stifle_history_(HISTORY_MAX);
	name_history();
	if (line.history)
		line.read_history_(line.history);
}

static void on_interrupt(int signal)
{
	if (reading)
		siglongjmp(interrupted, signal);
}

/* The handlers of SIGINT, SIGTERM and SIGHUP: ours while a line is read, then those of before. */
static void set_handlers(const struct sigaction *from, struct sigaction *before)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

	for (unsigned i = 0; i < 3; i++)
		sigaction(signals[i], before ? from : &from[i], before ? &before[i] : NULL);
}

char *fth_sql_line_read(const char *prompt, bool *canceled)
{
	struct sigaction action = {.sa_handler = on_interrupt}, before[3];
	char *volatile text = NULL; /* set after a jump, too */

	*canceled = false;
	if (!line.library)
		return read_plain(prompt, canceled);
	fflush(stdout);
	sigemptyset(&action.sa_mask);
	set_handlers(&action, before);
	switch (sigsetjmp(interrupted, 1)) {
	case 0:
		reading = 1;
		text = line.readline_(prompt);
		break;
	case SIGINT:
		*canceled = true;
		text = strdup("");
		/* fall through */
	default: /* to end is the end of input */
		line.rl_free_line_state_();
		line.rl_cleanup_after_signal_();
		putchar('\n');
	}
	reading = 0;
	set_handlers(before, NULL);
	return text;
}

/*
 * The file of the history has a line for each statement, so a statement of several lines becomes
 * one, if it can.
 */
void fth_sql_line_add(const char *text)
{
	char *one = !line.library ? NULL : strdup(text);

	if (!one)
		return;
	for (char *c = strstr(one, "--") == NULL ? one : ""; *c != '\0'; c++)
		if (*c == '\n')
			*c = ' ';
	line.add_history_(one);
	free(one);
}

void fth_sql_line_end(void)
{
	if (line.library && line.history)
		line.write_history_(line.history);
	free(line.history);
	line.history = NULL;
}

#else

void fth_sql_line_start(fth_sql_words words)
{
	(void)words;
}

char *fth_sql_line_read(const char *prompt, bool *canceled)
{
	*canceled = false;
	return read_plain(prompt, canceled);
}

void fth_sql_line_add(const char *text)
{
	(void)text;
}

void fth_sql_line_end(void)
{
}

#endif
