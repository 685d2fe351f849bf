/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dev_copy SOURCE TARGET: copy one device onto another, then read the target back and compare.
 *
 *	cc dev_copy.c $(pkg-config --cflags --libs fathom) -o dev_copy
 *	./dev_copy file:/data/disk.img mem:4G
 *
 * Shows asynchronous use: DEPTH chunks are under way at any time, each being read or written, and
 * whichever completes first goes on first.
 */
#include <fathom/base.h>
#include <fathom/dev.h>
#include <fathom/hd/wait.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define DEPTH 32
#define CHUNK (64u << 10)

/* One pass over a device: read all of it and, if there is a target, write it there. */
struct pass {
	struct fth_dev_chan *source, *target; /* target may be NULL */
	struct fth_dev_req reqs[DEPTH];
	char *bufs[DEPTH];
	uint64_t size;
	uint64_t started, finished; /* bytes */
	uint64_t sum;		    /* of the chunks' checksums: the same in any order */
};

/* Start to read the next chunk into buffer i, if there is one left. */
static int read_next(struct pass *pass, unsigned i)
{
	uint64_t left = pass->size - pass->started;
	uint64_t length = left < CHUNK ? left : CHUNK;
	struct fth_dev_req *req = &pass->reqs[i];
	int rc;

	if (length == 0)
		return 0;
	fth_dev_req_init(req, FTH_DEV_READ, pass->bufs[i], length, pass->started);
	req->user = &pass->bufs[i];
	rc = fth_dev_submit(pass->source, &req, 1);
	if (rc > 0)
		pass->started += length;
	return rc;
}

/* A chunk is where it should be; its buffer is free for the next. */
static int chunk_done(struct pass *pass, struct fth_dev_req *req)
{
	pass->finished += req->length;
	return read_next(pass, (unsigned)((char **)req->user - pass->bufs));
}

static int chunk_was_read(struct pass *pass, struct fth_dev_req *req)
{
	pass->sum += fth_checksum(req->single.iov_base, req->length, req->offset);
	if (!pass->target)
		return chunk_done(pass, req);
	req->op = FTH_DEV_WRITE;
	return fth_dev_submit(pass->target, &req, 1);
}

/* Collect what has completed on one channel, waiting for at least `min`. */
static int advance(struct pass *pass, struct fth_dev_chan *chan, unsigned min)
{
	struct fth_dev_req *done[DEPTH];
	int n = fth_dev_reap(chan, done, DEPTH, min, FTH_NEVER);

	for (int i = 0; i < n; i++) {
		struct fth_dev_req *req = done[i];
		int rc = req->result;

		if (rc == 0)
			rc = req->op == FTH_DEV_READ ? chunk_was_read(pass, req)
						     : chunk_done(pass, req);
		if (rc < 0)
			return rc;
	}
	return n;
}

static int run_pass(struct pass *pass)
{
	int rc = 0;

	for (unsigned i = 0; i < DEPTH && rc >= 0; i++)
		rc = read_next(pass, i);
	while (rc >= 0 && pass->finished < pass->size) {
		unsigned reading = fth_dev_chan_in_flight(pass->source);

		rc = advance(pass, pass->source, reading ? 1 : 0);
		if (rc >= 0 && pass->target)
			rc = advance(pass, pass->target, reading ? 0 : 1);
	}
	return rc < 0 ? rc : 0;
}

/* Run a pass between two devices; `to` may be NULL. Leaves the checksum in *sum. */
static int transfer(struct fth_dev *from, struct fth_dev *to, uint64_t size, char *memory,
		    uint64_t *sum)
{
	struct pass pass = {.size = size};
	int rc = fth_dev_chan_open(from, DEPTH, &pass.source);

	if (rc == 0 && to)
		rc = fth_dev_chan_open(to, DEPTH, &pass.target);
	for (unsigned i = 0; i < DEPTH; i++)
		pass.bufs[i] = memory + (size_t)i * CHUNK;
	if (rc == 0)
		rc = run_pass(&pass);
	/* Closing waits for what is in flight, so after an error no request outlives this. */
	fth_dev_chan_close(pass.source);
	fth_dev_chan_close(pass.target);
	*sum = pass.sum;
	return rc;
}

static int copy(struct fth_dev *from, struct fth_dev *to)
{
	uint64_t size = fth_dev_info(from)->size, sum = 0, check = 0;
	char *memory;
	int rc;

	if (size > fth_dev_info(to)->size || size % fth_dev_info(to)->block)
		return fth_fail(ENOSPC, "%s does not fit on %s", fth_dev_uri(from),
				fth_dev_uri(to));
	memory = fth_dev_buf_alloc(from, (size_t)DEPTH * CHUNK);
	if (!memory)
		return -ENOMEM;
	rc = transfer(from, to, size, memory, &sum);
	if (rc == 0)
		rc = fth_dev_flush(to, FTH_DEV_TIMEOUT);
	if (rc == 0)
		rc = transfer(to, NULL, size, memory, &check);
	if (rc == 0 && sum != check)
		rc = fth_fail(EIO, "%s does not hold what was written", fth_dev_uri(to));
	fth_dev_buf_free(from, memory, (size_t)DEPTH * CHUNK);
	if (rc == 0)
		printf("copied %llu bytes, checksum %016llx\n", (unsigned long long)size,
		       (unsigned long long)sum);
	return rc;
}

int main(int argc, char **argv)
{
	struct fth_dev *from = NULL, *to = NULL;
	int rc;

	if (argc != 3) {
		fprintf(stderr, "usage: dev_copy SOURCE TARGET\n");
		return 2;
	}
	rc = fth_dev_open(argv[1], &from);
	if (rc == 0)
		rc = fth_dev_open(argv[2], &to);
	if (rc == 0)
		rc = copy(from, to);
	if (rc < 0)
		fprintf(stderr, "dev_copy: %s\n", fth_error_text(rc));
	fth_dev_close(to);
	fth_dev_close(from);
	return rc < 0 ? 1 : 0;
}
