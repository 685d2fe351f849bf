/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing a cache, its options and figures. kv_internal.h lists the siblings. */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"

#include "dev/lock.h"

#include "base/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const stat_names[FTH_KV_STAT_COUNT] = {
	"gets",
	"hits_memory",
	"hits_flash",
	"misses",
	"sets",
	"deletes",
	"expired",
	"flash_reads",
	"flash_read_bytes",
	"false_reads",
	"bad_items",
	"read_errors",
	"log_bytes",
	"chunk_bytes",
	"chunks",
	"write_errors",
	"evicted",
	"promoted",
	"reclaimed",
	"readmitted",
	"index_dropped",
	"kicks",
	"commits",
	"waits",
	"dropped",
	"rejected",
	"over_budget",
	"rewritten_bytes",
	"checkpoints",
	"checkpoint_errors",
	"lost",
	"index_reclaimed",
	"log_failures",
	"log_restarts",
};

static void set_defaults(struct fth_kv_options *o)
{
	o->memory = o->memory ? o->memory : 64u << 20;
	o->value_max = o->value_max ? o->value_max : FTH_KV_VALUE_MAX_USUAL;
	o->buffers = o->buffers ? o->buffers : 8;
	o->window_ms = o->window_ms ? o->window_ms : 100;
	o->timeout_ns = o->timeout_ns ? o->timeout_ns : 5000000000u;
	o->admit = o->admit ? o->admit : 100;
	if (!o->chunk)
		for (o->chunk = 1u << 20; o->chunk < 2 * (uint64_t)o->value_max; o->chunk *= 2)
			;
}

static int check_options(const struct fth_kv_options *o, const struct fth_dev *dev)
{
	int rc = fth_options_check("kv", o->size, sizeof(*o));

	if (rc < 0)
		return rc;
	if (o->value_max > FTH_KV_VALUE_MAX)
		return fth_fail(EINVAL, "kv: value_max %u exceeds %u", o->value_max,
				FTH_KV_VALUE_MAX);
	if (o->chunk < 65536 || o->chunk & (o->chunk - 1) ||
	    o->chunk < (uint64_t)o->value_max + 1024)
		return fth_fail(EINVAL,
				"kv: chunk %u is not a power of two of at least 65536 that holds "
				"a value of %u bytes",
				o->chunk, o->value_max);
	if (o->buffers < 3 || o->buffers > 1024)
		return fth_fail(EINVAL, "kv: buffers is %u, expected 3 to 1024", o->buffers);
	if (o->readmit > 90)
		return fth_fail(EINVAL, "kv: readmit %u exceeds 90 percent", o->readmit);
	if (o->admit > 100)
		return fth_fail(EINVAL, "kv: admit %u exceeds 100 percent", o->admit);
	if (o->persistence != FTH_KV_VOLATILE && (o->admit != 100 || o->daily_bytes))
		return fth_fail(EINVAL, "kv: admit and daily_bytes cannot be combined with "
					"persistence");
	if ((unsigned)o->persistence > FTH_KV_WRITE_THROUGH)
		return fth_fail(EINVAL, "kv: unknown persistence %u", (unsigned)o->persistence);
	if (o->persistence == FTH_KV_VOLATILE && o->checkpoint_ms)
		return fth_fail(EINVAL, "kv: checkpoint_ms %u requires persistence",
				o->checkpoint_ms);
	if (o->persistence != FTH_KV_VOLATILE && !o->flash && !dev)
		return fth_fail(EINVAL, "kv: persistence requires a flash device");
	return 0;
}

int kv_init(struct fth_kv *kv)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&kv->log.lock, NULL);
	pthread_mutex_init(&kv->kick_lock, NULL);
	pthread_mutex_init(&kv->ckpt_lock, NULL);
	pthread_mutex_init(&kv->moved_lock, NULL);
	pthread_mutex_init(&kv->workers_lock, NULL);
	pthread_mutex_init(&kv->flush_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&kv->work, &attr);
	pthread_mutex_init(&kv->timer_lock, NULL);
	pthread_cond_init(&kv->timer_wake, &attr);
	pthread_condattr_destroy(&attr);
	kv->stats = fth_stats_new(FTH_KV_STAT_COUNT);
	return kv->stats ? 0 : -ENOMEM;
}

void kv_free(struct fth_kv *kv)
{
	if (kv->dev)
		kv_log_release(kv);
	kv_slots_release(kv);
	kv_index_release(kv);
	if (kv->owns_dev)
		fth_dev_close(kv->dev);
	fth_dev_unlock(kv->lock);
	fth_stats_free(kv->stats);
	pthread_cond_destroy(&kv->timer_wake);
	pthread_mutex_destroy(&kv->timer_lock);
	pthread_cond_destroy(&kv->work);
	pthread_mutex_destroy(&kv->flush_lock);
	pthread_mutex_destroy(&kv->workers_lock);
	pthread_mutex_destroy(&kv->moved_lock);
	pthread_mutex_destroy(&kv->ckpt_lock);
	pthread_mutex_destroy(&kv->kick_lock);
	pthread_mutex_destroy(&kv->log.lock);
	free(kv);
}

