/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flat_run_maps TOPIC: as flat_run_program, with mappings that move, and others that come to lie
 * where memory of the region was. It prints "ok" if all was as it should be.
 */
#include "flat_run_memory.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- mappings that move ---- */

static uint8_t *map_filled(size_t bytes, uint8_t first)
{
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	for (size_t i = 0; i < bytes; i += PAGE)
		at[i] = (uint8_t)(first + i / PAGE);
	return at;
}

static int has_mapped(const uint8_t *at, size_t from, size_t end, uint8_t first)
{
	for (size_t i = from; i < end; i += PAGE)
		if (at[i] != (uint8_t)(first + i / PAGE))
			return 0;
	return 1;
}

static void remaps(void)
{
	uint8_t *at = map_filled(8 * MIB, 3), *to, *old;

	start(); /* all of it is cold now */
	to = mmap(NULL, 16 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(to != MAP_FAILED);
	CHECK(mremap(at, 8 * MIB, 16 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	CHECK(has_mapped(to, 0, 8 * MIB, 3) && to[16 * MIB - 1] == 0);
	/* over a mapping of the region, and shorter */
	at = map_filled(4 * MIB, 5);
	old = map_filled(8 * MIB, 7);
	CHECK(mremap(old, 8 * MIB, 2 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, at + MIB) == at + MIB);
	CHECK(has_mapped(at, 0, MIB, 5) && has_mapped(at + MIB, 0, 2 * MIB, 7) &&
	      has_mapped(at, 3 * MIB, 4 * MIB, 5));
	CHECK(mremap(at, MIB, 2 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, at + MIB / 2) == MAP_FAILED &&
	      errno == EINVAL);
	/* the contents move, and the mapping stays */
	old = map_filled(4 * MIB, 9);
	to = mremap(old, 4 * MIB, 4 * MIB, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	CHECK(to != MAP_FAILED && has_mapped(to, 0, 4 * MIB, 9));
	CHECK(old[0] == 0 && old[4 * MIB - PAGE] == 0);
	/* lengths are in whole pages, and so is what moves */
	old = map_filled(MIB, 11);
	old[MIB - 1] = 12;
	to = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(mremap(old, MIB - 100, MIB - 100, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	CHECK(has_mapped(to, 0, MIB, 11) && to[MIB - 1] == 12);
}

static void die_of_store(volatile uint8_t *at)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		*at = 1;
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	CHECK(WTERMSIG(status) == SIGSEGV);
}

/* Files and memory that is protected, at addresses that were the region's, move as they are. */
static void remaps_left(void)
{
	uint8_t *at = map_filled(8 * MIB, 3), *to, byte = 0;
	int file = memfd_create("shared", MFD_CLOEXEC);

	start();
	CHECK(file >= 0 && ftruncate(file, MIB) == 0);
	to = mmap(NULL, 8 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(to != MAP_FAILED);
	CHECK(mmap(at, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == at);
	CHECK(mremap(at, MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	to[5] = 77;
	CHECK(pread(file, &byte, 1, 5) == 1 && byte == 77);
	/* one that stays there: the kernel does what it is told about it */
	CHECK(mmap(at, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == at);
	CHECK(msync(at, MIB, MS_SYNC) == 0 && msync(at, MIB, MS_SYNC | MS_ASYNC) == -1);
	CHECK(madvise(at, PAGE, MADV_REMOVE) == 0 && at[5] == 0 && to[5] == 0);
	CHECK(munmap(at, MIB) == 0);
	/* read-only, and without any access */
	CHECK(mprotect(at + 2 * MIB, MIB, PROT_READ) == 0);
	CHECK(mremap(at + 2 * MIB, MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, to + 2 * MIB) ==
	      to + 2 * MIB);
	CHECK(has_mapped(to + 2 * MIB, 0, MIB, 3));
	die_of_store(to + 2 * MIB);
	CHECK(mprotect(at + 4 * MIB, MIB, PROT_NONE) == 0);
	to = mremap(at + 4 * MIB, MIB, 3 * MIB, MREMAP_MAYMOVE);
	CHECK(to != MAP_FAILED);
	die_of_store(to);
	CHECK(mprotect(to, 3 * MIB, PROT_READ) == 0 && has_mapped(to, 0, MIB, 3));
	/* the rest is where it was, and the gaps are free */
	CHECK(has_mapped(at, MIB, 2 * MIB, 3) && has_mapped(at, 5 * MIB, 8 * MIB, 3));
	for (int i = 0; i < 8; i++)
		CHECK(has_mapped(map_filled(MIB, (uint8_t)i), 0, MIB, (uint8_t)i));
	close(file);
}

/* ---- segments of shared memory ---- */

#define SEGMENT (2 * MIB)

static int make_segment(void)
{
	int id = shmget(IPC_PRIVATE, SEGMENT - 100, IPC_CREAT | 0600);

	CHECK(id >= 0);
	return id;
}

/* What the kernel refuses changes nothing. */
static void refused_segments(uint8_t *at, int id)
{
	CHECK(shmat(id, at, 0) == (void *)-1 && errno == EINVAL); /* it is in use */
	CHECK(shmat(id, at + 100, SHM_REMAP) == (void *)-1 && errno == EINVAL);
	CHECK(shmat(-1, at, SHM_REMAP) == (void *)-1 && errno == EINVAL);
	CHECK(shmat(id, NULL, SHM_REMAP) == (void *)-1 && errno == EINVAL);
	CHECK(shmdt(at) == -1 && errno == EINVAL);
	CHECK(has_mapped(at, 0, 8 * MIB, 3));
}

/* Over memory of the region, over another segment, over a boundary of mappings. */
static void attached_segments(uint8_t *at, uint8_t *other, int id)
{
	int ends[2];

	CHECK(shmat(id, at + MIB, SHM_REMAP) == at + MIB);
	CHECK(at[MIB] == 41 && at[3 * MIB - 1] == 42);
	at[MIB + 5] = 43;
	CHECK(other[5] == 43);
	CHECK(has_mapped(at, 0, MIB, 3) && has_mapped(at, 3 * MIB, 8 * MIB, 3));
	CHECK(pipe(ends) == 0 && write(ends[1], at + MIB, 6) == 6);
	CHECK(read(ends[0], at + MIB + 10, 6) == 6 && other[15] == 43);
	close(ends[0]);
	close(ends[1]);
	CHECK(shmat(id, at + 2 * MIB + 100, SHM_REMAP | SHM_RND | SHM_RDONLY) == at + 2 * MIB);
	CHECK(at[MIB + 5] == 43 && at[2 * MIB + 5] == 43);
	die_of_store(at + 2 * MIB);
	CHECK(has_mapped(at, 4 * MIB, 8 * MIB, 3));
}

static void segments(void)
{
	uint8_t *at = map_filled(8 * MIB, 3), *other;
	int id = make_segment();

	start();
	other = shmat(id, NULL, 0);
	CHECK(other != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0); /* when nobody has it */
	other[0] = 41;
	other[SEGMENT - 1] = 42;
	refused_segments(at, id);
	attached_segments(at, other, id);
	CHECK(shmdt(at + 2 * MIB) == 0 && shmdt(at + MIB) == 0);
	CHECK(shmdt(at + MIB) == -1 && errno == EINVAL);
	CHECK(has_mapped(at, 0, MIB, 3) && has_mapped(at, 4 * MIB, 8 * MIB, 3) && other[5] == 43);
	/* the gap is free, and can be had again */
	CHECK(mmap(at + MIB, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0) == at + MIB);
	CHECK(at[MIB] == 0 && has_mapped(at, 0, MIB, 3));
	for (int i = 0; i < 16; i++)
		CHECK(has_mapped(map_filled(MIB, (uint8_t)i), 0, MIB, (uint8_t)i));
	CHECK(has_mapped(at, 0, MIB, 3) && has_mapped(at, 4 * MIB, 8 * MIB, 3));
	CHECK(munmap(at, 8 * MIB) == 0 && shmdt(other) == 0);
}

/* ---- other calls that change mappings in place ---- */

/* Newer than some headers. */
#define CALL_PIDFD_OPEN	    434
#define CALL_PROCESS_ADVISE 440
#define CALL_SEAL	    462
#define ADVICE_LOCKED	    24
#define ADVICE_GUARD	    102

static sigjmp_buf jump;

static void on_fault(int sig)
{
	(void)sig;
	siglongjmp(jump, 1);
}

static int store_faults(volatile uint8_t *at)
{
	struct sigaction action = {.sa_handler = on_fault}, old;
	volatile int faulted = 1;

	CHECK(sigaction(SIGSEGV, &action, &old) == 0);
	if (sigsetjmp(jump, 1) == 0) {
		*at = 1;
		faulted = 0;
	}
	CHECK(sigaction(SIGSEGV, &old, NULL) == 0);
	return faulted;
}

/* Pages of a file in another order. */
static void file_pages(uint8_t *at)
{
	int file = memfd_create("pages", MFD_CLOEXEC);

	CHECK(file >= 0 && ftruncate(file, 2 * PAGE) == 0 && pwrite(file, "b", 1, PAGE) == 1);
	CHECK(remap_file_pages(at, PAGE, 0, 1, 0) == -1 && errno == EINVAL); /* no file */
	CHECK(mmap(at, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == at);
	CHECK(remap_file_pages(at, PAGE, 0, 1, 0) == 0 && at[0] == 'b');
	close(file);
}

/* Calls that a kernel does not know fail, and change nothing. */
static void changes(void)
{
	uint8_t *at = map_filled(8 * MIB, 3);
	struct iovec range = {at + 2 * MIB, MIB};
	int self = (int)syscall(CALL_PIDFD_OPEN, getpid(), 0);

	start();
	file_pages(at);
	if (madvise(at + MIB, MIB, ADVICE_LOCKED) == 0)
		CHECK(at[MIB] == 0 && at[2 * MIB - PAGE] == 0);
	if (syscall(CALL_PROCESS_ADVISE, self, &range, 1, MADV_DONTNEED, 0) > 0)
		CHECK(at[2 * MIB] == 0 && at[3 * MIB - PAGE] == 0);
	else
		CHECK(has_mapped(at, 2 * MIB, 3 * MIB, 3));
	if (madvise(at + 4 * MIB, PAGE, ADVICE_GUARD) == 0)
		CHECK(store_faults(at + 4 * MIB));
	if (syscall(CALL_SEAL, at + 5 * MIB, MIB, 0) == 0)
		CHECK(mprotect(at + 5 * MIB, MIB, PROT_READ) == -1 && errno == EPERM);
	CHECK(has_mapped(at, 3 * MIB, 4 * MIB, 3) && has_mapped(at, 4 * MIB + PAGE, 8 * MIB, 3));
	close(self);
}

/* ---- pages of the system in longer pages of the region ---- */

static void pieces(void)
{
	uint8_t *at = map_filled(8 * MIB, 3);

	start();
	CHECK(mmap(at + MIB + PAGE, PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at + MIB + PAGE);
	CHECK(at[MIB + PAGE] == 0 && has_mapped(at, 0, MIB + PAGE, 3));
	CHECK(madvise(at + 2 * MIB, PAGE, MADV_DONTNEED) == 0 && at[2 * MIB] == 0);
	CHECK(madvise(at + 3 * MIB - PAGE, 1, MADV_DONTNEED) == 0 && at[3 * MIB - PAGE] == 0);
	CHECK(madvise(at + 3 * MIB + PAGE, MIB, MADV_DONTNEED) == 0);
	CHECK(at[3 * MIB + PAGE] == 0 && at[4 * MIB] == 0);
	CHECK(munmap(at + 5 * MIB, PAGE) == 0 && munmap(at + 6 * MIB - PAGE, PAGE) == 0);
	CHECK(mprotect(at + 6 * MIB + PAGE, PAGE, PROT_READ) == 0);
	CHECK(madvise(at + 6 * MIB, 2 * PAGE, MADV_DONTNEED) == 0 && at[6 * MIB] == 0);
	CHECK(has_mapped(at, MIB + 2 * PAGE, 2 * MIB, 3));
	CHECK(has_mapped(at, 2 * MIB + PAGE, 3 * MIB - PAGE, 3));
	CHECK(has_mapped(at, 3 * MIB, 3 * MIB + PAGE, 3));
	CHECK(has_mapped(at, 4 * MIB + PAGE, 5 * MIB, 3));
	CHECK(has_mapped(at, 5 * MIB + PAGE, 6 * MIB - PAGE, 3));
	CHECK(has_mapped(at, 6 * MIB + 2 * PAGE, 8 * MIB, 3));
	CHECK(munmap(at, 8 * MIB) == 0);
	for (int i = 0; i < 100; i++) { /* more than there is, if some were not given back */
		at = map_filled(3 * MIB + PAGE, 5);
		CHECK(munmap(at, MIB - 1) == 0 && has_mapped(at, MIB, 3 * MIB + PAGE, 5));
		CHECK(munmap(at + MIB, 2 * MIB + PAGE) == 0);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} topics[] = {
	{"remaps", remaps},   {"remaps-left", remaps_left}, {"segments", segments},
	{"changes", changes}, {"pieces", pieces},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(topics) / sizeof(topics[0]); i++)
		if (strcmp(argv[1], topics[i].name) == 0) {
			topics[i].run();
			printf("ok\n");
			return 0;
		}
	fprintf(stderr, "usage: flat_run_maps TOPIC\n");
	return 2;
}
