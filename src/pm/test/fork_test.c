/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Children of fork(): what they may do with memory that the parent mapped, and that the parent does
 * not notice it.
 */
#include "fth_test.h"

#include "fathom/base/error.h"
#include "fathom/pm.h"
#include "fathom/pm/checkpoint.h"
#include "fathom/pm/log.h"
#include "fathom/pm/tx.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES	 (512u << 10)
#define LOG_AT	 (64u << 10)
#define TX_AT	 (128u << 10)
#define CP_AT	 (256u << 10)
#define CHILDREN 20u

struct bed {
	struct fth_pm *pm;
	struct fth_pm_log *log;
	struct fth_pm_tx *tx;
	struct fth_pm_checkpoint *cp;
	uint64_t *word;
};

static uint64_t buffer;
static char name[128];

static void bed_open(struct bed *bed, const char *memory)
{
	static const struct fth_pm_checkpoint_shape shape = {
		.groups = 1, .buffers = 1, .bytes = 4096};
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;

	options.flags = FTH_PM_CREATE;
	assert_ok(fth_pm_map(memory, BYTES, &options, &bed->pm));
	bed->word = fth_pm_base(bed->pm);
	assert_ok(fth_pm_log_open_or_create_conv(bed->pm, LOG_AT, 1, 4096, &bed->log));
	assert_ok(fth_pm_tx_open_or_create(bed->pm, TX_AT, 1, 4096, &bed->tx));
	assert_ok(fth_pm_checkpoint_open_or_create(bed->pm, CP_AT, &shape, &bed->cp));
	assert_ok(fth_pm_checkpoint_register(bed->cp, 0, &buffer, sizeof(buffer)));
}

static void bed_close(struct bed *bed)
{
	fth_pm_checkpoint_close(bed->cp);
	fth_pm_tx_close(bed->tx);
	fth_pm_log_close(bed->log);
	assert_ok(fth_pm_unmap(bed->pm));
}

/* Runs `story` in a child, which returns 0, or the number of the first claim that does not hold. */
static void in_child(struct bed *bed, int (*story)(struct bed *bed))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(story(bed));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#define CLAIM(n, what)            \
	do {                      \
		if (!(what))      \
			return n; \
	} while (0)

static int changes_are_refused(struct bed *bed)
{
	struct fth_pm_tx *tx;

	CLAIM(1, fth_pm_log_insert(bed->log, 0, "ab", 2) == -EPERM);
	CLAIM(2, fth_pm_log_clear(bed->log) == -EPERM);
	CLAIM(3, fth_pm_tx_begin(bed->tx, 0) == -EPERM);
	CLAIM(4, fth_pm_tx_add(bed->tx, 0, bed->word, 8) == -EPERM);
	CLAIM(5, fth_pm_tx_commit(bed->tx, 0) == -EPERM);
	CLAIM(6, fth_pm_tx_abort(bed->tx, 0) == -EPERM);
	CLAIM(7, fth_pm_tx_open(bed->pm, TX_AT, &tx) == -EPERM);
	CLAIM(8, fth_pm_checkpoint_save(bed->cp, 0, 0) == -EPERM);
	return 0;
}

static int device_is_refused(struct bed *bed)
{
	int rc;

	CLAIM(11, bed->word[0] == 1);
	CLAIM(12, fth_pm_persist(bed->pm, bed->word, 8) == -EPERM);
	CLAIM(13, strstr(fth_error_text(-EPERM), "fork()"));
	CLAIM(14, fth_pm_flush(bed->pm, bed->word, 8) == -EPERM);
	CLAIM(15, fth_pm_drain(bed->pm) == -EPERM);
	CLAIM(16, fth_pm_serve(bed->pm) == -EPERM);
	rc = changes_are_refused(bed);
	CLAIM(rc, rc == 0);
	fth_pm_tx_close(bed->tx);
	CLAIM(17, fth_pm_unmap(bed->pm) == 0);
	return 0;
}

static int shared_memory_works(struct bed *bed)
{
	int rc;

	bed->word[1] = 2;
	CLAIM(21, fth_pm_persist(bed->pm, &bed->word[1], 8) == 0);
	rc = changes_are_refused(bed);
	CLAIM(rc, rc == 0);
	fth_pm_tx_close(bed->tx);
	CLAIM(22, fth_pm_unmap(bed->pm) == 0);
	return 0;
}

