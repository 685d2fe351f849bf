/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The software controller: its life, its registers, and how it is enabled, reset and shut down.
 * ctrl.h lists the siblings.
 *
 *	          CC.EN=1                CC.SHN
 *	   OFF ------------> READY ---------------> STOPPING --> FLUSHING --> SHUT
 *	    ^ \                |                        |            |          |
 *	    |  `--> FAILED     | CC.EN=0                |            |          |
 *	    |          |       v                        v            v          v
 *	    `----------+-- RESETTING <---- CC.EN=0 -----+------------+----------'
 *
 * Invariants
 * 1. Commands are fetched in READY only; admin commands run in READY only.
 * 2. RESETTING lasts until no context is taken and no flush is out. CSTS.RDY falls after that, so
 *    a host that sees RDY = 0 has its memory for itself.
 * 3. CSTS changes only in here, under exclusive world.
 */
#include "nvme/ctrl.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TIMEOUT_UNITS	  60u /* CAP.TO: 30 s, in units of 500 ms */
#define QUEUE_ENTRIES_MAX 65536u
#define LBA_SHIFT_MIN	  9u
#define LBA_SHIFT_MAX	  16u
#define MDTS_MAX	  16u
#define ADMIN_ENTRIES_MIN 2u
#define SHST_OCCURRING	  (1u << FTH_NVME_CSTS_SHUTDOWN_SHIFT)
#define SHST_COMPLETE	  (2u << FTH_NVME_CSTS_SHUTDOWN_SHIFT)
#define CC_SIZES_MASK	  (0xffu << FTH_NVME_CC_SQES_SHIFT)
#define CC_SIZES	  (6u << FTH_NVME_CC_SQES_SHIFT | 4u << FTH_NVME_CC_CQES_SHIFT)
#define CC_ZERO_MASK	  /* command set, page size and arbitration: only their 0 is offered */ \
	(7u << FTH_NVME_CC_CSS_SHIFT | 0xfu << FTH_NVME_CC_PAGE_SHIFT | 7u << FTH_NVME_CC_AMS_SHIFT)

/* ---- registers as words ---- */

static uint32_t *reg(struct fth_nvme_ctrl *ctrl, uint32_t offset)
{
	return &ctrl->regs[offset / 4];
}

static uint32_t get(struct fth_nvme_ctrl *ctrl, uint32_t offset)
{
	/* acquire: a host that sees RDY fall also sees the last writes into its memory. */
	return fth_load_acquire_dev32(reg(ctrl, offset));
}

static uint64_t get64(struct fth_nvme_ctrl *ctrl, uint32_t offset)
{
	return get(ctrl, offset) | (uint64_t)get(ctrl, offset + 4) << 32;
}

static void set(struct fth_nvme_ctrl *ctrl, uint32_t offset, uint32_t value)
{
	fth_store_release_dev32(reg(ctrl, offset), value); /* pairs with get() */
}

static void change_csts(struct fth_nvme_ctrl *ctrl, uint32_t clear, uint32_t add)
{
	set(ctrl, FTH_NVME_REG_CSTS, (get(ctrl, FTH_NVME_REG_CSTS) & ~clear) | add);
}

static bool enabled(struct fth_nvme_ctrl *ctrl)
{
	return get(ctrl, FTH_NVME_REG_CC) & FTH_NVME_CC_ENABLE;
}

/* ---- enable ---- */

