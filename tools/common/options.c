/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of commands, on top of getopt_long(). */
#include "complete.h"

#include "fathom/base/uri.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 40
#define HELP_COLUMN 28
#define HELP_CODE   'h'
/* getopt_long() returns this plus the option's place in the table. */
#define FIRST_CODE 256

static const char *argument_name(enum fth_cli_kind kind)
{
	switch (kind) {
	case FTH_CLI_FLAG:
	case FTH_CLI_RENAMED:
		return NULL;
	case FTH_CLI_STRING:
	case FTH_CLI_LIST:
		return "TEXT";
	case FTH_CLI_SIZE:
		return "SIZE";
	case FTH_CLI_U64:
	case FTH_CLI_DOUBLE:
		return "N";
	}
	return NULL;
}

/*
 * The largest number stands for "not given"; a help text that explains 0 or the default says
 * enough.
 */
static void print_default(const struct fth_cli_option *option)
{
	bool number = option->kind == FTH_CLI_U64 || option->kind == FTH_CLI_SIZE;
	char size[FTH_CLI_BYTES_MAX];

	if (number && *(uint64_t *)option->value == UINT64_MAX)
		return;
	if (number && *(uint64_t *)option->value == 0 &&
	    (strstr(option->help, "0: ") || strstr(option->help, "default ")))
		return;
	if (option->kind == FTH_CLI_SIZE)
		printf(" [%s]", fth_cli_size(size, *(uint64_t *)option->value));
	else if (option->kind == FTH_CLI_U64)
		printf(" [%llu]", (unsigned long long)*(uint64_t *)option->value);
	else if (option->kind == FTH_CLI_DOUBLE)
		printf(" [%g]", *(double *)option->value);
	else if (option->kind == FTH_CLI_STRING && *(const char **)option->value &&
		 **(const char **)option->value)
		printf(" [%s]", *(const char **)option->value);
}

static void print_option(const struct fth_cli_option *option)
{
	const char *argument = argument_name(option->kind);
	int width = (int)strlen(option->name) + 4;

	printf("  %s--%s%s", fth_cli_style(stdout, FTH_CLI_BOLD), option->name,
	       fth_cli_style(stdout, FTH_CLI_PLAIN));

	if (argument)
		width += printf(" %s", argument);
	printf("%*s%s", width < HELP_COLUMN ? HELP_COLUMN - width : 1, "", option->help);
	print_default(option);
	putchar('\n');
}

static void print_help(const struct fth_cli_usage *usage)
{
	printf("usage: fathom %s\n\n%s\n", usage->synopsis, usage->text);
	if (usage->commands) {
		printf("\ncommands:\n");
		fth_cli_list(usage->commands);
	}
	if (!usage->options || !usage->options[0].name)
		return;
	printf("\noptions:\n");
	for (const struct fth_cli_option *option = usage->options; option->name; option++)
		if (option->help)
			print_option(option);
}

