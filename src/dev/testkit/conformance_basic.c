/* SPDX-License-Identifier: BSD-2-Clause */
/* Conformance: one request at a time. */
#include "dev/testkit/conformance_checks.h"

#define MAP_ALIGN 4096

int fth_conf_info(struct fth_conf *conf)
{
	const struct fth_dev_info *info = conf->info;

	FTH_EXPECT(info->size > 0 && info->size % info->block == 0);
	FTH_EXPECT(info->align > 0 && (info->align & (info->align - 1)) == 0);
	FTH_EXPECT(info->max_iov >= 1);
	FTH_EXPECT(info->max_length >= info->block && info->max_length % info->block == 0);
	FTH_EXPECT(fth_dev_uri(conf->dev) && fth_dev_uri(conf->dev)[0]);
	return 0;
}

/* ---- sizes and alignments ---- */

/* Write [offset, offset + length) from buf, read it back to another place, compare. */
static int write_and_read(const struct fth_conf *conf, struct fth_dev_chan *chan, uint64_t length,
			  uint64_t offset, uint64_t shift)
{
	char *want = conf->written + offset, *from, *to;
	char *space = fth_conf_alloc(conf, 2 * (length + 2 * shift) + conf->info->align);
	int rc;

	if (!space)
		return -ENOMEM;
	from = space + shift;
	to = from +
	     (length + shift + conf->info->align - 1) / conf->info->align * conf->info->align;
	fth_conf_fill(from, length, length ^ offset << 20);
	memcpy(want, from, length);
	rc = fth_conf_do(chan, FTH_DEV_WRITE, from, length, offset);
	if (rc == 0)
		rc = fth_conf_same(want, from, length,
				   offset); /* a write leaves its buffer alone */
	if (rc == 0)
		rc = fth_conf_do(chan, FTH_DEV_READ, to, length, offset);
	if (rc == 0)
		rc = fth_conf_same(want, to, length, offset);
	free(space);
	return rc;
}

static int sizes_on(const struct fth_conf *conf, struct fth_dev_chan *chan)
{
	uint64_t block = conf->info->block;
	uint64_t most = fth_conf_min(conf->region, conf->info->max_length);

	/* Small ones at every offset of their own size, then around the powers of two. */
	for (uint64_t n = 1; n <= 17 && n * block <= most; n++)
		for (uint64_t at = 0; at < 3; at++)
			FTH_CHECK(write_and_read(conf, chan, n * block, at * n * block,
						 at * conf->info->align));
	for (uint64_t n = 32; n * block <= most; n *= 2) {
		uint64_t last = conf->region - n * block;

		FTH_CHECK(write_and_read(conf, chan, n * block, last, 0));
		FTH_CHECK(write_and_read(conf, chan, (n - 1) * block, block, conf->info->align));
	}
	FTH_CHECK(write_and_read(conf, chan, most, conf->region - most, 0));
	/* The very last block of the device. */
	if (conf->region == conf->info->size)
		return write_and_read(conf, chan, block, conf->info->size - block, 0);
	FTH_CHECK(fth_conf_do(chan, FTH_DEV_WRITE, conf->got, block, conf->info->size - block));
	return fth_conf_do(chan, FTH_DEV_READ, conf->got, block, conf->info->size - block);
}

int fth_conf_sizes(struct fth_conf *conf)
{
	struct fth_dev_chan *chan;
	int rc;

	FTH_CHECK(fth_conf_background(conf, 1));
	FTH_CHECK(fth_dev_chan_open(conf->dev, 1, &chan));
	rc = sizes_on(conf, chan);
	fth_dev_chan_close(chan);
	return rc < 0 ? rc : fth_conf_verify(conf);
}

/* ---- pieces ---- */

struct scattered {
	struct iovec *iov;
	unsigned count;
	uint64_t length;
	char *space;
	uint64_t space_length;
};

/* `count` pieces of one to three blocks, the last ones first in memory, with gaps between. */
static int scatter_out(const struct fth_conf *conf, unsigned count, struct scattered *s)
{
	uint64_t block = conf->info->block, align = conf->info->align;
	uint64_t stride = (3 * block + 1 + align - 1) / align * align;

	memset(s, 0, sizeof(*s));
	s->space_length = count * stride;
	s->iov = calloc(count, sizeof(s->iov[0]));
	s->space = fth_conf_alloc(conf, s->space_length);
	if (!s->iov || !s->space)
		return -ENOMEM;
	while (s->count < count) {
		uint64_t n = (1 + s->count % 3) * block;

		if (s->length + n + block > fth_conf_min(conf->region, conf->info->max_length))
			break;
		s->iov[s->count].iov_base = s->space + (count - 1 - s->count) * stride;
		s->iov[s->count].iov_len = n;
		s->length += n;
		s->count++;
	}
	return 0;
}