static bool open_admin_queues(struct fth_nvme_ctrl *ctrl)
{
	uint32_t aqa = get(ctrl, FTH_NVME_REG_AQA);
	uint32_t sq_size = (aqa & FTH_NVME_AQA_SIZE_MASK) + 1;
	uint32_t cq_size = (aqa >> FTH_NVME_AQA_ACQS_SHIFT & FTH_NVME_AQA_SIZE_MASK) + 1;
	void *sq = fth_ctrl_translate(ctrl, get64(ctrl, FTH_NVME_REG_ASQ),
				      sq_size * sizeof(struct fth_nvme_sqe));
	void *cq = fth_ctrl_translate(ctrl, get64(ctrl, FTH_NVME_REG_ACQ),
				      cq_size * sizeof(struct fth_nvme_cqe));

	if (sq_size < ADMIN_ENTRIES_MIN || cq_size < ADMIN_ENTRIES_MIN || !sq || !cq)
		return false;
	fth_ctrl_cq_open(ctrl, 0, cq_size, cq);
	fth_ctrl_sq_open(ctrl, 0, &ctrl->cqs[0], sq_size, sq);
	return true;
}

static void enable(struct fth_nvme_ctrl *ctrl)
{
	uint32_t cc = get(ctrl, FTH_NVME_REG_CC);

	if ((cc & CC_ZERO_MASK) || (cc & CC_SIZES_MASK) != CC_SIZES || !open_admin_queues(ctrl)) {
		ctrl->state = CTRL_FAILED;
		change_csts(ctrl, 0, FTH_NVME_CSTS_FATAL);
		return;
	}
	ctrl->state = CTRL_READY;
	change_csts(ctrl, 0, FTH_NVME_CSTS_READY);
}

/* ---- reset and shutdown ---- */

static void close_queues(struct fth_nvme_ctrl *ctrl)
{
	for (uint32_t i = 0; i <= ctrl->io_queues; i++)
		fth_ctrl_sq_close(&ctrl->sqs[i]);
	for (uint32_t i = 0; i <= ctrl->io_queues; i++)
		fth_ctrl_cq_close(&ctrl->cqs[i]);
	for (size_t i = 0; i < ctrl->doorbells_size / sizeof(*ctrl->doorbells); i++)
		fth_store_relaxed_sys32(&ctrl->doorbells[i], 0);
	ctrl->active_count = 0;
}

static void begin_shutdown(struct fth_nvme_ctrl *ctrl)
{
	ctrl->state = CTRL_STOPPING;
	change_csts(ctrl, FTH_NVME_CSTS_SHUTDOWN_MASK, SHST_OCCURRING);
}

static void begin_reset(struct fth_nvme_ctrl *ctrl)
{
	ctrl->state = CTRL_RESETTING;
	fth_ctrl_workers_drop_waiting(ctrl);
	fth_stats_add(ctrl->stats, FTH_NVME_CTRL_STAT_RESETS, 1);
}

static bool flush_is_out(struct fth_nvme_ctrl *ctrl)
{
	/* acquire: pairs with the worker that collected it. */
	return ctrl->flush_sent && !fth_load_acquire_dev32(&ctrl->flush_done);
}

static unsigned finish_reset(struct fth_nvme_ctrl *ctrl)
{
	if (fth_ctrl_workers_in_flight(ctrl) > 0 || flush_is_out(ctrl))
		return 0;
	ctrl->flush_sent = false;
	close_queues(ctrl);
	fth_ctrl_admin_reset(ctrl);
	fth_ctrl_features_reset(ctrl);
	ctrl->state = CTRL_OFF;
	set(ctrl, FTH_NVME_REG_CSTS, 0);
	if (enabled(ctrl))
		enable(ctrl);
	else if (get(ctrl, FTH_NVME_REG_CC) & FTH_NVME_CC_SHUTDOWN_MASK)
		begin_shutdown(ctrl);
	return 1;
}

static unsigned send_flush(struct ctrl_worker *w)
{
	struct fth_nvme_ctrl *ctrl = w->ctrl;
	struct fth_dev_req *req = &ctrl->flush;
	int rc;

	if (fth_ctrl_workers_in_flight(ctrl) > 0)
		return 0;
	fth_dev_req_init(req, FTH_DEV_FLUSH, NULL, 0, 0);
	fth_store_relaxed_dev32(&ctrl->flush_done, 0);
	rc = fth_dev_submit(w->chan, &req, 1);
	if (rc == -EAGAIN)
		return 0;
	if (rc < 0) {
		ctrl->flush.result = rc;
		fth_store_relaxed_dev32(&ctrl->flush_done, 1);
	}
	ctrl->flush_sent = true;
	ctrl->state = CTRL_FLUSHING;
	return 1;
}

