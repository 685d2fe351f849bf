/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages that move in the background, by a thread of the region: hot pages to DRAM, old ones out of
 * it, pages that a stream will need next, and changed pages of the SSD-cache to the device.
 *
 * The look-aside rule (3.3 of the paper): a page that is on its way to DRAM can be used meanwhile.
 *
 *  1. The thread sets MOVING under the lock of the page, and copies the page without it. Loads and
 *     stores go to the SSD-cache.
 *  2. Every store to a page that is MOVING notes the parts that it changes in `stored`, under the
 *     lock of the page.
 *  3. With the lock, the thread copies these parts once more, and maps the copy. Nobody stores
 *     meanwhile, so that nothing is lost, and a store is in one part as a whole or noted for all
 *     that it touches, so that nothing is torn.
 *  4. A thread that moves the page in another way clears MOVING; the mover then drops its copy. It
 *     has one such page at a time.
 *
 * A fault never waits for the thread, but for the lock of a page. If there is too much to do, what
 * was asked for is left undone, which costs time and nothing else.
 */
#include "flat/flat_internal.h"
#include "flat/paging/race.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PARTS	    64u	   /* of a page, for `stored` */
#define SPIN_NS	    20000u /* before it sleeps */
#define SPARE_SHARE 64u	   /* of DRAM: places that are kept free, so that a fault finds one */
#define SPARE_MAX   256u
#define CLEAN_MANY  32u
#define IMPATIENCE \
	8u /* accesses to a page that was asked for, after which the program moves it itself; a power of two */
#define BATCH_ROOM  32u /* pages that leave DRAM together, */
#define BATCH_SHARE 32u /* or such a part of it if that is less */

/* ---- asking ---- */

static void wake(struct flat_mover *mover)
{
	/* seq_cst, with sleep_until_asked(): either it sees the request, or this sees it asleep */
	if (__atomic_exchange_n(&mover->asleep, 0, __ATOMIC_SEQ_CST))
		(void)syscall(SYS_futex, &mover->asleep, FUTEX_WAKE_PRIVATE, 1);
}

static bool ask(struct fth_flat *flat, const struct flat_request *request)
{
	struct flat_mover *mover = &flat->mover;
	bool room;

	if (!mover->running || __atomic_load_n(&mover->lost, __ATOMIC_RELAXED))
		return false;
	futex_lock(&mover->lock);
	room = mover->used < FLAT_REQUESTS;
	if (room)
		mover->requests[(mover->head + mover->used++) % FLAT_REQUESTS] = *request;
	futex_unlock(&mover->lock);
	if (room)
		wake(mover);
	return room;
}

static uint64_t places_free(const struct fth_flat *flat)
{
	uint64_t limit = __atomic_load_n(&flat->ring.limit, __ATOMIC_RELAXED),
		 taken = __atomic_load_n(&flat->ring.taken, __ATOMIC_RELAXED);

	return taken < limit ? limit - taken : 0;
}

bool mover_ask_up(struct fth_flat *flat, uint64_t page)
{
	uint32_t *word = &flat->words[page];

	if (flat->options.policy == FTH_FLAT_ALWAYS)
		return false;
	if (word_get(word) & WORD_MOVING)
		return true;
	if (word_get(word) & WORD_ASKED) /* unless the thread does not get to it */
		return (word_get(word) & WORD_COUNT) >> WORD_COUNT_SHIFT & (IMPATIENCE - 1);
	if (!ask(flat, &(struct flat_request){.kind = REQUEST_UP, .first = page}))
		return false;
	word_set(word, WORD_ASKED, WORD_ASKED);
	return true;
}

void mover_ask_clean(struct fth_flat *flat)
{
	if (!flat->mover.running ||
	    __atomic_exchange_n(&flat->mover.cleaning, true, __ATOMIC_RELAXED))
		return;
	if (!ask(flat, &(struct flat_request){.kind = REQUEST_CLEAN}))
		__atomic_store_n(&flat->mover.cleaning, false, __ATOMIC_RELAXED);
}

void mover_note_dirty(struct fth_flat *flat)
{
	if (flat->mover.running &&
	    __atomic_add_fetch(&flat->mover.dirtied, 1, __ATOMIC_RELAXED) % CLEAN_MANY == 0)
		mover_ask_clean(flat);
}

static uint64_t spare_places(const struct fth_flat *flat)
{
	uint64_t spare = __atomic_load_n(&flat->ring.limit, __ATOMIC_RELAXED) / SPARE_SHARE;

	return spare < SPARE_MAX ? spare : SPARE_MAX;
}

