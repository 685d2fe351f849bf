/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The accounts of a tree. qmem_arena.c hands out small pieces of larger allocations.
 *
 * 1. granted >= reserved, and granted = free + used. The root's granted is its budget and never
 *    changes.
 * 2. `free` is changed by compare-and-swap, by any thread. It never covers bytes that are in use,
 *    so a thread that lowered it owns what it took.
 * 3. `granted`, `reserved` and the list of children are changed under the tree's lock only.
 * 4. The sum of the children's grants and what is charged to an account itself is its used. So a
 *    leaf's slack counts as used by all accounts above, until it is returned or collected.
 *
 * No lock is held while memory is allocated.
 */
#include "query/mem/qmem.h"

#include "fathom/base/error.h"
#include "fathom/hd/atomic.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* From here on memory comes from mmap(): zeroed, and given back to the system at once. */
#define MMAP_FROM (256u << 10)
#define PAGE	  4096u

struct qmem_tree {
	pthread_mutex_t lock;
	uint64_t fail_nth; /* counts down to 0, which is off */
};

struct fth_qmem {
	uint64_t free;	 /* atomic */
	uint64_t peak;	 /* atomic */
	uint64_t recent; /* atomic: likewise, since it was taken */
	uint64_t granted, reserved, limit;
	struct fth_qmem *parent, *children, *next; /* next: sibling */
	struct qmem_tree *tree;
	const char *name;
};

/* ---- free bytes of one account ---- */

/* Take between `least` and `most` bytes of what is free; returns how many, 0 if there are fewer. */
static uint64_t take_free(struct fth_qmem *m, uint64_t least, uint64_t most)
{
	uint64_t now = fth_load_relaxed_dev64(&m->free), part;

	do {
		if (now < least || now == 0)
			return 0;
		part = now < most ? now : most;
	} while (!fth_cas_relaxed_dev64(&m->free, &now, now - part));
	return part;
}

static void raise_to(uint64_t *peak, uint64_t used)
{
	uint64_t now = fth_load_relaxed_dev64(peak);

	while (used > now)
		if (fth_cas_relaxed_dev64(peak, &now, used))
			break;
}

static void note_peak(struct fth_qmem *m)
{
	uint64_t granted = fth_load_relaxed_dev64(&m->granted);
	uint64_t left = fth_load_relaxed_dev64(&m->free);
	uint64_t used = granted > left ? granted - left : 0;

	raise_to(&m->recent, used);
	raise_to(&m->peak, used);
}

static void set_granted(struct fth_qmem *m, uint64_t granted)
{
	fth_store_relaxed_dev64(&m->granted, granted);
}

/* ---- grants, under the lock ---- */

/* Bring the slack of all accounts below m back to m. */
static void collect_slack(struct fth_qmem *m)
{
	for (struct fth_qmem *c = m->children; c; c = c->next) {
		uint64_t spare, got;

		collect_slack(c);
		spare = c->granted - c->reserved;
		got = spare ? take_free(c, 0, spare) : 0;
		set_granted(c, c->granted - got);
		fth_add_relaxed_dev64(&m->free, got);
	}
}

static bool grow_grant(struct fth_qmem *m, uint64_t least, uint64_t wish);

/*
 * Take `least` bytes of m, or up to `wish`; 0 if that is impossible even after asking its parent.
 */
static uint64_t take_with_parent(struct fth_qmem *m, uint64_t least, uint64_t wish)
{
	for (;;) {
		uint64_t now, got = take_free(m, least, wish);

		if (got > 0)
			return got;
		now = fth_load_relaxed_dev64(&m->free);
		if (now >= least)
			continue;
		if (!m->parent || !grow_grant(m, least - now, wish))
			return 0;
	}
}

/* Add at least `least` bytes of the parent to m's grant. */
static bool grow_grant(struct fth_qmem *m, uint64_t least, uint64_t wish)
{
	uint64_t room = m->limit - m->granted, got;

	if (room < least)
		return false;
	wish = wish < least ? least : wish;
	wish = wish < room ? wish : room;
	got = take_with_parent(m->parent, least, wish);
	if (got == 0)
		return false;
	set_granted(m, m->granted + got);
	note_peak(m->parent);
	fth_add_relaxed_dev64(&m->free, got);
	return true;
}

static struct fth_qmem *root_of(struct fth_qmem *m)
{
	while (m->parent)
		m = m->parent;
	return m;
}

/* Other threads charge without the lock while slack is collected, so one more look may help. */
static uint64_t take_locked(struct fth_qmem *m, uint64_t bytes)
{
	uint64_t wish = bytes > FTH_QMEM_UNIT ? bytes : FTH_QMEM_UNIT, got;

	if (take_free(m, bytes, bytes) == bytes)
		return bytes;
	if (m->parent)
		grow_grant(m, bytes, wish);
	got = take_with_parent(m, bytes, bytes);
	if (got == bytes)
		return got;
	collect_slack(root_of(m));
	return take_with_parent(m, bytes, bytes);
}

