/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A part of `fathom demo`: one program with plain pointers, on a file four times the memory, which is mapped by the kernel or by a
 * flat region. Each run is a child in a memory cgroup of the same size. Every value is checked.
 */
#include "demo.h"

#include "cgroup.h"
#include "cli.h"

#include "apps/team.h"
#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/base/uri.h"
#include "fathom/flat.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FILE_BYTES   (128u << 20)
#define BUDGET	     (FILE_BYTES / 4)
#define OTHER_MEMORY (12u << 20) /* of a process */
#define THREADS	     8u
#define GATHER	     512u
#define RUN_NS	     500000000u
#define WORDS	     (FILE_BYTES / sizeof(uint64_t))

enum way { MMAP_DEFAULT, MMAP_RANDOM, FLAT, MMAP_LOOP, FLAT_GATHER, WAYS };

static const struct {
	const char *name, *key;
	unsigned threads;
} ways[WAYS] = {
	{"mmap, 8 threads", "mmap", THREADS},
	{"mmap with MADV_RANDOM, 8 threads", "mmap_random", THREADS},
	{"flat, 8 threads, the same code", "flat", THREADS},
	{"mmap with MADV_RANDOM, 1 thread", "mmap_one", 1},
	{"flat, 1 thread, gather of 512 words", "flat_gather", 1},
};

/* One run, in a child. */
struct scene {
	const char *path, *uri;
	enum way way;
	uint64_t seed;
	struct fth_flat *flat;
	const uint64_t *words;
	uint64_t start, end;
	uint64_t ops, wrong; /* atomic */
};

struct outcome {
	uint64_t ops, wrong;
};

static uint64_t word_of(uint64_t i)
{
	return fth_mix64(i + 1);
}

/* ---- the program ---- */

static int load_some(struct scene *s, struct fth_rng *rng)
{
	uint64_t wrong = 0;

	for (unsigned i = 0; i < 16; i++) {
		uint64_t at = fth_rng_below(rng, WORDS);

		wrong += *(const volatile uint64_t *)&s->words[at] != word_of(at);
	}
	__atomic_fetch_add(&s->wrong, wrong, __ATOMIC_RELAXED);
	return 16;
}

static int gather_some(struct scene *s, struct fth_rng *rng)
{
	uint64_t number[GATHER], word[GATHER];
	const void *at[GATHER];
	int rc;

	for (unsigned i = 0; i < GATHER; i++) {
		number[i] = fth_rng_below(rng, WORDS);
		at[i] = &s->words[number[i]];
	}
	rc = fth_flat_gather(s->flat, at, GATHER, sizeof(uint64_t), word);
	for (unsigned i = 0; i < GATHER && rc == 0; i++)
		s->wrong += word[i] != word_of(number[i]);
	return rc < 0 ? rc : (int)GATHER;
}

static int load_until_end(void *context, unsigned thread)
{
	struct scene *s = context;
	struct fth_rng rng = {s->seed * 1000 + thread};
	uint64_t ops = 0, now;

	do {
		int done = s->way == FLAT_GATHER ? gather_some(s, &rng) : load_some(s, &rng);

		if (done < 0)
			return done;
		now = fth_now_ns();
		if (now >= s->start && now < s->end)
			ops += (uint64_t)done;
	} while (now < s->end && !fth_cli_stopped());
	__atomic_fetch_add(&s->ops, ops, __ATOMIC_RELAXED);
	return fth_cli_stopped() ? -EINTR : 0;
}

static int load_all(struct scene *s, struct outcome *out)
{
	int rc;

	s->start = fth_now_ns() + RUN_NS / 2; /* until then memory fills */
	s->end = s->start + RUN_NS;
	rc = fth_team_run(ways[s->way].threads, load_until_end, s);
	*out = (struct outcome){.ops = s->ops, .wrong = s->wrong};
	return rc;
}

/* ---- the ways ---- */

static int run_flat(struct scene *s, struct outcome *out)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	int rc;

	options.readonly = true;
	rc = fth_flat_open(s->uri, BUDGET, &options, &s->flat);
	if (rc < 0)
		return rc;
	s->words = fth_flat_base(s->flat);
	rc = load_all(s, out);
	fth_flat_discard(s->flat);
	return rc;
}

static int run_mmap(struct scene *s, struct outcome *out)
{
	int fd = open(s->path, O_RDONLY | O_CLOEXEC);
	void *map = fd < 0 ? MAP_FAILED : mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	int rc;

	if (map == MAP_FAILED)
		return fth_fail(errno, "%s: %s", s->path, strerror(errno));
	if (s->way != MMAP_DEFAULT)
		(void)madvise(map, FILE_BYTES, MADV_RANDOM);
	s->words = map;
	rc = load_all(s, out);
	munmap(map, FILE_BYTES);
	close(fd);
	return rc;
}

