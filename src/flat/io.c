/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages from and to the device, by channels that all threads share. A channel whose request timed out is left
 * alone until close: the device may still use the memory.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "flat/flat_internal.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#define POLL_NS	      400000u
#define SLOW_REQUESTS 16u

int io_open(struct fth_flat *flat)
{
	for (unsigned i = 0; i < FLAT_CHANNELS; i++) {
		int rc = fth_dev_chan_open(flat->dev, FLAT_DEPTH, &flat->channels[i].chan);

		if (rc < 0)
			return rc;
	}
	return 0;
}

void io_close(struct fth_flat *flat)
{
	for (unsigned i = 0; i < FLAT_CHANNELS; i++)
		fth_dev_chan_close(flat->channels[i].chan);
}

static struct flat_channel *take_channel(struct fth_flat *flat, uint64_t deadline)
{
	/* without a call that might allocate, since a fault may come while the program's allocator works */
	static __thread unsigned last __attribute__((tls_model("initial-exec")));
	struct fth_backoff backoff = {0};

	for (;;) {
		bool any = false;

		for (unsigned i = 0; i < FLAT_CHANNELS; i++) {
			struct flat_channel *channel = &flat->channels[(last + i) % FLAT_CHANNELS];

			if (__atomic_load_n(&channel->lost, __ATOMIC_RELAXED))
				continue;
			any = true;
			if (word_try_lock(&channel->lock)) {
				last = (last + i) % FLAT_CHANNELS;
				return channel;
			}
		}
		if (!any || fth_now_ns() >= deadline)
			return NULL;
		fth_backoff_pause(&backoff);
	}
}

static void prepare(const struct fth_flat *flat, struct fth_dev_req *req, enum fth_dev_op op,
		    uint64_t page, void *memory)
{
	uint64_t at = page * flat->map.page, length = flat->map.page;

	if (length > flat->size - at)
		length = flat->size - at;
	fth_dev_req_init(req, op, memory, length, flat->options.offset + at);
}

/*
 * Look for completed requests for a while and let other threads run in between: on a fast device that costs less than a sleep and the
 * interrupt that ends it. A device that took longer is not polled for the next requests.
 */
static int poll_some(struct flat_channel *channel, struct fth_dev_req **done, unsigned n)
{
	int rc = fth_dev_reap(channel->chan, done, n, 0, 0);
	uint64_t end;

	if (rc != 0 || channel->slow > 0) {
		channel->slow -= channel->slow > 0;
		return rc;
	}
	end = fth_now_ns() + POLL_NS;
	while (rc == 0 && fth_now_ns() < end) {
		sched_yield();
		rc = fth_dev_reap(channel->chan, done, n, 0, 0);
	}
	if (rc == 0)
		channel->slow = SLOW_REQUESTS;
	return rc;
}

/* Collect all; false if the deadline passes first. */
static bool collect(struct flat_channel *channel, unsigned n, uint64_t deadline)
{
	struct fth_dev_req *done[FLAT_DEPTH];

	while (n > 0) {
		int rc = poll_some(channel, done, n);

		if (rc == 0)
			rc = fth_dev_reap(channel->chan, done, n, n, deadline);
		if (rc <= 0)
			return false;
		n -= (unsigned)rc;
	}
	return true;
}

/* Requests that were not collected may still read or write their pages. */
static void lose(struct fth_flat *flat, struct flat_channel *channel, enum fth_dev_op op,
		 const uint64_t *pages, unsigned n)
{
	__atomic_store_n(&channel->lost, true, __ATOMIC_RELAXED);
	if (op == FTH_DEV_WRITE) {
		__atomic_store_n(&flat->failed, -ETIMEDOUT, __ATOMIC_RELAXED);
		return;
	}
	for (unsigned i = 0; i < n; i++)
		word_set(&flat->words[pages[i]], WORD_STATE, WORD_BROKEN);
}

