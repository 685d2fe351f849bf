/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench pm: persistence from CPU threads.
 *
 *	memory	entries appended to a log, each persistent before the next, in forced persistent
 *		memory (cache lines are written back): ours and libpmemlog
 *	disk	entries on a disk, by one thread and by several, each durable before the thread's
 *		next: a write-ahead log in drained memory, mapped again for the comparison; and
 *		write plus fdatasync into a file of its full size
 *	tx	transactions that change one range or three, in forced persistent memory: ours and
 *		libpmemobj
 *
 * Every entry and every account is read back and compared.
 */
#include "pm_peers.h"
#include "common/report.h"
#include "common/rounds.h"
#include "common/scratch.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"
#include "fathom/pm/log.h"
#include "fathom/pm/tx.h"
#include "fathom/pm/wal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIZES	    4
#define THREADS_MAX 64
#define ENTRY_MAX   1024u
#define ACCOUNTS    4096u

static const uint32_t sizes[SIZES] = {16, 64, 256, ENTRY_MAX};

struct bench {
	const char *memory_dir, *disk_dir;
	uint64_t entries, disk_entries, transactions, threads, rounds;
	bool smallest;
	struct pm_peer_log log;
	struct pm_peer_obj obj;
	uint64_t wrong;
	struct fth_rounds memory[SIZES], disk[SIZES], shared[SIZES], tx[2];
	const char *only; /* memory or disk; NULL: both */
};

/* ---- data ---- */

static void make_entry(uint8_t *to, uint32_t bytes, uint64_t number)
{
	for (uint32_t i = 0; i < bytes; i += 8) {
		uint64_t word = fth_mix64(number + i);

		memcpy(to + i, &word, 8);
	}
}

static bool entry_is(const uint8_t *found, uint32_t bytes, uint64_t number)
{
	uint8_t want[ENTRY_MAX];

	make_entry(want, bytes, number);
	return memcmp(found, want, bytes) == 0;
}

static double rate(uint64_t n, uint64_t ns)
{
	return (double)n * 1e9 / (double)ns;
}

/* ---- our log, in memory ---- */

struct writer {
	struct fth_pm_log *log; /* in memory */
	struct fth_pm_wal *wal; /* on a disk */
	int fd;			/* of the peer on a disk */
	uint64_t at;		/* in its file */
	uint32_t part, bytes;
	uint64_t entries;
	int rc;
};

static void *append_ours(void *arg)
{
	struct writer *w = arg;
	uint8_t entry[ENTRY_MAX];

	for (uint64_t i = 0; i < w->entries && w->rc == 0; i++) {
		make_entry(entry, w->bytes, i);
		w->rc = fth_pm_log_insert(w->log, w->part, entry, w->bytes);
	}
	return NULL;
}

static uint64_t count_wrong_ours(const struct writer *w)
{
	uint8_t found[ENTRY_MAX];
	uint64_t cursor = 0, wrong = 0;

	for (uint64_t i = 0; i < w->entries; i++)
		if (fth_pm_log_read(w->log, w->part, &cursor, found, ENTRY_MAX) != w->bytes ||
		    !entry_is(found, w->bytes, i))
			wrong++;
	return wrong;
}

/* Run all writers at the same time; the first error. */
static int run_writers(struct writer *writers, unsigned n, void *(*run)(void *), uint64_t *ns)
{
	uint64_t start = fth_now_ns();
	pthread_t threads[THREADS_MAX];
	unsigned started = 0;
	int rc = 0;

	if (n == 1)
		run(&writers[0]);
	for (; n > 1 && started < n && rc == 0; started += rc == 0)
		rc = -pthread_create(&threads[started], NULL, run, &writers[started]);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	*ns = fth_now_ns() - start;
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = writers[i].rc;
	return rc;
}