static unsigned finish_shutdown(struct fth_nvme_ctrl *ctrl)
{
	if (flush_is_out(ctrl))
		return 0;
	ctrl->flush_sent = false;
	ctrl->state = CTRL_SHUT;
	change_csts(ctrl, FTH_NVME_CSTS_SHUTDOWN_MASK,
		    SHST_COMPLETE | (ctrl->flush.result < 0 ? FTH_NVME_CSTS_FATAL : 0));
	return 1;
}

bool fth_ctrl_in_transition(const struct fth_nvme_ctrl *ctrl)
{
	return ctrl->state == CTRL_RESETTING || ctrl->state == CTRL_STOPPING ||
	       ctrl->state == CTRL_FLUSHING;
}

/* What can not be done in a shared pass. world is held exclusively. */
unsigned fth_ctrl_service(struct ctrl_worker *w)
{
	struct fth_nvme_ctrl *ctrl = w->ctrl;

	/* acquire: we see what the attention is for. Taken before looking, so none is lost. */
	fth_xchg_acqrel_dev32(&ctrl->attention, 0);
	switch (ctrl->state) {
	case CTRL_READY:
		return fth_ctrl_admin_service(ctrl);
	case CTRL_RESETTING:
		return finish_reset(ctrl);
	case CTRL_STOPPING:
		return send_flush(w);
	case CTRL_FLUSHING:
		return finish_shutdown(ctrl);
	default:
		return 0;
	}
}

/* ---- register writes ---- */

static void write_cc(struct fth_nvme_ctrl *ctrl, uint32_t value)
{
	uint32_t old = get(ctrl, FTH_NVME_REG_CC);
	bool was = old & FTH_NVME_CC_ENABLE, is = value & FTH_NVME_CC_ENABLE;

	set(ctrl, FTH_NVME_REG_CC, value);
	if (ctrl->state == CTRL_SHUT && !was && !(value & FTH_NVME_CC_SHUTDOWN_MASK)) {
		ctrl->state = CTRL_OFF;
		set(ctrl, FTH_NVME_REG_CSTS, 0);
	}
	if (was && !is && ctrl->state != CTRL_RESETTING)
		begin_reset(ctrl);
	else if (!was && is && ctrl->state == CTRL_OFF)
		enable(ctrl);
	else if (!was && is)
		begin_reset(ctrl); /* out of a shutdown; enabled when that is over */
	if ((value & FTH_NVME_CC_SHUTDOWN_MASK) && !(old & FTH_NVME_CC_SHUTDOWN_MASK) &&
	    (ctrl->state == CTRL_READY || ctrl->state == CTRL_OFF))
		begin_shutdown(ctrl);
}

static void write_locked(struct fth_nvme_ctrl *ctrl, uint32_t offset, uint32_t value)
{
	uint32_t mask = get(ctrl, FTH_NVME_REG_INTMS);

	switch (offset) {
	case FTH_NVME_REG_CC:
		write_cc(ctrl, value);
		break;
	case FTH_NVME_REG_INTMS:
		set(ctrl, FTH_NVME_REG_INTMS, mask | value);
		set(ctrl, FTH_NVME_REG_INTMC, mask | value);
		break;
	case FTH_NVME_REG_INTMC:
		set(ctrl, FTH_NVME_REG_INTMS, mask & ~value);
		set(ctrl, FTH_NVME_REG_INTMC, mask & ~value);
		break;
	case FTH_NVME_REG_ASQ:
	case FTH_NVME_REG_ACQ:
		value &= ~(FTH_NVME_PAGE_SIZE - 1);
		/* fall through */
	case FTH_NVME_REG_ASQ + 4:
	case FTH_NVME_REG_ACQ + 4:
	case FTH_NVME_REG_AQA:
		if (!enabled(ctrl))
			set(ctrl, offset, value);
		break;
	default:
		break;
	}
}

