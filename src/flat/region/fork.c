/* SPDX-License-Identifier: BSD-2-Clause */
#include "flat/region/fork.h"
#include "flat/flat_internal.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LIVE_NS UINT64_C(1000000) /* for which what is known of other processes is good enough */

static uint64_t bit(unsigned slot)
{
	return (uint64_t)1 << slot;
}

static uint64_t users_of(const struct flat_fork *f, uint64_t block)
{
	return __atomic_load_n(&f->shared->users[block], __ATOMIC_ACQUIRE);
}

static uint64_t get(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static void raise_to(uint64_t *at, uint64_t value)
{
	uint64_t old = get(at);

	while (old < value && !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_ACQ_REL,
							   __ATOMIC_ACQUIRE))
		;
}

/* ---- processes ---- */

static int lock_slot(int fd, unsigned slot, int command, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};

	if (fcntl(fd, command, &lock) < 0)
		return -errno;
	return command == F_OFD_GETLK && lock.l_type != F_UNLCK;
}

/*
 * Called with live_lock held. Repeated if a process forks meanwhile: its child may have a slot that
 * was already checked.
 */
static void look_for_others(struct flat_fork *f)
{
	uint64_t live, forks;

	do {
		live = 0;
		forks = get(&f->shared->forks);
		for (unsigned slot = 0; slot < FORK_SLOTS; slot++)
			if (slot != f->slot &&
			    lock_slot(f->slot_fd, slot, F_OFD_GETLK, F_WRLCK) != 0)
				live |= bit(slot);
	} while (forks != get(&f->shared->forks));
	f->live_forks = forks;
	f->live = live;
	f->live_at = fth_now_ns();
}

/* Those of `users` that are others and live. */
static uint64_t others_in(struct flat_fork *f, uint64_t users)
{
	users &= ~bit(f->slot);
	if (users == 0)
		return 0;
	futex_lock(&f->live_lock);
	if (f->live_forks != get(&f->shared->forks) || fth_now_ns() - f->live_at > LIVE_NS)
		look_for_others(f);
	users &= f->live;
	futex_unlock(&f->live_lock);
	return users;
}

/* ---- blocks ---- */

uint64_t fork_place(const struct fth_flat *flat, uint64_t page)
{
	const struct flat_fork *f = flat->fork;

	return f && f->places[page] ? f->places[page] : page;
}

