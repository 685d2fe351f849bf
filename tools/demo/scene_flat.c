/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scene: plain pointers. One program reads random words of a file four times its memory: the file is mapped by the kernel, or by a
 * flat region. Where there are memory cgroups each run is a child in one of the same size; elsewhere only the regions are shown, which
 * keep to their budget by themselves. Every value is checked.
 */
#include "demo.h"

#include "cgroup.h"
#include "cli.h"

#include "base/team.h"
#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/flat.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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
	const char *name;
	unsigned threads;
} ways[WAYS] = {
	{"mmap(), 8 threads", THREADS},
	{"mmap(), MADV_RANDOM, 8 threads", THREADS},
	{"Fathom, the same code, 8 threads", THREADS},
	{"mmap(), MADV_RANDOM, 1 thread", 1},
	{"Fathom, 1 thread, fth_flat_gather()", 1},
};

static bool is_flat(int way)
{
	return way == FLAT || way == FLAT_GATHER;
}

/* One run, in a child. */
struct scene {
	const char *path, *uri;
	enum way way;
	uint64_t seed, run_ns;
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

static int load_one(struct scene *s, struct fth_rng *rng)
{
	uint64_t at = fth_rng_below(rng, WORDS);

	if (*(const volatile uint64_t *)&s->words[at] != word_of(at))
		__atomic_fetch_add(&s->wrong, 1, __ATOMIC_RELAXED);
	return 1;
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
		int done = s->way == FLAT_GATHER ? gather_some(s, &rng) : load_one(s, &rng);

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

	s->start = fth_now_ns() + s->run_ns / 2; /* until then memory fills */
	s->end = s->start + s->run_ns;
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

	return is_flat((int)s->way) ? run_flat(s, result) : run_mmap(s, result);
}

static int run_way(struct scene *s, bool limited, struct outcome *out)
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

	if (rc < 0)
		return rc;
	return limited ? fth_cgroup_run(&job, NULL) : in_child(s, out);
}

/* ---- telling ---- */

static int run_ways(struct demo *demo, const char *path, const char *uri)
{
	struct demo_row rows[WAYS];
	uint64_t wrong = 0, checked = 0;
	bool limited = fth_cgroup_available() == 0;
	int rc = 0;

	demo_begin(demo, "flat", "Plain pointers to data larger than memory",
		   "   Random loads of 8 bytes from a file of %u MiB, in %u MiB of memory.",
		   FILE_BYTES >> 20, BUDGET >> 20);
	for (int way = 0; way < WAYS && rc == 0; way++) {
		struct scene s = {.path = path,
				  .uri = uri,
				  .way = (enum way)way,
				  .seed = demo->seed,
				  .run_ns = demo->smallest ? RUN_NS / 10 : RUN_NS};
		struct outcome out = {0};

		rows[way] = (struct demo_row){.name = ways[way].name, .ours = is_flat(way)};
		fth_cli_progress("plain pointers", (uint64_t)way, WAYS);
		if (!limited && !is_flat(way)) {
			rows[way].note = "not run: needs root (a cgroup)";
			continue;
		}
		rc = run_way(&s, limited, &out);
		wrong += out.wrong;
		checked += out.ops;
		rows[way].value = (double)out.ops * 1e9 / (double)s.run_ns;
	}
	if (rc == 0)
		demo_bars(demo, "loads", DEMO_PER_SECOND, rows, WAYS);
	demo_end(demo, checked, "words", wrong);
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

/* What this needs and some machines do not have: userfaultfd, and memory that no sanitizer takes. */
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
	return 0;
#endif
}

int demo_scene_flat(struct demo *demo)
{
	char folder[DEMO_PATH_MAX], path[DEMO_PATH_MAX + 16], uri[3 * DEMO_PATH_MAX];
	int fd, rc = check_possible();

	if (rc == 0)
		rc = demo_make_folder(folder);
	if (rc < 0)
		return rc;
	snprintf(path, sizeof(path), "%s/words", folder);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	rc = fd < 0 ? fth_fail(errno, "%s: %s", path, strerror(errno)) : fill(fd);
	if (fd >= 0)
		close(fd);
	if (rc == 0)
		rc = demo_uri(path, uri, sizeof(uri));
	if (rc == 0)
		rc = run_ways(demo, path, uri);
	demo_remove_folder(folder);
	return rc;
}
