/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Crashes of everything in this folder that stores into persistent memory: creation, transactions,
 * checkpoints; explore_log_test.c has the entries of logs. Each subject knows the contents after
 * any number of operations; after a crash there must be those of the acknowledged ones, or of one
 * more. With FTH_LONG_TESTS there are more than 100,000 states.
 */
#include "pm/explore/explore_fixture.h"
#include "fth_test.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/detail/pm/tx.h"
#include "fathom/pm/checkpoint.h"
#include "fathom/pm/log.h"
#include "fathom/pm/tx.h"
#include "fathom/pm/wal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- creating the memory ---- */

#define SMALL (8u << 10)

static void run_create(void *memory)
{
	fth_pm_unmap(map_memory(memory, SMALL, FTH_PM_CREATE));
	explore_note(1);
}

static int recover_create(void *memory)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;
	int rc;

	options.flags = FTH_PM_CREATE;
	rc = pm_map_memory(memory, SMALL, &options, &pm);
	fth_pm_unmap(pm);
	return rc;
}

/* Once it was created it is there, for programs that do not create. Before that it may be. */
static const char *check_create(void *memory, uint64_t note)
{
	struct fth_pm *pm;
	int rc = pm_map_memory(memory, SMALL, NULL, &pm);

	(void)note;
	fth_pm_unmap(pm);
	return rc < 0 ? "it is not there after it was created" : NULL;
}

static void creation(void **unused)
{
	const struct explore subject = {.name = "create",
					.bytes = SMALL,
					.run = run_create,
					.recover = recover_create,
					.check = check_create,
					.states = 2000,
					.recovery_states = 100,
					.recovery_every = 7,
					.long_factor = 4};

	(void)unused;
	explore_subject(&subject);
}

/* A file as the crash left it: it can be removed. */
static int recover_by_removal(void *memory)
{
	char path[64], name[80];
	FILE *file;
	int rc;

	snprintf(path, sizeof(path), "pm-explore-test-%d", (int)getpid());
	snprintf(name, sizeof(name), "file:%s", path);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(memory, 1, SMALL, file), SMALL);
	fclose(file);
	rc = fth_pm_remove(name);
	unlink(path);
	return rc;
}

static const char *check_nothing(void *memory, uint64_t note)
{
	(void)memory;
	(void)note;
	return NULL;
}

static void creation_that_is_removed(void **unused)
{
	const struct explore subject = {.name = "create, remove",
					.bytes = SMALL,
					.run = run_create,
					.recover = recover_by_removal,
					.check = check_nothing,
					.states = 200,
					.long_factor = 4};

	(void)unused;
	explore_subject(&subject);
}

/* ---- transactions: a bank ---- */

#define ACCOUNTS 16u
#define TX_AREA	 (16u << 10)
#define TX_OPS	 14u
#define TX_LOGS	 2u

struct bank {
	uint64_t balance[ACCOUNTS];
	uint64_t log[ACCOUNTS]; /* a second place that changes */
	uint64_t done;		/* transactions committed */
};

/* Transaction n of any bank; every fourth is aborted. */
static void bank_step(struct bank *bank, uint64_t n)
{
	struct fth_rng rng = {.state = n + seed * 1000};
	unsigned from = (unsigned)fth_rng_below(&rng, ACCOUNTS);
	unsigned to = (unsigned)fth_rng_below(&rng, ACCOUNTS);

	bank->balance[from] -= n;
	bank->balance[to] += n;
	bank->log[(from + to) % ACCOUNTS] = n;
	bank->done = n;
}

static void bank_model(struct bank *bank, uint64_t n)
{
	memset(bank, 0, sizeof(*bank));
	for (unsigned i = 0; i < ACCOUNTS; i++)
		bank->balance[i] = 1000;
	for (uint64_t i = 1; i <= n; i++)
		bank_step(bank, i);
}

/* Stores of the program, as the explorer has to see them. */
static void store_bank(const struct fth_pm_view *v, struct bank *to, const struct bank *from)
{
	const uint64_t *word = (const uint64_t *)from;
	uint64_t *at = (uint64_t *)to;

	for (unsigned i = 0; i < sizeof(*to) / 8; i++)
		if (at[i] != word[i])
			fth_pm_put64(v, &at[i], word[i]);
}