static void write_doorbell(struct fth_nvme_ctrl *ctrl, uint32_t offset, uint32_t value)
{
	offset -= FTH_NVME_REG_DOORBELL;
	if (offset < ctrl->doorbells_size)
		fth_store_release_sys32(&ctrl->doorbells[offset / 4], value);
}

void fth_nvme_ctrl_write32(struct fth_nvme_ctrl *ctrl, uint32_t offset, uint32_t value)
{
	if (offset % 4)
		return;
	if (offset >= FTH_NVME_REG_DOORBELL) {
		write_doorbell(ctrl, offset, value);
		return;
	}
	pthread_rwlock_wrlock(&ctrl->world);
	write_locked(ctrl, offset, value);
	pthread_rwlock_unlock(&ctrl->world);
	/* Without workers, a change that has nothing to wait for happens at once. */
	if (ctrl->thread_count == 0 && offset == FTH_NVME_REG_CC)
		fth_nvme_ctrl_step(ctrl);
}

void fth_nvme_ctrl_write64(struct fth_nvme_ctrl *ctrl, uint32_t offset, uint64_t value)
{
	if (offset % 8)
		return;
	fth_nvme_ctrl_write32(ctrl, offset, (uint32_t)value);
	fth_nvme_ctrl_write32(ctrl, offset + 4, (uint32_t)(value >> 32));
}

uint32_t fth_nvme_ctrl_read32(struct fth_nvme_ctrl *ctrl, uint32_t offset)
{
	if (offset % 4 || offset >= sizeof(ctrl->regs))
		return 0;
	return get(ctrl, offset);
}

uint64_t fth_nvme_ctrl_read64(struct fth_nvme_ctrl *ctrl, uint32_t offset)
{
	if (offset % 8 || offset >= sizeof(ctrl->regs))
		return 0;
	return get64(ctrl, offset);
}

void *fth_nvme_ctrl_doorbells(struct fth_nvme_ctrl *ctrl)
{
	return ctrl->doorbells;
}

size_t fth_nvme_ctrl_doorbells_size(const struct fth_nvme_ctrl *ctrl)
{
	return ctrl->doorbells_size;
}

/* ---- statistics ---- */

uint64_t fth_nvme_ctrl_stat(const struct fth_nvme_ctrl *ctrl, enum fth_nvme_ctrl_stat which)
{
	return fth_stats_read(ctrl->stats, which);
}

const char *fth_nvme_ctrl_stat_name(enum fth_nvme_ctrl_stat which)
{
	static const char *const names[FTH_NVME_CTRL_STAT_COUNT] = {
		"admin",	 "reads",	  "writes", "flushes",	    "others",
		"bytes_read",	 "bytes_written", "errors", "media_errors", "doorbells",
		"bad_doorbells", "bounced",	  "resets",
	};

	return which < FTH_NVME_CTRL_STAT_COUNT ? names[which] : "unknown";
}

/* ---- life ---- */

