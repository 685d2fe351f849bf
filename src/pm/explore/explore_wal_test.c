/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Crashes of write-ahead logs, while entries are appended with and without a wait, trimmed, and the
 * log is opened again. A recovery opens the log and appends an entry of its own, a marker: whatever
 * the crash left behind the last whole entry must not come back behind it. And versions of the log
 * that are broken on purpose: the explorer has to find each of them.
 */
#include "pm/explore/explore_fixture.h"

#include "fth_test.h"
#include "pm/areas/wal_internal.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <string.h>

#define CAPACITY  4096u
#define OPS	  70u
#define ENTRY_MAX 104u
#define MARKER	  1000000u /* numbers of entries from here on are markers */

enum fault {
	NONE,
	NO_WAIT,      /* acknowledges entries before the fence */
	SAME_SESSION, /* opens without a new session */
	EARLY_REUSE,  /* uses the space of trimmed entries before the record is persistent */
	SAME_RECORD,  /* overwrites the record that counts */
	FAULTS
};
static enum fault fault;

enum op { APPEND, WAIT, TRIM, REOPEN };

/* After n operations: entries [head, acknowledged) are certain, [acknowledged, tail) possible. */
struct model {
	uint64_t head, acknowledged, tail;
};

static enum op op_of(uint64_t n)
{
	uint64_t r = fth_mix64(n * 31 + seed) % 16;

	if (r < 9)
		return APPEND;
	if (r < 13)
		return WAIT;
	return r < 15 ? TRIM : REOPEN;
}

/* All entries of a run have one size, so that stale ones lie where new ones end. */
static uint32_t entry_bytes(void)
{
	static const uint32_t sizes[] = {40, ENTRY_MAX, 8, 77};

	return sizes[seed % 4];
}

/* At most so many entries are in the ring, so that it wraps around soon. */
static uint64_t entries_max(void)
{
	return entry_bytes() > 50 ? 30 : 12;
}

static void apply(struct model *m, uint64_t n)
{
	switch (op_of(n)) {
	case APPEND:
		m->tail += m->tail - m->head < entries_max();
		break;
	case WAIT:
		m->acknowledged = m->tail;
		break;
	case TRIM:
		if (m->head < m->tail)
			m->acknowledged = m->tail;
		m->head += (m->tail - m->head + 1) / 2;
		break;
	case REOPEN:
		m->acknowledged = m->tail;
		break;
	}
}

static struct model model_of(uint64_t n)
{
	struct model m = {0};

	for (uint64_t i = 1; i <= n; i++)
		apply(&m, i);
	return m;
}

static uint32_t fill_entry(uint8_t *to, uint64_t n)
{
	for (uint32_t i = 0; i < entry_bytes(); i++)
		to[i] = (uint8_t)fth_mix64(n * 1000 + i);
	memcpy(to, &n, sizeof(n));
	return entry_bytes();
}

/* ---- the run ---- */

static struct fth_pm_wal *open_wal(struct fth_pm *pm)
{
	struct fth_pm_wal *wal;

	assert_ok(fth_pm_wal_open(pm, 0, &wal));
	wal->deferred = true; /* as on drained memory: a fence for many entries */
	if (fault == SAME_SESSION)
		wal->session = 2; /* of the first opening after the setup */
	return wal;
}

static void setup_wal(void *memory)
{
	struct fth_pm_wal *wal;
	struct fth_pm *pm;

	create_memory(memory);
	pm = map_memory(memory, BYTES, 0);
	assert_ok(fth_pm_wal_create(pm, 0, CAPACITY, &wal));
	/* Soon the entries go over the end of the ring. */
	for (unsigned i = 0; i < 3; i++)
		assert_ok(fth_pm_wal_append(wal, memory, 1000 + seed % 16 * 8, NULL));
	assert_ok(fth_pm_wal_trim(wal, wal->tail));
	fth_pm_wal_close(wal);
	fth_pm_unmap(pm);
}

static void append_one(struct fth_pm_wal *wal, uint64_t n)
{
	uint8_t entry[ENTRY_MAX];
	uint32_t bytes = fill_entry(entry, n);

	assert_ok(fth_pm_wal_append(wal, entry, bytes, NULL));
}

static void wait_all(struct fth_pm_wal *wal)
{
	struct fth_pm_wal_info info;

	fth_pm_wal_info(wal, &info);
	if (info.entries)
		assert_ok(fth_pm_wal_wait(wal, info.next - 1));
}

/* The number of the nth entry from the oldest on. */
static uint64_t number_of(struct fth_pm_wal *wal, uint64_t n)
{
	return wal->head + n * (FTH_PM_WAL_ENTRY + (entry_bytes() + 7) / 8 * 8);
}

/* The space of trimmed entries is used again, for anything. */
static void scribble(struct fth_pm_wal *wal, uint64_t from, uint64_t to)
{
	for (uint64_t at = from; at < to; at += 8)
		fth_pm_put64(&wal->pm, (uint64_t *)(void *)(wal->area + WAL_DATA + at % CAPACITY),
			     fth_mix64(at));
	pm_wal_flush(wal, from, to);
	assert_ok(fth_pm_fence(&wal->pm));
}