static void return_surplus(struct fth_qmem *m)
{
	uint64_t surplus, left = fth_load_relaxed_dev64(&m->free);

	if (!m->parent || left <= 2 * FTH_QMEM_UNIT)
		return;
	surplus = left - FTH_QMEM_UNIT;
	if (surplus > m->granted - m->reserved)
		surplus = m->granted - m->reserved;
	surplus = surplus ? take_free(m, 0, surplus) : 0;
	if (surplus == 0)
		return;
	set_granted(m, m->granted - surplus);
	fth_add_relaxed_dev64(&m->parent->free, surplus);
	return_surplus(m->parent);
}

/* ---- charging ---- */

static bool charge_must_fail(struct fth_qmem *m)
{
	uint64_t now = fth_load_relaxed_dev64(&m->tree->fail_nth);

	while (now > 0)
		if (fth_cas_relaxed_dev64(&m->tree->fail_nth, &now, now - 1))
			return now == 1;
	return false;
}

static int refuse_charge(struct fth_qmem *m, uint64_t bytes)
{
	return fth_fail(ENOMEM, "query memory: %s needs %llu more bytes, %llu are in use", m->name,
			(unsigned long long)bytes, (unsigned long long)fth_qmem_used(m));
}

int fth_qmem_charge(struct fth_qmem *m, uint64_t bytes)
{
	uint64_t got = 0;

	if (bytes == 0)
		return 0;
	if (charge_must_fail(m))
		return refuse_charge(m, bytes);
	if (take_free(m, bytes, bytes) != bytes) {
		pthread_mutex_lock(&m->tree->lock);
		got = take_locked(m, bytes);
		pthread_mutex_unlock(&m->tree->lock);
		if (got != bytes)
			return refuse_charge(m, bytes);
	}
	note_peak(m);
	return 0;
}

void fth_qmem_discharge(struct fth_qmem *m, uint64_t bytes)
{
	uint64_t before = fth_add_relaxed_dev64(&m->free, bytes);

	if (!m->parent || before + bytes <= 2 * FTH_QMEM_UNIT)
		return;
	/* Reserved bytes stay; reading both without the lock only decides whether to take it. */
	if (before + bytes <= fth_load_relaxed_dev64(&m->reserved) + FTH_QMEM_UNIT)
		return;
	pthread_mutex_lock(&m->tree->lock);
	return_surplus(m);
	pthread_mutex_unlock(&m->tree->lock);
}

int fth_qmem_reserve(struct fth_qmem *m, uint64_t bytes)
{
	uint64_t got = 0;

	if (bytes == 0)
		return 0;
	if (charge_must_fail(m))
		return refuse_charge(m, bytes);
	pthread_mutex_lock(&m->tree->lock);
	got = take_locked(m, bytes);
	if (got == bytes) {
		fth_store_relaxed_dev64(&m->reserved, m->reserved + bytes);
		fth_add_relaxed_dev64(&m->free, bytes);
	}
	pthread_mutex_unlock(&m->tree->lock);
	return got == bytes ? 0 : refuse_charge(m, bytes);
}

/* ---- accounts ---- */

struct fth_qmem *fth_qmem_new(uint64_t budget)
{
	struct fth_qmem *m = calloc(1, sizeof(*m));
	struct qmem_tree *tree = calloc(1, sizeof(*tree));

	if (!m || !tree) {
		free(m);
		free(tree);
		return NULL;
	}
	pthread_mutex_init(&tree->lock, NULL);
	m->tree = tree;
	m->name = "budget";
	m->limit = m->granted = m->free = budget;
	return m;
}

struct fth_qmem *fth_qmem_child(struct fth_qmem *parent, const char *name, uint64_t limit)
{
	struct fth_qmem *m;

	if (fth_qmem_charge(parent, fth_qmem_cost(sizeof(*m))) < 0)
		return NULL;
	m = calloc(1, sizeof(*m));
	if (!m) {
		fth_qmem_discharge(parent, fth_qmem_cost(sizeof(*m)));
		return NULL;
	}
	m->parent = parent;
	m->tree = parent->tree;
	m->name = name;
	m->limit = limit;
	pthread_mutex_lock(&m->tree->lock);
	m->next = parent->children;
	parent->children = m;
	pthread_mutex_unlock(&m->tree->lock);
	return m;
}

/* Returns what is still charged. Until it has left, others collect its slack. */
static uint64_t leave_parent(struct fth_qmem *m)
{
	struct fth_qmem **link = &m->parent->children;
	uint64_t leaked;

	pthread_mutex_lock(&m->tree->lock);
	leaked = m->granted - m->free;
	while (*link != m)
		link = &(*link)->next;
	*link = m->next;
	fth_add_relaxed_dev64(&m->parent->free, m->granted);
	return_surplus(m->parent);
	pthread_mutex_unlock(&m->tree->lock);
	fth_qmem_discharge(m->parent, fth_qmem_cost(sizeof(*m)));
	return leaked;
}