static void scattered_release(struct scattered *s)
{
	free(s->iov);
	free(s->space);
}

static int read_scattered(const struct fth_conf *conf, struct fth_dev_chan *chan,
			  const struct scattered *s, uint64_t offset)
{
	struct fth_dev_req req;
	uint64_t at = offset, filled = 0;

	memset(s->space, 0x11, s->space_length);
	fth_dev_req_init(&req, FTH_DEV_READ, NULL, s->length, offset);
	req.iov = s->iov;
	req.iov_count = s->count;
	FTH_CHECK(fth_conf_one(chan, &req));
	for (unsigned i = 0; i < s->count; at += s->iov[i++].iov_len) {
		FTH_CHECK(fth_conf_same(conf->written + at, s->iov[i].iov_base, s->iov[i].iov_len,
					at));
		memset(s->iov[i].iov_base, 0x11, s->iov[i].iov_len);
	}
	/* With the pieces painted over, nothing but paint may be left. */
	while (filled < s->space_length && s->space[filled] == 0x11)
		filled++;
	FTH_EXPECT(filled == s->space_length);
	return 0;
}

static int write_scattered(const struct fth_conf *conf, struct fth_dev_chan *chan,
			   const struct scattered *s, uint64_t offset)
{
	struct fth_dev_req req;
	uint64_t at = offset;

	for (unsigned i = 0; i < s->count; at += s->iov[i++].iov_len) {
		fth_conf_fill(s->iov[i].iov_base, s->iov[i].iov_len, at + s->count);
		memcpy(conf->written + at, s->iov[i].iov_base, s->iov[i].iov_len);
	}
	fth_dev_req_init(&req, FTH_DEV_WRITE, NULL, s->length, offset);
	req.iov = s->iov;
	req.iov_count = s->count;
	return fth_conf_one(chan, &req);
}

static int pieces_of(const struct fth_conf *conf, struct fth_dev_chan *chan, unsigned count)
{
	struct scattered s;
	int rc = scatter_out(conf, count, &s);

	if (rc == 0)
		rc = write_scattered(conf, chan, &s, conf->info->block);
	if (rc == 0)
		rc = read_scattered(conf, chan, &s, conf->info->block);
	scattered_release(&s);
	return rc;
}

int fth_conf_pieces(struct fth_conf *conf)
{
	const unsigned counts[] = {1, 2, 3, 8, 33, conf->info->max_iov};
	struct fth_dev_chan *chan;
	int rc;

	FTH_CHECK(fth_conf_background(conf, 2));
	FTH_CHECK(fth_dev_chan_open(conf->dev, 2, &chan));
	rc = 0;
	for (unsigned i = 0; rc == 0 && i < sizeof(counts) / sizeof(counts[0]); i++)
		if (counts[i] <= conf->info->max_iov)
			rc = pieces_of(conf, chan, (unsigned)fth_conf_min(counts[i], 4096));
	fth_dev_chan_close(chan);
	return rc < 0 ? rc : fth_conf_verify(conf);
}

/* ---- refusals ---- */

static int refused(struct fth_dev_chan *chan, struct fth_dev_req *req, int error)
{
	int rc = fth_dev_submit(chan, &req, 1);

	if (rc != -error)
		return FTH_BROKE("%s of %llu bytes at %llu: submit returned %d, expected %d",
				 fth_dev_op_name(req->op), (unsigned long long)req->length,
				 (unsigned long long)req->offset, rc, -error);
	FTH_EXPECT(fth_dev_chan_in_flight(chan) == 0);
	return 0;
}

static int refused_range(const struct fth_conf *conf, struct fth_dev_chan *chan, uint64_t length,
			 uint64_t offset, int error)
{
	static const enum fth_dev_op ops[] = {FTH_DEV_READ, FTH_DEV_WRITE, FTH_DEV_DISCARD,
					      FTH_DEV_ZERO};
	struct fth_dev_req req;

	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		fth_dev_req_init(&req, ops[i], conf->got, length, offset);
		FTH_CHECK(refused(chan, &req, error));
	}
	return 0;
}

