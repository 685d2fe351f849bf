/* SPDX-License-Identifier: BSD-2-Clause */
/* From a name to a command, with a hint for a name that is nearly right. */
#include "complete.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_LENGTH 31
#define NEAR		2 /* edits that may be a slip of the finger */

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned least = a < b ? a : b;

	return least < c ? least : c;
}

/* Edit distance (Levenshtein): the least insertions, deletions, replacements from a to b. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[NAME_MAX_LENGTH + 1];
	size_t width = strlen(b);

	if (width > NAME_MAX_LENGTH)
		return UINT32_MAX;
	for (unsigned i = 0; i <= width; i++)
		row[i] = i;
	for (; *a; a++) {
		unsigned diagonal = row[0]++;

		for (unsigned i = 1; i <= width; i++) {
			unsigned above = row[i];

			row[i] = min3(above + 1, row[i - 1] + 1, diagonal + (*a != b[i - 1]));
			diagonal = above;
		}
	}
	return row[width];
}

static const char *nearest(const struct fth_command *const *table, const char *name)
{
	const char *best = NULL;
	unsigned least = NEAR + 1;

	for (; *table; table++) {
		unsigned edits = distance(name, (*table)->name);

		if (edits < least) {
			least = edits;
			best = (*table)->name;
		}
	}
	return best;
}

const struct fth_command *fth_cli_find(const struct fth_command *const *table, const char *name)
{
	for (; *table; table++)
		if (strcmp((*table)->name, name) == 0)
			return *table;
	return NULL;
}

static int list(const char *prefix, const char *text, const struct fth_command *const *table)
{
	printf("usage: %s NAME [ARGUMENTS]\n\n", prefix);
	if (text)
		printf("%s\n\n", text);
	fth_cli_list(table);
	printf("\n`%s NAME --help` says more.\n", prefix);
	return FTH_EXIT_OK;
}

static int unknown(const char *prefix, const struct fth_command *const *table, const char *name)
{
	const char *near = nearest(table, name);

	fth_cli_error("%s: unknown command \"%s\"", prefix, name);
	if (near)
		fprintf(stderr, "did you mean: %s %s\n", prefix, near);
	else
		fprintf(stderr, "try: %s --help\n", prefix);
	return FTH_EXIT_USAGE;
}

static bool asks_for_help(const char *word)
{
	return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Do the words of argv begin with those of `text`? */
static bool begins_with_words(const char *text, int argc, char **argv)
{
	size_t length;

	for (int i = 0; *text; i++, text += length + (text[length] == ' ')) {
		length = strcspn(text, " ");
		if (i >= argc || strlen(argv[i]) != length || strncmp(argv[i], text, length) != 0)
			return false;
	}
	return true;
}

bool fth_cli_moved(const struct fth_moved *table, int argc, char **argv)
{
	bool help = argc > 1 && asks_for_help(argv[1]);

	for (; table->was; table++)
		if (begins_with_words(table->was, argc - 1 - help, argv + 1 + help)) {
			fth_cli_error("`fathom %s` is `fathom %s` now", table->was, table->is);
			return true;
		}
	return false;
}

static int help_of(const struct fth_command *command)
{
	char name[NAME_MAX_LENGTH + 1], option[] = "--help";
	char *argv[] = {name, option, NULL};

	snprintf(name, sizeof(name), "%s", command->name);
	return command->run(2, argv);
}

void fth_cli_list(const struct fth_command *const *table)
{
	const char *bold = fth_cli_style(stdout, FTH_CLI_BOLD);
	const char *plain = fth_cli_style(stdout, FTH_CLI_PLAIN);

	for (; *table; table++)
		printf("  %s%-12s%s  %s\n", bold, (*table)->name, plain, (*table)->summary);
}

int fth_cli_dispatch(const char *prefix, const struct fth_command *const *table, int argc,
		     char **argv)
{
	return fth_cli_dispatch_text(prefix, NULL, table, argc, argv);
}

int fth_cli_dispatch_text(const char *prefix, const char *text,
			  const struct fth_command *const *table, int argc, char **argv)
{
	const struct fth_command *command;
	bool help = argc > 1 && asks_for_help(argv[1]);
	const char *name = argc > 1 + help ? argv[1 + help] : NULL;

	if (!name && fth_complete_word()) {
		fth_complete_command(table);
		return FTH_EXIT_OK;
	}
	if (!name)
		return list(prefix, text, table);
	command = fth_cli_find(table, name);
	if (fth_complete_word()) /* `help NAME` is followed by nothing */
		return command && !help ? command->run(argc - 1, argv + 1) : FTH_EXIT_OK;
	if (!command)
		return unknown(prefix, table, name);
	return help ? help_of(command) : command->run(argc - 1, argv + 1);
}
