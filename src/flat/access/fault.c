/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults. The kernel raises SIGBUS where the program accesses a page that is not mapped, or stores
 * to one that is write-protected. Everything here runs in the signal handler of the thread that
 * needs the page. fault_signals.c has the handlers, registry.c the regions.
 */
#include "flat/flat_internal.h"
#include "flat/emul/emul.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static bool emulates; /* set before the first region is registered */

/* ---- what an instruction needs: up to two operands, of up to two pages each ---- */

struct need {
	struct fth_flat *flat;
	uint64_t page;
	bool store;
	struct flat_slot *slot; /* of a page that is CACHED, once it is locked and prepared */
};

struct needs {
	struct need need[4];
	unsigned n;
	struct fth_flat *region[2]; /* of each operand; NULL: it is in none */
};

static bool before(const struct need *a, const struct need *b)
{
	return a->flat != b->flat ? a->flat < b->flat : a->page < b->page;
}

/* Ascending, each page once. */
static void add_need(struct needs *needs, struct fth_flat *flat, uint64_t page, bool store)
{
	struct need new = {.flat = flat, .page = page, .store = store};
	unsigned i = 0;

	while (i < needs->n && before(&needs->need[i], &new))
		i++;
	if (i < needs->n && needs->need[i].flat == flat && needs->need[i].page == page) {
		needs->need[i].store |= store;
		return;
	}
	memmove(&needs->need[i + 1], &needs->need[i], (needs->n - i) * sizeof(new));
	needs->need[i] = new;
	needs->n++;
}

static bool is_inside(const struct fth_flat *flat, uintptr_t address)
{
	return address - (uintptr_t)flat->map.user < flat->map.size;
}

/*
 * The fault was in the region `faulted`. Returns false if an operand lies partly in a region, or is
 * stored to in a read-only one: the kernel reports that.
 */
static bool find_needs(const struct emul_use *use, struct fth_flat *faulted, struct needs *needs)
{
	needs->n = 0;
	for (unsigned i = 0; i < use->operands; i++) {
		const struct emul_operand *op = &use->op[i];
		struct fth_flat *flat =
			is_inside(faulted, op->address) ? faulted : registry_find(op->address);
		uint64_t offset;

		needs->region[i] = flat;
		if (!flat)
			continue;
		offset = op->address - (uintptr_t)flat->map.user;
		if (offset + op->length > flat->map.size || (op->write && flat->options.readonly))
			return false;
		for (uint64_t page = offset / flat->map.page;
		     page <= (offset + op->length - 1) / flat->map.page; page++)
			add_need(needs, flat, page, op->write);
	}
	return needs->n > 0;
}

static void lock_needs(const struct needs *needs)
{
	for (unsigned i = 0; i < needs->n; i++)
		word_lock(&needs->need[i].flat->words[needs->need[i].page]);
}

static void unlock_needs(const struct needs *needs)
{
	for (unsigned i = 0; i < needs->n; i++)
		word_unlock(&needs->need[i].flat->words[needs->need[i].page]);
}

/* ---- what is done about it ---- */

/* Bring a page that is locked into DRAM. */
static int bring_up(struct fth_flat *flat, uint64_t page, bool store)
{
	uint32_t *word = &flat->words[page];

	if (word_is_donated(word)) /* since the access: it finds other memory now */
		return 0;
	if (word_state(word) == WORD_DRAM) {
		if (!store || (word_get(word) & WORD_DIRTY))
			return 0;
		flat_count(flat, FTH_FLAT_STAT_FIRST_WRITES);
		return move_allow_store(flat, page);
	}
	if (word_state(word) == WORD_CACHED)
		return move_up(flat, page, directory_find(&flat->directory, page), store, false);
	return word_state(word) == WORD_FLASH && (word_get(word) & WORD_FRESH)
		       ? move_fresh(flat, page, store)
		       : move_straight(flat, page, store);
}

/*
 * A page that is not in DRAM comes to memory, and to DRAM if the policy wants it there or nobody
 * has used it yet: *moved.
 */
