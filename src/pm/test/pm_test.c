/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mapping, persisting and mapping again, for every kind that this machine has; and what is refused.
 */
#include "fth_test.h"
#include "pm/map/header.h"

#include "fathom/base/error.h"
#include "fathom/dev/fault.h"
#include "fathom/pm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES	    (256u << 10)
#define RACE_ROUNDS 60u

static char shm_name[64], file_name[128], pmem_name[128], window_name[160];
static char file_path[96], pmem_path[96], window_path[96];

static struct fth_pm *map_with(const char *name, uint64_t bytes, uint32_t flags)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;

	options.flags = flags;
	assert_ok(fth_pm_map(name, bytes, &options, &pm));
	return pm;
}

static int try_map(const char *name, uint64_t bytes, uint32_t flags, uint64_t tag)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;
	int rc;

	options.flags = flags;
	options.tag = tag;
	rc = fth_pm_map(name, bytes, &options, &pm);
	if (rc == 0)
		fth_pm_unmap(pm);
	else
		assert_null(pm);
	return rc;
}

/* Made, stored to, persisted, and found again. */
static void survives_unmap(const char *name)
{
	struct fth_pm *pm = map_with(name, BYTES, FTH_PM_CREATE);
	uint64_t *word = fth_pm_base(pm);

	assert_int_equal(fth_pm_size(pm), BYTES);
	assert_int_equal((uintptr_t)word % 4096, 0);
	for (unsigned i = 0; i < BYTES / 8; i++)
		assert_int_equal(word[i], 0);
	for (unsigned i = 0; i < BYTES / 8; i += 100)
		word[i] = i + 1;
	assert_ok(fth_pm_persist(pm, word, BYTES));
	word[7] = 77;
	assert_ok(fth_pm_flush(pm, &word[7], 8));
	assert_ok(fth_pm_drain(pm));
	assert_true(strlen(fth_pm_guarantee_text(pm)) > 10);
	assert_ok(fth_pm_unmap(pm));

	pm = map_with(name, 0, 0);
	word = fth_pm_base(pm);
	assert_int_equal(word[7], 77);
	for (unsigned i = 0; i < BYTES / 8; i += 100)
		assert_int_equal(word[i], i + 1);
	assert_ok(fth_pm_unmap(pm));
	assert_ok(fth_pm_remove(name));
	assert_int_equal(try_map(name, 0, 0, 0), -ENOENT);
}

static void shared_memory_survives(void **unused)
{
	(void)unused;
	survives_unmap(shm_name);
}

static void file_survives(void **unused)
{
	(void)unused;
	survives_unmap(file_name);
}

static void window_survives(void **unused)
{
	int fd = open(window_path, O_RDWR | O_CREAT, 0600);

	(void)unused;
	assert_true(fd >= 0);
	assert_ok(ftruncate(fd, BYTES + FTH_PM_HEADER));
	close(fd);
	survives_unmap(window_name);
	unlink(window_path);
}

static void pmem_survives(void **unused)
{
	int rc = try_map(pmem_name, BYTES, FTH_PM_CREATE, 0);

	(void)unused;
	if (rc == -ENOTSUP)
		skip(); /* no libpmem */
	assert_ok(fth_pm_remove(pmem_name));
	survives_unmap(pmem_name);
}

static void guarantees_are_honest(void **unused)
{
	struct fth_pm *pm = map_with("mem:1M", BYTES, FTH_PM_CREATE);
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *none;

	(void)unused;
	assert_int_equal(fth_pm_guarantee(pm), FTH_PM_VOLATILE);
	fth_pm_unmap(pm);
	pm = map_with("softnvme(mem:2M)", BYTES, FTH_PM_CREATE);
	assert_int_equal(fth_pm_guarantee(pm), FTH_PM_VOLATILE);
	fth_pm_unmap(pm);
	options.flags = FTH_PM_CREATE;
	options.least = FTH_PM_POWER;
	assert_int_equal(fth_pm_map(shm_name, BYTES, &options, &none), -ENOTSUP);
	assert_int_equal(fth_pm_map("mem:1M", BYTES, &options, &none), -ENOTSUP);
	pm = map_with(shm_name, BYTES, FTH_PM_CREATE);
	assert_int_equal(fth_pm_guarantee(pm), FTH_PM_EXIT);
	fth_pm_unmap(pm);
	assert_ok(fth_pm_remove(shm_name));
}