void mover_keep_room(struct fth_flat *flat)
{
	if (!flat->mover.running || places_free(flat) >= spare_places(flat) / 2 ||
	    __atomic_exchange_n(&flat->mover.rooming, true, __ATOMIC_RELAXED))
		return;
	if (!ask(flat, &(struct flat_request){.kind = REQUEST_ROOM}))
		__atomic_store_n(&flat->mover.rooming, false, __ATOMIC_RELAXED);
}

void mover_note_store(struct fth_flat *flat, uint64_t offset, uint64_t length)
{
	uint64_t part = flat->map.page / PARTS, end = offset + length;

	while (offset < end) {
		uint64_t page = offset / flat->map.page, next = (page + 1) * flat->map.page;

		if (word_get(&flat->words[page]) & WORD_MOVING)
			for (uint64_t at = offset / part; at * part < end && at * part < next; at++)
				flat->mover.stored |= (uint64_t)1 << (at % PARTS);
		offset = next;
	}
}

/* ---- up ---- */

/* Old pages leave DRAM until so many places are free, as far as possible. */
static void make_room(struct fth_flat *flat, uint64_t places)
{
	uint64_t batch = __atomic_load_n(&flat->ring.limit, __ATOMIC_RELAXED) / BATCH_SHARE;

	batch = batch < BATCH_ROOM ? batch : BATCH_ROOM;
	while (places_free(flat) < places) {
		uint64_t wanted = places - places_free(flat);

		wanted = wanted > batch ? wanted : batch;
		if (move_oldest_down(flat, (unsigned)wanted) < 0)
			return;
	}
}

static uint8_t *aside_of(const struct fth_flat *flat)
{
	return flat->mover.buffer + FLAT_AHEAD_MAX * flat->map.page;
}

/* Steps 1 and 2: a copy of the page. False if the page needs it no more. */
static bool copy_aside(struct fth_flat *flat, uint64_t page)
{
	uint32_t *word = &flat->words[page];
	uint64_t start = latency_start(&flat->model);
	const uint8_t *frame;

	word_lock(word);
	if (word_state(word) != WORD_CACHED || !(word_get(word) & WORD_ASKED)) {
		word_unlock(word);
		return false;
	}
	word_set(word, WORD_MOVING, WORD_MOVING);
	flat->mover.stored = 0;
	frame = directory_frame(&flat->directory, directory_find(&flat->directory, page));
	word_unlock(word);
	FLAT_READS_BEGIN();
	memcpy(aside_of(flat), frame, flat->map.page);
	FLAT_READS_END();
	latency_wait(start, flat->model.promote_ns);
	return true;
}

/* Step 3; the page is locked and still MOVING. */
static int map_aside(struct fth_flat *flat, uint64_t page)
{
	struct flat_slot *slot = directory_find(&flat->directory, page);
	const uint8_t *frame = directory_frame(&flat->directory, slot);
	uint64_t part = flat->map.page / PARTS;

	for (unsigned i = 0; i < PARTS; i++)
		if (flat->mover.stored >> i & 1)
			memcpy(aside_of(flat) + i * part, frame + i * part, part);
	return move_up_from(flat, page, slot, aside_of(flat), false);
}

static void move_aside(struct fth_flat *flat, uint64_t page)
{
	uint32_t *word = &flat->words[page];
	int rc = -EBUSY;

	make_room(flat, 1);
	if (!ring_reserve(&flat->ring)) { /* held by others: the next access asks again */
		word_lock(word);
		word_set(word, WORD_ASKED, 0);
		word_unlock(word);
		return;
	}
	if (copy_aside(flat, page)) {
		word_lock(word);
		if (word_get(word) & WORD_MOVING) {
			rc = map_aside(flat, page);
			word_set(word, WORD_ASKED | WORD_MOVING, 0);
		}
		word_unlock(word);
	}
	if (rc < 0)
		ring_unreserve(&flat->ring);
	else
		flat_count(flat, FTH_FLAT_STAT_BACKGROUND);
}

/* ---- ahead ---- */

/* Pages that are read together, all locked and on flash. */
struct window {
	uint64_t pages[FLAT_AHEAD_MAX];
	void *memory[FLAT_AHEAD_MAX];
	int results[FLAT_AHEAD_MAX];
	unsigned n;
};

static void collect_window(struct fth_flat *flat, struct window *w, uint64_t first, uint64_t pages)
{
	for (uint64_t page = first; page < first + pages && page < flat->pages; page++) {
		if (w->n == FLAT_AHEAD_MAX || !word_try_lock(&flat->words[page]))
			continue;
		if (word_state(&flat->words[page]) != WORD_FLASH || !ring_reserve(&flat->ring)) {
			word_unlock(&flat->words[page]);
			continue;
		}
		w->memory[w->n] = flat->mover.buffer + w->n * flat->map.page;
		w->pages[w->n++] = page;
	}
}

