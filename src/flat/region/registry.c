/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The regions of this process. A child of fork() must not handle a fault with the tables of its
 * parent: their userfaultfd maps pages in the parent, and their locks may be held by threads that
 * the child does not have.
 *
 *  1. The registry is in memory that the kernel clears in a child (MADV_WIPEONFORK), however the
 *     child is made. So the child has no regions, and its lock is free.
 *  2. `process` counts processes that had regions, from this one's ancestors on: a region belongs
 *     to the process whose number it has. 0: this process has registered nothing yet.
 *  3. Addresses of regions are in `places` too, which a child inherits. They stay reserved in the
 *     child: nothing else comes to lie there, and a pointer of the parent finds no other memory.
 */
#include "flat/flat_internal.h"
#include "flat/emul/emul.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

/* Newer than some headers. */
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define REGIONS 64u

static struct registry {
	pthread_mutex_t lock; /* zero is unlocked; so is PTHREAD_MUTEX_INITIALIZER */
	uint32_t process;     /* atomic, as regions */
	struct fth_flat *regions[REGIONS];
} * registry; /* atomic; set once */

static struct place {
	uintptr_t at; /* atomic, as size; of what is reserved */
	uint64_t size;
} places[REGIONS];
static uint32_t
	processes;   /* the largest number of this process and its ancestors; under the lock */
static bool at_fork; /* likewise: the handler is installed */

static struct registry *get_registry(void)
{
	/* acquire: its memory was made before */
	return __atomic_load_n(&registry, __ATOMIC_ACQUIRE);
}

static int open_registry(void)
{
	struct registry *none = NULL;
	void *at;

	if (get_registry())
		return 0;
	at = mmap(NULL, sizeof(*registry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		  0);
	if (at == MAP_FAILED || madvise(at, sizeof(*registry), MADV_WIPEONFORK) < 0)
		return fth_fail(errno, "flat: no memory for the list of regions: %s",
				strerror(errno));
	/* release: another thread that finds it finds it cleared in children */
	if (!__atomic_compare_exchange_n(&registry, &none, at, false, __ATOMIC_RELEASE,
					 __ATOMIC_ACQUIRE))
		(void)munmap(at, sizeof(*registry));
	return 0;
}

/* ---- children ---- */

void registry_forked(void)
{
	const struct registry *r = get_registry();

	if (!r || __atomic_load_n(&r->process, __ATOMIC_RELAXED) != 0)
		return;
	for (unsigned i = 0; i < REGIONS; i++)
		if (places[i].size) /* what the child has mapped there since stays */
			(void)mmap((void *)places[i].at, places[i].size, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
					   MAP_FIXED_NOREPLACE,
				   -1, 0);
}

/* The first region of this process; under the lock. */
static int begin_process(struct registry *r)
{
	int rc = emul_forked();

	if (rc < 0)
		return fth_fail(-rc, "flat: no memory for compiled instructions: %s",
				strerror(-rc));
	rc = at_fork ? 0 : pthread_atfork(NULL, NULL, registry_forked);
	if (rc > 0)
		return fth_fail(rc, "flat: pthread_atfork: %s", strerror(rc));
	at_fork = true;
	rc = fault_install();
	if (rc == 0)
		__atomic_store_n(&r->process, ++processes, __ATOMIC_RELAXED);
	return rc;
}

bool registry_is_parents(uintptr_t address)
{
	for (unsigned i = 0; i < REGIONS; i++) {
		uintptr_t at = __atomic_load_n(&places[i].at, __ATOMIC_RELAXED);

		if (address - at < __atomic_load_n(&places[i].size, __ATOMIC_RELAXED))
			return !registry_find(address);
	}
	return false;
}

int registry_refuse(void)
{
	return fth_fail(EPERM, "flat: a child of fork() cannot use its parent's region");
}

int registry_check_owner(const struct fth_flat *flat)
{
	const struct registry *r = get_registry();

	return r && __atomic_load_n(&r->process, __ATOMIC_RELAXED) == flat->owner
		       ? 0
		       : registry_refuse();
}

/* ---- regions ---- */

struct fth_flat *registry_find(uintptr_t address)
{
	const struct registry *r = get_registry();

	for (unsigned i = 0; r && i < REGIONS; i++) {
		/* acquire: the region is complete */
		struct fth_flat *flat = __atomic_load_n(&r->regions[i], __ATOMIC_ACQUIRE);

		if (flat && address - (uintptr_t)flat->map.user < flat->map.size)
			return flat;
	}
	return NULL;
}

/* A number that is free here, and was not an ancestor's if there is such a one. */
static unsigned free_number(const struct registry *r)
{
	unsigned any = REGIONS;

	for (unsigned i = 0; i < REGIONS; i++) {
		if (r->regions[i])
			continue;
		if (places[i].size == 0)
			return i;
		any = any < REGIONS ? any : i;
	}
	return any;
}

static void set_place(unsigned number, const void *at, uint64_t size)
{
	__atomic_store_n(&places[number].size, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&places[number].at, (uintptr_t)at, __ATOMIC_RELAXED);
	__atomic_store_n(&places[number].size, size, __ATOMIC_RELAXED);
}

static int add_region(struct registry *r, struct fth_flat *flat)
{
	unsigned number = free_number(r);

	if (number == REGIONS)
		return fth_fail(EMFILE, "flat: too many open regions, the limit is %u", REGIONS);
	flat->owner = r->process;
	set_place(number, flat->map.reserved, flat->map.reserved_size);
	/* release: a fault of any thread sees the region complete */
	__atomic_store_n(&r->regions[number], flat, __ATOMIC_RELEASE);
	return 0;
}

int registry_add(struct fth_flat *flat)
{
	struct registry *r;
	int rc = open_registry();

	if (rc < 0)
		return rc;
	r = get_registry();
	pthread_mutex_lock(&r->lock);
	if (r->process == 0)
		rc = begin_process(r);
	if (rc == 0)
		rc = add_region(r, flat);
	pthread_mutex_unlock(&r->lock);
	return rc;
}

void registry_remove(struct fth_flat *flat)
{
	struct registry *r = get_registry();

	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	for (unsigned i = 0; i < REGIONS; i++)
		if (r->regions[i] == flat) {
			set_place(i, NULL, 0);
			__atomic_store_n(&r->regions[i], NULL, __ATOMIC_RELEASE);
		}
	pthread_mutex_unlock(&r->lock);
}