/* Pages and blocks are there, as they are for the peers. */
static int map_full(const char *name, uint64_t bytes, struct fth_pm **pm)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	int rc;

	options.flags = FTH_PM_CREATE | FTH_PM_EXCLUSIVE;
	rc = fth_pm_map(name, bytes, &options, pm);
	if (rc < 0)
		return rc;
	memset(fth_pm_base(*pm), 0, fth_pm_size(*pm));
	rc = fth_pm_persist(*pm, fth_pm_base(*pm), fth_pm_size(*pm));
	if (rc < 0)
		fth_pm_unmap(*pm);
	return rc;
}

static int log_ours(struct bench *b, const char *name, uint32_t bytes, double *result)
{
	uint64_t part = ((b->entries * (bytes + 8) + 128) / 4096 + 1) * 4096, ns = 1;
	struct writer writer = {.bytes = bytes, .entries = b->entries};
	struct fth_pm *pm;
	int rc = map_full(name, fth_pm_log_conv_bytes(1, (uint32_t)part), &pm);

	if (rc < 0)
		return rc;
	rc = fth_pm_log_create_conv(pm, 0, 1, (uint32_t)part, &writer.log);
	if (rc == 0)
		rc = run_writers(&writer, 1, append_ours, &ns);
	if (rc == 0)
		b->wrong += count_wrong_ours(&writer);
	fth_pm_log_close(writer.log);
	fth_pm_unmap(pm);
	*result = rate(b->entries, ns);
	fth_pm_remove(name);
	return rc;
}

/* ---- our write-ahead log, on a disk ---- */

/* Entry i of a thread. */
static uint64_t entry_number(const struct writer *w, uint64_t i)
{
	return (uint64_t)(w->part + 1) << 32 | i << 12;
}

static void *append_wal(void *arg)
{
	struct writer *w = arg;
	uint8_t entry[ENTRY_MAX];
	uint64_t number;

	for (uint64_t i = 0; i < w->entries && w->rc == 0; i++) {
		make_entry(entry, w->bytes, entry_number(w, i));
		w->rc = fth_pm_wal_append(w->wal, entry, w->bytes, &number);
		if (w->rc == 0)
			w->rc = fth_pm_wal_wait(w->wal, number);
	}
	return NULL;
}

/* Map the file again, and find the entries of all threads, those of each in their order. */
static int check_wal(struct bench *b, const char *name, const struct writer *writers,
		     unsigned threads)
{
	uint64_t next[THREADS_MAX] = {0}, cursor = 0, left = 0;
	uint8_t found[ENTRY_MAX];
	struct fth_pm_wal *wal = NULL;
	struct fth_pm *pm;
	int rc = fth_pm_map(name, 0, NULL, &pm);

	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < threads; i++)
		left += writers[i].entries;
	rc = fth_pm_wal_open(pm, 0, &wal);
	for (; rc == 0 && left > 0; left--) {
		int64_t bytes = fth_pm_wal_read(wal, &cursor, found, ENTRY_MAX);
		unsigned i = 0;

		while (i < threads &&
		       (bytes != writers[i].bytes ||
			!entry_is(found, writers[i].bytes, entry_number(&writers[i], next[i]))))
			i++;
		if (i == threads)
			break;
		next[i]++;
	}
	b->wrong += left;
	fth_pm_wal_close(wal);
	fth_pm_unmap(pm);
	return rc;
}

static int wal_ours(struct bench *b, const char *name, uint32_t bytes, unsigned threads,
		    double *result)
{
	uint64_t each = b->disk_entries / threads, ns = 1;
	uint64_t capacity = (each * threads * (bytes + FTH_PM_WAL_ENTRY) / 4096 + 1) * 4096;
	struct writer writers[THREADS_MAX];
	struct fth_pm_wal *wal;
	struct fth_pm *pm;
	int rc = map_full(name, fth_pm_wal_bytes(capacity), &pm);

	if (rc < 0)
		return rc;
	rc = fth_pm_wal_create(pm, 0, capacity, &wal);
	for (unsigned i = 0; i < threads; i++)
		writers[i] =
			(struct writer){.wal = wal, .part = i, .bytes = bytes, .entries = each};
	if (rc == 0)
		rc = run_writers(writers, threads, append_wal, &ns);
	fth_pm_wal_close(wal);
	fth_pm_unmap(pm);
	if (rc == 0)
		rc = check_wal(b, name, writers, threads);
	*result = rate(each * threads, ns);
	fth_pm_remove(name);
	return rc;
}