/* The first pages of [from, end) that are neighbours, were read, and are not `but`. */
static unsigned run_of(const struct window *w, unsigned from, uint64_t but)
{
	unsigned end = from;

	while (end < w->n && w->results[end] == 0 && w->pages[end] != but &&
	       w->pages[end] == w->pages[from] + (end - from))
		end++;
	return end - from;
}

static void enter_dram(struct fth_flat *flat, uint64_t page)
{
	word_set(&flat->words[page], WORD_STATE | WORD_DIRTY, WORD_DRAM);
	ring_push(flat, page, true);
	flat_count(flat, FTH_FLAT_STAT_AHEAD);
	word_unlock(&flat->words[page]);
}

/*
 * It was read and stays in the SSD-cache, or on flash if that has no slot: its fault says how far
 * the program is.
 */
static void leave_tripwire(struct fth_flat *flat, uint64_t page, const void *from, int result)
{
	struct flat_slot *slot;

	ring_unreserve(&flat->ring);
	if (result == 0 && move_find_slot(flat, page, false, &slot) == 0) {
		memcpy(directory_frame(&flat->directory, slot), from, flat->map.page);
		move_in_end(flat, page, slot, 0);
	}
	word_unlock(&flat->words[page]);
}

static void map_window(struct fth_flat *flat, struct window *w, uint64_t tripwire)
{
	for (unsigned i = 0; i < w->n;) {
		unsigned run = run_of(w, i, tripwire);
		int done = run ? map_put_many(&flat->map, w->pages[i], w->memory[i], run) : 0;

		for (int k = 0; k < done; k++)
			enter_dram(flat, w->pages[i++]);
		if (done < (int)run || run == 0) {
			bool keep = w->pages[i] == tripwire;

			leave_tripwire(flat, w->pages[i], w->memory[i],
				       keep ? w->results[i] : -EIO);
			i++;
		}
	}
}

/*
 * Read the next pages of a stream together. All but the middle one are mapped. Transfers overlap,
 * as those of the paper's table of promotions do; mapping is paid for each page.
 */
static void read_locked(struct fth_flat *flat, uint64_t first, uint64_t pages)
{
	const struct flat_latency_model *model = &flat->model;
	uint64_t start = latency_start(&flat->model);
	struct window w = {.n = 0};

	make_room(flat, pages);
	collect_window(flat, &w, first, pages);
	if (w.n == 0)
		return;
	(void)io_many(flat, FTH_DEV_READ, w.pages, w.memory, w.n, w.results,
		      fth_deadline_ns(FLAT_TIMEOUT));
	for (unsigned i = 0; i < w.n; i++)
		if (w.results[i] == -ETIMEDOUT)
			__atomic_store_n(&flat->mover.lost, true, __ATOMIC_RELAXED);
	latency_wait(start, model->promote_ns + w.n * (model->map_ns + model->stack_read_ns));
	map_window(flat, &w, stream_tripwire(first, pages));
}

/* Another thread that reads ahead has the buffer: then it is left to that. */
static void read_ahead(struct fth_flat *flat, uint64_t first, uint64_t pages)
{
	if (pages > __atomic_load_n(&flat->ring.limit, __ATOMIC_RELAXED) / 8 ||
	    __atomic_load_n(&flat->mover.lost, __ATOMIC_RELAXED) ||
	    !futex_try_lock(&flat->mover.buffer_lock))
		return;
	if (!__atomic_load_n(&flat->mover.lost, __ATOMIC_RELAXED)) /* it is set under this lock */
		read_locked(flat, first, pages);
	futex_unlock(&flat->mover.buffer_lock);
}

void mover_ahead(struct fth_flat *flat, const struct stream_ahead *ahead)
{
	if (ahead->now)
		read_ahead(flat, ahead->first, ahead->pages);
	else
		(void)ask(flat, &(struct flat_request){.kind = REQUEST_AHEAD,
						       .first = ahead->first,
						       .pages = ahead->pages});
}

/* ---- clean ---- */

static void clean_some(struct fth_flat *flat)
{
	struct flat_slot *slots[CLEAN_MANY];
	uint64_t pages[CLEAN_MANY];
	void *memory[CLEAN_MANY];
	int results[CLEAN_MANY];
	unsigned n;

	__atomic_store_n(&flat->mover.cleaning, false, __ATOMIC_RELAXED);
	n = directory_find_dirty(flat, &flat->mover.hand, slots, CLEAN_MANY);
	if (n == 0)
		return;
	for (unsigned i = 0; i < n; i++) {
		pages[i] = slots[i]->page;
		memory[i] = directory_frame(&flat->directory, slots[i]);
	}
	(void)io_many(flat, FTH_DEV_WRITE, pages, memory, n, results,
		      fth_deadline_ns(FLAT_TIMEOUT));
	for (unsigned i = 0; i < n; i++) {
		if (results[i] == 0)
			word_set(&flat->words[pages[i]], WORD_DIRTY, 0);
		word_unlock(&flat->words[pages[i]]);
	}
}