static void one_writer_at_a_time(void **unused)
{
	const char *const names[] = {shm_name, file_name};

	(void)unused;
	for (unsigned i = 0; i < 2; i++) {
		struct fth_pm *pm = map_with(names[i], BYTES, FTH_PM_CREATE), *reader;

		assert_int_equal(try_map(names[i], 0, 0, 0), -EBUSY);
		assert_int_equal(try_map(names[i], 0, FTH_PM_READ_ONLY, 0), -EBUSY);
		assert_int_equal(fth_pm_remove(names[i]), -EBUSY);
		fth_pm_unmap(pm);
		pm = map_with(names[i], 0, FTH_PM_READ_ONLY);
		reader = map_with(names[i], 0, FTH_PM_READ_ONLY);
		assert_int_equal(fth_pm_persist(reader, fth_pm_base(reader), 8), -EROFS);
		assert_int_equal(try_map(names[i], 0, 0, 0), -EBUSY);
		fth_pm_unmap(pm);
		fth_pm_unmap(reader);
		assert_ok(fth_pm_remove(names[i]));
	}
}

/* Map, look who else has it mapped, unmap and remove, again and again. The number of mistakes. */
static int map_and_remove(const char *name, unsigned *inside)
{
	int wrong = 0;

	for (unsigned i = 0; i < RACE_ROUNDS; i++) {
		struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
		struct fth_pm *pm;
		int rc;

		options.flags = FTH_PM_CREATE;
		rc = fth_pm_map(name, BYTES, &options, &pm);
		if (rc == 0) {
			if (__atomic_add_fetch(inside, 1, __ATOMIC_SEQ_CST) != 1) {
				fprintf(stderr, "%s: mapped twice at a time\n", name);
				wrong++;
			}
			sched_yield();
			__atomic_sub_fetch(inside, 1, __ATOMIC_SEQ_CST);
			fth_pm_unmap(pm);
		} else if (rc != -EBUSY && rc != -ENOENT) {
			fprintf(stderr, "%s: %s\n", name, fth_error_text(rc));
			wrong++;
		}
		rc = fth_pm_remove(name);
		if (rc != 0 && rc != -EBUSY && rc != -ENOENT) {
			fprintf(stderr, "removing %s: %s\n", name, fth_error_text(rc));
			wrong++;
		}
	}
	return wrong;
}

/*
 * Processes that create and remove the same name: the memory that is mapped is the one that is
 * locked.
 */
static void race_of_processes(const char *name)
{
	unsigned *inside =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned failed = 0;
	pid_t children[3];

	assert_true(inside != MAP_FAILED);
	for (unsigned i = 0; i < 3; i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (children[i] == 0)
			_exit(map_and_remove(name, inside) == 0 ? 0 : 1);
	}
	for (unsigned i = 0; i < 3; i++) {
		int status;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	}
	assert_int_equal(failed, 0);
	munmap(inside, 4096);
	fth_pm_remove(name);
}

static void what_is_mapped_is_locked(void **unused)
{
	(void)unused;
	race_of_processes(shm_name);
	race_of_processes(file_name);
	if (try_map(pmem_name, BYTES, FTH_PM_CREATE, 0) != -ENOTSUP)
		race_of_processes(pmem_name);
}

