/* SPDX-License-Identifier: BSD-2-Clause */
/* Host memory that kernels reach by themselves: what fathom/gpu/direct.h pins. */
#include "fathom/gpu/direct.h"

#include "base/cuda_error.h"
#include "fathom/base/fd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct fth_gpu_pinned {
	void *memory;
	uint64_t bytes;
	bool ours;   /* mapped here: memory or a file */
	void *known; /* to CUDA, in whole pages */
	void *mapped;
};

/* ---- pinning ---- */

static int pin(struct fth_gpu_pinned *p, unsigned flags)
{
	uintptr_t first = (uintptr_t)p->memory / 4096 * 4096, before = (uintptr_t)p->memory - first;
	void *device = NULL;
	int rc;

	flags |= cudaHostRegisterPortable | cudaHostRegisterMapped;
	rc = fth_gpu_check(cudaHostRegister((void *)first, p->bytes + before, flags),
			   "pinning memory");
	if (rc < 0)
		return rc;
	p->known = (void *)first;
	rc = fth_gpu_check(cudaHostGetDevicePointer(&device, (void *)first, 0),
			   "a pointer for the GPU");
	p->mapped = (char *)device + before;
	return rc;
}

static int map_memory(struct fth_gpu_pinned *p, int fd, int access)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *at = mmap(NULL, p->bytes, access, flags, fd, 0);

	if (at == MAP_FAILED)
		return fth_fail(errno, "cannot map %llu bytes: %s", (unsigned long long)p->bytes,
				strerror(errno));
	p->memory = at;
	p->ours = true;
	/* A wish: fewer pages to fault in and to pin. */
	if (fd < 0)
		(void)madvise(at, p->bytes, MADV_HUGEPAGE);
	return 0;
}

static int release(struct fth_gpu_pinned *p)
{
	int rc = 0;

	if (p->known)
		rc = fth_gpu_check(cudaHostUnregister(p->known), "unpinning");
	if (p->ours && munmap(p->memory, p->bytes) < 0 && rc == 0)
		rc = fth_fail(errno, "munmap: %s", strerror(errno));
	memset(p, 0, sizeof(*p));
	return rc;
}

static int finish_open(struct fth_gpu_pinned *p, int rc, struct fth_gpu_pinned **out)
{
	if (rc < 0) {
		(void)release(p);
		free(p);
		return rc;
	}
	*out = p;
	return 0;
}

int fth_gpu_pinned_open(void *memory, uint64_t bytes, struct fth_gpu_pinned **out)
{
	struct fth_gpu_pinned *p;
	int rc = 0;

	if (bytes == 0)
		return fth_fail(EINVAL, "gpu pinned memory: bytes is 0");
	p = (struct fth_gpu_pinned *)calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->memory = memory;
	p->bytes = bytes;
	if (!memory)
		rc = map_memory(p, -1, PROT_READ | PROT_WRITE);
	return finish_open(p, rc < 0 ? rc : pin(p, 0), out);
}

/* ---- files ---- */

static int read_all(int fd, char *to, uint64_t bytes)
{
	uint64_t done = 0;

	while (done < bytes) {
		ssize_t n = pread(fd, to + done, bytes - done, (off_t)done);

		if (n < 0)
			return fth_fail(errno, "cannot read the file: %s", strerror(errno));
		if (n == 0)
			return fth_fail(EIO, "the file was truncated while it was read");
		done += (uint64_t)n;
	}
	return 0;
}

/* The file's own pages, or a copy. */
static int pin_file(struct fth_gpu_pinned *p, int fd, bool readonly)
{
	uint64_t bytes = p->bytes;
	int rc = map_memory(p, fd, readonly ? PROT_READ : PROT_READ | PROT_WRITE);

	if (rc < 0)
		return rc;
	if (pin(p, readonly ? cudaHostRegisterReadOnly : 0) == 0)
		return 0;
	rc = release(p);
	if (rc < 0)
		return rc;
	if (!readonly)
		return fth_fail(EOPNOTSUPP, "CUDA cannot pin the pages of this file for writing");
	p->bytes = bytes;
	rc = map_memory(p, -1, PROT_READ | PROT_WRITE);
	if (rc == 0)
		rc = read_all(fd, (char *)p->memory, bytes);
	return rc < 0 ? rc : pin(p, 0);
}

int fth_gpu_pinned_open_file(const char *path, bool readonly, struct fth_gpu_pinned **out)
{
	struct fth_gpu_pinned *p;
	struct stat st;
	int fd = fth_fd_open(path, (readonly ? O_RDONLY : O_RDWR) | O_CLOEXEC, 0), rc;

	if (fd < 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
		close(fd);
		return fth_fail(EINVAL, "%s is not a regular file, or is empty", path);
	}
	p = (struct fth_gpu_pinned *)calloc(1, sizeof(*p));
	rc = p ? 0 : -ENOMEM;
	if (p) {
		p->bytes = (uint64_t)st.st_size;
		rc = pin_file(p, fd, readonly);
	}
	close(fd); /* what is mapped stays */
	return p ? finish_open(p, rc < 0 ? fth_fail_in(rc, path) : 0, out) : rc;
}

/* ---- asking ---- */

void *fth_gpu_pinned_memory(const struct fth_gpu_pinned *p)
{
	return p->memory;
}

void *fth_gpu_pinned_mapped(const struct fth_gpu_pinned *p)
{
	return p->mapped;
}

uint64_t fth_gpu_pinned_bytes(const struct fth_gpu_pinned *p)
{
	return p->bytes;
}

int fth_gpu_pinned_close(struct fth_gpu_pinned *p)
{
	int rc;

	if (!p)
		return 0;
	rc = release(p);
	free(p);
	return rc;
}
