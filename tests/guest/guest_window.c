/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guest_window fill|check pmr|cmb SEED DEVICE: fill the byte-addressable window of a drive with
 * what SEED stands for, or check that it holds that. Stores and loads are of many lengths and at
 * any offset, and those that check are not the ones that filled.
 */
#include <fathom/base.h>
#include <fathom/base/rng.h>
#include <fathom/dev.h>
#include <fathom/dev/window.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_MAX 300u

struct job {
	bool fill;
	enum fth_dev_window_kind kind;
	uint64_t seed;
	const char *uri;
};

/* What byte `at` of the window shall be. */
static unsigned char byte_at(uint64_t seed, uint64_t at)
{
	return (unsigned char)(fth_mix64(seed ^ at / 8) >> at % 8 * 8);
}

static void make_piece(unsigned char *piece, uint64_t seed, uint64_t at, uint64_t length)
{
	for (uint64_t i = 0; i < length; i++)
		piece[i] = byte_at(seed, at + i);
}

/* Where the pieces end depends on `way`. */
static uint64_t piece_length(struct fth_rng *way, uint64_t left)
{
	uint64_t length = 1 + fth_rng_below(way, PIECE_MAX);

	return length < left ? length : left;
}

static int fill(struct fth_dev_window *window, uint64_t size, uint64_t seed)
{
	struct fth_rng way = {seed + 1};
	unsigned char piece[PIECE_MAX];
	uint64_t length;
	int rc = 0;

	for (uint64_t at = 0; rc == 0 && at < size; at += length) {
		length = piece_length(&way, size - at);
		make_piece(piece, seed, at, length);
		rc = fth_dev_window_store(window, at, piece, length);
	}
	return rc;
}

static int check(const struct fth_dev_window *window, uint64_t size, uint64_t seed)
{
	struct fth_rng way = {seed + 2};
	unsigned char piece[PIECE_MAX], found[PIECE_MAX];
	uint64_t length;
	int rc = 0;

	for (uint64_t at = 0; rc == 0 && at < size; at += length) {
		length = piece_length(&way, size - at);
		make_piece(piece, seed, at, length);
		rc = fth_dev_window_load(window, at, found, length);
		if (rc == 0 && memcmp(piece, found, length) != 0)
			rc = fth_fail(EILSEQ, "bytes %llu to %llu are not what was stored",
				      (unsigned long long)at, (unsigned long long)(at + length));
	}
	return rc;
}

/* A PMR promises to survive a power loss; a CMB must not. */
static int persist(struct fth_dev_window *window, const struct fth_dev_window_info *info)
{
	int rc = fth_dev_window_persist(window, 0, info->size, FTH_DEV_TIMEOUT);

	if (rc == 0)
		rc = fth_dev_window_check(window);
	if (rc == 0 &&
	    (info->guarantee == FTH_DEV_WINDOW_POWER) != (info->kind == FTH_DEV_WINDOW_PMR))
		rc = fth_fail(EILSEQ, "a %s has the guarantee \"%s\"",
			      fth_dev_window_kind_name(info->kind),
			      fth_dev_window_guarantee_name(info->guarantee));
	if (rc == 0 && !(info->flags & FTH_DEV_WINDOW_IO_MEMORY))
		rc = fth_fail(EILSEQ, "a BAR is said to be ordinary memory");
	return rc;
}

static int beyond_the_end(struct fth_dev_window *window, uint64_t size)
{
	char byte = 0;

	if (fth_dev_window_store(window, size, &byte, 1) != -ERANGE ||
	    fth_dev_window_load(window, UINT64_MAX, &byte, 1) != -ERANGE)
		return fth_fail(EILSEQ, "there are bytes beyond the end");
	return 0;
}

static int run(const struct job *job, struct fth_dev *dev)
{
	struct fth_dev_window *window;
	const struct fth_dev_window_info *info;
	int rc = fth_dev_window_open(dev, job->kind, FTH_DEV_WINDOW_VOLATILE, &window);

	if (rc < 0)
		return rc;
	info = fth_dev_window_info(window);
	printf("%llu bytes of %s. %s\n", (unsigned long long)info->size,
	       fth_dev_window_kind_name(info->kind), fth_dev_window_text(window));
	if (job->fill)
		rc = fill(window, info->size, job->seed);
	if (rc == 0 && job->fill)
		rc = persist(window, info);
	if (rc == 0)
		rc = check(window, info->size, job->seed);
	if (rc == 0)
		rc = beyond_the_end(window, info->size);
	fth_dev_window_close(window);
	return rc;
}

int main(int argc, char **argv)
{
	struct job job = {0};
	struct fth_dev *dev;
	int rc;

	if (argc != 5) {
		fprintf(stderr, "usage: guest_window fill|check pmr|cmb SEED DEVICE\n");
		return 2;
	}
	job.fill = strcmp(argv[1], "fill") == 0;
	job.kind = strcmp(argv[2], "pmr") == 0 ? FTH_DEV_WINDOW_PMR : FTH_DEV_WINDOW_CMB;
	job.seed = strtoull(argv[3], NULL, 0);
	job.uri = argv[4];
	rc = fth_dev_open(job.uri, &dev);
	if (rc == 0) {
		rc = run(&job, dev);
		fth_dev_close(dev);
	}
	if (rc < 0)
		fprintf(stderr, "guest_window: %s\n", fth_error_text(rc));
	return rc < 0;
}