static int complain(const struct fth_cli_usage *usage)
{
	int words = (int)strcspn(usage->synopsis, "[<-ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	while (words > 0 && usage->synopsis[words - 1] == ' ')
		words--;
	fprintf(stderr, "try: fathom %.*s --help\n", words, usage->synopsis);
	return FTH_EXIT_USAGE;
}

static bool set_double(const struct fth_cli_option *option, const char *text)
{
	char *end;
	double value;

	errno = 0;
	value = strtod(text, &end);
	if (errno || end == text || *end || !isfinite(value))
		return false;
	if (option->max && (value < (double)option->min || value > (double)option->max))
		return false;
	*(double *)option->value = value;
	return true;
}

static bool set_number(const struct fth_cli_option *option, const char *text)
{
	uint64_t value;
	int rc = option->kind == FTH_CLI_SIZE ? fth_parse_size(text, &value)
					      : fth_parse_u64(text, &value);

	if (rc < 0 || (option->max && (value < option->min || value > option->max)))
		return false;
	*(uint64_t *)option->value = value;
	return true;
}

static bool add_to_list(struct fth_cli_list *list, const char *text)
{
	if (list->count == FTH_CLI_LIST_MAX)
		return false;
	list->items[list->count++] = text;
	return true;
}

static bool set_value(const struct fth_cli_option *option, const char *text)
{
	switch (option->kind) {
	case FTH_CLI_FLAG:
		*(bool *)option->value = true;
		return true;
	case FTH_CLI_STRING:
		*(const char **)option->value = text;
		return true;
	case FTH_CLI_U64:
	case FTH_CLI_SIZE:
		return set_number(option, text);
	case FTH_CLI_DOUBLE:
		return set_double(option, text);
	case FTH_CLI_LIST:
		return add_to_list(option->value, text);
	case FTH_CLI_RENAMED:
		break;
	}
	return false;
}

static const char *show_bound(const struct fth_cli_option *option, uint64_t value,
			      char buf[FTH_CLI_BYTES_MAX])
{
	if (option->kind == FTH_CLI_SIZE)
		return fth_cli_size(buf, value);
	snprintf(buf, FTH_CLI_BYTES_MAX, "%llu", (unsigned long long)value);
	return buf;
}

static void say_bad_value(const struct fth_cli_option *option, const char *text)
{
	const char *what = option->kind == FTH_CLI_SIZE ? "size" : "number";
	char min[FTH_CLI_BYTES_MAX], max[FTH_CLI_BYTES_MAX];

	if (option->kind == FTH_CLI_LIST)
		fth_cli_error("--%s %s: may be given at most %u times", option->name, text,
			      FTH_CLI_LIST_MAX);
	else if (option->max == UINT64_MAX)
		fth_cli_error("--%s %s: expected a %s of at least %s", option->name, text, what,
			      show_bound(option, option->min, min));
	else if (option->max)
		fth_cli_error("--%s %s: expected a %s from %s to %s", option->name, text, what,
			      show_bound(option, option->min, min),
			      show_bound(option, option->max, max));
	else
		fth_cli_error("--%s %s: expected a %s", option->name, text, what);
}

static int argument_use(enum fth_cli_kind kind)
{
	if (kind == FTH_CLI_RENAMED)
		return optional_argument; /* --old, --old=VALUE: both are refused */
	return kind == FTH_CLI_FLAG ? no_argument : required_argument;
}

static void fill_long_options(const struct fth_cli_option *options, struct option *out)
{
	unsigned n = 0;

	for (unsigned i = 0; options && options[i].name && i < OPTIONS_MAX; i++)
		out[n++] = (struct option){
			.name = options[i].name,
			.has_arg = argument_use(options[i].kind),
			.val = FIRST_CODE + (int)i,
		};
	out[n++] = (struct option){.name = "help", .has_arg = no_argument, .val = HELP_CODE};
	out[n] = (struct option){0};
}

static int take_option(const struct fth_cli_usage *usage, int code)
{
	const struct fth_cli_option *option;

	if (code == HELP_CODE) {
		print_help(usage);
		return FTH_EXIT_OK;
	}
	if (code < FIRST_CODE) /* getopt_long() has said what is wrong */
		return complain(usage);
	option = &usage->options[code - FIRST_CODE];
	if (option->kind == FTH_CLI_RENAMED) {
		fth_cli_error("--%s is --%s now", option->name, (const char *)option->value);
		return complain(usage);
	}
	if (set_value(option, optarg))
		return FTH_CLI_GO_ON;
	say_bad_value(option, optarg);
	return complain(usage);
}

int fth_cli_parse(const struct fth_cli_usage *usage, int argc, char **argv, char ***args)
{
	struct option long_options[OPTIONS_MAX + 2];
	char *name = argv[0], prefix[] = "fathom";
	int code, status = FTH_CLI_GO_ON;

	if (usage->commands && argc > 1 && fth_cli_find(usage->commands, argv[1]))
		return fth_cli_find(usage->commands, argv[1])->run(argc - 1, argv + 1);

	if (fth_complete_word()) {
		fth_complete_option(usage, argc, argv);
		return FTH_EXIT_OK;
	}
	fill_long_options(usage->options, long_options);
	argv[0] = prefix; /* what getopt_long() puts before its messages */
	optind = 0;	  /* start over: an earlier command may have been parsed */
	while (status == FTH_CLI_GO_ON &&
	       (code = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
		status = take_option(usage, code);
	argv[0] = name;
	if (status != FTH_CLI_GO_ON)
		return status;
	if (argc - optind < usage->min_args || argc - optind > usage->max_args) {
		fth_cli_error(argc - optind < usage->min_args ? "an argument is missing"
							      : "too many arguments");
		return complain(usage);
	}
	*args = argv + optind;
	return FTH_CLI_GO_ON;
}
