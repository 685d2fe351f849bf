/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bank. On the medium:
 *
 *	0	header, one of two that are written in turn, in blocks of their own
 *	4096	the other
 *	8192	image 0: balances of branches, tellers, accounts; history and transactions of each worker
 *	...	image 1
 *	...	the logs of the workers
 *
 * Invariants
 *  1. The newest valid header says which image counts (generation % 2); records of its generation, the first with number 1, come on
 *     top. The first that is none ends a log.
 *  2. A transaction holds `gate` for reading, the lock of its account's stripe and that of its branch, taken in this
 *     order, until its record is durable.
 *  3. An image is written, and durable, before the header names it, while `gate` is held for writing.
 */
#include "workloads/ledger/bank.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#define BANK_MAGIC   0x316b6e6162687466u /* "fthbank1" */
#define HEADER_SEED  0x62616e6b2d686472u
#define RECORD_SEED  0x62616e6b2d726563u
#define IMAGES_AT    (2 * FTH_DURABLE_BLOCK)
#define WORKERS_MAX  256u
#define BRANCHES_MAX 65536u
#define STRIPES	     1024u

struct header {
	uint64_t magic, sum;
	uint64_t generation;
	uint32_t branches, accounts, workers, reserved;
	uint64_t log;
};

/* TPC-B's rows have 100 bytes; a record is one row of the history with what it takes to redo the transaction. */
struct record {
	uint64_t sum, generation, number;
	uint64_t account;
	int64_t delta;
	uint32_t teller, branch;
	uint8_t filler[48];
};
_Static_assert(sizeof(struct record) == 96, "no padding");

struct worker {
	uint64_t log; /* where it is */
	uint64_t used, number;
	int64_t history;
	uint64_t transactions;
} __attribute__((aligned(64)));

struct fth_bank {
	struct fth_durable *durable;
	struct fth_bank_options options;
	uint64_t generation;
	uint64_t account_count, teller_count, image;
	int64_t *branches, *tellers, *accounts;
	struct worker *workers;
	pthread_rwlock_t gate;
	pthread_mutex_t *branch_locks, account_locks[STRIPES];
	int failed; /* atomic */
};

static uint64_t round_block(uint64_t bytes)
{
	return (bytes + FTH_DURABLE_BLOCK - 1) / FTH_DURABLE_BLOCK * FTH_DURABLE_BLOCK;
}

/* ---- sizes ---- */

static uint64_t image_size(const struct fth_bank_options *o)
{
	uint64_t balances = (uint64_t)o->branches * (1 + FTH_BANK_TELLERS + (uint64_t)o->accounts);

	return round_block(balances * 8 + (uint64_t)o->workers * 16);
}

uint64_t fth_bank_size(const struct fth_bank_options *options)
{
	return IMAGES_AT + 2 * image_size(options) + options->workers * options->log;
}

static int check_options(const struct fth_bank_options *o, uint64_t size)
{
	if (o->branches == 0 || o->branches > BRANCHES_MAX || o->accounts == 0 || o->workers == 0 ||
	    o->workers > WORKERS_MAX)
		return fth_fail(EINVAL,
				"bank: invalid options: %u branches, %u accounts, %u workers; "
				"expected 1 to %u branches, at least 1 account, 1 to %u workers",
				o->branches, o->accounts, o->workers, BRANCHES_MAX, WORKERS_MAX);
	if (o->log == 0 || o->log % FTH_DURABLE_BLOCK || o->log > size || fth_bank_size(o) > size)
		return fth_fail(EINVAL,
				"bank: logs of %llu bytes are not a multiple of %u, or the size of "
				"%llu exceeds the device of %llu bytes",
				(unsigned long long)o->log, FTH_DURABLE_BLOCK,
				(unsigned long long)fth_bank_size(o), (unsigned long long)size);
	return 0;
}

/* ---- images ---- */

static uint64_t image_at(const struct fth_bank *bank, uint64_t generation)
{
	return IMAGES_AT + generation % 2 * bank->image;
}