static int refuse_ranges(const struct fth_conf *conf, struct fth_dev_chan *chan)
{
	uint64_t block = conf->info->block, size = conf->info->size;

	FTH_CHECK(refused_range(conf, chan, 0, 0, EINVAL));
	FTH_CHECK(refused_range(conf, chan, block, size, ERANGE));
	FTH_CHECK(refused_range(conf, chan, 2 * block, size - block, ERANGE));
	FTH_CHECK(
		refused_range(conf, chan, block, UINT64_MAX - UINT64_MAX % block - block, ERANGE));
	if (block == 1)
		return 0;
	FTH_CHECK(refused_range(conf, chan, block - 1, 0, EINVAL));
	FTH_CHECK(refused_range(conf, chan, block + 1, 0, EINVAL));
	return refused_range(conf, chan, block, 1, EINVAL);
}

static int refuse_pieces(const struct fth_conf *conf, struct fth_dev_chan *chan)
{
	uint64_t block = conf->info->block;
	struct iovec two[2] = {{conf->got, block}, {conf->got, block}};
	struct fth_dev_req req;

	fth_dev_req_init(&req, FTH_DEV_WRITE, NULL, 2 * block, 0);
	FTH_CHECK(refused(chan, &req, EINVAL)); /* no memory */
	req.iov = two;
	req.iov_count = 1;
	FTH_CHECK(refused(chan, &req, EINVAL)); /* too little of it */
	req.iov_count = 0;
	FTH_CHECK(refused(chan, &req, EINVAL));
	req.iov_count = 2;
	req.length = block;
	FTH_CHECK(refused(chan, &req, EINVAL)); /* too much */
	req.iov_count = conf->info->max_iov + 1;
	FTH_CHECK(refused(chan, &req, EINVAL));
	if (conf->info->align > 1) {
		fth_dev_req_init(&req, FTH_DEV_READ, conf->got + 1, block, 0);
		FTH_CHECK(refused(chan, &req, EINVAL));
	}
	if (conf->info->max_length <= conf->info->size - block) {
		fth_dev_req_init(&req, FTH_DEV_READ, conf->got, conf->info->max_length + block, 0);
		FTH_CHECK(refused(chan, &req, EINVAL));
	}
	fth_dev_req_init(&req, FTH_DEV_OP_COUNT, conf->got, block, 0);
	return refused(chan, &req, EINVAL);
}

int fth_conf_refusals(struct fth_conf *conf)
{
	struct fth_dev_chan *chan;
	int rc;

	FTH_EXPECT(fth_dev_chan_open(conf->dev, 0, &chan) == -EINVAL && !chan);
	FTH_EXPECT(fth_dev_chan_open(conf->dev, 65536, &chan) == -EINVAL && !chan);
	FTH_CHECK(fth_conf_background(conf, 3));
	FTH_CHECK(fth_dev_chan_open(conf->dev, 2, &chan));
	rc = refuse_ranges(conf, chan);
	if (rc == 0)
		rc = refuse_pieces(conf, chan);
	fth_dev_chan_close(chan);
	return rc < 0 ? rc : fth_conf_verify(conf);
}

/* ---- flush, zero, discard ---- */

int fth_conf_flush(struct fth_conf *conf)
{
	struct fth_dev_chan *chan;
	struct fth_dev_req req;
	int rc;

	FTH_CHECK(fth_conf_background(conf, 4));
	FTH_CHECK(fth_dev_flush(conf->dev, FTH_DEV_TIMEOUT));
	FTH_CHECK(fth_dev_flush(conf->dev, FTH_DEV_TIMEOUT)); /* with nothing to do */
	FTH_CHECK(fth_dev_chan_open(conf->dev, 2, &chan));
	/* Offset and length of a flush are not looked at. */
	fth_dev_req_init(&req, FTH_DEV_FLUSH, NULL, 12345, UINT64_MAX - 7);
	rc = fth_conf_one(chan, &req);
	fth_dev_chan_close(chan);
	return rc < 0 ? rc : fth_conf_verify(conf);
}

/* A range inside the region, of n blocks. */
static uint64_t middle(const struct fth_conf *conf, uint64_t n)
{
	return (conf->region / conf->info->block - n) / 2 * conf->info->block;
}

