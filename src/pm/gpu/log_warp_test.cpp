/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What kernels do with persistent memory, by warps that are CPU threads: logs, and waiting for
 * write-back to a device. The host's functions then read what the lanes have written.
 */
#include "gpu/warp_fixture.h"

#include "fathom/base/rng.h"
#include "fathom/dev/fault.h"
#include "fathom/pm/log.h"
#include "must_fixture.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define BYTES	(1u << 20)
#define WARPS	4u
#define ENTRY	16u
#define SLOTS	3u
#define CONV_AT (256u << 10)
#define TIMEOUT_MS 60000u

static const struct fth_pm_log_shape shape = {WARPS, 32, ENTRY, SLOTS};

struct entry {
	uint32_t thread, number, sum, zero;
};

static struct entry entry_of(uint32_t thread, uint32_t number)
{
	struct entry e = {thread, number, thread * 31 + number, 0};

	return e;
}

static struct fth_pm *map_pm(const char *name, uint64_t bytes)
{
	struct fth_pm_options options = {};
	struct fth_pm *pm;

	options.size = sizeof(options);
	options.flags = FTH_PM_CREATE;
	options.timeout_ms = TIMEOUT_MS;
	OK(fth_pm_map(name, bytes, &options, &pm));
	return pm;
}

/* What a GPU's view is: the mirror in place of the host's object. */
static struct fth_pm_view as_gpu(struct fth_pm *pm, struct fth_pm_mirror *mirror)
{
	struct fth_pm_view view = fth_pm_view(pm);

	view.host = mirror;
	return view;
}

/* ---- logs ---- */

struct client {
	uint32_t number;
	void (*body)(struct client *me, uint32_t lane);
	struct fth_pm_log_view hcl, conv;
	uint32_t entries;
};

static void run_warps(struct client *clients, void (*body)(struct client *me, uint32_t lane))
{
	pthread_t threads[WARPS];

	for (uint32_t w = 0; w < WARPS; w++) {
		clients[w].number = w;
		clients[w].body = body;
		MUST(pthread_create(&threads[w], NULL, fixture_client_thread<struct client>,
				    &clients[w]) == 0);
	}
	for (uint32_t w = 0; w < WARPS; w++)
		MUST(pthread_join(threads[w], NULL) == 0);
}

/* Every lane for itself, and lanes that meet at locks. */
static void log_lanes(struct client *me, uint32_t lane)
{
	uint32_t thread = fth_pm_log_thread(&me->hcl, me->number, lane);

	for (uint32_t i = 0; i < me->entries; i++) {
		struct entry e = entry_of(thread, i);

		OK(fth_pm_log_insert_hd(&me->hcl, thread, &e, sizeof(e)));
		fixture_go_apart(1u << lane); /* some wait for a lock while others persist */
		OK(fth_pm_log_insert_hd(&me->conv, lane % 3, &e, sizeof(e)));
		fixture_go_apart(0);
		__syncwarp();
	}
	fixture_go_apart(lane % 2 ? 0xaaaaaaaau : 0x55555555u);
	if (lane % 2)
		OK(fth_pm_log_remove_hd(&me->hcl, thread));
	MUST(fth_pm_log_count_hd(&me->hcl, thread) == me->entries - lane % 2);
}

/* As a kernel that recovers: read and remove, newest first. */
static void recover_lanes(struct client *me, uint32_t lane)
{
	uint32_t thread = fth_pm_log_thread(&me->hcl, me->number, lane);

	fixture_go_apart(lane % 2 ? 0xaaaaaaaau : 0x55555555u); /* these have as many entries */
	while (fth_pm_log_count_hd(&me->hcl, thread) > 0) {
		uint32_t last = fth_pm_log_count_hd(&me->hcl, thread) - 1;
		struct entry e;

		OK(fth_pm_hcl_read(&me->hcl, thread, last, &e, sizeof(e)));
		MUST(e.thread == thread && e.number == last && e.sum == thread * 31 + last);
		OK(fth_pm_hcl_remove(&me->hcl, thread));
	}
}

