/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_bank NAME TRANSFERS: a bank in persistent memory, which can be killed at any time.
 *
 *	cc pm_bank.c $(pkg-config --cflags --libs fathom) -o pm_bank
 *	./pm_bank shm:bank 1000000 &
 *	kill -9 $!
 *	./pm_bank shm:bank 1000000
 *
 * Each transfer takes from one account, gives to another and counts itself, in one transaction.
 * However often the program is killed, the next run goes on where the last one was: in the end
 * exactly TRANSFERS transfers were made, and no money was lost.
 */
#include <fathom/base.h>
#include <fathom/pm.h>
#include <fathom/pm/tx.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTES	 (1u << 20)
#define ACCOUNTS 1000u
#define START	 100u
#define TAG	 0x6b6e6162u /* "bank" */
#define LOG_AT	 (512u << 10)

struct bank {
	uint64_t opened; /* the accounts have their money */
	uint64_t transfers;
	uint64_t balance[ACCOUNTS];
};

static int fail(const char *what, int rc)
{
	fprintf(stderr, "pm_bank: %s: %s\n", what, fth_error_text(rc));
	return 1;
}

/* The word `opened` is persistent last: before that, the accounts get their money again. */
static int open_bank(struct fth_pm *pm, struct bank *bank, struct fth_pm_tx **tx)
{
	int rc = fth_pm_tx_open_or_create(pm, LOG_AT, 1, 4096, tx);

	if (rc < 0 || bank->opened)
		return rc;
	for (unsigned i = 0; i < ACCOUNTS; i++)
		bank->balance[i] = START;
	rc = fth_pm_persist(pm, bank, sizeof(*bank));
	if (rc < 0)
		return rc;
	bank->opened = 1;
	return fth_pm_persist(pm, &bank->opened, sizeof(bank->opened));
}

static int transfer(struct fth_pm_tx *tx, struct bank *bank)
{
	uint64_t *from = &bank->balance[bank->transfers * 7 % ACCOUNTS];
	uint64_t *to = &bank->balance[bank->transfers * 13 % ACCOUNTS];
	struct fth_pm_range ranges[] = {{from, 8}, {to, 8}, {&bank->transfers, 8}};
	int rc = fth_pm_tx_begin(tx, 0);

	if (rc == 0)
		rc = fth_pm_tx_add_all(tx, 0, ranges, 3);
	if (rc < 0)
		return rc;
	*from -= 1;
	*to += 1;
	bank->transfers++;
	return fth_pm_tx_commit(tx, 0);
}

int main(int argc, char **argv)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	uint64_t wanted, sum = 0;
	struct fth_pm_tx *tx;
	struct fth_pm *pm;
	struct bank *bank;
	int rc;

	if (argc != 3) {
		fprintf(stderr, "usage: pm_bank NAME TRANSFERS\n");
		return 2;
	}
	wanted = strtoull(argv[2], NULL, 10);
	options.flags = FTH_PM_CREATE;
	options.tag = TAG;
	rc = fth_pm_map(argv[1], BYTES, &options, &pm);
	if (rc < 0)
		return fail(argv[1], rc);
	bank = fth_pm_base(pm);
	rc = open_bank(pm, bank, &tx);
	if (rc < 0)
		return fail("opening the bank", rc);
	printf("begins at transfer %" PRIu64 ", %u rolled back; guarantee: %s\n", bank->transfers,
	       fth_pm_tx_rolled_back(tx), fth_pm_guarantee_name(fth_pm_guarantee(pm)));
	fflush(stdout);
	while (bank->transfers < wanted && rc == 0)
		rc = transfer(tx, bank);
	if (rc < 0)
		return fail("transfer", rc);
	for (unsigned i = 0; i < ACCOUNTS; i++)
		sum += bank->balance[i];
	printf("transfers %" PRIu64 ", sum %" PRIu64 "\n", bank->transfers, sum);
	fth_pm_tx_close(tx);
	rc = fth_pm_unmap(pm);
	return rc < 0 ? fail(argv[1], rc) : sum != (uint64_t)ACCOUNTS * START;
}