/* ---- libpmemlog ---- */

struct walk {
	uint32_t bytes;
	uint64_t found, wrong;
};

static int walk_entry(const void *data, size_t n, void *arg)
{
	struct walk *walk = arg;

	walk->wrong += n != walk->bytes || !entry_is(data, walk->bytes, walk->found);
	walk->found++;
	return 1;
}

static int log_pmemlog(struct bench *b, const char *path, uint32_t bytes, double *result)
{
	struct walk walk = {.bytes = bytes};
	uint8_t entry[ENTRY_MAX];
	uint64_t start;
	void *log;
	int rc = 0;

	log = b->log.create(path, (b->entries * bytes + (16u << 20)) / 4096 * 4096, 0600);
	if (!log)
		return fth_fail(errno, "pmemlog_create: %s", b->log.error());
	start = fth_now_ns();
	for (uint64_t i = 0; i < b->entries && rc == 0; i++) {
		make_entry(entry, bytes, i);
		rc = b->log.append(log, entry, bytes);
	}
	*result = rate(b->entries, fth_now_ns() - start);
	if (rc < 0)
		rc = fth_fail(errno, "pmemlog_append: %s", b->log.error());
	b->log.walk(log, bytes, walk_entry, &walk);
	b->wrong += walk.wrong + (walk.found != b->entries);
	b->log.close(log);
	unlink(path);
	return rc;
}

/* ---- write and fdatasync ---- */

static void *append_write(void *arg)
{
	struct writer *w = arg;
	uint8_t entry[ENTRY_MAX];

	for (uint64_t i = 0; i < w->entries && w->rc == 0; i++) {
		make_entry(entry, w->bytes, i);
		if (pwrite(w->fd, entry, w->bytes, (off_t)(w->at + i * w->bytes)) !=
			    (ssize_t)w->bytes ||
		    fdatasync(w->fd) < 0)
			w->rc = fth_fail(errno, "write and fdatasync: %s", strerror(errno));
	}
	return NULL;
}

static uint64_t count_wrong_file(const struct writer *w)
{
	uint8_t found[ENTRY_MAX];
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < w->entries; i++)
		if (pread(w->fd, found, w->bytes, (off_t)(w->at + i * w->bytes)) !=
			    (ssize_t)w->bytes ||
		    !entry_is(found, w->bytes, i))
			wrong++;
	return wrong;
}

