/* SPDX-License-Identifier: BSD-2-Clause */
/* Transactions: commit, abort, roll back at open, logs of several threads, and what is refused. */
#include "pm/areas/memory_fixture.h"

#include "fathom/detail/pm/tx.h"
#include "fathom/pm/tx.h"

#include <errno.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOGS	4u
#define LOG	4096u
#define AREA	0u
#define DATA_AT (64u << 10)

static uint64_t *data_of(struct fth_pm *pm)
{
	return (uint64_t *)(void *)((uint8_t *)fth_pm_base(pm) + DATA_AT);
}

static void commit_and_abort(void **unused)
{
	struct fth_pm *pm = map_again();
	struct fth_pm_tx *tx;
	uint64_t *data = data_of(pm);

	(void)unused;
	assert_ok(fth_pm_tx_create(pm, AREA, LOGS, LOG, &tx));
	assert_int_equal(fth_pm_tx_logs(tx), LOGS);
	assert_ok(fth_pm_tx_begin(tx, 0));
	assert_int_equal(fth_pm_tx_begin(tx, 0), -EBUSY);
	assert_ok(fth_pm_tx_add(tx, 0, &data[1], 16));
	data[1] = 11;
	data[2] = 12;
	assert_ok(fth_pm_tx_commit(tx, 0));
	assert_int_equal(fth_pm_tx_commit(tx, 0), -EINVAL);

	assert_ok(fth_pm_tx_begin(tx, 0));
	assert_ok(fth_pm_tx_add(tx, 0, &data[1], 8));
	data[1] = 21;
	assert_ok(fth_pm_tx_add(tx, 0, (char *)&data[1] + 3, 11)); /* again, in part, odd */
	data[1] = 31;
	data[2] = 32;
	assert_ok(fth_pm_tx_abort(tx, 0));
	assert_int_equal(data[1], 11);
	assert_int_equal(data[2], 12);
	assert_ok(fth_pm_tx_begin(tx, 0));
	assert_ok(fth_pm_tx_commit(tx, 0)); /* of nothing */
	fth_pm_tx_close(tx);
	fth_pm_unmap(pm);
}

static void open_rolls_back(void **unused)
{
	struct fth_pm *pm = map_again();
	struct fth_pm_tx *tx;
	uint64_t *data = data_of(pm);
	uint32_t logs;

	(void)unused;
	assert_ok(fth_pm_tx_open(pm, AREA, &tx));
	for (uint32_t log = 0; log < 3; log++) {
		struct fth_pm_range ranges[] = {{&data[log * 10], 8}, {&data[log * 10 + 5], 24}};

		data[log * 10] = log + 100;
		data[log * 10 + 7] = log + 200;
		assert_ok(fth_pm_tx_begin(tx, log));
		assert_ok(fth_pm_tx_add_all(tx, log, ranges, 2));
		data[log * 10] = 1;
		data[log * 10 + 7] = 2;
	}
	assert_ok(fth_pm_tx_commit(tx, 1));
	assert_int_equal(fth_pm_tx_check(pm, AREA, &logs), 2);
	assert_int_equal(logs, LOGS);
	fth_pm_tx_close(tx);
	assert_ok(fth_pm_tx_open(pm, AREA, &tx));
	assert_int_equal(fth_pm_tx_rolled_back(tx), 2);
	for (uint32_t log = 0; log < 3; log++) {
		assert_int_equal(data[log * 10], log == 1 ? 1 : log + 100);
		assert_int_equal(data[log * 10 + 7], log == 1 ? 2 : log + 200);
	}
	fth_pm_tx_close(tx);
	assert_ok(fth_pm_tx_open(pm, AREA, &tx));
	assert_int_equal(fth_pm_tx_rolled_back(tx), 0);
	fth_pm_tx_close(tx);
	fth_pm_unmap(pm);
}