/* Up to FLAT_DEPTH pages. Returns how many were transferred, with their results; or a negative errno. */
static int transfer(struct fth_flat *flat, enum fth_dev_op op, const uint64_t *pages,
		    void *const *memory, unsigned n, int *results, uint64_t deadline)
{
	struct flat_channel *channel = take_channel(flat, deadline);
	struct fth_dev_req *list[FLAT_DEPTH];
	int sent;

	if (!channel)
		return -ETIMEDOUT;
	for (unsigned i = 0; i < n; i++) {
		list[i] = &channel->reqs[i];
		prepare(flat, list[i], op, pages[i], memory[i]);
	}
	sent = fth_dev_submit(channel->chan, list, n);
	if (sent > 0 && !collect(channel, (unsigned)sent, deadline)) {
		lose(flat, channel, op, pages, (unsigned)sent);
		return -ETIMEDOUT;
	}
	for (int i = 0; i < sent; i++)
		results[i] = channel->reqs[i].result;
	word_unlock(&channel->lock);
	return sent;
}

static int io_device(struct fth_flat *flat, enum fth_dev_op op, const uint64_t *pages,
		     void *const *memory, unsigned n, int *results, uint64_t deadline)
{
	int first = 0;

	for (unsigned done = 0; done < n;) {
		unsigned part = n - done < FLAT_DEPTH ? n - done : FLAT_DEPTH;
		int rc = op == FTH_DEV_WRITE ? __atomic_load_n(&flat->failed, __ATOMIC_RELAXED) : 0;

		if (rc == 0)
			rc = transfer(flat, op, pages + done, memory + done, part, results + done,
				      deadline);
		if (rc <= 0) {
			for (; done < n; done++)
				results[done] = rc < 0 ? rc : -EIO;
			return rc < 0 ? rc : -EIO;
		}
		for (int i = 0; i < rc; i++)
			if (results[done + (unsigned)i] < 0) {
				flat_count(flat, FTH_FLAT_STAT_ERRORS);
				first = first ? first : results[done + (unsigned)i];
			} else {
				flat_count(flat, op == FTH_DEV_READ ? FTH_FLAT_STAT_MISSES
								    : FTH_FLAT_STAT_WRITE_BACKS);
				if (op == FTH_DEV_WRITE)
					word_set(&flat->words[pages[done + (unsigned)i]],
						 WORD_FRESH, 0);
			}
		done += (unsigned)rc;
	}
	return first;
}

static bool is_fresh(const struct fth_flat *flat, enum fth_dev_op op, uint64_t page)
{
	return op == FTH_DEV_READ && (word_get(&flat->words[page]) & WORD_FRESH);
}

int io_many(struct fth_flat *flat, enum fth_dev_op op, const uint64_t *pages, void *const *memory,
	    unsigned n, int *results, uint64_t deadline)
{
	unsigned end;
	int first = 0, rc;

	for (unsigned i = 0; i < n; i = end) {
		end = i;
		while (end < n && is_fresh(flat, op, pages[end])) {
			memset(memory[end], 0, flat->map.page);
			results[end++] = 0;
		}
		if (end > i)
			continue;
		while (end < n && !is_fresh(flat, op, pages[end]))
			end++;
		rc = io_device(flat, op, pages + i, memory + i, end - i, results + i, deadline);
		first = first ? first : rc;
	}
	return first;
}

int io_read(struct fth_flat *flat, uint64_t page, void *to)
{
	int result;

	return io_many(flat, FTH_DEV_READ, &page, &to, 1, &result, fth_deadline_ns(FLAT_TIMEOUT));
}

int io_write(struct fth_flat *flat, uint64_t page, const void *from)
{
	void *memory = (void *)from;
	int result;

	return io_many(flat, FTH_DEV_WRITE, &page, &memory, 1, &result,
		       fth_deadline_ns(FLAT_TIMEOUT));
}
