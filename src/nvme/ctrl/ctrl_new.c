/* SPDX-License-Identifier: BSD-2-Clause */
/* Making and freeing a controller: options, geometry, memory, statistics. */
#include "nvme/ctrl/ctrl_internal.h"
#include "base/options.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define QUEUE_ENTRIES_MAX 65536u
#define LBA_SHIFT_MIN	  9u
#define LBA_SHIFT_MAX	  16u
#define MDTS_MAX	  16u

/* ---- statistics ---- */

uint64_t fth_nvme_ctrl_stat(const struct fth_nvme_ctrl *ctrl, enum fth_nvme_ctrl_stat which)
{
	return fth_stats_read(ctrl->stats, which);
}

/* ---- life ---- */

static int check_opts(const struct fth_nvme_ctrl_options *opts)
{
	if (opts->queue_entries < 2 || opts->queue_entries > QUEUE_ENTRIES_MAX)
		return fth_fail(EINVAL, "queue_entries %u is outside 2 to %u", opts->queue_entries,
				QUEUE_ENTRIES_MAX);
	if (opts->io_queues > FTH_NVME_CTRL_IO_QUEUES_MAX)
		return fth_fail(EINVAL, "io_queues %u exceeds %d", opts->io_queues,
				FTH_NVME_CTRL_IO_QUEUES_MAX);
	if (opts->threads > FTH_NVME_CTRL_THREADS_MAX)
		return fth_fail(EINVAL, "threads %u exceeds %d", opts->threads,
				FTH_NVME_CTRL_THREADS_MAX);
	if (opts->mdts > MDTS_MAX)
		return fth_fail(EINVAL, "mdts %u exceeds %u", opts->mdts, MDTS_MAX);
	if (opts->depth > UINT16_MAX)
		return fth_fail(EINVAL, "depth %u exceeds %d", opts->depth, UINT16_MAX);
	if (opts->lba_shift > LBA_SHIFT_MAX || (opts->lba_shift && opts->lba_shift < LBA_SHIFT_MIN))
		return fth_fail(EINVAL, "lba_shift %u is outside %u to %u", opts->lba_shift,
				LBA_SHIFT_MIN, LBA_SHIFT_MAX);
	if (strlen(opts->serial) > FTH_NVME_CTRL_SERIAL_MAX)
		return fth_fail(EINVAL, "serial \"%s\" is longer than %d bytes", opts->serial,
				FTH_NVME_CTRL_SERIAL_MAX);
	return 0;
}

/* What the caller gave, over the defaults; 0 and NULL are the default where they make no sense. */
static int read_opts(const struct fth_nvme_ctrl_options *given, struct fth_nvme_ctrl_options *opts)
{
	static const struct fth_nvme_ctrl_options defaults = FTH_NVME_CTRL_OPTIONS_INIT;
	int rc;

	*opts = defaults;
	if (!given)
		return 0;
	rc = fth_options_check("nvme controller", given->size, sizeof(*given));
	if (rc < 0)
		return rc;
	*opts = *given;
	if (!opts->queue_entries)
		opts->queue_entries = defaults.queue_entries;
	if (!opts->io_queues)
		opts->io_queues = defaults.io_queues;
	if (!opts->depth)
		opts->depth = defaults.depth;
	if (!opts->serial)
		opts->serial = defaults.serial;
	return check_opts(opts);
}

static uint32_t smallest_shift(uint32_t block)
{
	uint32_t shift = LBA_SHIFT_MIN;

	while (shift < LBA_SHIFT_MAX && (1u << shift) < block)
		shift++;
	return shift;
}

static int set_geometry(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_ctrl_options *opts)
{
	const struct fth_dev_info *info = ctrl->info;

	ctrl->lba_shift = opts->lba_shift ? opts->lba_shift : smallest_shift(info->block);
	if ((1u << ctrl->lba_shift) % info->block)
		return fth_fail(EINVAL,
				"lba_shift gives blocks of %u bytes, smaller than the device's "
				"blocks of %u",
				1u << ctrl->lba_shift, info->block);
	ctrl->blocks = info->size >> ctrl->lba_shift;
	if (ctrl->blocks == 0)
		return fth_fail(EINVAL, "the device is smaller than one block");
	ctrl->queue_entries = opts->queue_entries;
	ctrl->io_queues = opts->io_queues;
	ctrl->depth = opts->depth;
	ctrl->mdts = opts->mdts;
	ctrl->transfer_max = opts->mdts ? (uint64_t)FTH_NVME_PAGE_SIZE << opts->mdts : 0;
	ctrl->bounce_size = CTRL_BOUNCE_SIZE;
	ctrl->piece_max = info->max_iov < CTRL_PIECES ? info->max_iov : CTRL_PIECES;
	ctrl->thread_count = opts->threads;
	ctrl->worker_count = opts->threads ? opts->threads : 1;
	return 0;
}