static int prepare_cold(struct need *need, bool *moved)
{
	const uint32_t *word = &need->flat->words[need->page];
	bool was_cached = word_state(word) == WORD_CACHED;
	int rc = -EBUSY;

	if (word_state(word) == WORD_FLASH && (word_get(word) & WORD_FRESH))
		rc = move_fresh(need->flat, need->page, need->store);
	*moved = rc == 0;
	if (rc != -EBUSY)
		return rc;
	rc = 0;
	if (was_cached)
		need->slot = directory_find(&need->flat->directory, need->page);
	else
		rc = move_in(need->flat, need->page, &need->slot);
	if (rc == 0)
		rc = move_as_wanted(need->flat, need->page, &need->slot, !was_cached, need->store,
				    !was_cached);
	*moved = rc == 0 && !need->slot;
	return rc;
}

/* All pages in memory. *native: the program can go on by itself. */
static int prepare(struct needs *needs, uintptr_t address, bool *native)
{
	for (unsigned i = 0; i < needs->n; i++) {
		struct need *need = &needs->need[i];
		uintptr_t start =
			(uintptr_t)need->flat->map.user + need->page * need->flat->map.page;
		bool mapped = true;
		int rc;

		if (word_is_donated(&need->flat->words[need->page]))
			return -ENOTSUP; /* the processor has to do it */
		if (word_state(&need->flat->words[need->page]) == WORD_DRAM)
			/* mapped by another thread meanwhile, or write-protected until now */
			rc = bring_up(need->flat, need->page, need->store);
		else
			rc = prepare_cold(need, &mapped);
		if (rc < 0)
			return rc;
		*native |= mapped && address - start < need->flat->map.page;
	}
	return 0;
}

static void count_use(const struct needs *needs)
{
	for (unsigned i = 0; i < needs->n; i++)
		flat_count(needs->need[i].flat,
			   needs->need[i].store ? FTH_FLAT_STAT_STORES : FTH_FLAT_STAT_LOADS);
}

/* An operand that lies in two pages is gathered in a buffer and scattered again. */
#define CROSSING_MAX 64

struct crossing {
	_Alignas(64) uint8_t bytes[CROSSING_MAX];
	uint8_t *low, *high; /* its parts */
	uint32_t low_length, length;
	bool store;
};

static void copy_crossing(struct crossing *c, bool back)
{
	if (back) {
		memcpy(c->low, c->bytes, c->low_length);
		memcpy(c->high, c->bytes + c->low_length, c->length - c->low_length);
	} else {
		memcpy(c->bytes, c->low, c->low_length);
		memcpy(c->bytes + c->low_length, c->high, c->length - c->low_length);
	}
}

/* Where the bytes of a page are that an operand needs. */
static uint8_t *page_bytes(const struct needs *needs, struct fth_flat *flat, uint64_t page)
{
	const struct need *need = needs->need;

	while (need->flat != flat || need->page != page)
		need++;
	return word_state(&flat->words[page]) == WORD_DRAM
		       ? map_at(&flat->map, page)
		       : directory_frame(&flat->directory, need->slot);
}

/* Where operand i is. Returns -ENOTSUP for one in two pages that is accessed atomically. */
static int place_operand(const struct emul_use *use, const struct needs *needs, unsigned i,
			 struct crossing *c, void **at)
{
	const struct emul_operand *op = &use->op[i];
	struct fth_flat *flat = needs->region[i];
	uint64_t page, inside;
	uint8_t *low;

	c->length = 0;
	*at = (void *)op->address;
	if (!flat)
		return 0;
	page = (op->address - (uintptr_t)flat->map.user) / flat->map.page;
	inside = (op->address - (uintptr_t)flat->map.user) % flat->map.page;
	low = page_bytes(needs, flat, page) + inside;
	*at = low;
	if (inside + op->length <= flat->map.page)
		return 0;
	if (use->locked || op->length > CROSSING_MAX)
		return -ENOTSUP;
	*c = (struct crossing){.low = low,
			       .high = page_bytes(needs, flat, page + 1),
			       .low_length = (uint32_t)(flat->map.page - inside),
			       .length = op->length,
			       .store = op->write};
	copy_crossing(c, false);
	*at = c->bytes;
	return 0;
}

static void note_store(const struct emul_operand *op, struct fth_flat *flat)
{
	if (flat)
		mover_note_store(flat, op->address - (uintptr_t)flat->map.user, op->length);
}

