/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every command of the tool shares: how it is found, how it reads its options, how it
 * complains, shows progress and learns that it should stop.
 */
#ifndef FTH_TOOLS_CLI_H
#define FTH_TOOLS_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses. */
enum {
	FTH_EXIT_OK = 0,
	FTH_EXIT_FAILED = 1,
	FTH_EXIT_USAGE = 2,
	FTH_EXIT_IMPOSSIBLE = 77, /* not possible on this machine; the reason was said */
	FTH_EXIT_INTERRUPTED = 130,
};

struct fth_command {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv); /* argv[0] is its name; returns the exit status */
};

/*
 * Run the command that argv[1] names, out of a table ended by NULL. `prefix` is what the user
 * typed up to there ("fathom bench"). No name, --help or help shows the table; `help NAME` is
 * `NAME --help`; an unknown name is an error with the nearest known one as a hint.
 */
int fth_cli_dispatch(const char *prefix, const struct fth_command *const *table, int argc,
		     char **argv);
/* The same with sentences about all of them, which stand above the table; NULL: none. */
int fth_cli_dispatch_text(const char *prefix, const char *text,
			  const struct fth_command *const *table, int argc, char **argv);

/* The command of that name, or NULL. */
const struct fth_command *fth_cli_find(const struct fth_command *const *table, const char *name);

/*
 * A command that has another name now. `was` and `is` are its words behind "fathom": {"table load",
 * "sql load"}; a `was` of one word stands for all below it. A table is ended by {0}.
 */
struct fth_moved {
	const char *was, *is;
};

/* Does argv begin with a command that moved? Then say what it is now, and return true. */
bool fth_cli_moved(const struct fth_moved *table, int argc, char **argv);

/* Print names and summaries, a line each. */
void fth_cli_list(const struct fth_command *const *table);

/* ---- options ---- */

enum fth_cli_kind {
	FTH_CLI_FLAG,	 /* bool: set when given */
	FTH_CLI_STRING,	 /* const char * */
	FTH_CLI_U64,	 /* uint64_t */
	FTH_CLI_SIZE,	 /* uint64_t, as fth_parse_size() reads it: 64K, 4G, 1.5G, 4GB */
	FTH_CLI_DOUBLE,	 /* double */
	FTH_CLI_LIST,	 /* struct fth_cli_list: may be given several times */
	FTH_CLI_RENAMED, /* refused; value is the name it has now, by FTH_CLI_WAS */
};

#define FTH_CLI_LIST_MAX 64u

struct fth_cli_list {
	const char *items[FTH_CLI_LIST_MAX];
	unsigned count;
};

struct fth_cli_option {
	const char *name; /* without dashes; NULL ends a table */
	enum fth_cli_kind kind;
	void *value;	   /* of the kind's type; holds the default before */
	uint64_t min, max; /* numbers: the allowed range, both 0 for any */
	const char *help;  /* NULL: accepted, but not shown */
};

/* An earlier spelling of an option: refused, with the new one named. */
#define FTH_CLI_WAS(old, new_name)                                   \
	{                                                            \
		old, FTH_CLI_RENAMED, (void *)(new_name), 0, 0, NULL \
	}

/*
 * The one rule for overwriting: a command creates what it writes, and needs --force to replace what
 * exists. Every such command has this option, and no other for the purpose.
 */
#define FTH_CLI_FORCE(value, help)                                                     \
	{"force", FTH_CLI_FLAG, value, 0, 0, help}, FTH_CLI_WAS("overwrite", "force"), \
		FTH_CLI_WAS("replace", "force")

struct fth_cli_usage {
	const char *synopsis; /* "dev stat URI" */
	const char *text;     /* a sentence or more, for --help */
	const struct fth_cli_option *options;
	int min_args, max_args; /* how many arguments beside options */
	/*
	 * Commands that a first argument may name instead, as in `sql load`; ended by NULL. NULL:
	 * none.
	 */
	const struct fth_command *const *commands;
};

#define FTH_CLI_GO_ON (-1)

/*
 * Read argv, options and other arguments in any order. FTH_CLI_GO_ON with *args at the first
 * argument that is no option (NULL ends them), or the exit status to return: 0 after --help,
 * FTH_EXIT_USAGE after a complaint.
 */
int fth_cli_parse(const struct fth_cli_usage *usage, int argc, char **argv, char ***args);

/* ---- talking ---- */

/* Was --json given? Then standard output is for machines: one line of JSON. */
bool fth_cli_json(void);

/* "fathom: ..." on standard error. */
void fth_cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Show how far a job is: on standard error, only on a terminal, only once it has taken a second,
 * a few times a second at most. For one thread at a time. fth_cli_progress_end() erases it.
 */
void fth_cli_progress(const char *what, uint64_t done, uint64_t total);
void fth_cli_progress_end(void);

/* Bytes for people, "4.0 GiB", into buf; returns buf. */
#define FTH_CLI_BYTES_MAX 24
const char *fth_cli_bytes(char buf[FTH_CLI_BYTES_MAX], uint64_t bytes);
/* The exact size as an option takes it, "64M" or "1000", into buf; returns buf. */
const char *fth_cli_size(char buf[FTH_CLI_BYTES_MAX], uint64_t bytes);

/*
 * For a command that overwrites a device: refuse without `force`, and lock the device until the
 * process ends, so that no running server, volume or other command has it. Returns FTH_CLI_GO_ON,
 * or the exit status after a message.
 */
int fth_cli_take_over(const char *uri, bool force);

/*
 * The escape sequence that begins a style, or "" where there must be none: the stream is no
 * terminal, TERM is "dumb" or not set, or NO_COLOR is set and not empty (no-color.org).
 */
enum fth_cli_style { FTH_CLI_PLAIN, FTH_CLI_BOLD, FTH_CLI_RED };
const char *fth_cli_style(FILE *stream, enum fth_cli_style style);

/* ---- stopping ---- */

/*
 * SIGINT, SIGTERM or SIGHUP was seen: finish what must be, return FTH_EXIT_INTERRUPTED. Any thread.
 */
bool fth_cli_stopped(void);

/*
 * Before another program takes the place of this one: signals are as they were when this one began.
 */
void fth_cli_restore_signals(void);

/* ---- for main() ---- */

/*
 * Take --json out of argv, catch the signals, and make sure that descriptors 0 to 2 are in use.
 * Call it before anything is opened. Returns the new argc.
 */
int fth_cli_start(int argc, char **argv);

/* Erase the progress, flush standard output. Returns the exit status: a success whose output could
 * not be written is FTH_EXIT_FAILED. */
int fth_cli_finish(int status);

#endif
