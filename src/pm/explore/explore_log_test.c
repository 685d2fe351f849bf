/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Crashes of logs of both kinds, while entries are inserted, removed and cleared; explore_test.c
 * has all else.
 */
#include "pm/explore/explore_fixture.h"
#include "fth_test.h"

#include "fathom/base/rng.h"
#include "fathom/pm/log.h"

#include <errno.h>
#include <string.h>

#define LOG_OPS	  48u
#define LOG_ENTRY 124u /* at most */
#define LOG_PARTS 2u

static bool log_is_hcl;

/* Contents of the parts after n operations. */
struct log_model {
	uint32_t count[LOG_PARTS];
	uint64_t entry[LOG_PARTS][LOG_OPS]; /* the operation that inserted it */
};

enum log_op { LOG_INSERT, LOG_REMOVE, LOG_CLEAR };

static enum log_op log_op(uint64_t n, uint32_t *part)
{
	*part = (n + seed) % 3 == 0;
	if ((n + seed * 3) % 17 == 0)
		return LOG_CLEAR;
	return (n + seed) % (4 + seed % 3) == 0 ? LOG_REMOVE : LOG_INSERT;
}

static void log_model(struct log_model *m, uint64_t n)
{
	memset(m, 0, sizeof(*m));
	for (uint64_t i = 1; i <= n; i++) {
		uint32_t part;

		switch (log_op(i, &part)) {
		case LOG_INSERT:
			m->entry[part][m->count[part]++] = i;
			break;
		case LOG_REMOVE:
			m->count[part] -= m->count[part] > 0;
			break;
		case LOG_CLEAR:
			m->count[0] = m->count[1] = 0;
			break;
		}
	}
}

/* 4 to LOG_ENTRY, by the seed. */
static uint32_t entry_bytes(void)
{
	static const uint32_t sizes[] = {20, 64, 4, LOG_ENTRY};

	return sizes[seed % 4];
}

static void log_payload(uint8_t *to, uint64_t n)
{
	for (unsigned i = 0; i < entry_bytes(); i++)
		to[i] = (uint8_t)fth_mix64(n * 100 + i);
}

/* Parts of an HCL log that are used: lanes of one warp. */
static uint32_t part_of(uint32_t part)
{
	return log_is_hcl ? part * 5 : part;
}

static void setup_log(void *memory)
{
	struct fth_pm_log_shape shape = {
		.blocks = 1, .threads = 32, .entry_bytes = entry_bytes(), .entries = 32};
	struct fth_pm *pm;
	struct fth_pm_log *log;

	create_memory(memory);
	pm = map_memory(memory, BYTES, 0);
	if (log_is_hcl)
		assert_ok(fth_pm_log_create_hcl(pm, 0, &shape, &log));
	else
		assert_ok(fth_pm_log_create_conv(pm, 0, LOG_PARTS, 8192, &log));
	fth_pm_log_close(log);
	fth_pm_unmap(pm);
}

static void run_log(void *memory)
{
	struct fth_pm *pm = map_memory(memory, BYTES, 0);
	struct fth_pm_log *log;
	uint8_t payload[LOG_ENTRY];

	assert_ok(fth_pm_log_open(pm, 0, &log));
	for (uint64_t n = 1; n <= LOG_OPS; n++) {
		uint32_t part;
		enum log_op op = log_op(n, &part);
		int rc;

		log_payload(payload, n);
		if (op == LOG_INSERT)
			rc = fth_pm_log_insert(log, part_of(part), payload, entry_bytes());
		else if (op == LOG_REMOVE)
			rc = fth_pm_log_remove(log, part_of(part));
		else
			rc = fth_pm_log_clear(log);
		assert_true(rc == 0 || rc == -ENOENT);
		explore_note(n);
	}
	fth_pm_log_close(log);
	fth_pm_unmap(pm);
}

static int recover_log(void *memory)
{
	struct fth_pm *pm = map_memory(memory, BYTES, 0);
	struct fth_pm_log *log;
	int rc = fth_pm_log_open(pm, 0, &log);

	fth_pm_log_close(log);
	fth_pm_unmap(pm);
	return rc;
}

static bool part_equals(const struct fth_pm_log *log, uint32_t part, const uint64_t *entry,
			uint32_t count)
{
	uint8_t found[LOG_ENTRY], want[LOG_ENTRY];
	uint64_t cursor = 0;

	for (uint32_t i = 0; i < count; i++) {
		log_payload(want, entry[i]);
		if (fth_pm_log_read(log, part_of(part), &cursor, found, LOG_ENTRY) !=
			    entry_bytes() ||
		    memcmp(found, want, entry_bytes()))
			return false;
	}
	return fth_pm_log_read(log, part_of(part), &cursor, found, LOG_ENTRY) == -ENOENT;
}

static bool log_equals(const struct fth_pm_log *log, uint64_t n)
{
	struct log_model m;

	log_model(&m, n);
	return part_equals(log, 0, m.entry[0], m.count[0]) &&
	       part_equals(log, 1, m.entry[1], m.count[1]);
}

/* A clear that was interrupted leaves any prefix of each part. */
static bool log_half_cleared(const struct fth_pm_log *log, uint64_t n)
{
	struct log_model m;
	uint32_t part;

	if (log_op(n + 1, &part) != LOG_CLEAR)
		return false;
	log_model(&m, n);
	for (part = 0; part < LOG_PARTS; part++) {
		uint32_t count = fth_pm_log_count(log, part_of(part));

		if (count > m.count[part] || !part_equals(log, part, m.entry[part], count))
			return false;
	}
	return true;
}

static const char *check_log(void *memory, uint64_t note)
{
	struct fth_pm *pm = map_memory(memory, BYTES, 0);
	const char *text = NULL;
	struct fth_pm_log *log;

	assert_ok(fth_pm_log_open(pm, 0, &log));
	if (!log_equals(log, note) && !log_equals(log, note + 1) && !log_half_cleared(log, note))
		text = "an entry is lost, torn, or came back";
	fth_pm_log_close(log);
	fth_pm_unmap(pm);
	return text;
}

static void explore_log(const char *name, bool hcl)
{
	const struct explore subject = {.name = name,
					.bytes = BYTES,
					.setup = setup_log,
					.run = run_log,
					.recover = recover_log,
					.check = check_log,
					.states = 40,
					.long_factor = 40};

	log_is_hcl = hcl;
	explore_subject(&subject);
}

static void coalesced_log(void **unused)
{
	(void)unused;
	explore_log("HCL log", true);
}

static void conventional_log(void **unused)
{
	(void)unused;
	explore_log("conventional log", false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(coalesced_log),
		cmocka_unit_test(conventional_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
