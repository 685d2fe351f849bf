/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages from and to the device, by channels that all threads share. A channel whose request timed
 * out is left alone until close: the device may still use the memory.
 */
#include "flat/flat_internal.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define POLL_NS	      400000u
#define YIELD_LONG    100000u /* ns: other threads have work, and do not just poll */
#define SLOW_REQUESTS 16u
#define WRITE_FEW     4u /* at once, by a thread for which nobody waits */

static __thread bool patient __attribute__((tls_model("initial-exec")));

void io_be_patient(void)
{
	patient = true;
}

/*
 * A disk serves what it has got in its order: a read that a program waits for comes after all
 * writes before it.
 */
static unsigned most_at_once(enum fth_dev_op op)
{
	return patient && op == FTH_DEV_WRITE ? WRITE_FEW : FLAT_DEPTH;
}

static int open_read_buffers(struct fth_flat *flat)
{
	size_t size = FLAT_CHANNELS * (size_t)flat->options.page;
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return fth_fail(ENOMEM, "flat: no memory for %zu bytes of page buffers", size);
	/* requests in flight use it: a child gets no copy, and the parent no new page */
	(void)madvise(at, size, MADV_DONTFORK);
	flat->read_buffers.memory = at;
	return 0;
}

uint8_t *io_take_buffer(struct fth_flat *flat)
{
	for (unsigned i = 0; i < FLAT_CHANNELS; i++)
		if (futex_try_lock(&flat->read_buffers.locks[i]))
			return flat->read_buffers.memory + i * (size_t)flat->options.page;
	return NULL;
}

void io_give_buffer(struct fth_flat *flat, const uint8_t *buffer)
{
	futex_unlock(&flat->read_buffers.locks[(size_t)(buffer - flat->read_buffers.memory) /
					       flat->options.page]);
}

/*
 * FTH_FLAT_POLL=0: threads that wait for the device sleep at once, and leave the processor to
 * others.
 */
static bool wants_polling(void)
{
	const char *text = getenv("FTH_FLAT_POLL");

	return !text || strcmp(text, "0") != 0;
}

