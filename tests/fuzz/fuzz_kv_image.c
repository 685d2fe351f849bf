/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layout of a key-value cache on a device. The input is a list of changes to the image of a
 * small cache, one that was closed or one that lost its power. What must hold, whatever was
 * changed:
 *
 *	- opening comes to an end, without a crash, and an error comes with a text;
 *	- unless checksums of records were made to hold again, a value is one that was stored under
 *	  its key, whole;
 *	- walking it (fathom/kv/image.h) changes nothing, visits only such values, and visits
 *	  exactly the items that the cache finds after it is opened;
 *	- a cache that opens can be used: items can be stored and read, and it closes.
 *
 * First byte: bit 0, the image after a power loss; then which checksums are made to hold again: bit
 * 1 superblocks, bit 2 the index, bit 3 headers of chunks, bit 4 records. Then changes: where (1
 * byte), offset (3 bytes), how (1 byte: set, xor, add, or a 64-bit edge value), value (1 byte).
 */
#include "fuzz_input.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"
#include "fathom/kv/image.h"

#include "kv/media/format.h"

#include <errno.h>
#include <string.h>

#define SIZE	(5u << 20)
#define CHUNK	65536u
#define KEYS	30u
#define VALUE	2500u
#define LOSS	1u
#define CHANGES 12

enum { SUPER, SUPER_AGAIN, INDEX_HEADER, BUCKETS, MOVED, CHUNK_HEADER, RECORDS, ANYWHERE, AREAS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *images[2]; /* closed, lost its power */
static uint8_t *copy;

/* ---- the cache ---- */

static struct fth_kv_options options(void)
{
	struct fth_kv_options o = FTH_KV_OPTIONS_INIT;

	o.memory = 256 << 10;
	o.value_max = 4096;
	o.chunk = CHUNK;
	o.buffers = 3;
	o.items = 100;
	o.persistence = FTH_KV_WRITE_THROUGH;
	return o;
}

static void fill(unsigned key, unsigned version, uint8_t *value)
{
	for (unsigned i = 0; i < VALUE; i++)
		value[i] = (uint8_t)(key * 31 + version * 101 + i * (version + 1));
}

static int store(struct fth_kv_worker *w, unsigned key, unsigned version)
{
	uint8_t value[VALUE];
	char name[16];
	struct fth_kv_op op = {.verb = FTH_KV_SET,
			       .key = name,
			       .key_length = (uint32_t)snprintf(name, sizeof(name), "key%u", key),
			       .value = value,
			       .value_length = VALUE,
			       .flags = version};

	fill(key, version, value);
	return fth_kv_do(w, &op, fth_deadline_ns(20000000000u));
}

/* The version of a key; 0: there is none. */
static unsigned look(struct fth_kv_worker *w, unsigned key, bool sealed)
{
	uint8_t value[VALUE];
	char name[16];
	struct fth_kv_op op = {.verb = FTH_KV_GET,
			       .key = name,
			       .key_length = (uint32_t)snprintf(name, sizeof(name), "key%u", key)};
	int rc = fth_kv_do(w, &op, fth_deadline_ns(20000000000u));
	unsigned version = op.item_flags;

	require(rc == 0 || rc == -ENOENT, "a get finds it or not");
	if (rc < 0)
		return 0;
	if (!sealed) {
		require(version > 0 && version < 100 && op.length == VALUE,
			"a version that was stored");
		fill(key, version, value);
		require(memcmp(value, op.data, VALUE) == 0, "its value");
	}
	fth_kv_release(w, &op);
	return version;
}

static struct fth_dev *open_image(const uint8_t *image)
{
	struct fth_dev *dev;
	char uri[32];

