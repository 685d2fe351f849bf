/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that is killed in the middle of its work, again and again, and finishes with the right answer. It counts numbers by
 * a property of them, in a table in persistent memory, each number in a transaction; the answer is compared with that of a run without
 * interruptions.
 */
#include "demo.h"

#include "cli.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/pm/tx.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES	(1u << 20)
#define LOG_AT	(512u << 10)
#define NUMBERS 1500000u
#define BINS	64u

/* Zero when the memory is new. */
struct tally {
	uint64_t next;	    /* number */
	uint64_t bin[BINS]; /* numbers by how many bits of their hash are set */
};

struct scene {
	char name[64];
	unsigned step; /* the program reports each time that it has counted so many */
};

static unsigned bin_of(uint64_t number)
{
	return (unsigned)__builtin_popcountll(fth_mix64(number)) % BINS;
}

/* ---- the program ---- */

static int count_one(struct fth_pm_tx *tx, struct tally *t)
{
	uint64_t *bin = &t->bin[bin_of(t->next)];
	struct fth_pm_range ranges[] = {{bin, sizeof(*bin)}, {&t->next, sizeof(t->next)}};
	int rc = fth_pm_tx_begin(tx, 0);

	if (rc == 0)
		rc = fth_pm_tx_add_all(tx, 0, ranges, 2);
	if (rc < 0)
		return rc;
	*bin += 1;
	t->next += 1;
	return fth_pm_tx_commit(tx, 0);
}

/* It does not know whether it was killed before. `tell` gets a byte for each `step` numbers. */
static int program(const char *name, unsigned step, int tell)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm_tx *tx = NULL;
	struct fth_pm *pm;
	struct tally *t;
	int rc;

	options.flags = FTH_PM_CREATE;
	rc = fth_pm_map(name, BYTES, &options, &pm);
	if (rc < 0)
		return rc;
	t = fth_pm_base(pm);
	rc = fth_pm_tx_open_or_create(pm, LOG_AT, 1, 4096, &tx);
	while (rc == 0 && t->next < NUMBERS) {
		rc = count_one(tx, t);
		if (rc == 0 && t->next % step == 0 && write(tell, "x", 1) < 0)
			rc = -errno;
	}
	fth_pm_tx_close(tx);
	fth_pm_unmap(pm);
	return rc;
}

/* ---- around it ---- */

/* The program in a process of its own, in which it ends. */
__attribute__((noreturn)) static void run_child(const struct scene *scene, int tell)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* not without this program */
	_exit(program(scene->name, scene->step, tell) < 0);
}

/* Kill it when it has counted some numbers, in whatever it is doing then; or wait for its end. */
static int end_child(pid_t pid, int told, bool killed)
{
	int status = 0;
	char byte;

	while (killed && read(told, &byte, 1) < 0 && errno == EINTR)
		;
	if (killed)
		kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? fth_fail(EIO, "the program failed")
							     : 0;
}

static int run_program(const struct scene *scene, bool killed)
{
	int pipes[2], rc;
	pid_t pid;

	if (pipe(pipes) < 0)
		return fth_fail(errno, "pipe: %s", strerror(errno));
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		run_child(scene, pipes[1]);
	close(pipes[1]);
	rc = pid < 0 ? fth_fail(errno, "fork: %s", strerror(errno))
		     : end_child(pid, pipes[0], killed);
	close(pipes[0]);
	return rc;
}

/* Wrong bins, compared with a run in plain memory. */
static int count_wrong(const char *name, uint64_t *wrong)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	uint64_t bin[BINS] = {0};
	const struct tally *t;
	struct fth_pm *pm;
	int rc;

	options.flags = FTH_PM_READ_ONLY;
	rc = fth_pm_map(name, 0, &options, &pm);
	if (rc < 0)
		return rc;
	t = fth_pm_base(pm);
	for (uint64_t number = 0; number < NUMBERS; number++)
		bin[bin_of(number)]++;
	*wrong = t->next != NUMBERS;
	for (unsigned i = 0; i < BINS; i++)
		*wrong += t->bin[i] != bin[i];
	fth_pm_unmap(pm);
	return 0;
}

int demo_kill_program(struct demo *demo, unsigned kills, bool *right)
{
	struct scene scene = {.step = NUMBERS / (kills + 1)};
	uint64_t wrong = 0;
	int rc = 0;

	(void)demo;
	snprintf(scene.name, sizeof(scene.name), "shm:fathom-demo-%d", (int)getpid());
	for (unsigned run = 0; run <= kills && rc == 0 && !fth_cli_stopped(); run++)
		rc = run_program(&scene, run < kills);
	if (rc == 0 && fth_cli_stopped())
		rc = -EINTR;
	if (rc == 0)
		rc = count_wrong(scene.name, &wrong);
	(void)fth_pm_remove(scene.name);
	*right = wrong == 0;
	return rc;
}