static int in_child(void *context, void *result)
{
	struct scene *s = context;

	return s->way == FLAT || s->way == FLAT_GATHER ? run_flat(s, result) : run_mmap(s, result);
}

static int run_way(struct scene *s, struct outcome *out)
{
	struct fth_cgroup_job job = {
		.memory = BUDGET + OTHER_MEMORY,
		.fn = in_child,
		.context = s,
		.result = out,
		.result_size = sizeof(*out),
		.stopped = fth_cli_stopped,
	};
	int rc = fth_cgroup_drop_pages(s->path);

	return rc < 0 ? rc : fth_cgroup_run(&job, NULL);
}

/* ---- telling ---- */

static void tell_head(struct fth_json *j)
{
	if (j) {
		fth_json_object(j, "flat");
		fth_json_u64(j, "file_bytes", FILE_BYTES);
		fth_json_u64(j, "memory_bytes", BUDGET);
		return;
	}
	printf("\nRandom loads of 8 bytes by plain pointers, from a file of %u MiB in %u MiB of "
	       "memory:\n"
	       "a memory cgroup for each run. Every value is compared with what it must be.\n\n"
	       "  %-38s %10s\n",
	       FILE_BYTES >> 20, BUDGET >> 20, "way", "loads/s");
}

static void tell_way(struct fth_json *j, enum way way, const struct outcome *out)
{
	double rate = (double)out->ops * 1e9 / RUN_NS;

	if (j)
		fth_json_double(j, ways[way].key, rate);
	else
		printf("  %-38s %10.0f\n", ways[way].name, rate);
	fflush(stdout);
}

static int run_ways(struct fth_json *j, const char *path, const char *uri, uint64_t seed)
{
	uint64_t wrong = 0;
	int rc = 0;

	tell_head(j);
	for (int way = 0; way < WAYS && rc == 0; way++) {
		struct scene s = {.path = path, .uri = uri, .way = (enum way)way, .seed = seed};
		struct outcome out = {0};

		fth_cli_progress("plain pointers", (uint64_t)way, WAYS);
		rc = run_way(&s, &out);
		fth_cli_progress_end();
		wrong += out.wrong;
		if (rc == 0)
			tell_way(j, (enum way)way, &out);
	}
	if (j)
		fth_json_end(j);
	return rc < 0 ? rc : wrong > 0;
}

/* ---- the file ---- */

static int fill(int fd)
{
	static uint64_t buffer[1u << 17];

	for (uint64_t at = 0; at < WORDS; at += sizeof(buffer) / 8) {
		for (uint64_t i = 0; i < sizeof(buffer) / 8; i++)
			buffer[i] = word_of(at + i);
		if (write(fd, buffer, sizeof(buffer)) != (ssize_t)sizeof(buffer))
			return fth_fail(errno, "cannot write a file of %u bytes", FILE_BYTES);
	}
	return 0;
}

/* What this needs and some machines do not have: a memory cgroup, userfaultfd. */
static int check_possible(void)
{
	struct fth_flat *flat;
	int rc = fth_flat_open("mem:1M", 1u << 19, NULL, &flat);

	if (rc < 0)
		return rc;
	fth_flat_discard(flat);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	return fth_fail(ENOTSUP, "a sanitizer takes more memory than the scene has");
#else
	return fth_cgroup_available();
#endif
}

int demo_flat(struct fth_json *j, uint64_t seed)
{
	const char *folder = getenv("TMPDIR");
	char path[1024], uri[3 * sizeof(path) + 8] = "file:";
	int fd, rc = check_possible();

	if (rc == -ENOTSUP) {
		fth_cli_error("flat: %s (going on without)", fth_error_text(rc));
		return 0;
	}
	snprintf(path, sizeof(path), "%s/fathom-demo-XXXXXX", folder ? folder : "/tmp");
	fd = rc < 0 ? -1 : mkstemp(path);
	if (fd < 0)
		return rc < 0 ? rc : fth_fail(errno, "%s: %s", path, strerror(errno));
	rc = fill(fd);
	close(fd);
	if (rc == 0)
		rc = fth_uri_escape(path, uri + strlen(uri), sizeof(uri) - strlen(uri));
	if (rc == 0)
		rc = run_ways(j, path, uri, seed);
	unlink(path);
	return rc;
}