static void trim_wal(struct fth_pm_wal *wal, uint64_t n)
{
	uint64_t head = wal->head, number = number_of(wal, n);

	if (n == 0)
		return;
	if (fault == SAME_RECORD)
		wal->slot = 1 - wal->slot;
	if (fault == EARLY_REUSE) {
		wait_all(wal);
		scribble(wal, head, number);
		assert_ok(pm_wal_put_record(wal, number, wal->session));
		wal->head = number;
		wal->entries -= n;
		return;
	}
	assert_ok(fth_pm_wal_trim(wal, number));
	scribble(wal, head, number);
}

static void run_wal(void *memory)
{
	struct fth_pm *pm = map_memory(memory, BYTES, 0);
	struct fth_pm_wal *wal = open_wal(pm);
	struct model m = {0};

	for (uint64_t n = 1; n <= OPS; n++) {
		struct model before = m;

		apply(&m, n);
		if (fault == NO_WAIT)
			explore_note(n);
		if (m.tail > before.tail)
			append_one(wal, before.tail);
		if (op_of(n) == WAIT)
			wait_all(wal);
		else if (op_of(n) == TRIM)
			trim_wal(wal, m.head - before.head);
		else if (op_of(n) == REOPEN)
			fth_pm_wal_close(wal), wal = open_wal(pm);
		explore_note(n);
	}
	fth_pm_wal_close(wal);
	fth_pm_unmap(pm);
}

/* ---- after a crash ---- */

static int recover_wal(void *memory)
{
	struct fth_pm *pm = map_memory(memory, BYTES, 0);
	struct fth_pm_wal *wal;
	int rc = fth_pm_wal_open(pm, 0, &wal);

	if (rc == 0) {
		wal->deferred = true;
		if (fault == SAME_SESSION)
			wal->session = 2;
		append_one(wal, MARKER);
		wait_all(wal);
	}
	fth_pm_wal_close(wal);
	fth_pm_unmap(pm);
	return rc;
}

/* Entries, then markers. Returns the first and the end of the entries; NULL or the violation. */
static const char *read_all(struct fth_pm_wal *wal, uint64_t *first, uint64_t *end)
{
	uint8_t found[ENTRY_MAX], want[ENTRY_MAX];
	uint64_t cursor = 0, markers = 0, n;
	int64_t bytes;

	*first = *end = UINT64_MAX;
	while ((bytes = fth_pm_wal_read(wal, &cursor, found, sizeof(found))) >= 0) {
		memcpy(&n, found, sizeof(n));
		fill_entry(want, n);
		if (bytes != entry_bytes() || memcmp(found, want, entry_bytes()))
			return "an entry is torn";
		if (n == MARKER) {
			markers++;
			continue;
		}
		if (markers)
			return "an entry came back behind a later one";
		if (*first == UINT64_MAX)
			*first = n;
		else if (n != *end)
			return "entries are not in their order";
		*end = n + 1;
	}
	if (bytes != -ENOENT)
		return "an entry is damaged";
	return markers ? NULL : "the entry of the recovery is lost";
}

static const char *check_wal(void *memory, uint64_t note)
{
	struct fth_pm *pm = map_memory(memory, BYTES, 0);
	struct model before = model_of(note), after = model_of(note + 1);
	uint64_t first, end;
	struct fth_pm_wal *wal;
	const char *text;

	assert_ok(fth_pm_wal_open(pm, 0, &wal));
	text = read_all(wal, &first, &end);
	fth_pm_wal_close(wal);
	fth_pm_unmap(pm);
	if (text)
		return text;
	if (first == UINT64_MAX) /* none: the head is unknown */
		return before.acknowledged > after.head ? "all entries are lost" : NULL;
	if (first != before.head && first != after.head)
		return "a trim removed other entries, or was lost";
	if (end < before.acknowledged)
		return "an acknowledged entry is lost";
	return end > after.tail ? "an entry was never appended" : NULL;
}

static const struct explore subject = {.name = "write-ahead log",
				       .bytes = BYTES,
				       .setup = setup_wal,
				       .run = run_wal,
				       .recover = recover_wal,
				       .check = check_wal,
				       .states = 60,
				       .recovery_states = 20,
				       .recovery_every = 7,
				       .long_factor = 20,
				       .long_recovery_factor = 2};

static void nothing_acknowledged_is_lost(void **unused)
{
	(void)unused;
	fault = NONE;
	explore_subject(&subject);
}

static void broken_versions_are_found(void **unused)
{
	char text[512];

	(void)unused;
	for (fault = NONE + 1; fault < FAULTS; fault++) {
		bool found = false;

		for (seed = 0; seed < 8 && !found; seed++) {
			explore_try(&subject, text, sizeof(text));
			found = text[0] != '\0';
		}
		print_message("fault %u: %s\n", (unsigned)fault, text);
		assert_true(found);
	}
	fault = NONE;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_acknowledged_is_lost),
		cmocka_unit_test(broken_versions_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