/* A second object would roll back what the first one has under way. */
static void an_open_area_is_not_opened_again(void **unused)
{
	struct fth_pm *pm = map_again();
	struct fth_pm_tx *tx, *second, *beside;
	uint64_t *data = data_of(pm);

	(void)unused;
	assert_ok(fth_pm_tx_create(pm, AREA, LOGS, LOG, &tx));
	data[0] = 1;
	assert_ok(fth_pm_tx_begin(tx, 0));
	assert_ok(fth_pm_tx_add(tx, 0, data, 8));
	data[0] = 2;
	assert_int_equal(fth_pm_tx_open(pm, AREA, &second), -EBUSY);
	assert_null(second);
	assert_int_equal(fth_pm_tx_create(pm, AREA, LOGS, LOG, &second), -EBUSY);
	assert_int_equal(fth_pm_tx_create(pm, AREA + LOG, 1, 128, &second), -EBUSY);
	assert_int_equal(data[0], 2);
	assert_ok(fth_pm_tx_create(pm, AREA + 64 + LOGS * LOG, 1, 128, &beside));
	assert_ok(fth_pm_tx_commit(tx, 0));
	fth_pm_tx_close(tx);
	assert_ok(fth_pm_tx_open(pm, AREA, &tx));
	assert_int_equal(fth_pm_tx_rolled_back(tx), 0);
	assert_int_equal(data[0], 2);
	assert_int_equal(fth_pm_tx_open(pm, AREA, &second), -EBUSY);
	fth_pm_tx_close(beside);
	fth_pm_tx_close(tx);
	fth_pm_unmap(pm);
}

static void open_or_create_keeps_what_is_there(void **unused)
{
	struct fth_pm *pm = map_again();
	uint64_t at = DATA_AT + 4096, *data = data_of(pm), *magic;
	struct fth_pm_tx *tx;

	(void)unused;
	data[0] = 1;
	for (unsigned run = 0; run < 2; run++) {
		assert_ok(fth_pm_tx_open_or_create(pm, at, LOGS, LOG - 1, &tx));
		assert_int_equal(fth_pm_tx_rolled_back(tx), run);
		assert_int_equal(data[0], 1);
		assert_ok(fth_pm_tx_begin(tx, 0));
		assert_ok(fth_pm_tx_add(tx, 0, data, 8));
		data[0] = 2;
		fth_pm_tx_close(tx);
	}
	magic = (uint64_t *)(void *)((uint8_t *)fth_pm_base(pm) + at);
	for (unsigned bit = 0; bit < 64; bit++) {
		*magic ^= UINT64_C(1) << bit;
		assert_int_equal(fth_pm_tx_open_or_create(pm, at, LOGS, LOG, &tx), -EBADMSG);
		assert_null(tx);
		*magic ^= UINT64_C(1) << bit;
	}
	assert_int_equal(fth_pm_tx_check(pm, at, NULL), 1);
	assert_int_equal(fth_pm_tx_open_or_create(pm, at, LOGS + 1, LOG, &tx), -EINVAL);
	assert_int_equal(fth_pm_tx_open_or_create(pm, at, LOGS, LOG * 2, &tx), -EINVAL);
	assert_null(tx);
	fth_pm_unmap(pm);
}

static void misuse_is_refused(void **unused)
{
	struct fth_pm *pm = map_again();
	struct fth_pm_tx *tx;
	uint64_t *data = data_of(pm);

	(void)unused;
	assert_int_equal(fth_pm_tx_open(pm, 64, &tx), -EBADMSG); /* a log */
	assert_int_equal(fth_pm_tx_open(pm, MEMORY_BYTES / 2, &tx), -ENOENT);
	assert_int_equal(fth_pm_tx_open(pm, 1, &tx), -EINVAL);
	assert_int_equal(fth_pm_tx_open(pm, MEMORY_BYTES, &tx), -ERANGE);
	assert_int_equal(fth_pm_tx_create(pm, 0, 0, LOG, &tx), -EINVAL);
	assert_int_equal(fth_pm_tx_create(pm, 0, 1, 64, &tx), -EINVAL);
	assert_int_equal(fth_pm_tx_create(pm, 8, 1, LOG, &tx), -EINVAL);
	assert_int_equal(fth_pm_tx_create(pm, 0, 1000, LOG, &tx), -ERANGE);
	assert_ok(fth_pm_tx_open(pm, AREA, &tx));
	assert_int_equal(fth_pm_tx_begin(tx, LOGS), -EINVAL);
	assert_int_equal(fth_pm_tx_add(tx, 0, data, 8), -EINVAL);
	assert_int_equal(fth_pm_tx_abort(tx, 0), -EINVAL);
	assert_ok(fth_pm_tx_begin(tx, 0));
	assert_int_equal(fth_pm_tx_add(tx, 0, memory, 8), -ERANGE);
	assert_int_equal(fth_pm_tx_add(tx, 0, data, UINT64_MAX), -ERANGE);
	assert_int_equal(fth_pm_tx_add(tx, 0, fth_pm_base(pm), 8), -ERANGE);
	assert_int_equal(fth_pm_tx_add(tx, 0, data, LOG), -ENOSPC);
	assert_int_equal(fth_pm_tx_add(tx, 0, data, LOG - 100), -ENOSPC);
	assert_ok(fth_pm_tx_add(tx, 0, data, LOG - 104));
	assert_int_equal(fth_pm_tx_add(tx, 0, data, 8), -ENOSPC);
	assert_ok(fth_pm_tx_abort(tx, 0));
	fth_pm_tx_close(tx);
	fth_pm_unmap(pm);
}