/* ---- the thread ---- */

static bool take_request(struct flat_mover *mover, struct flat_request *request)
{
	bool any;

	futex_lock(&mover->lock);
	any = mover->used > 0;
	if (any) {
		*request = mover->requests[mover->head];
		mover->head = (mover->head + 1) % FLAT_REQUESTS;
		mover->used--;
	}
	futex_unlock(&mover->lock);
	return any;
}

static bool anything_asked(struct flat_mover *mover)
{
	bool any;

	futex_lock(&mover->lock);
	any = mover->used > 0;
	futex_unlock(&mover->lock);
	return any || __atomic_load_n(&mover->stop, __ATOMIC_RELAXED);
}

static void sleep_until_asked(struct flat_mover *mover)
{
	uint64_t start = fth_now_ns();

	while (fth_now_ns() - start < SPIN_NS) {
		if (anything_asked(mover))
			return;
		for (unsigned i = 0; i < 32; i++)
			fth_cpu_relax();
	}
	__atomic_store_n(&mover->asleep, 1, __ATOMIC_SEQ_CST); /* see wake() */
	if (!anything_asked(mover))
		(void)syscall(SYS_futex, &mover->asleep, FUTEX_WAIT_PRIVATE, 1, NULL);
	__atomic_store_n(&mover->asleep, 0, __ATOMIC_SEQ_CST);
}

static void keep_spare(struct fth_flat *flat)
{
	__atomic_store_n(&flat->mover.rooming, false, __ATOMIC_RELAXED);
	if (places_free(flat) < spare_places(flat) / 2)
		make_room(flat, spare_places(flat));
}

static void *serve(void *raw)
{
	struct fth_flat *flat = raw;
	struct flat_request request;
	sigset_t all;

	sigfillset(&all); /* it has no faults; those that are sent are for other threads */
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	io_be_patient();
	while (!__atomic_load_n(&flat->mover.stop, __ATOMIC_ACQUIRE)) {
		if (!take_request(&flat->mover, &request)) {
			sleep_until_asked(&flat->mover);
			continue;
		}
		if (__atomic_load_n(&flat->mover.lost, __ATOMIC_RELAXED))
			continue;
		fault_enter();
		if (request.kind == REQUEST_UP)
			move_aside(flat, request.first);
		else if (request.kind == REQUEST_AHEAD)
			read_ahead(flat, request.first, request.pages);
		else if (request.kind == REQUEST_CLEAN)
			clean_some(flat);
		keep_spare(flat);
		fault_leave();
	}
	return NULL;
}

int mover_open(struct fth_flat *flat)
{
	struct flat_mover *mover = &flat->mover;
	size_t size = (FLAT_AHEAD_MAX + 1) * flat->map.page;
	sigset_t before;
	int rc;

	mover->buffer =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mover->buffer == MAP_FAILED) {
		mover->buffer = NULL;
		return fth_fail(ENOMEM, "flat: no memory for page buffers of %zu bytes", size);
	}
	/* requests in flight use it: a child gets no copy, and the parent no new page */
	(void)madvise(mover->buffer, size, MADV_DONTFORK);
	if (flat->options.foreground)
		return 0;
	fault_block_signals(&before); /* the thread takes no signals of the program */
	rc = pthread_create(&mover->thread, NULL, serve, flat);
	fault_restore_signals(&before);
	if (rc != 0)
		return fth_fail(rc, "flat: cannot start the background thread: %s", strerror(rc));
	mover->running = true;
	return 0;
}

void mover_stop(struct fth_flat *flat)
{
	struct flat_mover *mover = &flat->mover;

	if (!mover->running)
		return;
	__atomic_store_n(&mover->stop, true, __ATOMIC_RELEASE);
	wake(mover);
	pthread_join(mover->thread, NULL);
	mover->running = false;
}

void mover_let_inherit(struct fth_flat *flat, int advice)
{
	(void)madvise(flat->mover.buffer, (FLAT_AHEAD_MAX + 1) * flat->map.page, advice);
}

void mover_forked(struct fth_flat *flat)
{
	struct flat_mover *mover = &flat->mover;

	mover->running = mover->cleaning = mover->rooming = false;
	mover->lock = mover->buffer_lock = 0;
	mover->used = 0;
}

void mover_close(struct fth_flat *flat)
{
	if (flat->mover.buffer)
		munmap(flat->mover.buffer, (FLAT_AHEAD_MAX + 1) * (size_t)flat->options.page);
	flat->mover.buffer = NULL;
}