static void setup_bank(void *memory)
{
	struct fth_pm *pm;
	struct fth_pm_tx *tx;

	create_memory(memory);
	pm = map_memory(memory, BYTES, 0);
	bank_model(fth_pm_base(pm), 0);
	assert_ok(fth_pm_tx_create(pm, TX_AREA, TX_LOGS, 2048, &tx));
	fth_pm_tx_close(tx);
	fth_pm_unmap(pm);
}

static void bank_abort(struct fth_pm *pm, struct fth_pm_tx *tx, uint32_t log)
{
	struct bank *bank = fth_pm_base(pm), next;

	assert_ok(fth_pm_tx_begin(tx, log));
	assert_ok(fth_pm_tx_add(tx, log, bank, 24));
	memcpy(&next, bank, sizeof(next));
	next.balance[0] = next.balance[1] = 666;
	store_bank(&pm->view, bank, &next);
	assert_ok(fth_pm_tx_abort(tx, log));
}

static void run_bank(void *memory)
{
	struct fth_pm *pm = map_memory(memory, BYTES, 0);
	struct bank *bank = fth_pm_base(pm), next;
	struct fth_pm_tx *tx;

	assert_ok(fth_pm_tx_open(pm, TX_AREA, &tx));
	for (uint64_t n = 1; n <= TX_OPS; n++) {
		struct fth_pm_range ranges[] = {{bank->log, sizeof(bank)->log}, {&bank->done, 8}};
		uint32_t log = n % TX_LOGS;

		if (n % 4 == 0)
			bank_abort(pm, tx, log);
		memcpy(&next, bank, sizeof(next));
		bank_step(&next, n);
		assert_ok(fth_pm_tx_begin(tx, log));
		assert_ok(fth_pm_tx_add(tx, log, bank->balance, sizeof(bank->balance)));
		assert_ok(fth_pm_tx_add_all(tx, log, ranges, 2));
		store_bank(&pm->view, bank, &next);
		assert_ok(fth_pm_tx_commit(tx, log));
		explore_note(n);
	}
	fth_pm_tx_close(tx);
	fth_pm_unmap(pm);
}

static int recover_bank(void *memory)
{
	struct fth_pm *pm = map_memory(memory, BYTES, 0);
	struct fth_pm_tx *tx;
	int rc = fth_pm_tx_open(pm, TX_AREA, &tx);

	fth_pm_tx_close(tx);
	fth_pm_unmap(pm);
	return rc;
}

static const char *check_bank(void *memory, uint64_t note)
{
	const struct bank *bank = (const struct bank *)(const void *)((uint8_t *)memory + 4096);
	struct bank model;

	if (bank->done < note || bank->done > note + 1)
		return "transactions are lost, or there are too many";
	bank_model(&model, bank->done);
	return memcmp(bank, &model, sizeof(model)) ? "a transaction is there in part" : NULL;
}

/* Whether a bank whose log has one flipped bit is refused, or recovers as if it had none. */
static bool survives_damage(const uint8_t *memory, uint64_t at, unsigned bit, uint64_t note)
{
	static uint8_t copy[BYTES] __attribute__((aligned(4096)));
	int rc;

	memcpy(copy, memory, BYTES);
	copy[at] ^= (uint8_t)(1u << bit);
	rc = recover_bank(copy);
	fth_error_clear();
	return rc == -EBADMSG || (rc == 0 && !check_bank(copy, note));
}

/* One random bit of the entries that the log says are persistent, and one of its sequence. */
static bool log_survives_damage(const uint8_t *memory, uint32_t log, uint64_t note)
{
	uint64_t at = 4096 + TX_AREA + 64 + log * 2048;
	const struct fth_pm_tx_line *line =
		(const struct fth_pm_tx_line *)(const void *)(memory + at);
	uint64_t sequence = line->sequence / FTH_PM_TX_CODE;
	uint64_t end = line->fenced % (UINT64_C(1) << 34) * 64;
	struct fth_rng rng = {.state = note + seed};

	if (!survives_damage(memory, at + fth_rng_below(&rng, 8), 3, note))
		return false;
	if (line->fenced != fth_pm_tx_fenced_(sequence, end))
		return true;
	for (unsigned i = 0; i < 8; i++)
		if (!survives_damage(memory, at + 64 + fth_rng_below(&rng, end - 64), i, note))
			return false;
	return true;
}