/* In the middle of everything: an open transaction goes on, and nothing of it is lost. */
static void check_parent(const char *memory, int (*story)(struct bed *bed))
{
	struct bed bed;

	bed_open(&bed, memory);
	bed.word[0] = 1;
	assert_ok(fth_pm_persist(bed.pm, bed.word, 8));
	assert_ok(fth_pm_serve(bed.pm));
	buffer = 5;
	assert_ok(fth_pm_checkpoint_save(bed.cp, 0, 0));
	assert_ok(fth_pm_tx_begin(bed.tx, 0));
	assert_ok(fth_pm_tx_add(bed.tx, 0, &bed.word[2], 8));
	in_child(&bed, story);
	bed.word[2] = 3;
	assert_ok(fth_pm_tx_commit(bed.tx, 0));
	assert_ok(fth_pm_log_insert(bed.log, 0, "cd", 2));
	bed.word[0] = 4;
	assert_ok(fth_pm_persist(bed.pm, bed.word, 8));
	bed_close(&bed);

	bed_open(&bed, memory);
	assert_int_equal(bed.word[0], 4);
	assert_int_equal(bed.word[2], 3);
	assert_int_equal(fth_pm_tx_rolled_back(bed.tx), 0);
	assert_int_equal(fth_pm_log_count(bed.log, 0), 1);
	buffer = 0;
	assert_ok(fth_pm_checkpoint_restore(bed.cp, 0));
	assert_int_equal(buffer, 5);
	bed_close(&bed);
	assert_ok(fth_pm_remove(memory));
}

static void drained_memory_stays_the_parents(void **unused)
{
	(void)unused;
	snprintf(name, sizeof(name), "file:pm-fork-test-%d", (int)getpid());
	check_parent(name, device_is_refused);
}

static void a_window_stays_the_parents(void **unused)
{
	char path[64];
	FILE *file;

	(void)unused;
	snprintf(path, sizeof(path), "pm-fork-test-window-%d", (int)getpid());
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(ftruncate(fileno(file), 2 * BYTES), 0);
	fclose(file);
	snprintf(name, sizeof(name), "window(file:%s?window=map)", path);
	check_parent(name, device_is_refused);
	unlink(path);
}

static void shared_memory_is_shared(void **unused)
{
	(void)unused;
	snprintf(name, sizeof(name), "shm:fathom-pm-fork-test-%d", (int)getpid());
	check_parent(name, shared_memory_works);
}

/* ---- while threads of the parent persist ---- */

struct persisting {
	struct fth_pm *pm;
	uint64_t *word;
	int stop, rc;
	unsigned rounds;
};

static void *persist_always(void *arg)
{
	struct persisting *p = arg;

	while (!__atomic_load_n(&p->stop, __ATOMIC_RELAXED) && p->rc == 0) {
		*p->word += 1;
		p->rc = fth_pm_persist(p->pm, p->word, 8);
		p->rounds++;
	}
	return NULL;
}

static int persist_once(struct bed *bed)
{
	CLAIM(31, fth_pm_persist(bed->pm, bed->word, 8) == -EPERM);
	CLAIM(32, fth_pm_unmap(bed->pm) == 0);
	return 0;
}

static void forks_in_the_middle_of_rounds(void **unused)
{
	struct persisting p = {0};
	struct bed bed;
	pthread_t thread;

	(void)unused;
	snprintf(name, sizeof(name), "file:pm-fork-test-%d", (int)getpid());
	bed_open(&bed, name);
	p.pm = bed.pm;
	p.word = &bed.word[512];
	assert_int_equal(pthread_create(&thread, NULL, persist_always, &p), 0);
	for (unsigned i = 0; i < CHILDREN; i++)
		in_child(&bed, persist_once);
	__atomic_store_n(&p.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_ok(p.rc);
	assert_true(p.rounds > 0);
	bed_close(&bed);
	assert_ok(fth_pm_remove(name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drained_memory_stays_the_parents),
		cmocka_unit_test(a_window_stays_the_parents),
		cmocka_unit_test(shared_memory_is_shared),
		cmocka_unit_test(forks_in_the_middle_of_rounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