/* A file of its full size with all blocks written: no append of metadata. */
static int open_full(const char *path, uint64_t bytes)
{
	static const uint8_t zeroes[65536];
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bool whole = fd >= 0;

	for (uint64_t at = 0; whole && at < bytes; at += sizeof zeroes)
		whole = write(fd, zeroes, sizeof zeroes) == sizeof zeroes;
	if (whole && fsync(fd) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* One file, as our log is one; each thread writes to a part of its own. */
static int log_write(struct bench *b, const char *path, uint32_t bytes, unsigned threads,
		     double *result)
{
	uint64_t ns = 1, each = b->disk_entries / threads;
	uint64_t part = (each * bytes / 4096 + 1) * 4096;
	struct writer writers[THREADS_MAX];
	int fd = open_full(path, part * threads), rc;

	if (fd < 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	unlink(path);
	for (unsigned i = 0; i < threads; i++)
		writers[i] =
			(struct writer){.fd = fd, .at = i * part, .bytes = bytes, .entries = each};
	rc = run_writers(writers, threads, append_write, &ns);
	for (unsigned i = 0; i < threads && rc == 0; i++)
		b->wrong += count_wrong_file(&writers[i]);
	close(fd);
	*result = rate(each * threads, ns);
	return rc;
}

/* ---- transactions ---- */

/* Transaction n moves 1 between accounts, or adds 1 to all words of a range of 64 bytes. */
struct bank {
	uint64_t account[ACCOUNTS];
	uint64_t done;
};

static void pick(const struct bank *bank, uint64_t n, unsigned *from, unsigned *to)
{
	(void)bank;
	*from = (unsigned)(fth_mix64(n) % ACCOUNTS);
	*to = (unsigned)(fth_mix64(n + 1) % ACCOUNTS);
}

static void change(struct bank *bank, uint64_t n, unsigned ranges)
{
	unsigned from, to;

	pick(bank, n, &from, &to);
	if (ranges == 1) {
		for (unsigned i = 0; i < 8; i++)
			bank->account[from / 8 * 8 + i]++;
		return;
	}
	bank->account[from]--;
	bank->account[to]++;
	bank->done++;
}

static uint64_t count_wrong_bank(const struct bank *bank, uint64_t transactions, unsigned ranges)
{
	static struct bank model;
	uint64_t wrong = 0;

	memset(&model, 0, sizeof model);
	for (uint64_t n = 0; n < transactions; n++)
		change(&model, n, ranges);
	for (unsigned i = 0; i < ACCOUNTS; i++)
		wrong += model.account[i] != bank->account[i];
	return wrong + (model.done != bank->done);
}

static int transact_ours(struct fth_pm_tx *tx, struct bank *bank, uint64_t n, unsigned ranges)
{
	unsigned from, to;
	int rc = fth_pm_tx_begin(tx, 0);

	pick(bank, n, &from, &to);
	if (rc == 0 && ranges == 1)
		rc = fth_pm_tx_add(tx, 0, &bank->account[from / 8 * 8], 64);
	/* One by one, as the peer does it. */
	if (rc == 0 && ranges == 3)
		rc = fth_pm_tx_add(tx, 0, &bank->account[from], 8);
	if (rc == 0 && ranges == 3)
		rc = fth_pm_tx_add(tx, 0, &bank->account[to], 8);
	if (rc == 0 && ranges == 3)
		rc = fth_pm_tx_add(tx, 0, &bank->done, 8);
	if (rc < 0)
		return rc;
	change(bank, n, ranges);
	return fth_pm_tx_commit(tx, 0);
}

static int tx_ours(struct bench *b, const char *name, unsigned ranges, double *result)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	uint64_t start, area = (sizeof(struct bank) + 4095) / 4096 * 4096;
	struct fth_pm_tx *tx = NULL;
	struct fth_pm *pm;
	int rc;

	options.flags = FTH_PM_CREATE | FTH_PM_EXCLUSIVE;
	rc = fth_pm_map(name, 8u << 20, &options, &pm);
	if (rc < 0)
		return rc;
	rc = fth_pm_tx_create(pm, area, 1, 64u << 10, &tx);
	start = fth_now_ns();
	for (uint64_t n = 0; n < b->transactions && rc == 0; n++)
		rc = transact_ours(tx, fth_pm_base(pm), n, ranges);
	*result = rate(b->transactions, fth_now_ns() - start);
	b->wrong += rc == 0 ? count_wrong_bank(fth_pm_base(pm), b->transactions, ranges) : 0;
	fth_pm_tx_close(tx);
	fth_pm_unmap(pm);
	fth_pm_remove(name);
	return rc;
}

static int transact_peer(const struct pm_peer_obj *obj, void *pool, struct bank *bank, uint64_t n,
			 unsigned ranges)
{
	unsigned from, to;
	int rc = obj->begin(pool, NULL, 0 /* TX_PARAM_NONE */);

	pick(bank, n, &from, &to);
	if (rc == 0 && ranges == 1)
		rc = obj->add(&bank->account[from / 8 * 8], 64);
	if (rc == 0 && ranges == 3)
		rc = obj->add(&bank->account[from], 8);
	if (rc == 0 && ranges == 3)
		rc = obj->add(&bank->account[to], 8);
	if (rc == 0 && ranges == 3)
		rc = obj->add(&bank->done, 8);
	if (rc == 0) {
		change(bank, n, ranges);
		obj->commit();
	}
	obj->end();
	return rc;
}

static int tx_peer(struct bench *b, const char *path, unsigned ranges, double *result)
{
	void *pool = b->obj.create(path, "bank", 16u << 20, 0600);
	struct bank *bank;
	uint64_t start;
	int rc = 0;

	if (!pool)
		return fth_fail(errno, "pmemobj_create: %s", b->obj.error());
	bank = b->obj.direct(b->obj.root(pool, sizeof *bank));
	start = fth_now_ns();
	for (uint64_t n = 0; n < b->transactions && rc == 0; n++)
		rc = transact_peer(&b->obj, pool, bank, n, ranges);
	*result = rate(b->transactions, fth_now_ns() - start);
	if (rc != 0)
		rc = fth_fail(rc, "a transaction of libpmemobj: %s", b->obj.error());
	else
		b->wrong += count_wrong_bank(bank, b->transactions, ranges);
	b->obj.close(pool);
	unlink(path);
	return rc;
}

/* ---- rounds ---- */

static int memory_round(struct bench *b, unsigned size)
{
	char path[4096], name[4120];
	double ours = 0, peer = 0;
	int rc;

	snprintf(path, sizeof path, "%s/fathom-bench-pm-%d", b->memory_dir, (int)getpid());
	snprintf(name, sizeof name, "pmem:%s?force=1", path);
	rc = log_ours(b, name, sizes[size], &ours);
	if (rc == 0)
		rc = log_pmemlog(b, path, sizes[size], &peer);
	if (rc == 0)
		fth_rounds_add(&b->memory[size], ours, peer);
	return rc;
}

static int disk_round(struct bench *b, unsigned size, unsigned threads, struct fth_rounds *rounds)
{
	char path[4096], name[4120];
	double ours = 0, peer = 0;
	int rc;

	snprintf(path, sizeof path, "%s/fathom-bench-pm-%d", b->disk_dir, (int)getpid());
	snprintf(name, sizeof name, "file:%s?inline=on", path);
	rc = wal_ours(b, name, sizes[size], threads, &ours);
	if (rc == 0)
		rc = log_write(b, path, sizes[size], threads, &peer);
	if (rc == 0)
		fth_rounds_add(rounds, ours, peer);
	return rc;
}

static int tx_round(struct bench *b, unsigned which)
{
	unsigned ranges = which == 0 ? 1 : 3;
	char path[4096], name[4120];
	double ours = 0, peer = 0;
	int rc;

	snprintf(path, sizeof path, "%s/fathom-bench-pm-%d", b->memory_dir, (int)getpid());
	snprintf(name, sizeof name, "pmem:%s?force=1", path);
	rc = tx_ours(b, name, ranges, &ours);
	if (rc == 0)
		rc = tx_peer(b, path, ranges, &peer);
	if (rc == 0)
		fth_rounds_add(&b->tx[which], ours, peer);
	return rc;
}

static bool is_wanted(const struct bench *b, const char *part)
{
	return !b->only || strcmp(b->only, part) == 0;
}

static int run_round(struct bench *b)
{
	unsigned in_memory = is_wanted(b, "memory"), on_disk = is_wanted(b, "disk");
	int rc = 0;

	for (unsigned i = 0; i < in_memory * SIZES && rc == 0 && !fth_cli_stopped(); i++)
		rc = memory_round(b, i);
	for (unsigned i = 0; i < on_disk * SIZES && rc == 0 && !fth_cli_stopped(); i++)
		rc = disk_round(b, i, 1, &b->disk[i]);
	for (unsigned i = 0; i < on_disk * SIZES && rc == 0 && !fth_cli_stopped(); i++)
		rc = disk_round(b, i, (unsigned)b->threads, &b->shared[i]);
	for (unsigned i = 0; i < in_memory * 2 && rc == 0 && !fth_cli_stopped(); i++)
		rc = tx_round(b, i);
	return rc;
}

/* ---- telling ---- */

struct row {
	char what[48];
	const char *peer;
	const struct fth_rounds *rounds;
};

#define ROWS_MAX (3 * SIZES + 2)

/* Returns how many were measured. */
static unsigned make_rows(const struct bench *b, struct row *rows)
{
	unsigned count = 0;

	for (unsigned i = 0; i < SIZES; i++) {
		snprintf(rows[i].what, sizeof rows[i].what, "log, %u B", sizes[i]);
		snprintf(rows[SIZES + i].what, sizeof rows[i].what, "log on a disk, %u B",
			 sizes[i]);
		snprintf(rows[2 * SIZES + i].what, sizeof rows[i].what,
			 "log on a disk, %u B, %u threads", sizes[i], (unsigned)b->threads);
		rows[i].rounds = &b->memory[i];
		rows[SIZES + i].rounds = &b->disk[i];
		rows[2 * SIZES + i].rounds = &b->shared[i];
		rows[i].peer = "libpmemlog";
		rows[SIZES + i].peer = rows[2 * SIZES + i].peer = "fdatasync";
	}
	for (unsigned i = 0; i < 2; i++) {
		snprintf(rows[3 * SIZES + i].what, sizeof rows[i].what, "transaction, %s",
			 i == 0 ? "1 range of 64 B" : "3 ranges of 8 B");
		rows[3 * SIZES + i].rounds = &b->tx[i];
		rows[3 * SIZES + i].peer = "libpmemobj";
	}
	for (unsigned i = 0; i < ROWS_MAX; i++)
		if (rows[i].rounds->n > 0)
			rows[count++] = rows[i];
	return count;
}

static void print_rows(const struct row *rows, unsigned count)
{
	printf("  %-34s %12s %12s  %-12s %6s\n", "per second", "ours", "peer", "", "ratio");
	for (unsigned i = 0; i < count; i++)
		printf("  %-34s %12.0f %12.0f  %-12s %6.2f\n", rows[i].what,
		       fth_rounds_ours(rows[i].rounds), fth_rounds_peer(rows[i].rounds),
		       rows[i].peer, fth_rounds_ratio(rows[i].rounds));
}

static unsigned worst_row(const struct row *rows, unsigned count)
{
	unsigned worst = 0;

	for (unsigned i = 1; i < count; i++)
		if (fth_rounds_ratio(rows[i].rounds) < fth_rounds_ratio(rows[worst].rounds))
			worst = i;
	return worst;
}

static void report(const struct bench *b)
{
	struct row rows[ROWS_MAX];
	unsigned count = make_rows(b, rows), worst = worst_row(rows, count);
	struct fth_json j;

	if (!fth_cli_json())
		print_rows(rows, count);
	fth_bench_json(&j, "pm", fth_rounds_ours(rows[worst].rounds),
		       fth_rounds_peer(rows[worst].rounds), fth_rounds_ratio(rows[worst].rounds));
	fth_json_string(&j, "peer_name", rows[worst].peer);
	fth_json_string(&j, "unit", "operations/s");
	fth_json_string(&j, "worst", rows[worst].what);
	fth_json_u64(&j, "entries", b->entries);
	fth_json_u64(&j, "disk_entries", b->disk_entries);
	fth_json_u64(&j, "transactions", b->transactions);
	fth_json_u64(&j, "threads", b->threads);
	fth_json_u64(&j, "rounds", b->rounds);
	fth_json_string(&j, "memory_dir", b->memory_dir);
	fth_json_string(&j, "disk_dir", b->disk_dir);
	fth_json_array(&j, "cases");
	for (unsigned i = 0; i < count; i++) {
		fth_json_object(&j, NULL);
		fth_json_string(&j, "what", rows[i].what);
		fth_json_string(&j, "peer_name", rows[i].peer);
		fth_rounds_members(&j, rows[i].rounds);
		fth_json_end(&j);
	}
	fth_json_finish(&j);
}

static int measure(struct bench *b)
{
	bool needs_pmdk = is_wanted(b, "memory");
	int rc = needs_pmdk ? pm_peer_log_load(&b->log) : 0;

	if (rc == 0 && needs_pmdk)
		rc = pm_peer_obj_load(&b->obj);
	for (uint64_t i = 0; i < b->rounds && rc == 0 && !fth_cli_stopped(); i++)
		rc = run_round(b);
	if (rc < 0)
		fth_cli_error("pm: %s", fth_error_text(rc));
	if (rc == -ENOTSUP)
		return FTH_EXIT_IMPOSSIBLE;
	if (b->wrong)
		fth_cli_error("pm: %llu entries or accounts are wrong",
			      (unsigned long long)b->wrong);
	if (rc < 0 || b->wrong)
		return FTH_EXIT_FAILED;
	if (fth_cli_stopped())
		return FTH_EXIT_INTERRUPTED;
	report(b);
	return FTH_EXIT_OK;
}

static int run(int argc, char **argv)
{
	static struct bench b = {.memory_dir = "/dev/shm",
				 .entries = 200000,
				 .disk_entries = 600,
				 .transactions = 200000,
				 .threads = 8,
				 .rounds = 5};
	const struct fth_cli_option options[] = {
		{"only", FTH_CLI_STRING, &b.only, 0, 0,
		 "memory, beside PMDK; or disk, beside fdatasync"},
		{"dir", FTH_CLI_STRING, &b.disk_dir, 0, 0,
		 "where files on a disk are; default TMPDIR or /tmp"},
		FTH_CLI_WAS("memory", "shm"),
		{"shm", FTH_CLI_STRING, &b.memory_dir, 0, 0,
		 "where forced persistent memory is; default /dev/shm"},
		{"entries", FTH_CLI_U64, &b.entries, 1, 10000000, "appended in memory"},
		{"disk-entries", FTH_CLI_U64, &b.disk_entries, 64, 10000000, "appended on a disk"},
		{"transactions", FTH_CLI_U64, &b.transactions, 1, 100000000, "committed"},
		{"threads", FTH_CLI_U64, &b.threads, 2, THREADS_MAX, "that append on a disk"},
		FTH_BENCH_ROUNDS(&b.rounds),
		FTH_BENCH_SMALLEST(&b.smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench pm",
		.text = "Persistence from CPU threads: log entries against libpmemlog and against "
			"write\n"
			"and fdatasync, transactions against libpmemobj. Needs libpmem1, "
			"libpmemlog1 and\n"
			"libpmemobj1, unless --only disk is given.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!is_wanted(&b, "memory") && !is_wanted(&b, "disk")) {
		fth_cli_error("--only %s: expected memory or disk", b.only);
		return FTH_EXIT_USAGE;
	}
	b.disk_dir = fth_scratch_folder(b.disk_dir);
	if (b.smallest) {
		b.entries = b.transactions = 2000;
		b.disk_entries = 64;
		b.rounds = 1;
	}
	return measure(&b);
}

const struct fth_command fth_bench_pm = {
	.name = "pm",
	.summary = "persistence from CPU threads, against PMDK and fdatasync",
	.run = run};