static void set_identity(struct fth_nvme_ctrl *ctrl, const char *serial)
{
	uint64_t halves[2] = {fth_checksum(serial, strlen(serial), 1),
			      fth_checksum(serial, strlen(serial), 2)};

	memset(ctrl->serial, ' ', sizeof(ctrl->serial));
	memcpy(ctrl->serial, serial, strlen(serial));
	memcpy(ctrl->uuid, halves, sizeof(ctrl->uuid));
	ctrl->uuid[6] = (uint8_t)(0x80 | (ctrl->uuid[6] & 0x0f)); /* RFC 9562: version 8 */
	ctrl->uuid[8] = (uint8_t)(0x80 | (ctrl->uuid[8] & 0x3f));
}

static int open_doorbells(struct fth_nvme_ctrl *ctrl)
{
	size_t bytes = (size_t)(ctrl->io_queues + 1) * 2 * sizeof(*ctrl->doorbells);
	void *memory;

	bytes = (bytes + FTH_NVME_PAGE_SIZE - 1) / FTH_NVME_PAGE_SIZE * FTH_NVME_PAGE_SIZE;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	ctrl->doorbells = memory;
	ctrl->doorbells_size = bytes;
	return 0;
}

static void *zeroed_lines(size_t bytes)
{
	void *memory = aligned_alloc(CTRL_CACHE_LINE, bytes);

	return memory ? memset(memory, 0, bytes) : NULL;
}

static int open_queues(struct fth_nvme_ctrl *ctrl)
{
	size_t n = ctrl->io_queues + 1;

	ctrl->sqs = zeroed_lines(n * sizeof(*ctrl->sqs));
	ctrl->cqs = zeroed_lines(n * sizeof(*ctrl->cqs));
	ctrl->active = calloc(n, sizeof(*ctrl->active));
	ctrl->vector_fds = calloc(n, sizeof(*ctrl->vector_fds));
	ctrl->stats = fth_stats_new(FTH_NVME_CTRL_STAT_COUNT);
	if (!ctrl->sqs || !ctrl->cqs || !ctrl->active || !ctrl->vector_fds || !ctrl->stats)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		ctrl->vector_fds[i] = -1;
	return open_doorbells(ctrl);
}

static void open_locks(struct fth_nvme_ctrl *ctrl)
{
	pthread_rwlockattr_t attr;

	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&ctrl->world, &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutex_init(&ctrl->error_lock, NULL);
}

static int open_ctrl(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_ctrl_options *given)
{
	struct fth_nvme_ctrl_options opts;
	int rc = read_opts(given, &opts);

	if (rc == 0)
		rc = set_geometry(ctrl, &opts);
	if (rc == 0)
		rc = open_queues(ctrl);
	if (rc == 0)
		rc = fth_ctrl_window_open(&ctrl->window, &opts);
	if (rc < 0)
		return rc;
	set_identity(ctrl, opts.serial);
	fth_ctrl_registers_init(ctrl);
	fth_ctrl_features_reset(ctrl);
	rc = fth_ctrl_workers_open(ctrl);
	return rc < 0 ? rc : fth_ctrl_workers_start(ctrl);
}

int fth_nvme_ctrl_new(struct fth_dev *dev, const struct fth_nvme_ctrl_options *opts,
		      struct fth_nvme_ctrl **out)
{
	struct fth_nvme_ctrl *ctrl = calloc(1, sizeof(*ctrl));
	int rc;

	*out = NULL;
	if (!ctrl)
		return -ENOMEM;
	open_locks(ctrl);
	ctrl->dev = dev;
	ctrl->info = fth_dev_info(dev);
	rc = open_ctrl(ctrl, opts);
	if (rc < 0)
		fth_nvme_ctrl_free(ctrl);
	else
		*out = ctrl;
	return rc;
}

void fth_nvme_ctrl_free(struct fth_nvme_ctrl *ctrl)
{
	if (!ctrl)
		return;
	if (ctrl->workers)
		fth_ctrl_workers_close(ctrl);
	for (uint32_t i = 0; ctrl->sqs && i <= ctrl->io_queues; i++)
		free(ctrl->sqs[i].cids);
	if (ctrl->doorbells)
		munmap(ctrl->doorbells, ctrl->doorbells_size);
	fth_ctrl_window_close(&ctrl->window);
	fth_stats_free(ctrl->stats);
	free(ctrl->grants);
	free(ctrl->active);
	free(ctrl->vector_fds);
	free(ctrl->cqs);
	free(ctrl->sqs);
	pthread_mutex_destroy(&ctrl->error_lock);
	pthread_rwlock_destroy(&ctrl->world);
	free(ctrl);
}
