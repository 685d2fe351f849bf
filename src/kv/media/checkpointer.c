/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread that writes checkpoints, every options.checkpoint_ms while the log goes on.
 *
 * 1. It runs between kv_writer_start() and kv_writer_stop(), because a checkpoint waits for a
 *    commit.
 * 2. ckpt_cancel ends the checkpoint under way at its next piece. The one before it stays in force,
 *    since the superblock is written last.
 * 3. One that fails is counted, and the next one is written in its turn. When the log has failed,
 *    nothing is written any more.
 */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define WRITE_NS 30000000000u /* for a checkpoint, so that closing waits no longer */

/* Until `until`; false: stop. */
static bool sleep_until(struct fth_kv *kv, uint64_t until)
{
	struct timespec ts = {.tv_sec = (time_t)(until / 1000000000u),
			      .tv_nsec = (long)(until % 1000000000u)};
	bool go_on;

	pthread_mutex_lock(&kv->timer_lock);
	while (!kv->timer_stop && fth_now_ns() < until)
		pthread_cond_timedwait(&kv->timer_wake, &kv->timer_lock, &ts);
	go_on = !kv->timer_stop;
	pthread_mutex_unlock(&kv->timer_lock);
	return go_on;
}

static void *checkpointer_main(void *context)
{
	struct fth_kv *kv = context;
	uint64_t every = (uint64_t)kv->options.checkpoint_ms * 1000000u;
	/* Opening has written one, or there is nothing yet. */
	uint64_t written = fth_load_relaxed_dev64(&kv->log.head);

	while (sleep_until(kv, fth_deadline_ns(every))) {
		uint64_t head = fth_load_relaxed_dev64(&kv->log.head);

		if (head == written || __atomic_load_n(&kv->log.error, __ATOMIC_RELAXED))
			continue;
		if (kv_checkpoint_write(kv, false, fth_deadline_ns(WRITE_NS)) == 0)
			written = head;
	}
	return NULL;
}

int kv_checkpointer_start(struct fth_kv *kv)
{
	int rc;

	if (!kv->options.checkpoint_ms || !kv_persistent(kv))
		return 0;
	rc = -pthread_create(&kv->timer, NULL, checkpointer_main, kv);
	if (rc < 0)
		return fth_fail(-rc, "cannot start the checkpoint thread: %s", strerror(-rc));
	kv->timer_runs = true;
	return 0;
}

void kv_checkpointer_stop(struct fth_kv *kv)
{
	if (!kv->timer_runs)
		return;
	/* relaxed: it ends a wait sooner, and orders nothing */
	fth_store_relaxed_dev32(&kv->ckpt_cancel, 1);
	pthread_mutex_lock(&kv->timer_lock);
	kv->timer_stop = true;
	pthread_cond_signal(&kv->timer_wake);
	pthread_mutex_unlock(&kv->timer_lock);
	pthread_join(kv->timer, NULL);
	fth_store_relaxed_dev32(&kv->ckpt_cancel, 0);
	kv->timer_runs = false;
}