static void arguments_are_checked(void **unused)
{
	struct fth_pm *pm = map_with(shm_name, BYTES, FTH_PM_CREATE);
	uint8_t *base = fth_pm_base(pm);

	(void)unused;
	assert_int_equal(fth_pm_persist(pm, base - 1, 2), -ERANGE);
	assert_int_equal(fth_pm_persist(pm, base + BYTES, 1), -ERANGE);
	assert_int_equal(fth_pm_persist(pm, base + 1, BYTES), -ERANGE);
	assert_int_equal(fth_pm_persist(pm, base + 8, UINT64_MAX), -ERANGE);
	assert_ok(fth_pm_persist(pm, base, BYTES));
	assert_int_equal(fth_pm_stat(pm, FTH_PM_STAT_ERRORS), 4);
	assert_int_equal(fth_pm_stat(pm, FTH_PM_STAT_PERSISTS), 1);
	fth_pm_unmap(pm);
	assert_int_equal(try_map(shm_name, BYTES, FTH_PM_CREATE | FTH_PM_EXCLUSIVE, 0), -EEXIST);
	assert_int_equal(try_map(shm_name, BYTES * 2, FTH_PM_CREATE, 0), -EINVAL);
	assert_int_equal(try_map(shm_name, 0, 0, 5), -EMEDIUMTYPE);
	assert_int_equal(try_map("shm:a/b", BYTES, FTH_PM_CREATE, 0), -EINVAL);
	assert_int_equal(try_map("shm:x?y=1", BYTES, FTH_PM_CREATE, 0), -EINVAL);
	assert_int_equal(try_map("none:x", BYTES, FTH_PM_CREATE, 0), -EINVAL);
	assert_int_equal(try_map(shm_name, BYTES, 8, 0), -EINVAL);
	assert_int_equal(try_map(shm_name, BYTES, FTH_PM_CREATE | FTH_PM_READ_ONLY, 0), -EINVAL);
	assert_ok(fth_pm_remove(shm_name));
	assert_int_equal(try_map(shm_name, BYTES, 0, 0), -ENOENT);
	assert_int_equal(try_map("file:/nowhere/x", BYTES, FTH_PM_CREATE, 0), -ENOENT);
}

/* A disk without room is an error of the creation, and leaves nothing. */
static void full_disks_refuse(void **unused)
{
	struct stat st;

	(void)unused;
	assert_int_equal(try_map(file_name, UINT64_C(1) << 45, FTH_PM_CREATE, 0) < 0, 1);
	assert_int_equal(stat(file_path, &st), -1);
	assert_int_equal(try_map(shm_name, UINT64_C(1) << 45, FTH_PM_CREATE, 0) < 0, 1);
	/* The name can be used as if nothing had happened. */
	fth_pm_unmap(map_with(shm_name, BYTES, FTH_PM_CREATE));
	assert_ok(fth_pm_remove(shm_name));
}

/* A file that was created for memory that is refused is removed again. */
static void refused_memory_leaves_no_file(void **unused)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	char path[64], name[96];
	struct fth_pm *none;
	struct stat st;

	(void)unused;
	if (stat("/dev/shm", &st) < 0)
		skip();
	snprintf(path, sizeof(path), "/dev/shm/fathom-pm-refused-%d", (int)getpid());
	snprintf(name, sizeof(name), "file:%s", path);
	options.flags = FTH_PM_CREATE;
	options.least = FTH_PM_POWER;
	assert_int_equal(fth_pm_map(name, BYTES, &options, &none), -ENOTSUP);
	assert_int_equal(stat(path, &st), -1);
}

/* ---- damage ---- */

static void read_file(uint8_t *to)
{
	int fd = open(file_path, O_RDONLY);

	assert_int_equal(read(fd, to, BYTES + FTH_PM_HEADER), BYTES + FTH_PM_HEADER);
	close(fd);
}

static void write_file(const uint8_t *from, size_t bytes)
{
	int fd = open(file_path, O_RDWR | O_TRUNC | O_CREAT, 0600);

	assert_int_equal(write(fd, from, bytes), bytes);
	close(fd);
}

