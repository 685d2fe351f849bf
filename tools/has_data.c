/* SPDX-License-Identifier: BSD-2-Clause */
#include "has_data.h"

#include "fathom/base/error.h"
#include "fathom/dev.h"

#include <errno.h>
#include <stdlib.h>

#define LOOK_BYTES 65536u /* labels, superblocks and partition tables begin before that */

int fth_tool_expect_blank(const char *uri, const char *option)
{
	struct fth_dev *dev;
	uint8_t *bytes;
	uint64_t n;
	int rc = fth_dev_open(uri, &dev);

	if (rc < 0)
		return rc;
	n = fth_dev_info(dev)->size < LOOK_BYTES ? fth_dev_info(dev)->size : LOOK_BYTES;
	bytes = aligned_alloc(4096, LOOK_BYTES);
	rc = bytes ? fth_dev_read(dev, bytes, n, 0, FTH_DEV_TIMEOUT) : -ENOMEM;
	for (uint64_t i = 0; rc >= 0 && i < n; i++)
		if (bytes[i])
			rc = fth_fail(
				EMEDIUMTYPE,
				"%s contains data and is not part of a volume; %s overwrites it",
				uri, option);
	free(bytes);
	fth_dev_close(dev);
	return rc < 0 ? rc : 0;
}
