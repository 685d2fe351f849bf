/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of `fathom demo` share: how scenes print their results, and what they need beside the library.
 *
 *	show.c		a scene as text, with bars, or as JSON
 *	helper.c	temporary folders, other programs
 *	scene_*.c	the scenes; cmd_demo.c has their order
 */
#ifndef FTH_TOOLS_DEMO_H
#define FTH_TOOLS_DEMO_H

#include "json.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DEMO_PATH_MAX 512

struct demo {
	struct fth_json *json; /* NULL: text */
	uint64_t seed;
	bool smallest; /* for tests: a second in all */
	unsigned scene;
};

/*
 * A scene. Returns 0 or a negative errno with a text; 1 when an answer was wrong; -ENOTSUP if this machine cannot
 * show it, which is no failure. It leaves nothing behind, also when it is stopped (fth_cli_stopped()).
 */
typedef int (*demo_scene_fn)(struct demo *demo);

int demo_scene_array(struct demo *demo);
int demo_scene_flat(struct demo *demo);
int demo_scene_pm(struct demo *demo);
int demo_scene_kv(struct demo *demo);
int demo_scene_query(struct demo *demo); /* in builds with SQL only */
int demo_scene_faults(struct demo *demo);

/* ---- the parts that inject failures; the last scene runs them ---- */

/* A program in persistent memory is killed `kills` times in its work and started again. 1 if its answer is wrong. */
int demo_kill_program(struct demo *demo, unsigned kills, bool *right);
/* A cache server is killed. How many items it acknowledged, and has when it is back; and how long that took. */
struct demo_restart {
	uint64_t items, found, wrong;
	double seconds;
};
int demo_kill_server(struct demo *demo, struct demo_restart *out);

/* ---- telling: show.c ---- */

/* Which way is better? */
enum demo_unit { DEMO_PER_SECOND, DEMO_SECONDS, DEMO_MICROSECONDS };

struct demo_row {
	const char *name;
	double value;	  /* 0: not measured; `note` says why */
	const char *note; /* instead of a bar, 31 characters at most */
	bool ours;
};

/* Begin a scene: number, key for JSON, title and a sentence or two. */
void demo_begin(struct demo *demo, const char *key, const char *title, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* A group of rows with bars, 80 columns wide at most. `what` is counted or done. */
void demo_bars(struct demo *demo, const char *what, enum demo_unit unit,
	       const struct demo_row *rows, unsigned count);
/* A line of text; not in JSON. */
void demo_say(struct demo *demo, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* End a scene: one line that says what was checked. */
void demo_end(struct demo *demo, uint64_t checked, const char *what, uint64_t wrong);

/* ---- helper.c ---- */

/* A new folder in TMPDIR or /tmp; and its end, with all that is in it. */
int demo_make_folder(char folder[DEMO_PATH_MAX]);
void demo_remove_folder(const char *folder);
/* "file:PATH" with the path escaped. */
int demo_uri(const char *path, char *uri, size_t room);

/* Can this program be started by its name? */
bool demo_has_program(const char *name);
/*
 * Start a program that ends with this one. Its standard output goes to `out`, or nowhere if that is -1. Its process
 * id, or a negative errno.
 */
pid_t demo_start(char *const argv[], int out);
void demo_kill(pid_t *pid);

#endif
