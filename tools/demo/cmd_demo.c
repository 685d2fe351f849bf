/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom demo: what the library is good for, in about a minute and without special hardware. Each scene shows one way in beside
 * what people use today, where that is installed, and checks all data. The last one shows failures.
 */
#include "commands.h"
#include "demo.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct scene {
	const char *name;
	demo_scene_fn run;
};

static const struct scene scenes[] = {
	{"array", demo_scene_array},   {"flat", demo_scene_flat},
	{"pm", demo_scene_pm},	       {"kv", demo_scene_kv},
#ifdef FTH_SQL
	{"query", demo_scene_query},
#endif
	{"faults", demo_scene_faults},
};

#define SCENES (sizeof(scenes) / sizeof(scenes[0]))

static const char *only;
static uint64_t seed = 1;
static bool smallest;

static bool is_wanted(const struct scene *scene)
{
	size_t length = strlen(scene->name);

	for (const char *at = only; at && *at;) {
		size_t word = strcspn(at, ",");

		if (word == length && strncmp(at, scene->name, word) == 0)
			return true;
		at += word + (at[word] == ',');
	}
	return !only;
}

/* True if each name in `only` is that of a scene. */
static bool are_known(void)
{
	for (const char *at = only; at && *at;) {
		size_t word = strcspn(at, ",");
		bool known = false;

		for (unsigned i = 0; i < SCENES; i++)
			known |= strlen(scenes[i].name) == word &&
				 strncmp(at, scenes[i].name, word) == 0;
		if (!known) {
			fth_cli_error("demo: unknown scene %.*s", (int)word, at);
			return false;
		}
		at += word + (at[word] == ',');
	}
	return true;
}

/* Some machines do not allow io_uring or userfaultfd: then a scene is left out. */
static bool is_impossible(int rc)
{
	return rc == -ENOTSUP || rc == -EPERM || rc == -ENOSYS;
}

static int run_scene(struct demo *demo, const struct scene *scene)
{
	int rc = scene->run(demo);

	if (fth_cli_stopped())
		return -EINTR;
	if (is_impossible(rc)) {
		fth_cli_error("%s: %s (skipped)", scene->name, fth_error_text(rc));
		return 0;
	}
	if (rc < 0)
		fth_cli_error("%s: %s", scene->name, fth_error_text(rc));
	else if (rc > 0)
		fth_cli_error("%s: wrong result", scene->name);
	return rc;
}

static void say_begin(struct demo *demo)
{
	demo_say(demo,
		 "Fathom: data larger than memory, on flash, in five ways. Each scene compares\n"
		 "Fathom with the usual alternative, with the same amount of memory, and\n"
		 "checks all data. It takes about a minute.");
}

static void say_end(struct demo *demo)
{
	char tool[DEMO_PATH_MAX] = "fathom";
	ssize_t length = readlink("/proc/self/exe", tool, sizeof(tool) - 1);

	tool[length > 0 ? (size_t)length : strlen(tool)] = '\0';
	demo_say(demo,
		 "\nWhere to go next\n\n"
		 "   README.md         ten lines to copy for each way in; when not to use it\n"
		 "   examples/         small complete programs\n"
		 "   doc/results.md    measurements on named machines, gains and losses\n"
		 "   make install      the tool, the library and man pages: man fathom_array\n\n"
		 "   The tool is %s\n"
		 "   Its --help lists the commands; its command bench compares at length.",
		 tool);
}

static int status_of(int rc)
{
	if (fth_cli_stopped())
		return FTH_EXIT_INTERRUPTED;
	return rc != 0 ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

static int tell(void)
{
	struct fth_json j;
	struct demo demo = {.json = fth_cli_json() ? &j : NULL, .seed = seed, .smallest = smallest};
	int rc = 0;

	if (demo.json) {
		fth_json_begin(&j, stdout);
		fth_json_object(&j, "scenes");
	}
	say_begin(&demo);
	for (unsigned i = 0; i < SCENES && rc == 0; i++)
		if (is_wanted(&scenes[i]))
			rc = run_scene(&demo, &scenes[i]);
	if (demo.json) {
		fth_json_end(&j);
		fth_json_bool(&j, "ok", status_of(rc) == FTH_EXIT_OK);
		fth_json_finish(&j);
	} else if (rc == 0) {
		say_end(&demo);
	}
	return status_of(rc);
}

static int run(int argc, char **argv)
{
	static const struct fth_cli_option options[] = {
		{"only", FTH_CLI_STRING, &only, 0, 0,
		 "scenes to show: array, flat, pm, kv, query, faults, separated by commas"},
		{"seed", FTH_CLI_U64, &seed, 0, UINT64_MAX, "of all random choices"},
		{"smallest", FTH_CLI_FLAG, &smallest, 0, 0, "little data, for tests"},
		{0},
	};
	static const struct fth_cli_usage usage = {
		.synopsis = "demo [OPTIONS]",
		.text = "Show the five ways to use data larger than memory, each beside its "
			"everyday\n"
			"rival where that is installed, and what happens when devices, servers "
			"and\n"
			"programs fail. Takes about a minute, about 1 GB of temporary files in "
			"TMPDIR\n"
			"or /tmp, and no privileges; only root can limit the memory of mmap.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	return are_known() ? tell() : FTH_EXIT_USAGE;
}

const struct fth_command fth_cmd_demo = {
	.name = "demo",
	.summary = "compare each way in with its usual alternative, in a minute",
	.run = run,
};
