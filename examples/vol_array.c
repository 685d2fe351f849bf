/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vol_array DEVICE DEVICE...: make a volume of these devices, keep a table of numbers in it twice,
 * and add the numbers up, whichever of the devices can be read.
 *
 *	cc vol_array.c $(pkg-config --cflags --libs fathom) -o vol_array
 *	./vol_array 'file:/data/a?create=on&size=64M' 'file:/data/b?create=on&size=64M'
 *
 * Shows an object that appears with its data, and that an open object is a device like any other.
 * The devices must not carry a volume already.
 */
#include <fathom/base.h>
#include <fathom/vol.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define NUMBERS (256u << 10)

/* The numbers 0, 1, 2, ... as an object: it has its name only when all of them are durable. */
static int store(struct fth_vol *vol, uint64_t *numbers)
{
	struct fth_vol_object_options options = FTH_VOL_OBJECT_OPTIONS_INIT;
	struct fth_dev *dev;
	int rc;

	for (uint64_t i = 0; i < NUMBERS; i++)
		numbers[i] = i;
	options.replicas = 2;
	options.unit = 16384;
	options.whole = true;
	rc = fth_vol_object_new(vol, "numbers", NUMBERS * sizeof(numbers[0]), &options, &dev);
	if (rc < 0)
		return rc;
	rc = fth_dev_write(dev, numbers, NUMBERS * sizeof(numbers[0]), 0, FTH_DEV_TIMEOUT);
	if (rc == 0)
		rc = fth_vol_object_commit(dev);
	fth_dev_close(dev);
	return rc;
}

static int add_up(struct fth_vol *vol, uint64_t *numbers, uint64_t *sum)
{
	struct fth_dev *dev;
	int rc = fth_vol_object_open(vol, "numbers", FTH_VOL_READONLY, &dev);

	if (rc < 0)
		return rc;
	rc = fth_dev_read(dev, numbers, NUMBERS * sizeof(numbers[0]), 0, FTH_DEV_TIMEOUT);
	*sum = 0;
	for (uint64_t i = 0; rc == 0 && i < NUMBERS; i++)
		*sum += numbers[i];
	fth_dev_close(dev);
	return rc;
}

static int use(struct fth_vol *vol)
{
	uint64_t *numbers = malloc(NUMBERS * sizeof(numbers[0])), sum = 0;
	int rc = numbers ? store(vol, numbers) : -ENOMEM;

	if (rc == 0)
		rc = add_up(vol, numbers, &sum);
	free(numbers);
	if (rc < 0)
		return rc;
	printf("sum %" PRIu64 ", reads that another replica served: %" PRIu64 "\n", sum,
	       fth_vol_counter(vol, FTH_VOL_FAILOVERS));
	return sum == (uint64_t)NUMBERS * (NUMBERS - 1) / 2
		       ? 0
		       : fth_fail(EIO, "the numbers are not those that were stored");
}

static int run(struct fth_dev **devs, unsigned n)
{
	struct fth_vol *vol;
	int rc = fth_vol_format(devs, n, NULL);

	if (rc == 0)
		rc = fth_vol_open(devs, n, 0, &vol);
	if (rc < 0)
		return rc;
	rc = use(vol);
	fth_vol_close(vol);
	return rc;
}

int main(int argc, char **argv)
{
	struct fth_dev *devs[FTH_VOL_DEVICES_MAX] = {0};
	unsigned n = (unsigned)argc - 1;
	int rc = 0;

	if (n < 2 || n > FTH_VOL_DEVICES_MAX) {
		fprintf(stderr, "usage: vol_array DEVICE DEVICE...\n");
		return 2;
	}
	for (unsigned i = 0; rc == 0 && i < n; i++)
		rc = fth_dev_open(argv[i + 1], &devs[i]);
	if (rc == 0)
		rc = run(devs, n);
	if (rc < 0)
		fprintf(stderr, "vol_array: %s\n", fth_error_text(rc));
	for (unsigned i = 0; i < n; i++)
		fth_dev_close(devs[i]);
	return rc < 0 ? 1 : 0;
}
