/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gpu_ledger NAME [ROUNDS]: accounts in persistent memory, between which the threads of a GPU move
 * money. Every thread logs what it is about to change, so that a program that is killed in the
 * middle of a kernel leaves no account half changed: the next run takes back what the interrupted
 * kernel did. The sum never changes.
 *
 *	nvcc -arch=native -O2 gpu_ledger.cu $(pkg-config --cflags --libs fathom-cuda)
 *	./a.out shm:ledger 1000
 *
 * Exits with 77 where there is no GPU.
 */
#include <fathom/base.h>
#include <fathom/pm/gpu.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS	 64u
#define THREADS	 128u
#define ACCOUNTS (2 * BLOCKS * THREADS) /* two for each thread */
#define OPENING	 1000u
#define LOG_AT	 4096u	    /* page 0 is the table's head */
#define TABLE_AT (4u << 20) /* accounts */
#define MEMORY	 (8u << 20)
#define FORMAT	 0x7265676465u /* of this program, in the memory's header */

struct head {
	uint64_t ready;	 /* the table was made */
	uint64_t active; /* a kernel moves money: what the log says has to be taken back */
	uint64_t rounds;
};

/* What a thread changes, as it was before. */
struct before {
	uint64_t balance[2];
};

__device__ static uint64_t *accounts_of(const struct fth_pm_view &pm, uint32_t thread)
{
	return (uint64_t *)(pm.base + TABLE_AT) + 2 * thread;
}

__global__ static void move_money(struct fth_pm_log_view log, uint32_t round, int *error)
{
	uint32_t thread = fth_pm_log_thread(&log, blockIdx.x, threadIdx.x);
	uint64_t *mine = accounts_of(log.pm, thread);
	struct before before = {{mine[0], mine[1]}};
	uint32_t from = (thread + round) % 2;
	uint64_t amount = before.balance[from] / 3;
	int rc = fth_pm_log_insert_hd(&log, thread, &before, sizeof(before));

	if (rc == 0) {
		fth_pm_put64(&log.pm, &mine[from], before.balance[from] - amount);
		fth_pm_put64(&log.pm, &mine[1 - from], before.balance[1 - from] + amount);
		rc = fth_pm_persist_range(&log.pm, mine, sizeof(before));
	}
	if (rc < 0)
		*error = rc;
}

/* What an interrupted kernel did is taken back. It may be interrupted itself: entries go last. */
__global__ static void take_back(struct fth_pm_log_view log, int *error)
{
	uint32_t thread = fth_pm_log_thread(&log, blockIdx.x, threadIdx.x);
	uint64_t *mine = accounts_of(log.pm, thread), cursor = 0;
	struct before before;
	int64_t bytes = fth_pm_log_read_hd(&log, thread, &cursor, &before, sizeof(before));
	int rc = bytes < 0 && bytes != -ENOENT ? (int)bytes : 0;

	if (bytes > 0) {
		fth_pm_put(&log.pm, mine, &before, sizeof(before));
		rc = fth_pm_persist_range(&log.pm, mine, sizeof(before));
		if (rc == 0)
			rc = fth_pm_log_remove_hd(&log, thread);
	}
	if (rc < 0)
		*error = rc;
}

/* ---- the host ---- */

struct ledger {
	struct fth_pm *pm;
	struct fth_gpu_pm *gpu;
	struct fth_gpu_pm_log *log;
	struct head *head;
	int *error; /* of kernels, in memory that both reach */
};

static int from_cuda(cudaError_t err)
{
	return err == cudaSuccess ? 0 : fth_fail(EIO, "%s", cudaGetErrorString(err));
}

static int set_word(struct ledger *l, uint64_t *word, uint64_t value)
{
	*word = value;
	return fth_pm_persist(l->pm, word, sizeof(*word));
}

static int make_table(struct ledger *l)
{
	struct fth_pm_log_shape shape = {BLOCKS, THREADS, sizeof(struct before), 1};
	uint64_t *accounts = (uint64_t *)((char *)fth_pm_base(l->pm) + TABLE_AT);
	struct fth_pm_log *log;
	int rc;

	for (uint32_t i = 0; i < ACCOUNTS; i++)
		accounts[i] = OPENING;
	rc = fth_pm_persist(l->pm, accounts, ACCOUNTS * sizeof(*accounts));
	if (rc == 0)
		rc = fth_pm_log_create_hcl(l->pm, LOG_AT, &shape, &log);
	if (rc < 0)
		return rc;
	fth_pm_log_close(log);
	return set_word(l, &l->head->ready, 1);
}