/* The check recovers copies. */
static int recover_damaged(void *memory)
{
	(void)memory;
	return 0;
}

static const char *check_damaged(void *memory, uint64_t note)
{
	for (uint32_t log = 0; log < TX_LOGS; log++)
		if (!log_survives_damage(memory, log, note))
			return "a transaction was rolled back in part";
	return NULL;
}

static void damaged_transactions(void **unused)
{
	const struct explore subject = {.name = "damaged transactions",
					.bytes = BYTES,
					.setup = setup_bank,
					.run = run_bank,
					.recover = recover_damaged,
					.check = check_damaged,
					.states = 20,
					.long_factor = 12};

	(void)unused;
	explore_subject(&subject);
}

static void transactions(void **unused)
{
	const struct explore subject = {.name = "transactions",
					.bytes = BYTES,
					.setup = setup_bank,
					.run = run_bank,
					.recover = recover_bank,
					.check = check_bank,
					.states = 40,
					.recovery_states = 12,
					.recovery_every = 5,
					.long_factor = 12};

	(void)unused;
	explore_subject(&subject);
}

/* ---- making an area of transactions over an older one, with an open transaction in it ---- */

static void setup_remake(void *memory)
{
	struct fth_pm *pm;
	struct fth_pm_tx *tx;
	uint64_t *data;

	setup_bank(memory);
	pm = map_memory(memory, BYTES, 0);
	data = fth_pm_base(pm);
	assert_ok(fth_pm_tx_open(pm, TX_AREA, &tx));
	assert_ok(fth_pm_tx_begin(tx, 0));
	assert_ok(fth_pm_tx_add(tx, 0, data, 64));
	data[0] = 4242;
	fth_pm_tx_close(tx);
	fth_pm_unmap(pm);
}

static void run_remake(void *memory)
{
	struct fth_pm *pm = map_memory(memory, BYTES, 0);
	struct fth_pm_tx *tx;

	assert_ok(fth_pm_tx_create(pm, TX_AREA, TX_LOGS, 2048, &tx));
	explore_note(1);
	fth_pm_tx_close(tx);
	fth_pm_unmap(pm);
}

/* Without the new area there is the old one, which rolls back, or none. */
static int recover_remake(void *memory)
{
	int rc = recover_bank(memory);

	return rc == -ENOENT ? 0 : rc;
}

static const char *check_remake(void *memory, uint64_t note)
{
	const uint64_t *data = (const uint64_t *)(const void *)((uint8_t *)memory + 4096);

	if (note && recover_bank(memory) < 0)
		return "the new area is not there";
	if (note && data[0] != 4242)
		return "an entry of the old area counts in the new one";
	return data[0] == 4242 || data[0] == 1000 ? NULL : "bytes that nobody stored";
}

static void transactions_made_again(void **unused)
{
	const struct explore subject = {.name = "area made again",
					.bytes = BYTES,
					.setup = setup_remake,
					.run = run_remake,
					.recover = recover_remake,
					.check = check_remake,
					.states = 500,
					.recovery_states = 20,
					.recovery_every = 9,
					.long_factor = 4};

	(void)unused;
	explore_subject(&subject);
}

/* ---- making logs and checkpoints, over zeroes and over older ones ---- */

#define AREA_CONV 4096u
#define AREA_HCL  (16u << 10)
#define AREA_CP	  (32u << 10)
#define AREA_WAL  (64u << 10)

static const struct fth_pm_log_shape area_hcl = {
	.blocks = 1, .threads = 1, .entry_bytes = 4, .entries = 2};
static const struct fth_pm_checkpoint_shape area_cp = {.groups = 1, .buffers = 1, .bytes = 4096};

static int make_areas(void *memory,
		      int (*conv)(struct fth_pm *, uint64_t, uint32_t, uint32_t,
				  struct fth_pm_log **),
		      int (*hcl)(struct fth_pm *, uint64_t, const struct fth_pm_log_shape *,
				 struct fth_pm_log **),
		      int (*cp)(struct fth_pm *, uint64_t, const struct fth_pm_checkpoint_shape *,
				struct fth_pm_checkpoint **),
		      int (*wal)(struct fth_pm *, uint64_t, uint64_t, struct fth_pm_wal **))
{
	struct fth_pm *pm = map_memory(memory, BYTES, FTH_PM_CREATE);
	struct fth_pm_checkpoint *checkpoint = NULL;
	struct fth_pm_log *first = NULL, *second = NULL;
	struct fth_pm_wal *third = NULL;
	int rc = conv(pm, AREA_CONV, 2, 256, &first);

	if (rc == 0)
		rc = hcl(pm, AREA_HCL, &area_hcl, &second);
	if (rc == 0)
		rc = cp(pm, AREA_CP, &area_cp, &checkpoint);
	if (rc == 0)
		rc = wal(pm, AREA_WAL, 4096, &third);
	fth_pm_log_close(first);
	fth_pm_log_close(second);
	fth_pm_wal_close(third);
	fth_pm_checkpoint_close(checkpoint);
	fth_pm_unmap(pm);
	return rc;
}

