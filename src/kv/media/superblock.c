/* SPDX-License-Identifier: BSD-2-Clause */
/* The superblock: finding a cache on a device, and making one. */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CHUNKS_MIN 4u
#define ITEM_BYTES 512u /* of flash for each entry that the areas for the index have room for */
#define VERSION_AT 6u	/* of the magic number: two digits */
#define FLIGHT	   4u	/* times the number of buffers: chunks between two flushes */

static uint64_t super_sum(const struct kv_super *super)
{
	return fth_checksum(super, offsetof(struct kv_super, checksum), KV_SUPER_SEED);
}

bool kv_super_good(const struct kv_super *super)
{
	return memcmp(super->magic, KV_SUPER_MAGIC, sizeof(super->magic)) == 0 &&
	       super->checksum == super_sum(super);
}

/* A superblock of a cache with another layout. */
static bool is_other_version(const struct kv_super *super)
{
	return memcmp(super->magic, KV_SUPER_MAGIC, VERSION_AT) == 0 &&
	       memcmp(super->magic, KV_SUPER_MAGIC, sizeof(super->magic)) != 0;
}

static bool all_zero(const void *data, size_t bytes)
{
	const uint8_t *at = data;

	return at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0;
}

static uint64_t round_to(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* After a crash as many chunks are passed over: not too many of few. */
static uint64_t flight_max(uint64_t chunks)
{
	return chunks / 4 + 2;
}

/* How many chunks may be in flight or not flushed yet. */
static uint64_t flight_for(const struct fth_kv *kv, uint64_t chunks)
{
	uint64_t flight = FLIGHT * (uint64_t)kv->options.buffers, most = flight_max(chunks);

	return flight < most ? flight : most;
}

/* A superblock that verifies may still not fit this device: it could be a copy of another one. */
static int check_super(const struct kv_super *s, uint64_t device)
{
	bool good = s->chunk >= 65536 && s->chunk <= 1u << 30 && (s->chunk & (s->chunk - 1)) == 0 &&
		    s->chunks >= CHUNKS_MIN && s->chunks <= UINT64_MAX / s->chunk &&
		    s->log_at % 4096 == 0 && s->log_at <= device &&
		    s->chunks * s->chunk <= device - s->log_at &&
		    s->chunks * s->chunk <= KV_RING_MAX && s->index_items > 0 &&
		    s->index_items <= KV_ITEMS_MAX && s->index_at >= KV_HEAD_BYTES &&
		    s->index_at % 4096 == 0 && s->index_at <= s->log_at &&
		    s->index_bytes % 4096 == 0 && s->index_bytes <= (s->log_at - s->index_at) / 2 &&
		    s->index_bytes >= kv_checkpoint_bytes(s->index_items) && s->index_which < 2 &&
		    s->flight > 0 && s->flight <= flight_max(s->chunks);

	return good ? 0
		    : fth_fail(EBADMSG, "the superblock does not fit a device of %llu bytes",
			       (unsigned long long)device);
}

int kv_super_write(struct fth_kv *kv, uint64_t deadline)
{
	struct kv_super *s = &kv->super;
	/* In turns, so that the other one stays whole. */
	uint64_t at = ++s->sequence % 2 ? KV_SUPER_AGAIN : 0;
	int rc;

	s->checksum = super_sum(s);
	rc = fth_dev_write(kv->dev, s, sizeof(*s), at, deadline);
	if (rc == 0)
		rc = fth_dev_flush(kv->dev, deadline);
	if (rc < 0)
		s->sequence--; /* the same one again, which may be torn now */
	return rc;
}

static int format(struct fth_kv *kv)
{
	uint64_t size = fth_dev_info(kv->dev)->size, index;
	struct kv_super *s = &kv->super;
	int rc;

	memset(s, 0, sizeof(*s));
	memcpy(s->magic, KV_SUPER_MAGIC, sizeof(s->magic));
	if (getrandom(&s->id, sizeof(s->id), 0) != sizeof(s->id))
		return fth_fail(errno, "cannot read random numbers: %s", strerror(errno));
	s->chunk = kv->options.chunk;
	s->index_items = kv->options.items ? kv->options.items : size / ITEM_BYTES + 1;
	s->persistent = kv_persistent(kv);
	index = s->persistent ? round_to(kv_checkpoint_bytes(s->index_items), 4096) : 0;
	s->index_at = KV_HEAD_BYTES;
	s->index_bytes = index;
	s->log_at = round_to(KV_HEAD_BYTES + 2 * index, 4096);
	if (size < s->log_at || (size - s->log_at) / s->chunk < CHUNKS_MIN)
		return fth_fail(ENOSPC,
				"the device has %llu bytes; %llu for the index and %u chunks of "
				"%llu are needed",
				(unsigned long long)size, (unsigned long long)s->log_at, CHUNKS_MIN,
				(unsigned long long)s->chunk);
	s->chunks = (size - s->log_at) / s->chunk;
	if (s->chunks > KV_RING_MAX / s->chunk)
		s->chunks = KV_RING_MAX / s->chunk;
	s->flight = flight_for(kv, s->chunks);
	/* Both copies, so that none of an earlier cache remains. */
	rc = kv_super_write(kv, FTH_DEV_TIMEOUT);
	return rc < 0 ? rc : kv_super_write(kv, FTH_DEV_TIMEOUT);
}

/*
 * 1: there is a cache; 0: there is nothing; -EBADMSG: there is something else. If one copy of the
 * superblock is bad, the other one is used: it may be the older one.
 */
static int find_super(struct fth_kv *kv)
{
	struct kv_super *pair = calloc(2, sizeof(*pair));
	bool first, second;
	int rc, again;

	if (!pair)
		return -ENOMEM;
	rc = fth_dev_read(kv->dev, &pair[0], sizeof(*pair), 0, FTH_DEV_TIMEOUT);
	again = fth_dev_read(kv->dev, &pair[1], sizeof(*pair), KV_SUPER_AGAIN, FTH_DEV_TIMEOUT);
	first = rc == 0 && kv_super_good(&pair[0]);
	second = again == 0 && kv_super_good(&pair[1]);
	if (first || second) {
		unsigned newer = !first || (second && pair[1].sequence > pair[0].sequence);

		kv->super = pair[newer];
		kv->super_alone = !first || !second || pair[0].id != pair[1].id ||
				  pair[newer].sequence != pair[!newer].sequence + 1;
		rc = 1;
	} else if (rc == 0 && again < 0) {
		rc = again;
	} else if (rc == 0 && (is_other_version(&pair[0]) || is_other_version(&pair[1]))) {
		const struct kv_super *s = &pair[!is_other_version(&pair[0])];

		rc = fth_fail(EPROTONOSUPPORT,
			      "the device contains a cache with layout version %.2s, this program "
			      "reads version %s; kv serve --force (options.format) overwrites it",
			      (const char *)s->magic + VERSION_AT, &KV_SUPER_MAGIC[VERSION_AT]);
	} else if (rc == 0 && !all_zero(pair, 2 * sizeof(*pair))) {
		rc = fth_fail(EBADMSG, "the device contains data that is not a cache; kv serve "
				       "--force (options.format) overwrites it");
	}
	free(pair);
	return rc;
}

static int check_device(struct fth_kv *kv, const struct fth_dev_info *info)
{
	if (4096 % info->block != 0)
		return fth_fail(EINVAL, "the device has blocks of %u bytes, which is too large",
				info->block);
	kv->block = info->block < KV_UNIT ? 512 : info->block;
	if (info->size < KV_HEAD_BYTES)
		return fth_fail(ENOSPC, "a device of %llu bytes is too small",
				(unsigned long long)info->size);
	return 0;
}

int kv_media_find(struct fth_kv *kv)
{
	const struct fth_dev_info *info = fth_dev_info(kv->dev);
	int rc = check_device(kv, info);

	if (rc == 0)
		rc = find_super(kv);
	if (rc == -EBADMSG)
		return fth_fail(EBADMSG, "the device contains data that is not a cache");
	if (rc < 0)
		return rc;
	if (rc == 0)
		return fth_fail(ENODATA, "the device contains no cache: its first block is zero");
	if (!kv->super.persistent)
		return fth_fail(ENODATA, "the cache on the device was used without persistence: "
					 "its items were lost when the server stopped");
	rc = check_super(&kv->super, info->size);
	if (rc == 0 && kv->super.chunk > info->max_length)
		rc = fth_fail(
			EINVAL, "chunks of %llu bytes exceed the device's maximum request of %llu",
			(unsigned long long)kv->super.chunk, (unsigned long long)info->max_length);
	kv->ring = kv->super.chunks * kv->super.chunk;
	return rc;
}

int kv_media_open(struct fth_kv *kv)
{
	const struct fth_dev_info *info = fth_dev_info(kv->dev);
	int rc = check_device(kv, info);

	if (rc == 0)
		rc = kv->options.format ? 0 : find_super(kv);
	if (rc < 0)
		return rc;
	if (rc == 1 && !kv_persistent(kv) && kv->super.persistent)
		return fth_fail(EEXIST, "the device contains a persistent cache; --persist keeps "
					"it, kv serve --force "
					"(options.format) overwrites it");
	kv->recovery.found = rc == 1 && kv_persistent(kv) && kv->super.persistent;
	if (!kv->recovery.found)
		rc = format(kv);
	else
		rc = check_super(&kv->super, info->size);
	if (rc < 0)
		return rc;
	if (kv->super.chunk > info->max_length)
		return fth_fail(
			EINVAL, "chunks of %llu bytes exceed the device's maximum request of %llu",
			(unsigned long long)kv->super.chunk, (unsigned long long)info->max_length);
	kv->ring = kv->super.chunks * kv->super.chunk;
	if (kv->super.chunk < (uint64_t)kv->options.value_max + 1024)
		return fth_fail(
			EINVAL,
			"the cache has chunks of %llu bytes, too small for values of %u bytes",
			(unsigned long long)kv->super.chunk, kv->options.value_max);
	if (kv->options.buffers > flight_max(kv->super.chunks))
		kv->options.buffers = (uint32_t)flight_max(kv->super.chunks);
	kv->log.flight = flight_for(kv, kv->super.chunks);
	return 0;
}