static int finish_kernel(struct ledger *l)
{
	int rc = from_cuda(cudaGetLastError());

	if (rc == 0)
		rc = from_cuda(cudaDeviceSynchronize());
	return rc < 0 ? rc : *l->error;
}

static int recover(struct ledger *l)
{
	int rc;

	if (!l->head->active)
		return fth_gpu_pm_log_clear(l->log);
	printf("the last run was interrupted: taking back its last round\n");
	take_back<<<BLOCKS, THREADS>>>(fth_gpu_pm_log_view(l->log), l->error);
	rc = finish_kernel(l);
	return rc < 0 ? rc : set_word(l, &l->head->active, 0);
}

static int play_round(struct ledger *l)
{
	int rc = set_word(l, &l->head->active, 1);

	if (rc < 0)
		return rc;
	move_money<<<BLOCKS, THREADS>>>(fth_gpu_pm_log_view(l->log), (uint32_t)l->head->rounds,
					l->error);
	rc = finish_kernel(l);
	/* From here on the round counts, and then its log is of no use. */
	if (rc == 0)
		rc = set_word(l, &l->head->active, 0);
	if (rc == 0)
		rc = fth_gpu_pm_log_clear(l->log);
	return rc < 0 ? rc : set_word(l, &l->head->rounds, l->head->rounds + 1);
}

static int open_ledger(struct ledger *l, const char *name)
{
	struct fth_pm_options options = {};
	int rc;

	options.size = sizeof(options);
	options.flags = FTH_PM_CREATE;
	options.tag = FORMAT;
	rc = fth_pm_map(name, MEMORY, &options, &l->pm);
	if (rc < 0)
		return rc;
	printf("%s\n", fth_pm_guarantee_text(l->pm));
	l->head = (struct head *)fth_pm_base(l->pm);
	rc = l->head->ready ? 0 : make_table(l);
	if (rc == 0)
		rc = fth_gpu_pm_register(l->pm, &l->gpu);
	if (rc == 0)
		rc = fth_gpu_pm_log_open(l->gpu, LOG_AT, &l->log);
	if (rc == 0)
		rc = from_cuda(cudaMallocHost((void **)&l->error, sizeof(*l->error)));
	if (rc < 0)
		return rc;
	*l->error = 0;
	return recover(l);
}

static int close_ledger(struct ledger *l)
{
	int rc = fth_gpu_pm_log_close(l->log), closed;

	(void)cudaFreeHost(l->error);
	closed = fth_gpu_pm_unregister(l->gpu);
	rc = rc < 0 ? rc : closed;
	closed = fth_pm_unmap(l->pm);
	return rc < 0 ? rc : closed;
}

static uint64_t sum_of(const struct ledger *l)
{
	const uint64_t *accounts = (const uint64_t *)((const char *)fth_pm_base(l->pm) + TABLE_AT);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ACCOUNTS; i++)
		sum += accounts[i];
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 2 ? strtoull(argv[2], NULL, 0) : 100;
	struct ledger l = {};
	int gpus = 0, rc, closed;

	if (argc < 2) {
		fprintf(stderr, "usage: gpu_ledger NAME [ROUNDS]\n");
		return 2;
	}
	if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
		fprintf(stderr, "gpu_ledger: there is no GPU here\n");
		return 77;
	}
	rc = open_ledger(&l, argv[1]);
	for (uint64_t i = 0; rc == 0 && i < rounds; i++)
		rc = play_round(&l);
	if (rc == 0) {
		printf("%llu rounds, sum %llu\n", (unsigned long long)l.head->rounds,
		       (unsigned long long)sum_of(&l));
		rc = sum_of(&l) == (uint64_t)ACCOUNTS * OPENING ? 0 : fth_fail(EILSEQ, "wrong sum");
	}
	if (rc < 0)
		fprintf(stderr, "gpu_ledger: %s\n", fth_error_text(rc));
	closed = close_ledger(&l);
	return rc < 0 || closed < 0 ? 1 : 0;
}