/* Each with an error, for writing and for creating, and not a byte of it changed. */
static void damage_is_found_and_kept(void **unused)
{
	static uint8_t good[BYTES + FTH_PM_HEADER], bad[BYTES + FTH_PM_HEADER],
		after[BYTES + FTH_PM_HEADER];

	(void)unused;
	fth_pm_unmap(map_with(file_name, BYTES, FTH_PM_CREATE));
	read_file(good);
	for (unsigned bit = 0; bit < 128 * 8; bit += getenv("FTH_LONG_TESTS") ? 1 : 11) {
		memcpy(bad, good, sizeof(bad));
		bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
		write_file(bad, sizeof(bad));
		assert_int_equal(try_map(file_name, 0, 0, 0), -EBADMSG);
		assert_int_equal(try_map(file_name, BYTES, FTH_PM_CREATE, 0), -EBADMSG);
		read_file(after);
		assert_memory_equal(bad, after, sizeof(bad));
	}
	write_file(good, sizeof(good) - 4096);
	assert_int_equal(try_map(file_name, 0, 0, 0), -EBADMSG);
	write_file(good, 4096);
	assert_int_equal(try_map(file_name, 0, 0, 0), -EBADMSG);
	write_file(good, 100);
	assert_true(try_map(file_name, 0, 0, 0) < 0);
	memset(bad, 0, sizeof(bad));
	bad[sizeof(bad) - 1] = 1; /* something far behind: not blank */
	write_file(bad, sizeof(bad));
	assert_int_equal(try_map(file_name, BYTES, FTH_PM_CREATE, 0), -EBADMSG);
	assert_int_equal(fth_pm_remove(file_name), -EBADMSG);
	read_file(after);
	assert_memory_equal(bad, after, sizeof(bad));
	unlink(file_path);
}

/* ---- creations that were interrupted ---- */

#define LEFT 5

/*
 * What a creation may leave: nothing in it, a part of its zeroes, all of them, the first word, and
 * a part of the header.
 */
static size_t make_left(unsigned what, uint8_t *to)
{
	static const uint64_t creating = PM_HEADER_CREATING;
	static const size_t bytes[LEFT] = {0, 100, BYTES + FTH_PM_HEADER, BYTES + FTH_PM_HEADER,
					   BYTES + FTH_PM_HEADER};

	memset(to, 0, BYTES + FTH_PM_HEADER);
	if (what >= 3)
		memcpy(to, &creating, sizeof(creating));
	if (what == 4)
		memset(to + 24, 0x5a, 16);
	return bytes[what];
}

static void leave(const char *path, const uint8_t *from, size_t bytes)
{
	int fd = open(path, O_RDWR | O_TRUNC | O_CREAT, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, from, bytes), bytes);
	close(fd);
}

static void check_left_is_removed(const char *name, const char *path)
{
	static uint8_t left[BYTES + FTH_PM_HEADER];
	struct stat st;

	for (unsigned what = 0; what < LEFT; what++) {
		leave(path, left, make_left(what, left));
		assert_ok(fth_pm_remove(name));
		assert_int_equal(stat(path, &st), -1);
		assert_int_equal(fth_pm_remove(name), -ENOENT);
	}
	/* Anything else is not ours. */
	make_left(2, left);
	left[BYTES] = 1;
	leave(path, left, sizeof(left));
	assert_int_equal(fth_pm_remove(name), -EBADMSG);
	leave(path, left + 1, BYTES);
	assert_int_equal(fth_pm_remove(name), -EBADMSG);
	leave(path, (const uint8_t *)"text", 4);
	assert_int_equal(fth_pm_remove(name), -EBADMSG);
	assert_int_equal(stat(path, &st), 0);
	unlink(path);
}

static void interrupted_creations_are_removed(void **unused)
{
	char path[96];

	(void)unused;
	check_left_is_removed(file_name, file_path);
	snprintf(path, sizeof(path), "/dev/shm/%s", shm_name + strlen("shm:"));
	check_left_is_removed(shm_name, path);
	if (try_map(pmem_name, BYTES, FTH_PM_CREATE, 0) == 0)
		check_left_is_removed(pmem_name, pmem_path);
}

