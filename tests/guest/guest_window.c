/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guest_window fill|check pmr|cmb SEED DEVICE: fill the byte-addressable window of a drive with
 * what SEED stands for, or check that it holds that. Stores and loads are of many lengths and at
 * any offset, and those that check are not the ones that filled.
 */
#include <fathom/base.h>
#include <fathom/base/rng.h>
#include <fathom/dev.h>
#include <fathom/nvme/window.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_MAX 300u

struct job {
	bool fill;
	enum fth_nvme_window_kind kind;
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

static int fill(struct fth_nvme_window *window, uint64_t size, uint64_t seed)
{
	struct fth_rng way = {seed + 1};
	unsigned char piece[PIECE_MAX];
	uint64_t length;
	int rc = 0;

	for (uint64_t at = 0; rc == 0 && at < size; at += length) {
		length = piece_length(&way, size - at);
		make_piece(piece, seed, at, length);
		rc = fth_nvme_window_store(window, at, piece, length);
	}
	return rc;
}

static int check(const struct fth_nvme_window *window, uint64_t size, uint64_t seed)
{
	struct fth_rng way = {seed + 2};
	unsigned char piece[PIECE_MAX], found[PIECE_MAX];
	uint64_t length;
	int rc = 0;

	for (uint64_t at = 0; rc == 0 && at < size; at += length) {
		length = piece_length(&way, size - at);
		make_piece(piece, seed, at, length);
		rc = fth_nvme_window_load(window, at, found, length);
		if (rc == 0 && memcmp(piece, found, length) != 0)
			rc = fth_fail(EILSEQ, "bytes %llu to %llu are not what was stored",
				      (unsigned long long)at, (unsigned long long)(at + length));
	}
	return rc;
}

/* A CMB must not claim that it persists. */
static int persist(struct fth_nvme_window *window, const struct fth_nvme_window_info *info)
{
	int rc = fth_nvme_window_persist(window, 0, info->size);

	if (info->kind == FTH_NVME_WINDOW_PMR)
		return rc < 0 ? rc : fth_nvme_window_check(window);
	if (rc != -EOPNOTSUPP || info->flags & FTH_NVME_WINDOW_PERSISTENT)
		return fth_fail(EILSEQ, "a CMB says that it persists");
	return 0;
}

static int beyond_the_end(struct fth_nvme_window *window, uint64_t size)
{
	char byte = 0;

	if (fth_nvme_window_store(window, size, &byte, 1) != -ERANGE ||
	    fth_nvme_window_load(window, UINT64_MAX, &byte, 1) != -ERANGE)
		return fth_fail(EILSEQ, "there are bytes beyond the end");
	return 0;
}

static int run(const struct job *job, struct fth_nvme *nvme)
{
	struct fth_nvme_window *window;
	const struct fth_nvme_window_info *info;
	char text[1024];
	int rc;

	if (!nvme)
		return fth_fail(EINVAL, "%s is not an NVMe drive", job->uri);
	rc = fth_nvme_window_open(nvme, job->kind, &window);
	if (rc < 0)
		return rc;
	info = fth_nvme_window_info(window);
	fth_nvme_window_report(window, text, sizeof(text));
	printf("%llu bytes in BAR %u. %s\n", (unsigned long long)info->size, info->bar, text);
	if (job->fill)
		rc = fill(window, info->size, job->seed);
	if (rc == 0 && job->fill)
		rc = persist(window, info);
	if (rc == 0)
		rc = check(window, info->size, job->seed);
	if (rc == 0)
		rc = beyond_the_end(window, info->size);
	fth_nvme_window_close(window);
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
	job.kind = strcmp(argv[2], "pmr") == 0 ? FTH_NVME_WINDOW_PMR : FTH_NVME_WINDOW_CMB;
	job.seed = strtoull(argv[3], NULL, 0);
	job.uri = argv[4];
	rc = fth_dev_open(job.uri, &dev);
	if (rc == 0) {
		rc = run(&job, fth_nvme_of_dev(dev));
		fth_dev_close(dev);
	}
	if (rc < 0)
		fprintf(stderr, "guest_window: %s\n", fth_error_text(rc));
	return rc < 0;
}