static void create_areas(void *memory)
{
	assert_ok(make_areas(memory, fth_pm_log_create_conv, fth_pm_log_create_hcl,
			     fth_pm_checkpoint_create, fth_pm_wal_create));
}

static int open_or_create_areas(void *memory)
{
	return make_areas(memory, fth_pm_log_open_or_create_conv, fth_pm_log_open_or_create_hcl,
			  fth_pm_checkpoint_open_or_create, fth_pm_wal_open_or_create);
}

/* No crash leaves anything that open-or-create refuses. */
static const char *check_areas(void *memory, uint64_t note)
{
	(void)note;
	return open_or_create_areas(memory) < 0 ? "an area is not there" : NULL;
}

static void areas_made_again(void **unused)
{
	struct explore subject = {.name = "areas",
				  .bytes = BYTES,
				  .setup = create_memory,
				  .run = create_areas,
				  .recover = open_or_create_areas,
				  .check = check_areas,
				  .states = 100,
				  .recovery_states = 10,
				  .recovery_every = 9,
				  .long_factor = 4};

	(void)unused;
	explore_subject(&subject);
	subject.setup = create_areas;
	explore_subject(&subject);
}

/* ---- checkpoints ---- */

#define CP_BYTES  (128u << 10)
#define CP_BUFFER 9000u
#define CP_SAVES  6u

static const struct fth_pm_checkpoint_shape cp_shape = {
	.groups = 2, .buffers = 2, .bytes = 12288 + 4096};

/* The buffers at version v; from one to the next some blocks are the same. */
static void cp_model(uint8_t *first, uint64_t *second, uint64_t v)
{
	for (unsigned i = 0; i < CP_BUFFER; i++)
		first[i] = (uint8_t)(i / 4096 == (v + seed) % 3 ? v * 7 + i / 64 : i / 100);
	*second = v * 1000 + seed;
}

static void setup_checkpoint(void *memory)
{
	struct fth_pm *pm = map_memory(memory, CP_BYTES, FTH_PM_CREATE);
	struct fth_pm_checkpoint *cp;

	assert_ok(fth_pm_checkpoint_create(pm, 4096, &cp_shape, &cp));
	fth_pm_checkpoint_close(cp);
	fth_pm_unmap(pm);
}

static struct fth_pm_checkpoint *open_checkpoint(struct fth_pm *pm, uint8_t *first,
						 uint64_t *second)
{
	struct fth_pm_checkpoint *cp;

	assert_ok(fth_pm_checkpoint_open(pm, 4096, &cp));
	assert_ok(fth_pm_checkpoint_register(cp, 1, first, CP_BUFFER));
	assert_ok(fth_pm_checkpoint_register(cp, 1, second, sizeof(*second)));
	return cp;
}

static void run_checkpoint(void *memory)
{
	static uint8_t first[CP_BUFFER];
	struct fth_pm *pm = map_memory(memory, CP_BYTES, 0);
	uint64_t second;
	struct fth_pm_checkpoint *cp = open_checkpoint(pm, first, &second);

	for (uint64_t v = 1; v <= CP_SAVES; v++) {
		cp_model(first, &second, v);
		assert_ok(fth_pm_checkpoint_save(cp, 1, v > 2 ? FTH_PM_CHECKPOINT_INCREMENTAL : 0));
		explore_note(v);
	}
	fth_pm_checkpoint_close(cp);
	fth_pm_unmap(pm);
}