/* Copy between the image and the tables. */
static int copy_image(struct fth_bank *bank, uint64_t generation,
		      int (*copy)(struct fth_bank *, uint64_t at, void *, uint64_t))
{
	const struct {
		int64_t *balances;
		uint64_t n;
	} tables[] = {{bank->branches, bank->options.branches},
		      {bank->tellers, bank->teller_count},
		      {bank->accounts, bank->account_count}};
	uint64_t at = image_at(bank, generation);
	int rc = 0;

	for (unsigned i = 0; i < 3 && rc == 0; i++) {
		rc = copy(bank, at, tables[i].balances, tables[i].n * 8);
		at += tables[i].n * 8;
	}
	for (unsigned i = 0; i < bank->options.workers && rc == 0; i++) {
		rc = copy(bank, at, &bank->workers[i].history, 8);
		if (rc == 0)
			rc = copy(bank, at + 8, &bank->workers[i].transactions, 8);
		at += 16;
	}
	return rc;
}

static int into_image(struct fth_bank *bank, uint64_t at, void *bytes, uint64_t length)
{
	return fth_durable_store(bank->durable, at, bytes, length);
}

static int from_image(struct fth_bank *bank, uint64_t at, void *bytes, uint64_t length)
{
	return fth_durable_load(bank->durable, at, bytes, length);
}

static int write_header(struct fth_bank *bank, uint64_t generation)
{
	uint64_t at = generation % 2 * FTH_DURABLE_BLOCK;
	struct header header = {.magic = BANK_MAGIC,
				.generation = generation,
				.branches = bank->options.branches,
				.accounts = bank->options.accounts,
				.workers = bank->options.workers,
				.log = bank->options.log};
	int rc;

	header.sum = fth_checksum(&header.generation, sizeof(header) - 16, HEADER_SEED);
	rc = fth_durable_store(bank->durable, at, &header, sizeof(header));
	return rc < 0 ? rc : fth_durable_persist(bank->durable, at, sizeof(header));
}

/* All balances as image of the next generation. Nobody else uses the bank. */
static int write_image(struct fth_bank *bank)
{
	uint64_t generation = bank->generation + 1;
	int rc = copy_image(bank, generation, into_image);

	if (rc == 0)
		rc = fth_durable_persist(bank->durable, image_at(bank, generation), bank->image);
	if (rc == 0)
		rc = write_header(bank, generation);
	if (rc < 0)
		return rc;
	bank->generation = generation;
	for (unsigned i = 0; i < bank->options.workers; i++)
		bank->workers[i].used = bank->workers[i].number = 0;
	return 0;
}

/* ---- transactions ---- */

static uint64_t record_sum(const struct record *record)
{
	return fth_checksum(&record->generation, sizeof(*record) - 8, RECORD_SEED);
}

static void change(struct fth_bank *bank, struct worker *worker, const struct record *record)
{
	bank->accounts[record->account] += record->delta;
	bank->tellers[record->teller] += record->delta;
	bank->branches[record->branch] += record->delta;
	worker->history += record->delta;
	worker->transactions++;
	worker->used += sizeof(*record);
	worker->number++;
}

