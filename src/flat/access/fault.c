/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signals. The kernel raises SIGBUS where the program accesses a page that is not mapped, or stores to one that is
 * write-protected. Everything here runs in the signal handler of the thread that needs the page. registry.c has the regions.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "flat/emul/emul.h"
#include "flat/flat_internal.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

static struct sigaction old_bus, old_segv;
static bool installed, emulates; /* set before the first region is registered */

/* ---- signals that were sent ---- */

/*
 * By kill(), pthread_kill() or sigqueue(): the program's, and no faults. Its handler must not run while this thread holds locks of
 * pages, so such a signal waits until there are none, and is sent once more.
 */
static __thread struct {
	unsigned locks; /* of fault_quiet() and handle() */
	bool counted;	/* in the gate */
	unsigned n;
	siginfo_t late[2]; /* SIGBUS, SIGSEGV: as the kernel, one of each */
} own __attribute__((tls_model("initial-exec")));

bool fault_was_sent(const siginfo_t *info)
{
	return info->si_code <= 0;
}

bool fault_defer(const siginfo_t *info)
{
	if (own.locks == 0)
		return false;
	for (unsigned i = 0; i < own.n; i++)
		if (own.late[i].si_signo == info->si_signo)
			return true;
	if (own.n < 2)
		own.late[own.n++] = *info;
	return true;
}

void fault_send_again(const siginfo_t *info)
{
	(void)syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), info->si_signo, info);
}

/* ---- the gate ---- */

static struct {
	bool used, closed;
	uint32_t inside;
} gate; /* atomic */

static void enter_gate(void)
{
	struct fth_backoff backoff = {0};

	for (;;) {
		/* seq_cst, with fault_close_gate(): either that sees this thread inside, or this sees it closed */
		__atomic_fetch_add(&gate.inside, 1, __ATOMIC_SEQ_CST);
		if (!__atomic_load_n(&gate.closed, __ATOMIC_SEQ_CST))
			return;
		__atomic_fetch_sub(&gate.inside, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&gate.closed, __ATOMIC_RELAXED))
			fth_backoff_pause(&backoff);
	}
}

void fault_use_gate(void)
{
	__atomic_store_n(&gate.used, true, __ATOMIC_RELAXED);
}

bool fault_close_gate(uint64_t deadline)
{
	struct fth_backoff backoff = {0};

	__atomic_store_n(&gate.closed, true, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&gate.inside, __ATOMIC_SEQ_CST) > 0) {
		if (fth_now_ns() >= deadline) {
			fault_open_gate();
			return false;
		}
		fth_backoff_pause(&backoff);
	}
	return true;
}

void fault_open_gate(void)
{
	/* release: what was done while it was closed comes before what others do */
	__atomic_store_n(&gate.closed, false, __ATOMIC_RELEASE);
}

void fault_forked(void)
{
	/* a thread of the parent that found it closed may have been counted for a moment: it is not here to go */
	__atomic_store_n(&gate.inside, 0, __ATOMIC_RELAXED);
}

static void begin_locks(void)
{
	if (own.locks++ > 0 || !__atomic_load_n(&gate.used, __ATOMIC_RELAXED))
		return;
	enter_gate();
	own.counted = true;
}

static void drop_locks(void)
{
	if (--own.locks > 0 || !own.counted)
		return;
	own.counted = false;
	__atomic_fetch_sub(&gate.inside, 1, __ATOMIC_SEQ_CST);
}

static void send_late(void)
{
	while (own.locks == 0 && own.n > 0)
		fault_send_again(&own.late[--own.n]);
}

static void end_locks(void)
{
	drop_locks();
	send_late();
}

void fault_enter(void)
{
	begin_locks();
}

void fault_leave(void)
{
	end_locks();
}

/* ---- what an instruction needs: up to two operands, of up to two pages each ---- */

struct need {
	struct fth_flat *flat;
	uint64_t page;
	bool store;
};