/* A device keeps its name: it is blank then. One that was blank has nothing to remove. */
static void check_device_is_blank(const char *name, const char *path)
{
	static uint8_t left[BYTES + FTH_PM_HEADER], after[BYTES + FTH_PM_HEADER];
	int fd;

	for (unsigned what = 3; what < LEFT; what++) {
		leave(path, left, make_left(what, left));
		assert_ok(fth_pm_remove(name));
		fd = open(path, O_RDONLY);
		assert_int_equal(read(fd, after, sizeof(after)), sizeof(after));
		close(fd);
		memset(left, 0, sizeof(left));
		assert_memory_equal(left, after, sizeof(left));
		assert_int_equal(fth_pm_remove(name), -ENOENT);
	}
	unlink(path);
}

static void interrupted_creations_on_devices_are_removed(void **unused)
{
	char name[160];

	(void)unused;
	snprintf(name, sizeof(name), "fault(%s)", file_name);
	check_device_is_blank(name, file_path);
	check_device_is_blank(window_name, window_path);
}

/* ---- threads and errors ---- */

#define THREADS 6
#define EACH	200

struct worker {
	struct fth_pm *pm;
	unsigned number;
	int rc;
};

/* All on the same page. */
static void *count_up(void *arg)
{
	struct worker *w = arg;
	uint64_t *word = (uint64_t *)fth_pm_base(w->pm) + w->number;

	for (unsigned i = 1; i <= EACH && w->rc == 0; i++) {
		*word = i;
		w->rc = fth_pm_persist(w->pm, word, 8);
	}
	return NULL;
}

