/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nvme_window [DEVICE]: keep a log in the byte-addressable window of a device, such as the
 * persistent memory region of an NVMe drive, lose power in the middle of it, and show what
 * survived.
 *
 *	cc nvme_window.c $(pkg-config --cflags --libs fathom) -o nvme_window
 *	./nvme_window "crash(softnvme(mem:16M)?pmr=64K)"
 *
 * The log is append-only: entries first, then a count that says how many are valid. An entry is
 * persisted before the count that names it, so that no power loss leaves a count too large. Power
 * losses are simulated, so the device must be crash(...) around one that has a window.
 */
#include <fathom/base.h>
#include <fathom/dev.h>
#include <fathom/dev/crash.h>
#include <fathom/dev/window.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ENTRY	64u /* bytes; entry i lies at ENTRY * (i + 1), behind the count */
#define LOSSES	100u
#define APPENDS 5u /* before each power loss; the last one is cut off half-way */

/* What is persisted has to survive a power loss: a window that cannot promise that is refused. */
static int open_window(struct fth_dev *dev, struct fth_dev_window **window)
{
	return fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_POWER, window);
}

static uint64_t entry_at(uint64_t i)
{
	return ENTRY * (i + 1);
}

static void make_entry(char text[ENTRY], uint64_t i)
{
	memset(text, 0, ENTRY);
	snprintf(text, ENTRY, "entry %llu", (unsigned long long)i);
}

static int append_entry(struct fth_dev_window *window, uint64_t i)
{
	char text[ENTRY];

	make_entry(text, i);
	return fth_dev_window_store(window, entry_at(i), text, ENTRY);
}

/* Entry i is durable before the count is stored; afterwards the count is durable as well. */
static int append(struct fth_dev_window *window, uint64_t i)
{
	uint64_t count = i + 1;
	int rc = append_entry(window, i);

	if (rc == 0)
		rc = fth_dev_window_persist(window, entry_at(i), ENTRY, FTH_DEV_TIMEOUT);
	if (rc == 0)
		rc = fth_dev_window_store(window, 0, &count, sizeof(count));
	if (rc == 0)
		rc = fth_dev_window_persist(window, 0, sizeof(count), FTH_DEV_TIMEOUT);
	return rc;
}

/* How many entries the log has; all of them must be whole. */
static int read_log(const struct fth_dev_window *window, uint64_t *count)
{
	int rc = fth_dev_window_load(window, 0, count, sizeof(*count));

	for (uint64_t i = 0; rc == 0 && i < *count; i++) {
		char expected[ENTRY], found[ENTRY];

		make_entry(expected, i);
		rc = fth_dev_window_load(window, entry_at(i), found, ENTRY);
		if (rc == 0 && memcmp(expected, found, ENTRY) != 0)
			rc = fth_fail(EILSEQ, "entry %llu is damaged", (unsigned long long)i);
	}
	return rc;
}

/* What the power loss made of an entry that was stored and not persisted: 1 it is there, 0 not. */
static int survived(const struct fth_dev_window *window, uint64_t i)
{
	char expected[ENTRY], found[ENTRY];
	int rc = fth_dev_window_load(window, entry_at(i), found, ENTRY);

	make_entry(expected, i);
	return rc < 0 ? rc : memcmp(expected, found, ENTRY) == 0;
}

/* Append, lose power with one more entry on its way, and look at what is left. */
static int run_until_loss(struct fth_dev *dev, uint64_t seed, unsigned *lucky)
{
	struct fth_dev_window *window;
	uint64_t before, after = 0;
	int rc = open_window(dev, &window);

	if (rc < 0)
		return rc;
	rc = read_log(window, &before);
	for (unsigned i = 0; rc == 0 && i + 1 < APPENDS; i++)
		rc = append(window, before + i);
	if (rc == 0)
		rc = append_entry(window, before + APPENDS - 1);
	if (rc == 0)
		rc = fth_dev_crash_power_loss(dev, seed);
	fth_dev_window_close(window);
	if (rc == 0)
		rc = fth_dev_crash_restart(dev);
	if (rc < 0)
		return rc;

	rc = open_window(dev, &window);
	if (rc < 0)
		return rc;
	rc = read_log(window, &after);
	if (rc == 0 && after != before + APPENDS - 1)
		rc = fth_fail(EILSEQ, "%llu entries of %llu", (unsigned long long)after,
			      (unsigned long long)before + APPENDS - 1);
	if (rc == 0)
		rc = survived(window, after);
	fth_dev_window_close(window);
	*lucky += rc > 0;
	return rc < 0 ? rc : 0;
}

static int describe(struct fth_dev *dev)
{
	struct fth_dev_window *window;
	int rc = open_window(dev, &window);

	if (rc < 0)
		return rc;
	printf("%llu bytes. %s\n", (unsigned long long)fth_dev_window_info(window)->size,
	       fth_dev_window_text(window));
	if (fth_dev_window_info(window)->size < entry_at((uint64_t)LOSSES * APPENDS))
		rc = fth_fail(ENOSPC, "the region is too small for the log: take 64K");
	fth_dev_window_close(window);
	return rc;
}

static int run(struct fth_dev *dev)
{
	unsigned lucky = 0;
	int rc = 0;

	if (!fth_dev_crash_powered(dev))
		return fth_fail(EINVAL, "power losses need a device crash(...)");
	rc = describe(dev);
	for (unsigned i = 0; rc == 0 && i < LOSSES; i++)
		rc = run_until_loss(dev, i, &lucky);
	if (rc == 0)
		printf("%u power losses: all %u entries that were persisted survived, and %u of "
		       "the "
		       "%u that were only stored\n",
		       LOSSES, LOSSES * (APPENDS - 1), lucky, LOSSES);
	return rc;
}

int main(int argc, char **argv)
{
	const char *uri = argc > 1 ? argv[1] : "crash(softnvme(mem:16M)?pmr=64K)";
	struct fth_dev *dev;
	int rc = fth_dev_open(uri, &dev);

	if (rc == 0) {
		rc = run(dev);
		fth_dev_close(dev);
	}
	if (rc < 0)
		fprintf(stderr, "nvme_window: %s\n", fth_error_text(rc));
	return rc < 0;
}