uint64_t fth_qmem_close(struct fth_qmem *m)
{
	uint64_t leaked;

	if (!m)
		return 0;
	if (m->parent) {
		leaked = leave_parent(m);
	} else {
		leaked = m->granted - m->free;
		pthread_mutex_destroy(&m->tree->lock);
		free(m->tree);
	}
	free(m);
	return leaked;
}

uint64_t fth_qmem_used(struct fth_qmem *m)
{
	uint64_t granted = fth_load_relaxed_dev64(&m->granted);
	uint64_t left = fth_load_relaxed_dev64(&m->free);

	return granted > left ? granted - left : 0;
}

uint64_t fth_qmem_take_peak(struct fth_qmem *m)
{
	uint64_t peak = fth_load_relaxed_dev64(&m->recent);

	fth_store_relaxed_dev64(&m->recent, fth_qmem_used(m));
	return peak;
}

uint64_t fth_qmem_peak(struct fth_qmem *m)
{
	return fth_load_relaxed_dev64(&m->peak);
}

uint64_t fth_qmem_available(struct fth_qmem *m)
{
	uint64_t available = UINT64_MAX, here;

	pthread_mutex_lock(&m->tree->lock);
	collect_slack(root_of(m));
	/* An account can take what its parent can give, up to its limit. */
	for (here = fth_load_relaxed_dev64(&m->free); m->parent; m = m->parent) {
		uint64_t room = m->limit - m->granted;
		uint64_t above = fth_load_relaxed_dev64(&m->parent->free);

		if (available > here + room)
			available = here + room;
		here += above;
	}
	pthread_mutex_unlock(&m->tree->lock);
	return available < here ? available : here;
}

void fth_qmem_fail_nth(struct fth_qmem *m, uint64_t n)
{
	fth_store_relaxed_dev64(&m->tree->fail_nth, n);
}

bool fth_qmem_fail_pending(struct fth_qmem *m)
{
	return fth_load_relaxed_dev64(&m->tree->fail_nth) > 0;
}

/* ---- memory ---- */

static size_t round_up(size_t size, size_t unit)
{
	return (size + unit - 1) / unit * unit;
}

/* The overhead of malloc() is charged as well. */
uint64_t fth_qmem_cost(size_t size)
{
	return size >= MMAP_FROM ? round_up(size, PAGE)
				 : round_up(size, FTH_QMEM_ALIGN) + FTH_QMEM_ALIGN;
}

static void *get_memory(size_t size)
{
	void *p = NULL;

	if (size >= MMAP_FROM) {
		p = mmap(NULL, round_up(size, PAGE), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		return p == MAP_FAILED ? NULL : p;
	}
	return posix_memalign(&p, FTH_QMEM_ALIGN, round_up(size ? size : 1, FTH_QMEM_ALIGN)) ? NULL
											     : p;
}

void *fth_qmem_alloc(struct fth_qmem *m, size_t size)
{
	void *p;

	if (size > SIZE_MAX / 2) {
		fth_fail(ENOMEM, "query memory: %s needs a single block of %zu bytes", m->name,
			 size);
		return NULL;
	}
	if (fth_qmem_charge(m, fth_qmem_cost(size)) < 0)
		return NULL;
	p = get_memory(size);
	if (!p) {
		fth_qmem_discharge(m, fth_qmem_cost(size));
		fth_fail(ENOMEM, "query memory: the system cannot allocate %zu bytes for %s", size,
			 m->name);
	}
	return p;
}

void *fth_qmem_zalloc(struct fth_qmem *m, size_t size)
{
	void *p = fth_qmem_alloc(m, size);

	if (p && size < MMAP_FROM)
		memset(p, 0, size);
	return p;
}

void fth_qmem_free(struct fth_qmem *m, void *p, size_t size)
{
	if (!p)
		return;
	if (size >= MMAP_FROM)
		munmap(p, round_up(size, PAGE));
	else
		free(p);
	fth_qmem_discharge(m, fth_qmem_cost(size));
}

/* Pages move without a copy, and need not be there twice. */
static void *remap_memory(struct fth_qmem *m, void *p, size_t old_size, size_t new_size)
{
	uint64_t before = fth_qmem_cost(old_size), after = fth_qmem_cost(new_size);
	void *q;

	if (after > before && fth_qmem_charge(m, after - before) < 0)
		return NULL;
	q = mremap(p, before, after, MREMAP_MAYMOVE);
	if (q == MAP_FAILED) {
		if (after > before)
			fth_qmem_discharge(m, after - before);
		return NULL;
	}
	if (after < before)
		fth_qmem_discharge(m, before - after);
	return q;
}

void *fth_qmem_realloc(struct fth_qmem *m, void *p, size_t old_size, size_t new_size)
{
	void *q;

	if (p && old_size >= MMAP_FROM && new_size >= MMAP_FROM)
		return remap_memory(m, p, old_size, new_size);
	q = fth_qmem_alloc(m, new_size);
	if (!q || !p)
		return q;
	memcpy(q, p, old_size < new_size ? old_size : new_size);
	fth_qmem_free(m, p, old_size);
	return q;
}