	snprintf(uri, sizeof(uri), "mem:%u", SIZE);
	require(fth_dev_open(uri, &dev) == 0, "memory is there");
	if (image)
		require(fth_dev_write(dev, image, SIZE, 0, FTH_DEV_TIMEOUT) == 0, "it works");
	return dev;
}

static void make_images(void)
{
	struct fth_kv_options o = options();
	struct fth_dev *dev = open_image(NULL);
	struct fth_kv_worker *w;
	struct fth_kv *kv;

	copy = malloc(SIZE);
	images[0] = malloc(SIZE);
	images[LOSS] = malloc(SIZE);
	require(copy && images[0] && images[LOSS], "memory");
	require(fth_kv_open_dev(&o, dev, &kv) == 0, "a cache is made");
	require(fth_kv_worker_open(kv, &w) == 0, "a worker");
	for (unsigned version = 1; version < 4; version++)
		for (unsigned key = 0; key < KEYS; key++)
			require(store(w, key, version) == 0, "it stores");
	/* All is durable: this is what is left if the power goes now. */
	require(fth_dev_read(dev, images[LOSS], SIZE, 0, FTH_DEV_TIMEOUT) == 0, "it can be read");
	fth_kv_worker_close(w);
	require(fth_kv_close(kv) == 0, "it closes");
	require(fth_dev_read(dev, images[0], SIZE, 0, FTH_DEV_TIMEOUT) == 0, "it can be read");
	fth_dev_close(dev);
}

/* ---- changes ---- */

static void super_of(struct kv_super *super)
{
	const uint8_t *image = images[0];
	struct kv_super again;

	memcpy(super, image, sizeof(*super));
	memcpy(&again, image + KV_SUPER_AGAIN, sizeof(again));
	if (again.sequence > super->sequence)
		*super = again;
}

/* Where an area is, and how long. */
static uint64_t area_at(unsigned area, unsigned which, uint64_t *bytes)
{
	struct kv_super s;
	uint64_t index;

	super_of(&s);
	index = s.index_at + which % 2 * s.index_bytes;
	*bytes = 4096;
	switch (area) {
	case SUPER:
		return 0;
	case SUPER_AGAIN:
		return KV_SUPER_AGAIN;
	case INDEX_HEADER:
		return index;
	case BUCKETS:
		*bytes = KEYS * 16;
		return index + 4096;
	case MOVED:
		return index + 4096 + KV_PIECE_BYTES + KV_SUM_BYTES;
	case CHUNK_HEADER:
		*bytes = sizeof(struct kv_chunk_header);
		return s.log_at + which % s.chunks * CHUNK;
	case RECORDS:
		*bytes = CHUNK;
		return s.log_at + which % s.chunks * CHUNK;
	default:
		*bytes = SIZE;
		return 0;
	}
}

static void change(void)
{
	static const uint64_t edges[] = {0,    1,    UINT64_MAX, (uint64_t)1 << 63,
					 4096, SIZE, 0xffff,	 7};
	uint8_t where = byte(), how, value;
	uint64_t bytes, at = area_at(where % AREAS, where / AREAS, &bytes), offset = byte();
	uint64_t edge;

	offset |= (uint64_t)byte() << 8;
	offset |= (uint64_t)byte() << 16;
	how = byte();
	value = byte();
	at += offset % bytes;
	edge = edges[value % (sizeof(edges) / sizeof(edges[0]))];
	if (how % 4 == 0)
		copy[at] = value;
	else if (how % 4 == 1)
		copy[at] ^= value;
	else if (how % 4 == 2)
		copy[at] = (uint8_t)(copy[at] + value);
	else
		memcpy(copy + at / 8 * 8, &edge, sizeof(edge));
}

/* ---- checksums that hold again ---- */

static void put_sum(uint64_t at, uint64_t sum)
{
	memcpy(copy + at, &sum, sizeof(sum));
}

static void seal_index(unsigned which)
{
	uint64_t bytes, at = area_at(INDEX_HEADER, which, &bytes);
	struct kv_index_header h;

	memcpy(&h, copy + at, sizeof(h));
	put_sum(at + offsetof(struct kv_index_header, checksum),
		fth_checksum(&h, offsetof(struct kv_index_header, checksum), KV_INDEX_SEED));
	for (unsigned piece = 0; piece < 2; piece++) {
		uint64_t from = at + 4096 + piece * (uint64_t)(KV_PIECE_BYTES + KV_SUM_BYTES);

		put_sum(from + KV_PIECE_BYTES,
			fth_checksum(copy + from, KV_PIECE_BYTES,
				     KV_INDEX_SEED ^ h.id ^ h.number ^ from));
	}
}

static void seal_records(uint64_t at, uint64_t id)
{
	struct kv_chunk_header h;
	uint64_t used = sizeof(h);

	memcpy(&h, copy + at, sizeof(h));
	while (used + sizeof(struct kv_record) <= CHUNK) {
		struct kv_record *r = (struct kv_record *)(void *)(copy + at + used);

		if (r->type == 0 || kv_record_bytes(r) > CHUNK - used)
			return;
		r->checksum = kv_record_sum(r, id, h.number * CHUNK + used);
		used += kv_round(kv_record_bytes(r));
	}
}

static void seal(uint8_t mode)
{
	struct kv_super s;

	super_of(&s);
	for (unsigned i = 0; i < 2 && mode & 2; i++) {
		uint64_t at = i ? KV_SUPER_AGAIN : 0;

		put_sum(at + offsetof(struct kv_super, checksum),
			fth_checksum(copy + at, offsetof(struct kv_super, checksum),
				     KV_SUPER_SEED));
	}
	for (unsigned i = 0; i < 2 && mode & 4; i++)
		seal_index(i);
	for (uint64_t i = 0; i < s.chunks; i++) {
		uint64_t at = s.log_at + i * CHUNK;

		if (mode & 8)
			put_sum(at + offsetof(struct kv_chunk_header, checksum),
				fth_checksum(copy + at, offsetof(struct kv_chunk_header, checksum),
					     KV_CHUNK_SEED));
		if (mode & 16)
			seal_records(at, s.id);
	}
}

/* ---- what must hold ---- */

struct walked {
	bool made_up; /* records or entries of the index */
	unsigned visits;
	unsigned version[KEYS]; /* 0: it was not visited */
};

static int visit_item(const struct fth_kv_image_item *item, void *user)
{
	struct walked *walked = user;
	uint8_t value[VALUE];
	char name[FTH_KV_KEY_MAX + 1] = "";
	unsigned key = KEYS;

	require(item->key_length <= FTH_KV_KEY_MAX, "a key");
	walked->visits++;
	if (walked->made_up)
		return 0;
	memcpy(name, item->key, item->key_length);
	require(sscanf(name, "key%u", &key) == 1 && key < KEYS && walked->version[key] == 0,
		"a key that was stored, once");
	fill(key, item->flags, value);
	require(item->value_length == VALUE && memcmp(value, item->value, VALUE) == 0, "its value");
	walked->version[key] = item->flags;
	return 0;
}

static bool walk(struct fth_dev *dev, uint8_t mode, struct walked *walked)
{
	struct fth_kv_image_visit visit = FTH_KV_IMAGE_VISIT_INIT;
	struct fth_kv_image_counts counts;
	struct fth_kv_image *image;
	int rc = fth_kv_image_open_dev(dev, &image);
	static uint8_t after[SIZE];

	*walked = (struct walked){.made_up = mode & 20};
	if (rc < 0) {
		require(fth_error_text(rc)[0], "an error has a text");
		return false;
	}
	visit.item = visit_item;
	visit.user = walked;
	rc = fth_kv_image_walk(image, &visit, &counts);
	require(rc >= 0, "it can be walked");
	require(counts.items == walked->visits, "all live items are visited");
	fth_kv_image_close(image);
	require(fth_dev_read(dev, after, SIZE, 0, FTH_DEV_TIMEOUT) == 0, "it can be read");
	require(memcmp(after, copy, SIZE) == 0, "nothing has changed");
	return true;
}

static void compare(struct fth_kv_worker *w, const struct walked *walked)
{
	for (unsigned key = 0; key < KEYS && !walked->made_up; key++)
		require(look(w, key, false) == walked->version[key], "the same as was visited");
}

static void use(struct fth_dev *dev, uint8_t mode, const struct walked *walked)
{
	bool sealed = mode & 16;
	struct fth_kv_options o = options();
	struct fth_kv_worker *w;
	struct fth_kv *kv;
	int rc = fth_kv_open_dev(&o, dev, &kv);

	if (rc < 0) {
		require(fth_error_text(rc)[0], "an error has a text");
		require(kv == NULL, "what is refused is not there");
		return;
	}
	require(fth_kv_worker_open(kv, &w) == 0, "a worker");
	if (walked)
		compare(w, walked);
	for (unsigned key = 0; key < KEYS; key++)
		(void)look(w, key, sealed);
	for (unsigned key = 0; key < KEYS; key += 5) {
		rc = store(w, key, 9);
		require(rc == 0 || rc == -ENOMEM, "it stores");
		/* A flush_all that was made up may cover it. */
		require(rc < 0 || look(w, key, sealed) == 9 || mode & 20, "and finds it");
	}
	fth_kv_worker_close(w);
	require(fth_kv_close(kv) == 0, "it closes");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct walked walked;
	struct fth_dev *dev;
	uint8_t mode;
	bool whole;

	if (!images[0])
		make_images();
	input = data;
	input_left = size;
	mode = byte();
	memcpy(copy, images[mode & LOSS], SIZE);
	for (unsigned i = 0; i < CHANGES && input_left > 0; i++)
		change();
	seal(mode);
	dev = open_image(copy);
	whole = walk(dev, mode, &walked);
	use(dev, mode, whole ? &walked : NULL);
	use(dev, mode, NULL); /* and what that has made of it */
	fth_dev_close(dev);
	return 0;
}