static void check_conv(struct fth_pm_log *conv, uint32_t entries)
{
	uint32_t next[WARPS * 32] = {};

	for (uint32_t part = 0; part < 3; part++) {
		uint64_t cursor = 0;
		struct entry e;

		while (fth_pm_log_read(conv, part, &cursor, &e, sizeof(e)) == (int64_t)sizeof(e)) {
			MUST(e.thread < WARPS * 32 && e.thread % 32 % 3 == part);
			MUST(e.number == next[e.thread]++);
		}
	}
	for (uint32_t t = 0; t < WARPS * 32; t++)
		MUST(next[t] == entries);
}

static void check_hcl(struct fth_pm_log *hcl, uint32_t entries)
{
	for (uint32_t t = 0; t < WARPS * 32; t++) {
		uint64_t cursor = 0;
		struct entry e;

		for (uint32_t i = 0; i < entries - t % 2; i++) {
			struct entry expected = entry_of(t, i);

			MUST(fth_pm_log_read(hcl, t, &cursor, &e, sizeof(e)) == (int64_t)sizeof(e));
			MUST(memcmp(&e, &expected, sizeof(e)) == 0);
		}
		MUST(fth_pm_log_read(hcl, t, &cursor, &e, sizeof(e)) == -ENOENT);
	}
}

/* Written by lanes; found by the host, after it was mapped again; removed by lanes. */
static void test_logs(const char *name, uint32_t entries)
{
	struct client clients[WARPS] = {};
	struct fth_pm_mirror mirror = {};
	struct fth_pm_log *hcl, *conv;
	struct fth_pm *pm = map_pm(name, BYTES);

	OK(fth_pm_serve(pm));
	OK(fth_pm_log_create_hcl(pm, 0, &shape, &hcl));
	OK(fth_pm_log_create_conv(pm, CONV_AT, 3, 32768, &conv));
	for (uint32_t w = 0; w < WARPS; w++) {
		clients[w].entries = entries;
		clients[w].hcl = fth_pm_log_view(hcl);
		clients[w].conv = fth_pm_log_view(conv);
		clients[w].hcl.pm = clients[w].conv.pm = as_gpu(pm, &mirror);
	}
	run_warps(clients, log_lanes);
	fth_pm_log_close(hcl);
	fth_pm_log_close(conv);
	OK(fth_pm_unmap(pm));

	pm = map_pm(name, 0);
	OK(fth_pm_serve(pm));
	OK(fth_pm_log_open(pm, 0, &hcl));
	OK(fth_pm_log_open(pm, CONV_AT, &conv));
	check_hcl(hcl, entries);
	check_conv(conv, entries);
	memset(&mirror, 0, sizeof(mirror));
	for (uint32_t w = 0; w < WARPS; w++) {
		clients[w].hcl = fth_pm_log_view(hcl);
		clients[w].hcl.pm = as_gpu(pm, &mirror);
	}
	run_warps(clients, recover_lanes);
	OK(fth_pm_log_rescan(hcl));
	for (uint32_t t = 0; t < WARPS * 32; t++)
		MUST(fth_pm_log_count(hcl, t) == 0);
	fth_pm_log_close(hcl);
	fth_pm_log_close(conv);
	OK(fth_pm_unmap(pm));
	OK(fth_pm_remove(name));
	printf("%s: written by lanes, read by the host\n", name);
}

/* ---- write-back ---- */

struct persist_client {
	uint32_t number;
	void (*body)(struct persist_client *me, uint32_t lane);
	struct fth_pm_view view;
	int rc[32];
};

/* Lanes that call together, and lanes that went apart; each has a page. */
static void persist_lanes(struct persist_client *me, uint32_t lane)
{
	uint64_t *word =
		(uint64_t *)(void *)(me->view.base + (me->number * 32 + lane) * FTH_PM_PAGE);

	fixture_go_apart(lane < 20 ? 0xfffffu : ~0xfffffu);
	for (uint64_t i = 1; i <= 5 && me->rc[lane] == 0; i++) {
		fth_pm_put64(&me->view, word, i << 32 | lane);
		me->rc[lane] = fth_pm_persist_range(&me->view, word, sizeof(*word));
	}
}

