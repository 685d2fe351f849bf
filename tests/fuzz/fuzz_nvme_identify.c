/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identify data of a hostile controller. The input is the identify controller page and then the
 * identify namespace page; what is missing is zero.
 *
 * What must hold:
 *	- texts end within their fields and can be printed;
 *	- on success the block size is 512 bytes to 64 KiB, there is at least one block, the size in
 *	  bytes fits 64 bits, and a command can carry a whole number of blocks, at least one;
 *	- an error is one of the three that the header names;
 *	- the same input gives the same answer.
 */
#include "fathom/base/error.h"
#include "nvme/driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "not so: %s\n", what);
		abort();
	}
}

static void check_text(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	require(n < size, "a text ends");
	require(n == 0 || text[n - 1] != ' ', "a text has no padding");
	for (size_t i = 0; i < n; i++)
		require(text[i] >= ' ' && text[i] <= '~', "a text can be printed");
}

static void check_good(const struct fth_nvme_info *info)
{
	uint64_t block;

	require(info->lba_shift >= 9 && info->lba_shift <= 16, "blocks are 512 bytes to 64 KiB");
	block = (uint64_t)1 << info->lba_shift;
	require(info->blocks > 0, "there are blocks");
	require(info->blocks <= UINT64_MAX / block, "the size fits 64 bits");
	require(info->max_transfer >= block, "a command can carry a block");
	require(info->max_transfer % block == 0, "a command carries whole blocks");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct {
		struct fth_nvme_id_ctrl ctrl;
		struct fth_nvme_id_ns ns;
	} pages;
	struct fth_nvme_info info, again;
	int rc;

	memset(&pages, 0, sizeof(pages));
	memcpy(&pages, data, size < sizeof(pages) ? size : sizeof(pages));
	memset(&info, 0xa5, sizeof(info));
	memset(&again, 0x5a, sizeof(again));
	rc = fth_nvme_parse_identify(&pages.ctrl, &pages.ns, &info);
	check_text(info.serial, sizeof(info.serial));
	check_text(info.model, sizeof(info.model));
	check_text(info.firmware, sizeof(info.firmware));
	if (rc == 0)
		check_good(&info);
	else
		require((rc == -EINVAL || rc == -EOPNOTSUPP || rc == -ENODEV) &&
				fth_error_text(rc)[0],
			"an error is known and explained");
	require(fth_nvme_parse_identify(&pages.ctrl, &pages.ns, &again) == rc &&
			memcmp(&info, &again, sizeof(info)) == 0,
		"the answer depends on the data alone");
	return 0;
}
