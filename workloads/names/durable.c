/* SPDX-License-Identifier: BSD-2-Clause */
#include "workloads/names/durable.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS_MAX ((uint64_t)1 << 30)
#define STRIPES	   64u

struct fth_durable {
	uint8_t *base;
	uint64_t size;
	struct fth_flat *flat; /* or */
	struct fth_dev *dev;
	uint64_t asked; /* bytes, atomic */
	/*
	 * of block n % STRIPES, while it is written: two writes of a block end in the order in
	 * which they took its bytes
	 */
	pthread_mutex_t stripes[STRIPES];
};

static struct fth_durable *make(uint8_t *base, uint64_t size, struct fth_flat *flat,
				struct fth_dev *dev)
{
	struct fth_durable *durable = calloc(1, sizeof(*durable));

	if (!durable)
		return NULL;
	durable->base = base;
	durable->size = size;
	durable->flat = flat;
	durable->dev = dev;
	for (unsigned i = 0; i < STRIPES; i++)
		pthread_mutex_init(&durable->stripes[i], NULL);
	return durable;
}

int fth_durable_open_flat(struct fth_flat *flat, struct fth_durable **out)
{
	uint64_t size = fth_flat_size(flat);
	int rc = fth_flat_persistent(flat, fth_flat_base(flat), size);

	*out = rc < 0 ? NULL : make(fth_flat_base(flat), size, flat, NULL);
	if (rc < 0)
		return rc;
	return *out ? 0 : fth_fail(ENOMEM, "durable: no memory");
}

int fth_durable_open_blocks(struct fth_dev *dev, struct fth_durable **out)
{
	const struct fth_dev_info *info = fth_dev_info(dev);
	uint64_t size = info->size - info->size % FTH_DURABLE_BLOCK;
	uint8_t *base;
	int rc;

	*out = NULL;
	if (size == 0 || size > BLOCKS_MAX || info->block > FTH_DURABLE_BLOCK)
		return fth_fail(EINVAL,
				"durable: the device has %llu bytes in blocks of %u; expected %u "
				"bytes to 1 GiB in blocks of at most %u",
				(unsigned long long)info->size, info->block, FTH_DURABLE_BLOCK,
				FTH_DURABLE_BLOCK);
	base = aligned_alloc(FTH_DURABLE_BLOCK, size);
	rc = base ? fth_dev_read(dev, base, size, 0, FTH_DEV_TIMEOUT)
		  : fth_fail(ENOMEM, "durable: no memory for %llu bytes", (unsigned long long)size);
	if (rc == 0)
		*out = make(base, size, NULL, dev);
	if (*out)
		return 0;
	free(base);
	return rc < 0 ? rc : fth_fail(ENOMEM, "durable: no memory");
}

void fth_durable_close(struct fth_durable *durable)
{
	if (!durable)
		return;
	if (durable->dev)
		free(durable->base);
	for (unsigned i = 0; i < STRIPES; i++)
		pthread_mutex_destroy(&durable->stripes[i]);
	free(durable);
}

uint64_t fth_durable_size(const struct fth_durable *durable)
{
	return durable->size;
}

/* The stripes of blocks [first, end), one bit each. */
static uint64_t stripes_of(uint64_t first, uint64_t end)
{
	uint64_t bits = 0;

	for (uint64_t block = first; block < end && bits != UINT64_MAX; block++)
		bits |= (uint64_t)1 << block % STRIPES;
	return bits;
}

static void lock_blocks(struct fth_durable *durable, uint64_t stripes)
{
	for (unsigned i = 0; i < STRIPES; i++)
		if (stripes >> i & 1)
			pthread_mutex_lock(&durable->stripes[i]);
}

static void unlock_blocks(struct fth_durable *durable, uint64_t stripes)
{
	for (unsigned i = 0; i < STRIPES; i++)
		if (stripes >> i & 1)
			pthread_mutex_unlock(&durable->stripes[i]);
}

static uint64_t end_of(uint64_t at, uint64_t length)
{
	return (at + length + FTH_DURABLE_BLOCK - 1) / FTH_DURABLE_BLOCK;
}

static int write_blocks(struct fth_durable *durable, uint64_t at, uint64_t length)
{
	uint64_t first = at / FTH_DURABLE_BLOCK, end = end_of(at, length),
		 bytes = (end - first) * FTH_DURABLE_BLOCK, stripes = stripes_of(first, end);
	int rc;

	lock_blocks(durable, stripes);
	rc = fth_dev_write(durable->dev, durable->base + first * FTH_DURABLE_BLOCK, bytes,
			   first * FTH_DURABLE_BLOCK, FTH_DEV_TIMEOUT);
	unlock_blocks(durable, stripes);
	return rc < 0 ? rc : fth_dev_flush(durable->dev, FTH_DEV_TIMEOUT);
}

static int check_range(const struct fth_durable *durable, uint64_t at, uint64_t length)
{
	if (at > durable->size || length > durable->size - at)
		return fth_fail(ERANGE,
				"durable: %llu bytes at offset %llu exceed the size of %llu",
				(unsigned long long)length, (unsigned long long)at,
				(unsigned long long)durable->size);
	return 0;
}

static int copy(struct fth_durable *durable, uint64_t at, void *to, const void *from,
		uint64_t length)
{
	uint64_t stripes;
	int rc = check_range(durable, at, length);

	if (rc < 0 || length == 0)
		return rc;
	if (durable->flat)
		return to ? fth_flat_load(durable->flat, durable->base + at, to, length)
			  : fth_flat_store(durable->flat, durable->base + at, from, length);
	stripes = stripes_of(at / FTH_DURABLE_BLOCK, end_of(at, length));
	lock_blocks(durable, stripes);
	memcpy(to ? to : durable->base + at, to ? durable->base + at : from, length);
	unlock_blocks(durable, stripes);
	return 0;
}

int fth_durable_load(struct fth_durable *durable, uint64_t at, void *to, uint64_t length)
{
	return copy(durable, at, to, NULL, length);
}

int fth_durable_store(struct fth_durable *durable, uint64_t at, const void *from, uint64_t length)
{
	return copy(durable, at, NULL, from, length);
}

int fth_durable_persist(struct fth_durable *durable, uint64_t at, uint64_t length)
{
	int rc = check_range(durable, at, length);

	if (rc < 0 || length == 0)
		return rc;
	__atomic_fetch_add(&durable->asked, length, __ATOMIC_RELAXED);
	if (durable->dev)
		return write_blocks(durable, at, length);
	rc = fth_flat_persist(durable->base + at, length);
	return rc < 0 ? rc : 0;
}

uint64_t fth_durable_asked(const struct fth_durable *durable)
{
	return __atomic_load_n(&durable->asked, __ATOMIC_RELAXED);
}