static void run_persists(struct persist_client *clients, struct fth_pm *pm, struct fth_pm_mirror *mirror,
		      uint64_t timeout_ns)
{
	pthread_t threads[WARPS];

	for (uint32_t w = 0; w < WARPS; w++) {
		memset(&clients[w], 0, sizeof(clients[w]));
		clients[w].number = w;
		clients[w].body = persist_lanes;
		clients[w].view = as_gpu(pm, mirror);
		clients[w].view.timeout_ns = timeout_ns;
		MUST(pthread_create(&threads[w], NULL, fixture_client_thread<struct persist_client>,
				    &clients[w]) == 0);
	}
	for (uint32_t w = 0; w < WARPS; w++)
		MUST(pthread_join(threads[w], NULL) == 0);
}

static void test_persist(const char *name)
{
	struct fth_pm *pm = map_pm(name, 2 * BYTES);
	struct persist_client clients[WARPS];
	struct fth_pm_mirror mirror = {};
	const uint64_t *base;

	OK(fth_pm_serve(pm));
	run_persists(clients, pm, &mirror, TIMEOUT_MS * 1000000ull);
	for (uint32_t w = 0; w < WARPS; w++)
		for (uint32_t l = 0; l < 32; l++)
			MUST(clients[w].rc[l] == 0);
	/* One round serves a warp's lanes: far fewer rounds than persists. */
	MUST(fth_pm_stat(pm, FTH_PM_STAT_ROUNDS) <= WARPS * 2 * 5 + 1);
	OK(fth_pm_unmap(pm));
	pm = map_pm(name, 0);
	base = (const uint64_t *)fth_pm_base(pm);
	for (uint32_t i = 0; i < WARPS * 32; i++)
		MUST(base[i * FTH_PM_PAGE / 8] == ((uint64_t)5 << 32 | i % 32));
	OK(fth_pm_unmap(pm));
	OK(fth_pm_remove(name));
	printf("%s: drained for lanes\n", name);
}

/* Without a server nobody writes back: every lane gets -ETIMEDOUT, and so do all later persists. */
static void test_timeout(const char *name)
{
	struct persist_client clients[WARPS];
	struct fth_pm_mirror mirror = {};
	struct fth_pm *pm = map_pm(name, 2 * BYTES);

	run_persists(clients, pm, &mirror, 50000000); /* of the lanes only: the disk may be slower */
	for (uint32_t w = 0; w < WARPS; w++)
		for (uint32_t l = 0; l < 32; l++)
			MUST(clients[w].rc[l] == -ETIMEDOUT);
	/* For good: a server that comes too late changes nothing, on either processor. */
	OK(fth_pm_serve(pm));
	run_persists(clients, pm, &mirror, TIMEOUT_MS * 1000000ull);
	for (uint32_t w = 0; w < WARPS; w++)
		for (uint32_t l = 0; l < 32; l++)
			MUST(clients[w].rc[l] == -ETIMEDOUT);
	MUST(fth_pm_persist(pm, fth_pm_base(pm), 8) == -ETIMEDOUT);
	MUST(fth_pm_unmap(pm) == -ETIMEDOUT);
	OK(fth_pm_remove(name));
}

/* A device that fails: lanes get its error. */
static void test_failure(void)
{
	struct persist_client clients[WARPS];
	struct fth_pm_mirror mirror = {};
	struct fth_pm *pm = map_pm("mem:3M", 2 * BYTES);
	struct fth_pm_view view = fth_pm_view(pm);

	view.control->error = EIO; /* as a failed round leaves it */
	run_persists(clients, pm, &mirror, TIMEOUT_MS * 1000000ull);
	for (uint32_t w = 0; w < WARPS; w++)
		for (uint32_t l = 0; l < 32; l++)
			MUST(clients[w].rc[l] == -EIO);
	MUST(fth_pm_unmap(pm) == -EIO);
}

int main(void)
{
	char shm[64], file[128];

	snprintf(shm, sizeof(shm), "shm:fathom_warp_%d", (int)getpid());
	snprintf(file, sizeof(file), "file:/tmp/fathom_warp_%d?direct=off", (int)getpid());
	test_logs(shm, 3);
	test_logs(file, 2);
	test_persist(file);
	test_timeout(file);
	test_failure();
	return 0;
}