static int check_opts(const struct fth_nvme_ctrl_opts *opts)
{
	if (opts->queue_entries < 2 || opts->queue_entries > QUEUE_ENTRIES_MAX)
		return fth_fail(EINVAL, "queue_entries %u is outside 2 to %u", opts->queue_entries,
				QUEUE_ENTRIES_MAX);
	if (opts->io_queues > FTH_NVME_CTRL_IO_QUEUES_MAX)
		return fth_fail(EINVAL, "io_queues %u is above %d", opts->io_queues,
				FTH_NVME_CTRL_IO_QUEUES_MAX);
	if (opts->threads > FTH_NVME_CTRL_THREADS_MAX)
		return fth_fail(EINVAL, "threads %u is above %d", opts->threads,
				FTH_NVME_CTRL_THREADS_MAX);
	if (opts->mdts > MDTS_MAX)
		return fth_fail(EINVAL, "mdts %u is above %u", opts->mdts, MDTS_MAX);
	if (opts->depth > UINT16_MAX)
		return fth_fail(EINVAL, "depth %u is above %d", opts->depth, UINT16_MAX);
	if (opts->lba_shift > LBA_SHIFT_MAX || (opts->lba_shift && opts->lba_shift < LBA_SHIFT_MIN))
		return fth_fail(EINVAL, "lba_shift %u is outside %u to %u", opts->lba_shift,
				LBA_SHIFT_MIN, LBA_SHIFT_MAX);
	if (strlen(opts->serial) > FTH_NVME_CTRL_SERIAL_MAX)
		return fth_fail(EINVAL, "serial \"%s\" is longer than %d", opts->serial,
				FTH_NVME_CTRL_SERIAL_MAX);
	return 0;
}

/* What the caller gave, over the defaults; 0 and NULL are the default where they make no sense. */
static int read_opts(const struct fth_nvme_ctrl_opts *given, struct fth_nvme_ctrl_opts *opts)
{
	static const struct fth_nvme_ctrl_opts defaults = FTH_NVME_CTRL_OPTS_INIT;

	*opts = defaults;
	if (!given)
		return 0;
	if (given->size < sizeof(given->size) || given->size > sizeof(*given))
		return fth_fail(EINVAL, "options of %zu bytes: use FTH_NVME_CTRL_OPTS_INIT",
				given->size);
	memcpy(opts, given, given->size);
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

static int set_geometry(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_ctrl_opts *opts)
{
	const struct fth_dev_info *info = ctrl->info;

	ctrl->lba_shift = opts->lba_shift ? opts->lba_shift : smallest_shift(info->block);
	if ((1u << ctrl->lba_shift) % info->block)
		return fth_fail(EINVAL, "blocks of %u bytes on a device with blocks of %u",
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

static void set_registers(struct fth_nvme_ctrl *ctrl)
{
	uint64_t cap = (ctrl->queue_entries - 1) | FTH_NVME_CAP_CQR |
		       (uint64_t)TIMEOUT_UNITS << FTH_NVME_CAP_TIMEOUT_SHIFT | FTH_NVME_CAP_CSS_NVM;

	set(ctrl, FTH_NVME_REG_CAP, (uint32_t)cap);
	set(ctrl, FTH_NVME_REG_CAP + 4, (uint32_t)(cap >> 32));
	set(ctrl, FTH_NVME_REG_VS, FTH_NVME_VERSION_1_4);
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
	ctrl->stats = fth_stats_new(FTH_NVME_CTRL_STAT_COUNT);
	if (!ctrl->sqs || !ctrl->cqs || !ctrl->active || !ctrl->stats)
		return -ENOMEM;
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

static int open_ctrl(struct fth_nvme_ctrl *ctrl, const struct fth_nvme_ctrl_opts *given)
{
	struct fth_nvme_ctrl_opts opts;
	int rc = read_opts(given, &opts);

	if (rc == 0)
		rc = set_geometry(ctrl, &opts);
	if (rc == 0)
		rc = open_queues(ctrl);
	if (rc < 0)
		return rc;
	set_identity(ctrl, opts.serial);
	set_registers(ctrl);
	fth_ctrl_features_reset(ctrl);
	rc = fth_ctrl_workers_open(ctrl);
	return rc < 0 ? rc : fth_ctrl_workers_start(ctrl);
}

int fth_nvme_ctrl_new(struct fth_dev *dev, const struct fth_nvme_ctrl_opts *opts,
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
	fth_stats_free(ctrl->stats);
	free(ctrl->grants);
	free(ctrl->active);
	free(ctrl->cqs);
	free(ctrl->sqs);
	pthread_mutex_destroy(&ctrl->error_lock);
	pthread_rwlock_destroy(&ctrl->world);
	free(ctrl);
}