int fth_conf_zero(struct fth_conf *conf)
{
	uint64_t blocks = conf->region / conf->info->block;
	const uint64_t counts[] = {1, 2, 7, blocks / 2, blocks};

	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		uint64_t length = counts[i] * conf->info->block, at = middle(conf, counts[i]);

		FTH_CHECK(fth_conf_background(conf, 5 + i));
		FTH_CHECK(fth_dev_zero(conf->dev, length, at, FTH_DEV_TIMEOUT));
		memset(conf->written + at, 0, length);
		FTH_CHECK(fth_conf_verify(conf));
		/* A zeroed block is a block like any other. */
		fth_conf_fill(conf->written + at, conf->info->block, 50 + i);
		FTH_CHECK(fth_dev_write(conf->dev, conf->written + at, conf->info->block, at,
					FTH_DEV_TIMEOUT));
		FTH_CHECK(fth_conf_verify(conf));
	}
	return 0;
}

int fth_conf_discard(struct fth_conf *conf)
{
	uint64_t blocks = conf->region / conf->info->block;
	const uint64_t counts[] = {1, 2, 7, blocks / 2, blocks};

	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		uint64_t length = counts[i] * conf->info->block, at = middle(conf, counts[i]);

		FTH_CHECK(fth_conf_background(conf, 60 + i));
		FTH_CHECK(fth_dev_discard(conf->dev, length, at, FTH_DEV_TIMEOUT));
		/* What is in the range now is anybody's guess, but reading it works. */
		FTH_CHECK(fth_dev_read(conf->dev, conf->written + at, length, at, FTH_DEV_TIMEOUT));
		FTH_CHECK(fth_dev_read(conf->dev, conf->got, conf->region, 0, FTH_DEV_TIMEOUT));
		FTH_CHECK(fth_conf_same(conf->written, conf->got, at, 0));
		FTH_CHECK(fth_conf_same(conf->written + at + length, conf->got + at + length,
					conf->region - at - length, at + length));
		fth_conf_fill(conf->written + at, length, 70 + i);
		FTH_CHECK(
			fth_dev_write(conf->dev, conf->written + at, length, at, FTH_DEV_TIMEOUT));
		FTH_CHECK(fth_conf_verify(conf));
	}
	return 0;
}

/* ---- blocking calls ---- */

static int unaligned(const struct fth_conf *conf, char *space, uint64_t length, uint64_t offset)
{
	char *buf = space + 1; /* no device can ask for this alignment */

	fth_conf_fill(buf, length, length + offset);
	memcpy(conf->written + offset, buf, length);
	FTH_CHECK(fth_dev_write(conf->dev, buf, length, offset, FTH_DEV_TIMEOUT));
	FTH_CHECK(fth_conf_same(conf->written + offset, buf, length, offset));
	memset(space, 0x33, length + 2);
	FTH_CHECK(fth_dev_read(conf->dev, buf, length, offset, FTH_DEV_TIMEOUT));
	FTH_EXPECT(space[0] == 0x33 && buf[length] == 0x33);
	return fth_conf_same(conf->written + offset, buf, length, offset);
}

/* Lengths above max_length are split; a region that is not longer can not show it. */
int fth_conf_blocking(struct fth_conf *conf)
{
	uint64_t block = conf->info->block, size = conf->info->size;
	char *space = malloc(conf->region + 2);
	int rc;

	if (!space)
		return -ENOMEM;
	rc = fth_conf_background(conf, 80);
	if (rc == 0)
		rc = unaligned(conf, space, block, 0);
	if (rc == 0)
		rc = unaligned(conf, space, 5 * block, 3 * block);
	if (rc == 0)
		rc = unaligned(conf, space, conf->region - block, block);
	free(space);
	FTH_CHECK(rc);
	FTH_EXPECT(fth_dev_read(conf->dev, conf->got, block, size, FTH_DEV_TIMEOUT) == -ERANGE);
	FTH_EXPECT(fth_dev_write(conf->dev, conf->got, 0, 0, FTH_DEV_TIMEOUT) == -EINVAL);
	FTH_EXPECT(fth_dev_zero(conf->dev, block, size, FTH_DEV_TIMEOUT) == -ERANGE);
	if (block > 1)
		FTH_EXPECT(fth_dev_read(conf->dev, conf->got, block / 2, 0, FTH_DEV_TIMEOUT) ==
			   -EINVAL);
	return fth_conf_verify(conf);
}

/* ---- statistics ---- */

static void read_stats(const struct fth_conf *conf, uint64_t *stats)
{
	for (unsigned i = 0; i < FTH_DEV_STAT_COUNT; i++)
		stats[i] = fth_dev_stat(conf->dev, (enum fth_dev_stat)i);
}