static int open_flash(struct fth_kv *kv)
{
	int rc = kv_media_open(kv);

	if (rc == 0)
		rc = kv_log_init(kv);
	if (rc == 0 && kv->recovery.found)
		rc = kv_recover(kv);
	if (!kv->options.readmit)
		kv->log.released = UINT64_MAX / 2;
	kv->swept = kv->log.next;
	if (rc == 0)
		rc = kv_writer_start(kv);
	if (rc == 0) {
		rc = kv_checkpointer_start(kv);
		if (rc < 0)
			kv_writer_stop(kv);
	}
	return rc;
}

static int open_on(const struct fth_kv_options *options, struct fth_dev *dev, struct fth_kv **out)
{
	struct fth_kv_options o = FTH_KV_OPTIONS_INIT;
	struct fth_kv *kv;
	int rc;

	*out = NULL;
	if (options)
		o = *options;
	set_defaults(&o);
	rc = check_options(&o, dev);
	if (rc < 0)
		return rc;
	kv = calloc(1, sizeof(*kv));
	if (!kv)
		return -ENOMEM;
	kv->options = o;
	kv->options.flash = NULL; /* the caller's; not ours to keep */
	kv->dev = dev;
	kv->owns_dev = !dev;
	kv->lock = -1;
	rc = kv_init(kv);
	if (rc == 0 && !dev && o.flash)
		rc = fth_dev_open(o.flash, &kv->dev);
	/* Opened first: create=on may have to make the file that is locked. */
	if (rc == 0 && !dev && o.flash)
		rc = fth_dev_lock_uri(o.flash, true, &kv->lock);
	if (rc == 0)
		rc = kv_index_init(kv, o.items);
	if (rc == 0)
		rc = kv_slots_init(kv);
	if (rc == 0 && kv->dev)
		rc = open_flash(kv);
	if (rc < 0)
		kv_free(kv);
	else
		*out = kv;
	return rc;
}

int fth_kv_open(const struct fth_kv_options *options, struct fth_kv **out)
{
	return open_on(options, NULL, out);
}

int fth_kv_open_dev(const struct fth_kv_options *options, struct fth_dev *dev, struct fth_kv **out)
{
	return open_on(options, dev, out);
}

int fth_kv_close(struct fth_kv *kv)
{
	int rc = 0;

	if (!kv)
		return 0;
	kv_checkpointer_stop(kv);
	kv_writer_stop(kv);
	if (kv_persistent(kv)) {
		rc = __atomic_load_n(&kv->log.error, __ATOMIC_RELAXED);
		if (rc == 0)
			rc = kv_checkpoint_write(kv, true, FTH_DEV_TIMEOUT);
	}
	kv_workers_wait(kv);
	if (kv->left_behind)
		return fth_fail(ETIMEDOUT, "kv: requests of the device did not complete; the "
					   "device and its buffers are not released");
	kv_free(kv);
	return rc;
}

int fth_kv_checkpoint(struct fth_kv *kv, uint64_t deadline)
{
	if (!kv_persistent(kv))
		return fth_fail(EOPNOTSUPP, "a cache without persistence has no checkpoints");
	return kv_checkpoint_write(kv, false, deadline);
}

void fth_kv_recovery(const struct fth_kv *kv, struct fth_kv_recovery *out)
{
	*out = kv->recovery;
}

uint64_t fth_kv_stat(const struct fth_kv *kv, enum fth_kv_stat which)
{
	return fth_stats_read(kv->stats, which);
}

const char *fth_kv_stat_name(enum fth_kv_stat which)
{
	return (unsigned)which < FTH_KV_STAT_COUNT ? stat_names[which] : "unknown";
}

void fth_kv_usage(struct fth_kv *kv, struct fth_kv_usage *out)
{
	const struct kv_slots *slots = &kv->slots;

	memset(out, 0, sizeof(*out));
	out->items = fth_load_relaxed_dev64(&kv->items);
	out->index_bytes =
		(uint64_t)fth_load_relaxed_dev32(&kv->bucket_count) * sizeof(struct kv_bucket);
	out->index_items = (uint64_t)kv->bucket_limit * KV_WAYS;
	out->memory_bytes =
		(uint64_t)__atomic_load_n(&slots->pages_used, __ATOMIC_RELAXED) * slots->page;
	out->memory_items = fth_load_relaxed_dev64(&slots->items);
	out->flash_bytes = kv->ring;
	out->flash_used =
		fth_load_relaxed_dev64(&kv->log.head) - fth_load_relaxed_dev64(&kv->log.tail);
	out->flash_reading = kv_workers_reading(kv);
	out->log_failed =
		kv_persistent(kv) && __atomic_load_n(&kv->log.error, __ATOMIC_RELAXED) != 0;
}

const struct fth_kv_options *kv_options(const struct fth_kv *kv)
{
	return &kv->options;
}