static void fail(struct fth_bank *bank, int rc)
{
	int none = 0;

	__atomic_compare_exchange_n(&bank->failed, &none, rc, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

/* Its rows are locked. */
static int log_and_change(struct fth_bank *bank, struct worker *worker, uint64_t account,
			  uint32_t teller, int64_t delta)
{
	struct record record = {.generation = bank->generation,
				.number = worker->number + 1,
				.account = account,
				.teller = teller,
				.branch = teller / FTH_BANK_TELLERS,
				.delta = delta};
	uint64_t at = worker->log + worker->used;
	int rc;

	record.sum = record_sum(&record);
	rc = fth_durable_store(bank->durable, at, &record, sizeof(record));
	if (rc == 0)
		rc = fth_durable_persist(bank->durable, at, sizeof(record));
	if (rc < 0)
		fail(bank, rc);
	else
		change(bank, worker, &record);
	return rc;
}

/* Once more with room in the log. */
static int make_room(struct fth_bank *bank, const struct worker *worker)
{
	int rc = __atomic_load_n(&bank->failed, __ATOMIC_RELAXED);

	pthread_rwlock_wrlock(&bank->gate);
	if (rc == 0 && worker->used + sizeof(struct record) > bank->options.log) {
		rc = write_image(bank);
		if (rc < 0)
			fail(bank, rc);
	}
	pthread_rwlock_unlock(&bank->gate);
	return rc;
}

static int check_numbers(const struct fth_bank *bank, uint32_t worker, uint64_t account,
			 uint32_t teller)
{
	if (worker < bank->options.workers && account < bank->account_count &&
	    teller < bank->teller_count)
		return 0;
	return fth_fail(EINVAL, "bank: worker %u, account %llu or teller %u does not exist", worker,
			(unsigned long long)account, teller);
}

int fth_bank_transact(struct fth_bank *bank, uint32_t number, uint64_t account, uint32_t teller,
		      int64_t delta, int64_t *balance)
{
	struct worker *worker = &bank->workers[number];
	pthread_mutex_t *row = &bank->account_locks[account % STRIPES], *branch;
	int rc = check_numbers(bank, number, account, teller);

	if (rc < 0)
		return rc;
	branch = &bank->branch_locks[teller / FTH_BANK_TELLERS];
	pthread_rwlock_rdlock(&bank->gate);
	while (rc == 0 && worker->used + sizeof(struct record) > bank->options.log) {
		pthread_rwlock_unlock(&bank->gate);
		rc = make_room(bank, worker);
		pthread_rwlock_rdlock(&bank->gate);
	}
	if (rc == 0)
		rc = __atomic_load_n(&bank->failed, __ATOMIC_RELAXED);
	if (rc == 0) {
		pthread_mutex_lock(row);
		pthread_mutex_lock(branch);
		rc = log_and_change(bank, worker, account, teller, delta);
		if (rc == 0 && balance)
			*balance = bank->accounts[account];
		pthread_mutex_unlock(branch);
		pthread_mutex_unlock(row);
	}
	pthread_rwlock_unlock(&bank->gate);
	return rc;
}

int fth_bank_checkpoint(struct fth_bank *bank)
{
	int rc = __atomic_load_n(&bank->failed, __ATOMIC_RELAXED);

	pthread_rwlock_wrlock(&bank->gate);
	if (rc == 0)
		rc = write_image(bank);
	if (rc < 0)
		fail(bank, rc);
	pthread_rwlock_unlock(&bank->gate);
	return rc;
}

/* ---- totals ---- */

static int64_t sum_of(const int64_t *balances, uint64_t n)
{
	int64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += balances[i];
	return sum;
}

void fth_bank_totals(struct fth_bank *bank, struct fth_bank_totals *totals)
{
	*totals = (struct fth_bank_totals){0};
	pthread_rwlock_wrlock(&bank->gate);
	totals->accounts = sum_of(bank->accounts, bank->account_count);
	totals->tellers = sum_of(bank->tellers, bank->teller_count);
	totals->branches = sum_of(bank->branches, bank->options.branches);
	for (unsigned i = 0; i < bank->options.workers; i++) {
		totals->history += bank->workers[i].history;
		totals->transactions += bank->workers[i].transactions;
	}
	pthread_rwlock_unlock(&bank->gate);
}

uint64_t fth_bank_transactions(struct fth_bank *bank, uint32_t worker)
{
	uint64_t count = 0;

	pthread_rwlock_wrlock(&bank->gate);
	if (worker < bank->options.workers)
		count = bank->workers[worker].transactions;
	pthread_rwlock_unlock(&bank->gate);
	return count;
}

/* ---- opening ---- */

/* Returns 1 if there is one, 0 if not, -EINVAL if it is of other options, or the error of the device. */
static int read_header(struct fth_bank *bank)
{
	const struct fth_bank_options *o = &bank->options;
	struct header newest = {0};

	for (unsigned slot = 0; slot < 2; slot++) {
		struct header header;
		int rc = fth_durable_load(bank->durable, (uint64_t)slot * FTH_DURABLE_BLOCK,
					  &header, sizeof(header));

		if (rc < 0)
			return rc;
		if (header.magic == BANK_MAGIC && header.generation % 2 == slot &&
		    header.generation > newest.generation &&
		    header.sum ==
			    fth_checksum(&header.generation, sizeof(header) - 16, HEADER_SEED))
			newest = header;
	}
	bank->generation = newest.generation;
	if (newest.generation == 0)
		return 0;
	if (newest.branches != o->branches || newest.accounts != o->accounts ||
	    newest.workers != o->workers || newest.log != o->log)
		return fth_fail(
			EINVAL,
			"bank: it was created with %u branches, %u accounts, %u workers, logs "
			"of %llu bytes",
			newest.branches, newest.accounts, newest.workers,
			(unsigned long long)newest.log);
	return 1;
}

static int replay_log(struct fth_bank *bank, struct worker *worker)
{
	while (worker->used + sizeof(struct record) <= bank->options.log) {
		struct record record;
		int rc = fth_durable_load(bank->durable, worker->log + worker->used, &record,
					  sizeof(record));

		if (rc < 0)
			return rc;
		if (record.generation != bank->generation || record.number != worker->number + 1 ||
		    record.sum != record_sum(&record) || record.account >= bank->account_count ||
		    record.teller >= bank->teller_count ||
		    record.branch != record.teller / FTH_BANK_TELLERS)
			break;
		change(bank, worker, &record);
	}
	return 0;
}

static int make_tables(struct fth_bank *bank)
{
	const struct fth_bank_options *o = &bank->options;

	bank->teller_count = (uint64_t)o->branches * FTH_BANK_TELLERS;
	bank->account_count = (uint64_t)o->branches * o->accounts;
	bank->image = image_size(o);
	bank->branches = calloc(o->branches, 8);
	bank->tellers = calloc(bank->teller_count, 8);
	bank->accounts = calloc(bank->account_count, 8);
	bank->branch_locks = malloc(o->branches * sizeof(*bank->branch_locks));
	bank->workers = aligned_alloc(64, o->workers * sizeof(*bank->workers));
	if (!bank->branches || !bank->tellers || !bank->accounts || !bank->branch_locks ||
	    !bank->workers)
		return fth_fail(ENOMEM, "bank: no memory for %llu accounts",
				(unsigned long long)bank->account_count);
	for (unsigned i = 0; i < o->branches; i++)
		pthread_mutex_init(&bank->branch_locks[i], NULL);
	for (unsigned i = 0; i < o->workers; i++)
		bank->workers[i] = (struct worker){.log = IMAGES_AT + 2 * bank->image + i * o->log};
	return 0;
}

/* The logs are emptied: what a crash left behind their ends must not be taken for the next records. */
static int begin(struct fth_bank *bank)
{
	int rc = read_header(bank);

	if (rc < 0)
		return rc;
	if (rc > 0) {
		rc = copy_image(bank, bank->generation, from_image);
		for (unsigned i = 0; i < bank->options.workers && rc == 0; i++)
			rc = replay_log(bank, &bank->workers[i]);
	}
	return rc < 0 ? rc : write_image(bank);
}

int fth_bank_open(struct fth_durable *durable, const struct fth_bank_options *options,
		  struct fth_bank **out)
{
	struct fth_bank_options defaults = FTH_BANK_OPTIONS_INIT;
	struct fth_bank *bank;
	int rc = options ? fth_options_check("bank", options->size, sizeof(*options)) : 0;

	*out = NULL;
	if (rc == 0)
		rc = check_options(options ? options : &defaults, fth_durable_size(durable));
	if (rc < 0)
		return rc;
	bank = calloc(1, sizeof(*bank));
	if (!bank)
		return fth_fail(ENOMEM, "bank: no memory");
	bank->durable = durable;
	bank->options = options ? *options : defaults;
	pthread_rwlock_init(&bank->gate, NULL);
	for (unsigned i = 0; i < STRIPES; i++)
		pthread_mutex_init(&bank->account_locks[i], NULL);
	rc = make_tables(bank);
	if (rc == 0)
		rc = begin(bank);
	if (rc < 0) {
		fth_bank_close(bank);
		return rc;
	}
	*out = bank;
	return 0;
}

void fth_bank_close(struct fth_bank *bank)
{
	if (!bank)
		return;
	free(bank->branches);
	free(bank->tellers);
	free(bank->accounts);
	free(bank->branch_locks);
	free(bank->workers);
	pthread_rwlock_destroy(&bank->gate);
	free(bank);
}