/* All pages are in memory and locked. */
static int run(ucontext_t *context, const struct emul_use *use, const struct needs *needs)
{
	struct crossing crossing[2];
	void *at[2] = {NULL, NULL};
	int rc = 0;

	for (unsigned i = 0; i < needs->n && rc == 0; i++)
		if (needs->need[i].store)
			rc = move_allow_store(needs->need[i].flat, needs->need[i].page);
	for (unsigned i = 0; i < use->operands && rc == 0; i++)
		rc = place_operand(use, needs, i, &crossing[i], &at[i]);
	for (unsigned i = 0; i < use->operands && rc == 0; i++)
		if (use->op[i].write)
			note_store(&use->op[i], needs->region[i]);
	if (rc == 0)
		rc = emul_run(context, use, at);
	for (unsigned i = 0; i < use->operands && rc == 0; i++)
		if (crossing[i].length && crossing[i].store)
			copy_crossing(&crossing[i], true);
	return rc;
}

static void model_delay(const struct needs *needs, const struct emul_use *use, uint64_t start)
{
	const struct flat_latency_model *model = &needs->need[0].flat->model;
	uint32_t ns = 0;

	for (unsigned i = 0; i < use->operands; i++)
		ns += (use->op[i].read ? model->load_ns : 0) +
		      (use->op[i].write ? model->store_ns : 0);
	latency_wait(start, ns);
}

/*
 * Its page comes to DRAM, and the instruction is executed again. Where other threads have all
 * places of DRAM in their hands, it waits for one.
 */
static int page_in(struct fth_flat *flat, uintptr_t address, bool store)
{
	uint64_t page = (address - (uintptr_t)flat->map.user) / flat->map.page;
	uint64_t deadline = fth_deadline_ns(FLAT_TIMEOUT);
	struct fth_backoff backoff = {0};
	int rc;

	for (;;) {
		word_lock(&flat->words[page]);
		rc = bring_up(flat, page, store);
		word_unlock(&flat->words[page]);
		if (rc != -EBUSY || fth_now_ns() >= deadline)
			return rc;
		fth_backoff_pause(&backoff);
	}
}

static int handle(struct fth_flat *flat, uintptr_t address, bool store, ucontext_t *context)
{
	uint64_t start = latency_start(&flat->model);
	struct emul_use use;
	struct needs needs;
	bool native = false;
	int rc;

	flat_count(flat, FTH_FLAT_STAT_FAULTS);
	if (flat->options.policy == FTH_FLAT_ALWAYS || !emulates)
		return page_in(flat, address, store);
	if (emul_decode(context, flat->map.page, &use) < 0 || !find_needs(&use, flat, &needs)) {
		flat_count(flat, FTH_FLAT_STAT_REFUSED);
		return page_in(flat, address, store);
	}
	lock_needs(&needs);
	rc = prepare(&needs, address, &native);
	if (rc == 0 && !native) {
		rc = run(context, &use, &needs);
		if (rc == 0) {
			model_delay(&needs, &use, start);
			count_use(&needs);
		}
	}
	unlock_needs(&needs);
	if (rc != -EFAULT && rc != -ENOTSUP)
		return rc;
	flat_count(flat, FTH_FLAT_STAT_REFUSED);
	return page_in(flat, address, store);
}

/* It looks like a wild pointer otherwise. */
static void explain_fork(uintptr_t address)
{
	static const char text[] = "fathom: a child of fork() used a flat region of its parent; "
				   "only the process that opened a region can use it\n";

	if (registry_is_parents(address))
		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
}

int fault_try(int sig, siginfo_t *info, void *raw)
{
	ucontext_t *context = raw;
	uintptr_t address = (uintptr_t)info->si_addr;
	struct fth_flat *flat;
	int saved = errno, rc;
	bool store = true;

	if ((sig != SIGBUS && sig != SIGSEGV) || fault_was_sent(info))
		return 0;
	if (emul_fixup(context))
		return 1;
	flat = registry_find(address);
	if (!flat && sig == SIGSEGV)
		explain_fork(address);
	if (!flat || sig == SIGSEGV)
		return 0;
#if defined(__x86_64__)
	store = context->uc_mcontext.gregs[REG_ERR] & 2;
#endif
	fault_enter();
	rc = handle(flat, address, store, context);
	fault_leave();
	errno = saved;
	return rc < 0 ? rc : 1;
}

bool fth_flat_fault(int sig, siginfo_t *info, void *context)
{
	return fault_try(sig, info, context) > 0;
}

void fault_prepare(void)
{
	emulates = emul_setup() == 0;
}

bool fth_flat_emulates(void)
{
	return emul_setup() == 0;
}
