/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests: damage to a cache on a device. */
#ifndef FTH_KV_SPOIL_FIXTURE_H
#define FTH_KV_SPOIL_FIXTURE_H

#include "fathom/dev.h"

#include "fth_test.h"
#include "kv/media/format.h"

#include <string.h>

static inline void flip(struct fth_dev *dev, uint64_t at)
{
	uint8_t block[512];

	assert_ok(fth_dev_read(dev, block, sizeof(block), at / 512 * 512, FTH_DEV_TIMEOUT));
	block[at % 512] ^= 0x10;
	assert_ok(fth_dev_write(dev, block, sizeof(block), at / 512 * 512, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
}

static inline bool super_holds(const struct kv_super *s)
{
	return memcmp(s->magic, KV_SUPER_MAGIC, sizeof(s->magic)) == 0 &&
	       s->checksum == fth_checksum(s, offsetof(struct kv_super, checksum), KV_SUPER_SEED);
}

/* The superblock that counts, and where it is. Returns how many of the two are good. */
static inline unsigned find_super(struct fth_dev *dev, struct kv_super *super, uint64_t *at)
{
	struct kv_super other;
	bool first, second;

	assert_ok(fth_dev_read(dev, super, sizeof(*super), 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_read(dev, &other, sizeof(other), KV_SUPER_AGAIN, FTH_DEV_TIMEOUT));
	first = super_holds(super);
	second = super_holds(&other);
	*at = 0;
	if (second && (!first || other.sequence > super->sequence)) {
		*super = other;
		*at = KV_SUPER_AGAIN;
	}
	return (unsigned)first + second;
}

/* Where an area for the index begins: that of the last checkpoint (0), or the other one (1). */
static inline uint64_t index_area(const struct kv_super *super, unsigned older)
{
	return super->index_at + (super->index_which ^ older) * super->index_bytes;
}

enum { HEADER, BODY, PLACES };
enum { NEWEST = 1, OLDER = 2 };

static inline void spoil_index(struct fth_dev *dev, unsigned areas, unsigned place)
{
	struct kv_super super;
	uint64_t at;

	assert_int_equal(find_super(dev, &super, &at), 2);
	for (unsigned older = 0; older < 2; older++)
		if (areas & 1u << older)
			flip(dev, index_area(&super, older) + (place == HEADER ? 48 : 4096 + 700));
}

#endif