struct needs {
	struct need need[4];
	unsigned n;
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

/* Returns false if an operand lies partly in a region, or is stored to in a read-only one: the kernel reports that. */
static bool find_needs(const struct emul_use *use, struct needs *needs)
{
	needs->n = 0;
	for (unsigned i = 0; i < use->operands; i++) {
		const struct emul_operand *op = &use->op[i];
		struct fth_flat *flat = registry_find(op->address);
		uint64_t offset;

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

	if (word_is_lent(word)) /* since the access: it finds other memory now */
		return 0;
	if (word_state(word) == WORD_DRAM) {
		if (!store || (word_get(word) & WORD_DIRTY))
			return 0;
		flat_count(flat, FTH_FLAT_STAT_FIRST_WRITES);
		return move_allow_store(flat, page);
	}
	if (word_state(word) == WORD_CACHED)
		return move_up(flat, page, store, false);
	return word_state(word) == WORD_FLASH && (word_get(word) & WORD_FRESH)
		       ? move_fresh(flat, page, store)
		       : move_straight(flat, page, store);
}

/*
 * A page that is CACHED moves to DRAM if the policy wants it: in the background, since it can be used where it is meanwhile; or
 * at once if it was read for a stream, which will use all of it now, or if DRAM is not full. *moved: it is in DRAM.
 */
static int follow_policy(const struct need *need, bool was_cached, bool *moved)
{
	struct stream_ahead ahead;
	enum policy_wish wish = policy_wants(need->flat, need->page, !was_cached, &ahead);
	int rc;

	if (ahead.pages > 0)
		mover_ahead(need->flat, &ahead);
	if (wish == POLICY_STAY ||
	    ((wish == POLICY_UP || (wish == POLICY_UP_PASSING && was_cached)) &&
	     mover_ask_up(need->flat, need->page)))
		return 0;
	rc = move_up(need->flat, need->page, need->store, wish == POLICY_UP_PASSING);
	*moved = rc == 0;
	return rc == -EBUSY ? 0 : rc; /* without a place in DRAM it is used where it is */
}

/* A page that is not in DRAM comes to memory, and to DRAM if the policy wants it there or nobody has used it yet: *moved. */
static int prepare_cold(const struct need *need, bool *moved)
{
	const uint32_t *word = &need->flat->words[need->page];
	bool was_cached = word_state(word) == WORD_CACHED;
	int rc = -EBUSY;

	if (word_state(word) == WORD_FLASH && (word_get(word) & WORD_FRESH))
		rc = move_fresh(need->flat, need->page, need->store);
	*moved = rc == 0;
	if (rc != -EBUSY)
		return rc;
	rc = was_cached ? 0 : move_in(need->flat, need->page);
	return rc < 0 ? rc : follow_policy(need, was_cached, moved);
}

/* All pages in memory. *native: the program can go on by itself. */
static int prepare(const struct needs *needs, uintptr_t address, bool *native)
{
	for (unsigned i = 0; i < needs->n; i++) {
		const struct need *need = &needs->need[i];
		uintptr_t start =
			(uintptr_t)need->flat->map.user + need->page * need->flat->map.page;
		bool mapped = true;
		int rc;

		if (word_is_lent(&need->flat->words[need->page]))
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
	struct fth_flat *flat;
	uint64_t offset;
	uint32_t length;
	bool store;
};

static void copy_crossing(struct crossing *c, bool back)
{
	uint64_t page = c->offset / c->flat->map.page, inside = c->offset % c->flat->map.page;
	uint64_t first = c->flat->map.page - inside;
	uint8_t *low = move_find(c->flat, page) + inside, *high = move_find(c->flat, page + 1);

	if (back) {
		memcpy(low, c->bytes, first);
		memcpy(high, c->bytes + first, c->length - first);
	} else {
		memcpy(c->bytes, low, first);
		memcpy(c->bytes + first, high, c->length - first);
	}
}

/* Where an operand is. Returns -ENOTSUP for one in two pages that is accessed atomically. */
static int place_operand(const struct emul_operand *op, bool locked, struct crossing *c, void **at)
{
	struct fth_flat *flat = registry_find(op->address);
	uint64_t offset, page;

	c->length = 0;
	*at = (void *)op->address;
	if (!flat)
		return 0;
	offset = op->address - (uintptr_t)flat->map.user;
	page = offset / flat->map.page;
	if (offset % flat->map.page + op->length <= flat->map.page) {
		*at = move_find(flat, page) + offset % flat->map.page;
		return 0;
	}
	if (locked || op->length > CROSSING_MAX)
		return -ENOTSUP;
	*c = (struct crossing){
		.flat = flat, .offset = offset, .length = op->length, .store = op->write};
	copy_crossing(c, false);
	*at = c->bytes;
	return 0;
}

static void note_store(const struct emul_operand *op)
{
	struct fth_flat *flat = registry_find(op->address);

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
		rc = place_operand(&use->op[i], use->locked, &crossing[i], &at[i]);
	for (unsigned i = 0; i < use->operands && rc == 0; i++)
		if (use->op[i].write)
			note_store(&use->op[i]);
	if (rc == 0)
		rc = emul_run(context, use, at);
	for (unsigned i = 0; i < use->operands && rc == 0; i++)
		if (crossing[i].length && crossing[i].store)
			copy_crossing(&crossing[i], true);
	return rc;
}

static void model_delay(const struct needs *needs, const struct emul_use *use, uint64_t start)
{
	const struct fth_flat_model *model = &needs->need[0].flat->options.model;
	uint32_t ns = 0;

	for (unsigned i = 0; i < use->operands; i++)
		ns += (use->op[i].read ? model->load_ns : 0) +
		      (use->op[i].write ? model->store_ns : 0);
	fault_delay(start, ns);
}

/*
 * Its page comes to DRAM, and the instruction is executed again. Where other threads have all places of
 * DRAM in their hands, it waits for one.
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
	uint64_t start = flat->options.model.load_ns ? fth_now_ns() : 0;
	struct emul_use use;
	struct needs needs;
	bool native = false;
	int rc;

	flat_count(flat, FTH_FLAT_STAT_FAULTS);
	if (flat->options.policy == FTH_FLAT_ALWAYS || !emulates)
		return page_in(flat, address, store);
	if (emul_decode(context, flat->map.page, &use) < 0 || !find_needs(&use, &needs)) {
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

void fault_delay(uint64_t start, uint32_t ns)
{
	if (ns)
		while (fth_now_ns() - start < ns)
			fth_cpu_relax();
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
	begin_locks();
	rc = handle(flat, address, store, context);
	end_locks();
	errno = saved;
	return rc < 0 ? rc : 1;
}

bool fth_flat_fault(int sig, siginfo_t *info, void *context)
{
	return fault_try(sig, info, context) > 0;
}

/* ---- handlers ---- */

/* The handler that was there before, with the signal mask that it would have found. */
static void pass_on(const struct sigaction *old, int sig, siginfo_t *info, ucontext_t *context)
{
	struct sigaction fatal = {.sa_handler = SIG_DFL};
	sigset_t mask = context->uc_sigmask;

	if (!(old->sa_flags & SA_SIGINFO) && old->sa_handler == SIG_IGN && fault_was_sent(info))
		return;
	if (!(old->sa_flags & SA_SIGINFO) &&
	    (old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN)) {
		sigaction(sig, &fatal, NULL); /* the fault comes again, and ends the process */
		if (fault_was_sent(info))
			fault_send_again(info);
		return;
	}
	for (int i = 1; i < NSIG; i++)
		if (sigismember(&old->sa_mask, i) == 1)
			sigaddset(&mask, i);
	if (!(old->sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (old->sa_flags & SA_SIGINFO)
		old->sa_sigaction(sig, info, context);
	else
		old->sa_handler(sig);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	if (fault_was_sent(info) && fault_defer(info))
		return;
	if (!fth_flat_fault(sig, info, context))
		pass_on(sig == SIGBUS ? &old_bus : &old_segv, sig, info, context);
}

static void all_but_faults(sigset_t *set)
{
	sigfillset(set);
	sigdelset(set, SIGBUS);
	sigdelset(set, SIGSEGV);
}

/* The old action is known before ours is in force. */
static int install_one(int sig, const struct sigaction *action, struct sigaction *old)
{
	struct sigaction now;

	if (sigaction(sig, NULL, &now) < 0)
		return fth_fail(errno, "flat: sigaction: %s", strerror(errno));
	if (now.sa_sigaction ==
	    on_signal) /* another thread was here when this process was forked */
		return 0;
	*old = now;
	return sigaction(sig, action, NULL) < 0
		       ? fth_fail(errno, "flat: sigaction: %s", strerror(errno))
		       : 0;
}

int fault_install(void)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_NODEFER};
	int rc;

	if (installed)
		return 0;
	emulates = emul_setup() == 0;
	all_but_faults(&action.sa_mask);
	rc = install_one(SIGBUS, &action, &old_bus);
	action.sa_flags |= SA_ONSTACK; /* a stack overflow of the program ends up here too */
	if (rc == 0)
		rc = install_one(SIGSEGV, &action, &old_segv);
	installed = rc == 0; /* and never removed: others may have chained theirs to it */
	return rc;
}

bool fth_flat_emulates(void)
{
	return emul_setup() == 0;
}

void fault_quiet(sigset_t *before_it)
{
	sigset_t set;

	all_but_faults(&set);
	pthread_sigmask(SIG_BLOCK, &set, before_it);
	begin_locks();
}

void fault_loud(const sigset_t *before_it)
{
	drop_locks(); /* first: a handler of the program that waited runs now, and may not come back */
	pthread_sigmask(SIG_SETMASK, before_it, NULL);
	send_late();
}