/* A program that goes on saves again: the save is a recovery that may crash as well. */
static int recover_checkpoint(void *memory)
{
	static uint8_t first[CP_BUFFER];
	struct fth_pm *pm = map_memory(memory, CP_BYTES, 0);
	uint64_t second = 0;
	struct fth_pm_checkpoint *cp = open_checkpoint(pm, first, &second);
	uint64_t version = fth_pm_checkpoint_version(cp, 1);
	int rc = version ? fth_pm_checkpoint_restore(cp, 1) : 0;

	if (rc >= 0) {
		cp_model(first, &second, version + 1);
		rc = fth_pm_checkpoint_save(cp, 1, FTH_PM_CHECKPOINT_INCREMENTAL);
	}
	fth_pm_checkpoint_close(cp);
	fth_pm_unmap(pm);
	return rc;
}

static const char *check_checkpoint(void *memory, uint64_t note)
{
	static uint8_t first[CP_BUFFER], model[CP_BUFFER];
	struct fth_pm *pm = map_memory(memory, CP_BYTES, 0);
	uint64_t second = 0, want;
	struct fth_pm_checkpoint *cp = open_checkpoint(pm, first, &second);
	uint64_t version = fth_pm_checkpoint_version(cp, 1);
	int rc = fth_pm_checkpoint_restore(cp, 1);

	fth_pm_checkpoint_close(cp);
	fth_pm_unmap(pm);
	if (rc < 0)
		return "the checkpoint cannot be restored";
	/* One more by each recovery: two, where the first was interrupted. */
	if (version < note + 1 || version > note + 3)
		return "a version is lost, or was made up";
	cp_model(model, &want, version);
	return memcmp(first, model, CP_BUFFER) || second != want ? "data of another version" : NULL;
}

/* With one flipped bit in the records an acknowledged version comes back all the same. */
static const char *check_damaged_record(void *memory, uint64_t note)
{
	static uint8_t first[CP_BUFFER], model[CP_BUFFER];
	struct fth_pm *pm = map_memory(memory, CP_BYTES, 0);
	uint8_t *records = (uint8_t *)fth_pm_base(pm) + 2 * 4096;
	struct fth_rng rng = {.state = note + seed};
	const char *text = NULL;

	/* Of two groups, two copies, and two places. */
	for (unsigned i = 0; i < 16 && note > 0 && !text; i++) {
		uint8_t *at = records + i % 2 * 4096 + fth_rng_below(&rng, 4 * 64);
		struct fth_pm_checkpoint *cp;
		uint64_t second, want, version;

		*at ^= (uint8_t)(1u << i / 2);
		cp = open_checkpoint(pm, first, &second);
		version = fth_pm_checkpoint_version(cp, 1);
		cp_model(model, &want, version);
		if (fth_pm_checkpoint_restore(cp, 1) < 0 || memcmp(first, model, CP_BUFFER) ||
		    second != want)
			text = "the checkpoint cannot be restored";
		else if (version < note)
			text = "a version is lost";
		fth_pm_checkpoint_close(cp);
		*at ^= (uint8_t)(1u << i / 2);
	}
	fth_pm_unmap(pm);
	return text;
}

static void damaged_checkpoints(void **unused)
{
	const struct explore subject = {.name = "damaged checkpoints",
					.bytes = CP_BYTES,
					.setup = setup_checkpoint,
					.run = run_checkpoint,
					.recover = recover_damaged,
					.check = check_damaged_record,
					.states = 60,
					.long_factor = 15};

	(void)unused;
	explore_subject(&subject);
}

static void checkpoints(void **unused)
{
	const struct explore subject = {.name = "checkpoints",
					.bytes = CP_BYTES,
					.setup = setup_checkpoint,
					.run = run_checkpoint,
					.recover = recover_checkpoint,
					.check = check_checkpoint,
					.states = 60,
					.recovery_states = 15,
					.recovery_every = 12,
					.long_factor = 15};

	(void)unused;
	explore_subject(&subject);
}

static void states_in_all(void **unused)
{
	(void)unused;
	printf("%llu states in all\n", (unsigned long long)total);
	assert_true(total > (long_tests() ? 100000u : 5000u));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(creation),
		cmocka_unit_test(creation_that_is_removed),
		cmocka_unit_test(transactions),
		cmocka_unit_test(damaged_transactions),
		cmocka_unit_test(transactions_made_again),
		cmocka_unit_test(areas_made_again),
		cmocka_unit_test(checkpoints),
		cmocka_unit_test(damaged_checkpoints),
		cmocka_unit_test(states_in_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