/* No other process can claim it meanwhile, if it is a block that only this one claims. */
static bool claim(struct flat_fork *f, uint64_t block)
{
	uint64_t old = users_of(f, block);

	return others_in(f, old) == 0 &&
	       __atomic_compare_exchange_n(&f->shared->users[block], &old, bit(f->slot), false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static uint64_t claim_any(struct fth_flat *flat)
{
	struct flat_fork *f = flat->fork;
	uint64_t room = f->blocks - flat->pages;

	for (uint64_t tries = 0; tries < room; tries++) {
		uint64_t block = flat->pages +
				 __atomic_fetch_add(&f->shared->next, 1, __ATOMIC_RELAXED) % room;

		if ((users_of(f, block) & bit(f->slot)) || !claim(f, block))
			continue;
		raise_to(&f->shared->claims_end, block + 1);
		return block;
	}
	return FLAT_NONE;
}

uint64_t fork_target(struct fth_flat *flat, uint64_t page)
{
	struct flat_fork *f = flat->fork;
	uint64_t block = fork_place(flat, page), users, others;

	if (!f || get(&f->shared->forks) == 0)
		return block;
	/*
	 * repeated if the users change: one that forks and ends before its liveness is checked
	 * leaves a child that was not seen
	 */
	do {
		users = users_of(f, block);
		others = users;
		/* revoked processes only read the blocks that they share with this one */
		if (f->slot == 0)
			others &= ~get(&f->shared->revoked);
		others = others_in(f, others);
	} while (others == 0 && users != users_of(f, block));
	if ((users & bit(f->slot)) && others == 0)
		return block;
	if (f->slot == 0 && claim(f, page))
		return page;
	return claim_any(flat);
}

static void drop_block(struct flat_fork *f, uint64_t block)
{
	(void)__atomic_and_fetch(&f->shared->users[block], ~bit(f->slot), __ATOMIC_ACQ_REL);
}

void fork_settle(struct fth_flat *flat, uint64_t page, uint64_t target, bool written)
{
	struct flat_fork *f = flat->fork;
	uint64_t block = fork_place(flat, page);

	if (target == block || target == FLAT_NONE)
		return;
	drop_block(f, written ? block : target);
	if (written)
		f->places[page] = target == page ? 0 : (uint32_t)target;
}

bool fork_give_up(struct fth_flat *flat)
{
	struct flat_fork *f = flat->fork;
	uint64_t live, before;

	if (!f || f->slot != 0 || get(&f->shared->forks) == 0)
		return false;
	futex_lock(&f->live_lock);
	look_for_others(f);
	live = f->live;
	futex_unlock(&f->live_lock);
	/* seq_cst: others see it before they can read what is written next */
	before = __atomic_fetch_or(&f->shared->revoked, live, __ATOMIC_SEQ_CST);
	return live & ~before;
}

/* ---- transfers of a child ---- */

bool fork_is_child(const struct fth_flat *flat)
{
	return flat->fork && flat->fork->slot != 0;
}

int fork_read(struct fth_flat *flat, uint64_t block, void *to)
{
	struct flat_fork *f = flat->fork;
	uint64_t page = flat->map.page, done = 0;

	while (done < page) {
		long n = syscall(SYS_pread64, f->file, (char *)to + done, page - done,
				 block * page + done);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -EIO;
		done += n > 0 ? (uint64_t)n : 0;
	}
	/* a write, and seq_cst: after the read, see fork_give_up() */
	return __atomic_fetch_or(&f->shared->revoked, 0, __ATOMIC_SEQ_CST) & bit(f->slot) ? -ESTALE
											  : 0;
}

int fork_write(struct fth_flat *flat, uint64_t block, const void *from)
{
	uint64_t page = flat->map.page, done = 0;

	while (done < page) {
		long n = syscall(SYS_pwrite64, flat->fork->file, (const char *)from + done,
				 page - done, block * page + done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (uint64_t)n : 0;
	}
	return 0;
}

/* ---- open ---- */

/*
 * Raw, as below: open() and close() are points where a thread can be cancelled, fork() is none, and
 * locks are held here.
 */
static void close_fd(int fd)
{
	(void)syscall(SYS_close, fd);
}

/* A descriptor of its own, so that it has locks of its own. */
static int open_again(int fd)
{
	char path[32];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
	return again < 0 ? -errno : again;
}

/*
 * The next child's descriptor. It has the number of this one's, which is out of the program's way,
 * and is there at the limit too.
 */
static void renew_spare(struct flat_fork *f, int number, bool is_open)
{
	int fd = open_again(f->slot_fd);

	if (fd < 0 && is_open) {
		close_fd(number);
		fd = open_again(f->slot_fd);
	} else if (fd >= 0 && fd != number) {
		if (dup3(fd, number, O_CLOEXEC) == number) {
			close_fd(fd);
			fd = number;
		} else if (is_open) {
			close_fd(number);
		}
	}
	f->spare_fd = fd;
}

/* Bits that an earlier owner of the slot left. */
static void clear_slot(const struct fth_flat *flat, unsigned slot)
{
	struct fork_shared *s = flat->fork->shared;
	uint64_t ranges[2][2] = {{0, get(&s->home_end)}, {flat->pages, get(&s->claims_end)}};

	for (unsigned i = 0; i < 2; i++)
		for (uint64_t block = ranges[i][0]; block < ranges[i][1]; block++)
			if (get(&s->users[block]) & bit(slot))
				(void)__atomic_and_fetch(&s->users[block], ~bit(slot),
							 __ATOMIC_ACQ_REL);
}

int fork_open(struct fth_flat *flat, struct flat_fork *f, int shared, int file, uint64_t blocks)
{
	uint64_t deadline = fth_deadline_ns(FLAT_TIMEOUT);
	struct fth_backoff backoff = {0};
	void *at;
	int rc;

	*f = (struct flat_fork){.blocks = blocks, .file = file, .child_fd = -1, .spare_fd = -1};
	at = mmap(NULL, fork_shared_bytes(blocks), PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
	if (at == MAP_FAILED)
		return -errno;
	f->shared = at;
	at = mmap(NULL, flat->pages * sizeof(*f->places), PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -errno;
	f->places = at;
	f->slot_fd = open_again(shared);
	/* a child that was made just before exec() has the old lock until it gets its own */
	do {
		rc = f->slot_fd < 0 ? f->slot_fd : lock_slot(f->slot_fd, 0, F_OFD_SETLK, F_WRLCK);
		if (rc == -EAGAIN || rc == -EACCES)
			fth_backoff_pause(&backoff);
	} while ((rc == -EAGAIN || rc == -EACCES) && fth_now_ns() < deadline);
	if (rc < 0)
		return rc;
	f->spare_fd = open_again(shared);
	flat->fork = f;
	clear_slot(flat, 0); /* of what this process was before exec() */
	return map_inherit(&flat->map);
}

/* ---- a child ---- */

static void let_inherit(struct fth_flat *flat, bool inherit)
{
	struct flat_directory *d = &flat->directory;
	int advice = inherit ? MADV_DOFORK : MADV_DONTFORK;

	(void)madvise(d->frames, d->sets * d->ways * d->page, advice);
	(void)madvise(flat->read_buffers.memory, FLAT_CHANNELS * (size_t)flat->options.page,
		      advice);
	mover_let_inherit(flat, advice);
}

static bool has_lost_requests(const struct fth_flat *flat)
{
	for (unsigned i = 0; i < FLAT_CHANNELS; i++)
		if (__atomic_load_n(&flat->channels[i].lost, __ATOMIC_RELAXED))
			return true;
	return false;
}

/* A slot that nobody has, locked by a new descriptor. */
static int take_slot(struct flat_fork *f)
{
	int fd = f->spare_fd >= 0 ? f->spare_fd : open_again(f->slot_fd);

	if (fd < 0)
		return fd;
	f->spare_fd = fd;
	for (unsigned slot = 1; slot < FORK_SLOTS; slot++)
		if (slot != f->slot && lock_slot(fd, slot, F_OFD_SETLK, F_WRLCK) == 0) {
			f->child_slot = slot;
			f->child_fd = fd;
			f->spare_fd = -1;
			return 0;
		}
	return -EAGAIN;
}

static void share_blocks(struct fth_flat *flat, uint64_t end)
{
	struct flat_fork *f = flat->fork;
	uint64_t both = bit(f->slot) | bit(f->child_slot);

	raise_to(&f->shared->home_end, end);
	for (uint64_t page = 0; page < end; page++) {
		uint64_t block = fork_place(flat, page);
		uint64_t users = f->slot == 0 || (users_of(f, block) & bit(f->slot)) ? both : 0;

		if (users)
			(void)__atomic_or_fetch(&f->shared->users[block], users, __ATOMIC_ACQ_REL);
	}
}

int fork_begin(struct fth_flat *flat, uint64_t end)
{
	struct flat_fork *f = flat->fork;
	int rc;

	if (!f || flat->window_slots || has_lost_requests(flat))
		return -ENOTSUP;
	if (get(&f->shared->revoked) & bit(f->slot))
		return -ESTALE;
	rc = take_slot(f);
	if (rc < 0)
		return rc;
	clear_slot(flat, f->child_slot);
	(void)__atomic_and_fetch(&f->shared->revoked, ~bit(f->child_slot), __ATOMIC_SEQ_CST);
	share_blocks(flat, end);
	(void)__atomic_add_fetch(&f->shared->forks, 1, __ATOMIC_SEQ_CST);
	/*
	 * given up meanwhile: blocks that it shares may have been overwritten before the child's
	 * bits were there
	 */
	if (__atomic_load_n(&f->shared->revoked, __ATOMIC_SEQ_CST) & bit(f->slot)) {
		(void)lock_slot(f->child_fd, f->child_slot, F_OFD_SETLK, F_UNLCK);
		f->spare_fd = f->child_fd;
		f->child_fd = -1;
		return -ESTALE;
	}
	let_inherit(flat, true);
	return 0;
}

void fork_end(struct fth_flat *flat)
{
	if (!flat->fork || flat->fork->child_fd < 0)
		return;
	let_inherit(flat, false);
	/* the child, if there is one, has the old descriptor and its lock */
	renew_spare(flat->fork, flat->fork->child_fd, true);
	flat->fork->child_fd = -1;
}

/* Pages in DRAM that are clean were write-protected in the parent, by its userfaultfd. */
static int protect_clean(struct fth_flat *flat, uint64_t end)
{
	uint64_t from = 0;
	int rc = 0;

	for (uint64_t page = 0; page <= end && rc == 0; page++) {
		uint32_t word = page < end ? word_get(&flat->words[page]) : 0;

		if ((word & (WORD_STATE | WORD_DIRTY)) == WORD_DRAM)
			continue;
		if (from < page)
			rc = map_forbid_many(&flat->map, from, page - from);
		from = page + 1;
	}
	return rc;
}

/* All of the region but donated pages. */
static int watch_pages(struct fth_flat *flat, uint64_t end)
{
	uint64_t from = 0;
	int rc = 0;

	for (uint64_t page = 0; page < end && rc == 0; page++) {
		if (!word_is_donated(&flat->words[page]))
			continue;
		if (from < page)
			rc = map_watch(&flat->map, from, page - from);
		from = page + 1;
	}
	if (rc == 0 && from < flat->pages) /* pages from `end` on were never allocated */
		rc = map_watch(&flat->map, from, flat->pages - from);
	return rc;
}

/* Threads of the parent are not here: nobody holds a page, nor moves one. */
static void forget_others(struct fth_flat *flat, uint64_t end)
{
	for (uint64_t page = 0; page < end; page++)
		if (word_get(&flat->words[page]) &
		    (WORD_HOLDS | WORD_ASKED | WORD_MOVING | WORD_WAITED | WORD_LOCKED))
			word_set(&flat->words[page],
				 WORD_HOLDS | WORD_ASKED | WORD_MOVING | WORD_WAITED | WORD_LOCKED,
				 0);
	flat->held = 0;
	memset(flat->read_buffers.locks, 0, sizeof(flat->read_buffers.locks));
	mover_forked(flat);
}

int fork_become(struct fth_flat *flat, uint64_t end)
{
	struct flat_fork *f = flat->fork;
	int rc = 0, number = f->child_fd;

	/*
	 * the number of the parent's, which is out of the program's way; that one is closed by it
	 */
	if (dup3(f->child_fd, f->slot_fd, O_CLOEXEC) < 0)
		rc = -errno;
	close_fd(f->child_fd); /* which leaves a number for what comes next */
	f->child_fd = -1;
	f->slot = f->child_slot;
	f->live_at = 0;
	forget_others(flat, end);
	let_inherit(flat, false);
	if (rc == 0)
		rc = map_forked(&flat->map);
	if (rc == 0)
		rc = watch_pages(flat, end);
	if (rc == 0)
		rc = protect_clean(flat, end);
	if (rc == 0)
		rc = registry_add(flat);
	renew_spare(f, number, false); /* last: the others need the number for a moment */
	return rc;
}
