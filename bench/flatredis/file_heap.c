/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A library to preload: large private anonymous mappings of the program become shared mappings of a
 * file. With an allocator that gets its memory by mmap(), as jemalloc does, that is an allocator on
 * a mapped file: a peer for `fathom flat run`, with its rule for which memory goes to the disk. The
 * environment says which file, and how it is advised.
 */
#include "file_heap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALSO_PLAIN (MAP_NORESERVE | MAP_POPULATE)

static struct {
	uint64_t next, size; /* next: atomic */
	int fd;
	bool opened, random;
} heap;

/*
 * With the first large mapping: allocators may come before constructors of this library, and
 * threads come later.
 */
static void open_heap(void)
{
	const char *path = getenv(FILE_HEAP_PATH);
	struct stat st;

	heap.opened = true;
	heap.random = getenv(FILE_HEAP_RANDOM) != NULL;
	heap.fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (heap.fd >= 0 && fstat(heap.fd, &st) == 0)
		heap.size = (uint64_t)st.st_size;
}

static void *kernel_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
	return (void *)syscall(SYS_mmap, at, length, protection, flags, fd, offset);
}

/* Room in the file is never used twice: jemalloc keeps its address space. */
static void *map_file(size_t length, int protection)
{
	size_t whole = (length + 4095) & ~(size_t)4095;
	uint64_t at = __atomic_fetch_add(&heap.next, whole, __ATOMIC_RELAXED);
	void *memory;

	if (at + whole > heap.size) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	memory = kernel_mmap(NULL, length, protection, MAP_SHARED, heap.fd, (off_t)at);
	if (memory != MAP_FAILED && heap.random)
		(void)madvise(memory, length, MADV_RANDOM);
	return memory;
}

__attribute__((visibility("default"))) void *mmap(void *at, size_t length, int protection,
						  int flags, int fd, off_t offset)
{
	bool large = length >= FILE_HEAP_LEAST && protection == (PROT_READ | PROT_WRITE) &&
		     (flags & ~ALSO_PLAIN) == (MAP_PRIVATE | MAP_ANONYMOUS);

	if (large && !heap.opened)
		open_heap();
	return large && heap.size > 0 ? map_file(length, protection)
				      : kernel_mmap(at, length, protection, flags, fd, offset);
}

__attribute__((visibility("default"))) void *mmap64(void *at, size_t length, int protection,
						    int flags, int fd, off_t offset)
{
	return mmap(at, length, protection, flags, fd, offset);
}

/*
 * Memory that is given back is zero afterwards: in a file that is a hole. Elsewhere MADV_REMOVE is
 * refused, and the kernel does as it was told.
 */
__attribute__((visibility("default"))) int madvise(void *at, size_t length, int advice)
{
	if (heap.size > 0 && advice == MADV_DONTNEED &&
	    syscall(SYS_madvise, at, length, MADV_REMOVE) == 0)
		return 0;
	return (int)syscall(SYS_madvise, at, length, advice);
}
