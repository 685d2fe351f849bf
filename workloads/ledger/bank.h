/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small transactional store with per-transaction logging, the second of the two users of byte-granular durability in FlatFlash
 * (Abulila et al., ASPLOS 2019, section 3.5; Huang et al., NVRAM-aware Logging in Transaction Systems, VLDB 2014). Tables and
 * transactions are like those of TPC-B: a deposit changes the balances of an account, a teller and a
 * branch, and adds a row to the history.
 *
 * Each worker has a log of its own; a transaction is one record in it, made durable before the call returns and before its
 * rows are unlocked. Nothing else is written until a log is full: then all balances are written to one of two images, in turn.
 * After a crash all transactions that returned 0 are there, none is there in part, and the balances of accounts, tellers and branches
 * and the history have the same sum.
 */
#ifndef FTH_WORKLOADS_BANK_H
#define FTH_WORKLOADS_BANK_H

#include <stddef.h>
#include <stdint.h>

#include "workloads/ledger/durable.h"
#include "fathom/base/decls.h"

FTH_BEGIN_DECLS

struct fth_bank;

#define FTH_BANK_TELLERS 10u /* of a branch */

struct fth_bank_options {
	size_t size;	   /* sizeof(struct fth_bank_options) */
	uint32_t branches; /* 1 to 65536; default 16 */
	uint32_t accounts; /* of a branch; default 1000 */
	uint32_t workers;  /* 1 to 256; default 16 */
	uint64_t log;	   /* bytes of a worker's log, a multiple of 4096; default 1 MiB */
};
#define FTH_BANK_OPTIONS_INIT                                                              \
	{                                                                                  \
		.size = sizeof(struct fth_bank_options), .branches = 16, .accounts = 1000, \
		.workers = 16, .log = 1 << 20                                              \
	}

/* Bytes of a bank with these options. */
uint64_t fth_bank_size(const struct fth_bank_options *options);

/*
 * Open the bank on `durable`, or create one with zero balances if there is none. The caller closes `durable` afterwards. Options must be those
 * that the bank was created with. Returns 0; -EINVAL for invalid or different options, or if it does not fit; -ENOMEM; or the error of the device.
 */
int fth_bank_open(struct fth_durable *durable, const struct fth_bank_options *options,
		  struct fth_bank **out);
void fth_bank_close(struct fth_bank *bank);

/*
 * A transaction of worker `worker`, which is used by one thread at a time: add `delta` to account `account`, teller `teller` and the teller's
 * branch. Accounts are numbered from 0 over all branches, tellers too. *balance is the account's, and may be
 * NULL. Returns 0; -EINVAL for unknown numbers; or the error of the device: whether the transaction is durable is unknown then, and
 * every later one returns the error until the bank is opened again.
 */
int fth_bank_transact(struct fth_bank *bank, uint32_t worker, uint64_t account, uint32_t teller,
		      int64_t delta, int64_t *balance);

/* Write all balances and empty the logs. Any thread. Returns 0 or the error of the device. */
int fth_bank_checkpoint(struct fth_bank *bank);

struct fth_bank_totals {
	int64_t accounts, tellers, branches, history; /* sums */
	uint64_t transactions;
};

/* Any thread; waits for transactions in progress. */
void fth_bank_totals(struct fth_bank *bank, struct fth_bank_totals *totals);
/* Transactions of a worker since the bank was made. */
uint64_t fth_bank_transactions(struct fth_bank *bank, uint32_t worker);

FTH_END_DECLS
#endif