static void run_threads(struct fth_pm *pm, struct worker *workers)
{
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.pm = pm, .number = i};
		assert_int_equal(pthread_create(&threads[i], NULL, count_up, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void threads_share_rounds(void **unused)
{
	struct worker workers[THREADS];
	struct fth_pm *pm = map_with(file_name, BYTES, FTH_PM_CREATE);
	uint64_t *word;

	(void)unused;
	run_threads(pm, workers);
	for (unsigned i = 0; i < THREADS; i++)
		assert_ok(workers[i].rc);
	assert_true(fth_pm_stat(pm, FTH_PM_STAT_ROUNDS) <= THREADS * EACH + 3);
	assert_ok(fth_pm_unmap(pm));
	pm = map_with(file_name, 0, 0);
	word = fth_pm_base(pm);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(word[i], EACH);
	fth_pm_unmap(pm);
	assert_ok(fth_pm_remove(file_name));
}

/* The device fails beside busy threads: all of them learn it, and it stays. */
static void errors_reach_everybody(void **unused)
{
	struct worker workers[THREADS];
	struct fth_pm *pm = map_with("fault(mem:1M)?kind=write&nth=40", BYTES, FTH_PM_CREATE);

	(void)unused;
	run_threads(pm, workers);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(workers[i].rc, -EIO);
	assert_int_equal(fth_pm_persist(pm, fth_pm_base(pm), 8), -EIO);
	assert_int_equal(fth_pm_unmap(pm), -EIO);
}

struct asking {
	struct fth_pm_view view;
	bool stop;
};

/* As a GPU does, for a page each time: a round without one takes no time. */
static void *ask_server(void *arg)
{
	struct asking *a = arg;

	while (!__atomic_load_n(&a->stop, __ATOMIC_ACQUIRE)) {
		fth_pm_flush_range(&a->view, a->view.base + 65536, 8);
		fth_store_release_sys64(&a->view.control->wanted, 1);
		while (fth_load_acquire_sys64(&a->view.control->wanted))
			sched_yield();
	}
	return NULL;
}

/*
 * The server, which makes rounds for a GPU, and a thread of the CPU wake each other. Otherwise this
 * takes 90 seconds for each round that is missed.
 */
static void the_server_wakes_threads(void **unused)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct asking asking = {.stop = false};
	struct worker worker = {.number = 0};
	pthread_t thread;

	(void)unused;
	options.flags = FTH_PM_CREATE;
	assert_ok(fth_pm_map("delay(mem:1M)?write_us=200", BYTES, &options, &worker.pm));
	assert_ok(fth_pm_serve(worker.pm));
	asking.view = fth_pm_view(worker.pm);
	assert_int_equal(pthread_create(&thread, NULL, ask_server, &asking), 0);
	count_up(&worker);
	__atomic_store_n(&asking.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_ok(worker.rc);
	assert_ok(fth_pm_unmap(worker.pm));
}

/* A device that never answers ends a persist at its timeout; unmap does not hang. */
static void silence_ends_at_the_timeout(void **unused)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;

	(void)unused;
	options.flags = FTH_PM_CREATE;
	options.timeout_ms = 50;
	assert_ok(fth_pm_map("delay(mem:1M)?flush_us=400000", BYTES, NULL, &pm) == -ENOENT ? 0
											   : -1);
	assert_int_equal(fth_pm_map("delay(mem:1M)?flush_us=400000", BYTES, &options, &pm),
			 -ETIMEDOUT);
}

static void large_memory_is_drained(void **unused)
{
	struct fth_pm *pm = map_with("mem:64M", 63u << 20, FTH_PM_CREATE);
	uint8_t *base = fth_pm_base(pm);

	(void)unused;
	memset(base, 1, fth_pm_size(pm));
	assert_ok(fth_pm_persist(pm, base, fth_pm_size(pm)));
	assert_true(fth_pm_stat(pm, FTH_PM_STAT_PAGES) >= (63u << 20) / 4096);
	base[5u << 20] = 2;
	base[40u << 20] = 2;
	assert_ok(fth_pm_flush(pm, base + (5u << 20), 1));
	assert_ok(fth_pm_flush(pm, base + (40u << 20), 1));
	assert_ok(fth_pm_drain(pm));
	assert_true(fth_pm_stat(pm, FTH_PM_STAT_PAGES) <= (63u << 20) / 4096 + 6);
	fth_pm_unmap(pm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shared_memory_survives),
		cmocka_unit_test(file_survives),
		cmocka_unit_test(window_survives),
		cmocka_unit_test(pmem_survives),
		cmocka_unit_test(guarantees_are_honest),
		cmocka_unit_test(one_writer_at_a_time),
		cmocka_unit_test(what_is_mapped_is_locked),
		cmocka_unit_test(arguments_are_checked),
		cmocka_unit_test(full_disks_refuse),
		cmocka_unit_test(refused_memory_leaves_no_file),
		cmocka_unit_test(damage_is_found_and_kept),
		cmocka_unit_test(interrupted_creations_are_removed),
		cmocka_unit_test(interrupted_creations_on_devices_are_removed),
		cmocka_unit_test(threads_share_rounds),
		cmocka_unit_test(errors_reach_everybody),
		cmocka_unit_test(the_server_wakes_threads),
		cmocka_unit_test(silence_ends_at_the_timeout),
		cmocka_unit_test(large_memory_is_drained),
	};
	int pid = (int)getpid();

	snprintf(shm_name, sizeof(shm_name), "shm:fathom-pm-test-%d", pid);
	snprintf(file_path, sizeof(file_path), "pm-test-%d", pid);
	snprintf(file_name, sizeof(file_name), "file:%s", file_path);
	snprintf(pmem_path, sizeof(pmem_path), "pm-test-pmem-%d", pid);
	snprintf(pmem_name, sizeof(pmem_name), "pmem:%s?force=1", pmem_path);
	snprintf(window_path, sizeof(window_path), "pm-test-window-%d", pid);
	snprintf(window_name, sizeof(window_name), "window(file:%s?window=map)", window_path);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
