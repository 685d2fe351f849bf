/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of translated instructions. A slot goes from EMPTY to BUSY by compare-and-swap and from
 * BUSY to READY by a release store; after that it does not change. Readers skip slots that are not
 * READY. Code is in memory mapped twice, writable here and executable there, so that no page is
 * both.
 */
#include "flat/emul/translated.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRANSLATED_SLOTS  16384 /* power of two */
#define TRANSLATED_PROBES 16

enum { SLOT_EMPTY, SLOT_BUSY, SLOT_READY };

struct slot {
	uint32_t state;
	struct emul_translated translated;
};

static struct {
	struct slot *slots;
	uint8_t *writable;
	const uint8_t *executable;
} table;

static void *map_code(int fd, int protection)
{
	void *at =
		mmap(NULL, (size_t)TRANSLATED_SLOTS * EMUL_CODE_MAX, protection, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

int translated_setup(void)
{
	size_t size = sizeof(struct slot) * TRANSLATED_SLOTS;
	void *slots, *writable = NULL, *executable = NULL;
	int fd;

	if (table.slots)
		return 0;
	fd = memfd_create("fathom code", MFD_CLOEXEC);
	if (fd < 0)
		return -ENOTSUP;
	if (ftruncate(fd, (off_t)TRANSLATED_SLOTS * EMUL_CODE_MAX) == 0) {
		writable = map_code(fd, PROT_READ | PROT_WRITE);
		executable = map_code(fd, PROT_READ | PROT_EXEC);
	}
	close(fd);
	slots = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!writable || !executable || slots == MAP_FAILED) {
		if (writable)
			munmap(writable, (size_t)TRANSLATED_SLOTS * EMUL_CODE_MAX);
		if (executable)
			munmap(executable, (size_t)TRANSLATED_SLOTS * EMUL_CODE_MAX);
		if (slots != MAP_FAILED)
			munmap(slots, size);
		return -ENOTSUP;
	}
	table.writable = writable;
	table.executable = executable;
	table.slots = slots;
	return 0;
}

/*
 * Raw, since close() is a point where a thread can be cancelled, and this is called while locks are
 * held.
 */
int translated_forked(void)
{
	size_t code = (size_t)TRANSLATED_SLOTS * EMUL_CODE_MAX;
	int fd, rc = 0;

	if (!table.slots)
		return 0;
	fd = memfd_create("fathom code", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)code) < 0 ||
	    mmap(table.writable, code, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    MAP_FAILED ||
	    mmap((void *)table.executable, code, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, fd,
		 0) == MAP_FAILED ||
	    mmap(table.slots, sizeof(struct slot) * TRANSLATED_SLOTS, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		rc = -errno;
	(void)syscall(SYS_close, fd);
	return rc;
}

static uint32_t slot_of(uintptr_t rip, unsigned probe)
{
	uint64_t hash = (uint64_t)rip * 0x9e3779b97f4a7c15u;

	return ((uint32_t)(hash >> 40) + probe) & (TRANSLATED_SLOTS - 1);
}

const struct emul_translated *translated_find(uintptr_t rip, const uint8_t *bytes,
					      unsigned available)
{
	if (!table.slots)
		return NULL;
	for (unsigned probe = 0; probe < TRANSLATED_PROBES; probe++) {
		const struct slot *slot = &table.slots[slot_of(rip, probe)];
		/*
		 * acquire: the translated instruction is read after the state that says it is
		 * complete
		 */
		uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);

		if (state == SLOT_EMPTY)
			return NULL;
		if (state == SLOT_READY && slot->translated.rip == rip &&
		    slot->translated.length <= available &&
		    memcmp(slot->translated.bytes, bytes, slot->translated.length) == 0)
			return &slot->translated;
	}
	return NULL;
}

const struct emul_translated *translated_keep(const struct emul_translated *made,
					      const uint8_t *code, unsigned code_length)
{
	if (!table.slots)
		return NULL;
	for (unsigned probe = 0; probe < TRANSLATED_PROBES; probe++) {
		uint32_t n = slot_of(made->rip, probe), empty = SLOT_EMPTY;
		struct slot *slot = &table.slots[n];

		if (!__atomic_compare_exchange_n(&slot->state, &empty, SLOT_BUSY, false,
						 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue;
		memcpy(table.writable + (size_t)n * EMUL_CODE_MAX, code, code_length);
		slot->translated = *made;
		slot->translated.code = table.executable + (size_t)n * EMUL_CODE_MAX;
		/*
		 * release: the translated instruction and its code come before the state that says
		 * they are complete
		 */
		__atomic_store_n(&slot->state, SLOT_READY, __ATOMIC_RELEASE);
		return &slot->translated;
	}
	return NULL;
}

void translated_reset(void)
{
	if (table.slots)
		memset(table.slots, 0, sizeof(struct slot) * TRANSLATED_SLOTS);
}

bool translated_contains(uintptr_t address)
{
	uintptr_t start = (uintptr_t)table.executable;

	return start && address >= start &&
	       address < start + (size_t)TRANSLATED_SLOTS * EMUL_CODE_MAX;
}