int io_open(struct fth_flat *flat)
{
	int opened = open_read_buffers(flat);

	if (opened < 0)
		return opened;
	for (unsigned i = 0; i < FLAT_CHANNELS; i++) {
		int rc = fth_dev_chan_open(flat->dev, FLAT_DEPTH, &flat->channels[i].chan);

		flat->channels[i].polls = wants_polling();
		if (rc == 0) /* a fault may come while the program's allocator works */
			rc = fth_dev_chan_prepare(flat->channels[i].chan);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void io_close(struct fth_flat *flat)
{
	for (unsigned i = 0; i < FLAT_CHANNELS; i++)
		fth_dev_chan_close(flat->channels[i].chan);
	if (flat->read_buffers.memory)
		munmap(flat->read_buffers.memory, FLAT_CHANNELS * (size_t)flat->options.page);
}

static struct flat_channel *take_channel(struct fth_flat *flat, uint64_t deadline)
{
	/*
	 * without a call that might allocate, since a fault may come while the program's allocator
	 * works
	 */
	static __thread unsigned last __attribute__((tls_model("initial-exec")));
	struct fth_backoff backoff = {0};

	for (;;) {
		bool any = false;

		for (unsigned i = 0; i < FLAT_CHANNELS; i++) {
			struct flat_channel *channel = &flat->channels[(last + i) % FLAT_CHANNELS];

			if (__atomic_load_n(&channel->lost, __ATOMIC_RELAXED))
				continue;
			any = true;
			if (futex_try_lock(&channel->lock)) {
				last = (last + i) % FLAT_CHANNELS;
				return channel;
			}
		}
		if (!any || fth_now_ns() >= deadline)
			return NULL;
		fth_backoff_pause(&backoff);
	}
}

/*
 * Look for completed requests for a while and let other threads run in between: on a fast device
 * that costs less than a sleep and the interrupt that ends it. The next requests are not polled for
 * if the device took longer, or if another thread kept the processor: the end of a sleep preempts
 * that thread, and the end of a yield does not.
 */
static int poll_some(struct flat_channel *channel, struct fth_dev_req **done, unsigned n)
{
	int rc = fth_dev_reap(channel->chan, done, n, 0, 0);
	uint64_t now, end;
	bool busy = false;

	if (rc != 0 || channel->slow > 0 || !channel->polls) {
		channel->slow -= channel->slow > 0;
		return rc;
	}
	now = fth_now_ns();
	end = now + POLL_NS;
	while (rc == 0 && now < end && !busy) {
		uint64_t before = now;

		sched_yield();
		rc = fth_dev_reap(channel->chan, done, n, 0, 0);
		now = fth_now_ns();
		busy = now - before > YIELD_LONG;
	}
	if (rc == 0 || busy)
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

/*
 * Transfer up to FLAT_DEPTH pages. blocks[i] is where page i is on the device: its number unless
 * the process has forked. Returns how many were transferred, with their results; or a negative
 * errno.
 */
static int transfer(struct fth_flat *flat, enum fth_dev_op op, const uint64_t *pages,
		    const uint64_t *blocks, void *const *memory, unsigned n, int *results,
		    uint64_t deadline)
{
	struct flat_channel *channel = take_channel(flat, deadline);
	struct fth_dev_req *list[FLAT_DEPTH];
	int sent;

	if (!channel)
		return -ETIMEDOUT;
	for (unsigned i = 0; i < n; i++) {
		uint64_t at = blocks[i] * flat->map.page, length = flat->map.page;

		if (at < flat->size && length > flat->size - at)
			length = flat->size - at;
		list[i] = &channel->reqs[i];
		fth_dev_req_init(list[i], op, memory[i], length, flat->options.offset + at);
	}
	sent = fth_dev_submit(channel->chan, list, n);
	if (sent > 0 && !collect(channel, (unsigned)sent, deadline)) {
		lose(flat, channel, op, pages, (unsigned)sent);
		return -ETIMEDOUT;
	}
	for (int i = 0; i < sent; i++)
		results[i] = channel->reqs[i].result;
	futex_unlock(&channel->lock);
	return sent;
}

/* As transfer(), in a child of fork(), which has no channels. */
static int transfer_in_child(struct fth_flat *flat, enum fth_dev_op op, const uint64_t *blocks,
			     void *const *memory, unsigned n, int *results)
{
	for (unsigned i = 0; i < n; i++)
		results[i] = op == FTH_DEV_READ ? fork_read(flat, blocks[i], memory[i])
						: fork_write(flat, blocks[i], memory[i]);
	return (int)n;
}

/* As transfer(), if pages have blocks (fork.h): where they are read or, if written, have to go. */
static int transfer_forked(struct fth_flat *flat, enum fth_dev_op op, const uint64_t *pages,
			   void *const *memory, unsigned n, int *results, uint64_t deadline)
{
	uint64_t blocks[FLAT_DEPTH];
	unsigned have = 0;
	int rc;

	for (; have < n; have++) {
		blocks[have] = op == FTH_DEV_READ ? fork_place(flat, pages[have])
						  : fork_target(flat, pages[have]);
		if (blocks[have] == FLAT_NONE)
			break;
	}
	if (have == 0)
		return -ENOSPC;
	rc = fork_is_child(flat)
		     ? transfer_in_child(flat, op, blocks, memory, have, results)
		     : transfer(flat, op, pages, blocks, memory, have, results, deadline);
	/* after a timeout they may still be written: nobody else may have these blocks */
	for (unsigned i = 0; i < have && op == FTH_DEV_WRITE && rc != -ETIMEDOUT; i++)
		fork_settle(flat, pages[i], blocks[i], (int)i < rc && results[i] == 0);
	return rc;
}

/* After an error of a write: is it worth trying again? */
static bool made_room(struct fth_flat *flat, enum fth_dev_op op, int rc, const int *results)
{
	bool full = rc == -ENOSPC;

	for (int i = 0; i < rc; i++)
		full |= results[i] == -ENOSPC;
	return full && op == FTH_DEV_WRITE && fork_give_up(flat);
}

/* Note the results of n pages; returns the first error. */
static int note_results(struct fth_flat *flat, enum fth_dev_op op, const uint64_t *pages,
			const int *results, int n)
{
	int first = 0;

	for (int i = 0; i < n; i++) {
		if (results[i] < 0) {
			flat_count(flat, FTH_FLAT_STAT_ERRORS);
			first = first ? first : results[i];
			continue;
		}
		flat_count(flat,
			   op == FTH_DEV_READ ? FTH_FLAT_STAT_MISSES : FTH_FLAT_STAT_WRITE_BACKS);
		if (op == FTH_DEV_WRITE)
			word_set(&flat->words[pages[i]], WORD_FRESH, 0);
	}
	return first;
}

/* Pages from the first on that are transferred: a page that is FRESH is not read. */
static unsigned count_stored(const struct fth_flat *flat, enum fth_dev_op op, const uint64_t *pages,
			     unsigned n)
{
	unsigned run = 0;

	while (run < n &&
	       (op != FTH_DEV_READ || !(word_get(&flat->words[pages[run]]) & WORD_FRESH)))
		run++;
	return run;
}

int io_many(struct fth_flat *flat, enum fth_dev_op op, const uint64_t *pages, void *const *memory,
	    unsigned n, int *results, uint64_t deadline)
{
	unsigned most = most_at_once(op), run;
	int first = 0, rc;

	for (unsigned i = 0; i < n; i += run) {
		run = count_stored(flat, op, pages + i, n - i);
		if (run == 0) {
			memset(memory[i], 0, flat->map.page);
			results[i] = 0;
			run = 1;
			continue;
		}
		rc = op == FTH_DEV_WRITE ? __atomic_load_n(&flat->failed, __ATOMIC_RELAXED) : 0;
		if (rc == 0) {
			unsigned part = run < most ? run : most;

			rc = flat->fork ? transfer_forked(flat, op, pages + i, memory + i, part,
							  results + i, deadline)
					: transfer(flat, op, pages + i, pages + i, memory + i, part,
						   results + i, deadline);
		}
		if (flat->fork && made_room(flat, op, rc, results + i)) {
			run = 0;
			continue;
		}
		if (rc > 0) {
			run = (unsigned)rc;
			rc = note_results(flat, op, pages + i, results + i, rc);
		} else {
			rc = rc < 0 ? rc : -EIO;
			for (unsigned k = 0; k < run; k++)
				results[i + k] = rc;
		}
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