static int some_operations(const struct fth_conf *conf, struct fth_dev_chan *chan)
{
	uint64_t block = conf->info->block;

	for (unsigned i = 0; i < 3; i++)
		FTH_CHECK(fth_conf_do(chan, FTH_DEV_WRITE, conf->got, (i + 1) * block, 0));
	for (unsigned i = 0; i < 2; i++)
		FTH_CHECK(fth_conf_do(chan, FTH_DEV_READ, conf->got, 4 * block, 0));
	FTH_CHECK(fth_conf_do(chan, FTH_DEV_FLUSH, NULL, 0, 0));
	FTH_CHECK(fth_conf_do(chan, FTH_DEV_ZERO, NULL, block, 0));
	return fth_conf_do(chan, FTH_DEV_DISCARD, NULL, block, 0);
}

int fth_conf_statistics(struct fth_conf *conf)
{
	const uint64_t block = conf->info->block;
	const uint64_t want[FTH_DEV_STAT_COUNT] = {2, 3, 1, 1, 1, 8 * block, 6 * block, 0};
	uint64_t before[FTH_DEV_STAT_COUNT], after[FTH_DEV_STAT_COUNT];
	struct fth_dev_chan *chan;
	int rc;

	if (4 * block > conf->info->max_length)
		return 0;
	FTH_CHECK(fth_dev_chan_open(conf->dev, 1, &chan));
	read_stats(conf, before);
	rc = some_operations(conf, chan);
	fth_dev_chan_close(chan);
	FTH_CHECK(rc);
	read_stats(conf, after);
	for (unsigned i = 0; i < FTH_DEV_STAT_COUNT; i++)
		if (after[i] - before[i] != want[i])
			return FTH_BROKE("%s grew by %llu, expected %llu",
					 fth_dev_stat_name((enum fth_dev_stat)i),
					 (unsigned long long)(after[i] - before[i]),
					 (unsigned long long)want[i]);
	return 0;
}

/* ---- mapped memory ---- */

static int use_memory(const struct fth_conf *conf, struct fth_dev_chan *chan, char *buf,
		      uint64_t length, uint64_t tag)
{
	fth_conf_fill(buf, length, tag);
	memcpy(conf->written, buf, length);
	FTH_CHECK(fth_conf_do(chan, FTH_DEV_WRITE, buf, length, 0));
	memset(buf, 0, length);
	FTH_CHECK(fth_conf_do(chan, FTH_DEV_READ, buf, length, 0));
	return fth_conf_same(conf->written, buf, length, 0);
}

static int map_and_use(const struct fth_conf *conf, struct fth_dev_chan *chan, char *buf,
		       uint64_t length)
{
	uint64_t pages = (length + MAP_ALIGN - 1) / MAP_ALIGN * MAP_ALIGN;
	int rc;

	FTH_CHECK(use_memory(conf, chan, buf, length, 90));
	rc = fth_dev_map(conf->dev, buf, pages);
	if (rc < 0 && rc != -ENOSPC)
		return rc;
	FTH_CHECK(use_memory(conf, chan, buf, length, 91));
	if (rc == 0)
		FTH_CHECK(fth_dev_unmap(conf->dev, buf, pages));
	FTH_CHECK(use_memory(conf, chan, buf, length, 92));
	FTH_EXPECT(fth_dev_map(conf->dev, buf + 1, pages) == -EINVAL);
	FTH_EXPECT(fth_dev_map(conf->dev, buf, 100) == -EINVAL);
	FTH_EXPECT(fth_dev_unmap(conf->dev, buf, 0) == -EINVAL);
	return 0;
}

int fth_conf_mapped(struct fth_conf *conf)
{
	uint64_t length = fth_conf_min(fth_conf_min(conf->region, conf->info->max_length), 65536);
	struct fth_dev_chan *chan;
	char *own, *device;
	int rc = -ENOMEM;

	length -= length % conf->info->block;
	FTH_CHECK(fth_conf_background(conf, 93));
	FTH_CHECK(fth_dev_chan_open(conf->dev, 2, &chan));
	own = fth_conf_alloc(conf, length + MAP_ALIGN);
	device = fth_dev_buf_alloc(conf->dev, length);
	if (own && device) {
		rc = map_and_use(conf, chan, own, length);
		if (rc == 0)
			rc = use_memory(conf, chan, device, length, 94);
	}
	fth_dev_buf_free(conf->dev, device, length);
	free(own);
	fth_dev_chan_close(chan);
	return rc < 0 ? rc : fth_conf_verify(conf);
}
