/* SPDX-License-Identifier: BSD-2-Clause */
#include "complete.h"

#include <stdio.h>
#include <string.h>

static const char *word; /* to be completed; NULL: nothing is */

bool fth_complete_start(int *argc, char **argv)
{
	if (*argc < 2 || strcmp(argv[1], FTH_COMPLETE_OPTION) != 0)
		return false;
	word = *argc > 2 ? argv[*argc - 1] : "";
	*argc -= *argc > 2 ? 2 : 1;
	for (int i = 1; i < *argc; i++)
		argv[i] = argv[i + 1];
	argv[*argc] = NULL;
	return true;
}

const char *fth_complete_word(void)
{
	return word;
}

static bool begins(const char *text)
{
	return strncmp(text, word, strlen(word)) == 0;
}

void fth_complete_command(const struct fth_command *const *table)
{
	for (; *table; table++)
		if (begins((*table)->name))
			printf("%s\t%s\n", (*table)->name, (*table)->summary);
}

/* The option whose value the last word is, if it stands behind one that takes a value. */
static bool is_value(const struct fth_cli_option *options, const char *before)
{
	if (strncmp(before, "--", 2) != 0)
		return false;
	for (; options && options->name; options++)
		if (strcmp(options->name, before + 2) == 0)
			return options->kind != FTH_CLI_FLAG;
	return false;
}

static void print_option(const char *name, const char *help)
{
	char option[64];

	snprintf(option, sizeof(option), "--%s", name);
	if (begins(option))
		printf("%s\t%s\n", option, help);
}

void fth_complete_option(const struct fth_cli_usage *usage, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--") == 0)
			return;
	if (usage->commands && argc == 1)
		fth_complete_command(usage->commands);
	if (word[0] != '-' || is_value(usage->options, argv[argc - 1]))
		return;
	for (const struct fth_cli_option *o = usage->options; o && o->name; o++)
		if (o->help)
			print_option(o->name, o->help);
	print_option("help", "explain the command");
	print_option("json", "print one line of JSON");
}