static void flip(uint8_t *at, unsigned bit)
{
	at[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* Every bit of the header. */
static void damaged_headers_are_found(void **unused)
{
	struct fth_pm *pm = map_again();
	uint8_t *area = fth_pm_base(pm);
	struct fth_pm_tx *tx;

	(void)unused;
	for (unsigned bit = 0; bit < 64 * 8; bit++) {
		int rc;

		flip(area, bit);
		rc = fth_pm_tx_open(pm, AREA, &tx);
		/* 24 bytes of it are not used. */
		if (rc == 0)
			assert_in_range(bit / 8, 32, 55);
		else
			assert_int_equal(rc, -EBADMSG);
		fth_pm_tx_close(tx);
		flip(area, bit);
	}
	fth_pm_unmap(pm);
}

/*
 * Transactions that a kill interrupts: data[3] in log 0; data[0] and data[1], then data[2], in log
 * 1. All were 7 and become 8.
 */
static void leave_open(struct fth_pm *pm)
{
	uint64_t *data = data_of(pm);
	struct fth_pm_tx *tx;

	assert_ok(fth_pm_tx_open(pm, AREA, &tx));
	data[0] = data[1] = data[2] = data[3] = 7;
	assert_ok(fth_pm_tx_begin(tx, 0));
	assert_ok(fth_pm_tx_add(tx, 0, &data[3], 8));
	data[3] = 8;
	assert_ok(fth_pm_tx_begin(tx, 1));
	assert_ok(fth_pm_tx_add(tx, 1, data, 16));
	data[0] = data[1] = 8;
	assert_ok(fth_pm_tx_add(tx, 1, &data[2], 8));
	data[2] = 8;
	fth_pm_tx_close(tx);
}

static void expect_data(struct fth_pm *pm, uint64_t want)
{
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(data_of(pm)[i], want);
}

/*
 * Every bit of a log's first line and of its entries: with damage nothing is rolled back, neither
 * in this log nor in others.
 */
static void damaged_logs_are_not_rolled_back(void **unused)
{
	struct fth_pm *pm = map_again();
	uint8_t *log = (uint8_t *)fth_pm_base(pm) + 64 + LOG;
	struct fth_pm_tx *tx;

	(void)unused;
	for (unsigned bit = 0; bit < 3 * 64 * 8; bit++) {
		unsigned byte = bit / 8;
		/* The sequence, and both entries; not the rest of their lines. */
		bool used = byte < 8 || (byte >= 64 && byte < 64 + 40 + 16) ||
			    (byte >= 128 && byte < 128 + 40 + 8);
		int64_t found;

		leave_open(pm);
		flip(log, bit);
		found = fth_pm_tx_check(pm, AREA, NULL);
		if (used)
			assert_int_equal(found, -EBADMSG);
		else if (byte >= sizeof(struct fth_pm_tx_line))
			assert_int_equal(found, 2);
		assert_int_equal(fth_pm_tx_open(pm, AREA, &tx), found < 0 ? found : 0);
		expect_data(pm, found < 0 ? 8 : 7);
		fth_pm_tx_close(tx);
		flip(log, bit);
	}
	fth_pm_unmap(pm);
}

/* ---- threads ---- */

struct worker {
	struct fth_pm_tx *tx;
	uint64_t *data;
	uint32_t log;
	int rc;
};

static void *transfer(void *arg)
{
	struct worker *w = arg;
	uint64_t *mine = w->data + w->log * 4;

	for (unsigned i = 0; i < 2000 && w->rc == 0; i++) {
		w->rc = fth_pm_tx_begin(w->tx, w->log);
		if (w->rc == 0)
			w->rc = fth_pm_tx_add(w->tx, w->log, mine, 32);
		mine[0]++;
		mine[3]--;
		if (w->rc == 0)
			w->rc = i % 3 ? fth_pm_tx_commit(w->tx, w->log)
				      : fth_pm_tx_abort(w->tx, w->log);
	}
	return NULL;
}

static void logs_are_independent(void **unused)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct worker workers[LOGS];
	pthread_t threads[LOGS];
	struct fth_pm *pm;
	struct fth_pm_tx *tx;

	(void)unused;
	options.flags = FTH_PM_CREATE;
	assert_ok(fth_pm_map("mem:1M", MEMORY_BYTES, &options, &pm)); /* drained */
	assert_ok(fth_pm_tx_create(pm, AREA, LOGS, LOG, &tx));
	for (uint32_t i = 0; i < LOGS; i++) {
		workers[i] = (struct worker){.tx = tx, .data = data_of(pm), .log = i};
		assert_int_equal(pthread_create(&threads[i], NULL, transfer, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < LOGS; i++) {
		pthread_join(threads[i], NULL);
		assert_ok(workers[i].rc);
		assert_int_equal(data_of(pm)[i * 4], 1333);
		assert_int_equal(data_of(pm)[i * 4 + 3], -1333);
	}
	fth_pm_tx_close(tx);
	assert_ok(fth_pm_unmap(pm));
}

/*
 * A crash before the fence of two entries can tear the first and keep the second. The next
 * transaction of that log must not take the second for its own: what it would undo was committed by
 * another log meanwhile.
 */
static void entries_behind_a_torn_one_are_forgotten(void **state)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm_tx *tx;
	struct fth_pm *pm;
	uint64_t *base, *first, *second, *third;

	(void)state;
	options.flags = FTH_PM_CREATE;
	assert_ok(fth_pm_map("mem:1M", 512 << 10, &options, &pm));
	base = fth_pm_base(pm);
	first = base + (64 << 10) / sizeof(*base);
	second = first + 64;
	third = first + 128;
	assert_ok(fth_pm_tx_create(pm, 0, 2, 4096, &tx));
	*second = 100;
	*third = 7;
	assert_ok(fth_pm_tx_begin(tx, 0));
	assert_ok(fth_pm_tx_add_all(
		tx, 0,
		(const struct fth_pm_range[]){{first, sizeof(*first)}, {second, sizeof(*second)}},
		2));
	/* The header of the area, that of the log, the entry: its old bytes did not arrive. */
	base[(64 + 64 + 40) / sizeof(*base)] = ~base[(64 + 64 + 40) / sizeof(*base)];
	base[(64 + offsetof(struct fth_pm_tx_line, fenced)) / sizeof(*base)] = 0; /* no fence */
	fth_pm_tx_close(tx);
	assert_ok(fth_pm_tx_open(pm, 0, &tx));
	assert_int_equal(fth_pm_tx_rolled_back(tx), 0);
	assert_ok(fth_pm_tx_begin(tx, 1));
	assert_ok(fth_pm_tx_add(tx, 1, second, sizeof(*second)));
	*second = 200;
	assert_ok(fth_pm_tx_commit(tx, 1));
	assert_ok(fth_pm_tx_begin(tx, 0));
	assert_ok(fth_pm_tx_add(tx, 0, third, sizeof(*third)));
	*third = 8;
	fth_pm_tx_close(tx);
	assert_ok(fth_pm_tx_open(pm, 0, &tx));
	assert_int_equal(fth_pm_tx_rolled_back(tx), 1);
	assert_int_equal(*third, 7);
	assert_int_equal(*second, 200);
	fth_pm_tx_close(tx);
	fth_pm_unmap(pm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_behind_a_torn_one_are_forgotten),
		cmocka_unit_test(commit_and_abort),
		cmocka_unit_test(open_rolls_back),
		cmocka_unit_test(an_open_area_is_not_opened_again),
		cmocka_unit_test(open_or_create_keeps_what_is_there),
		cmocka_unit_test(misuse_is_refused),
		cmocka_unit_test(damaged_headers_are_found),
		cmocka_unit_test(damaged_logs_are_not_rolled_back),
		cmocka_unit_test(logs_are_independent),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
