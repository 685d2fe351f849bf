/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading the log where parts of it cannot be read: what the device does not give reads as zeroes,
 * which verify as nothing, so recovery goes on as it does after other damage. Errors that are not
 * those of the medium, of a device that hangs or has gone for instance, are returned.
 */
#include "kv/kv_internal.h"

#include <errno.h>
#include <string.h>

bool kv_medium_error(int rc)
{
	/*
	 * The last three are what Linux makes of errors of the medium, of protection and of the
	 * target.
	 */
	return rc == -EIO || rc == -EBADMSG || rc == -ENODATA || rc == -EILSEQ || rc == -EREMOTEIO;
}

int kv_read_with_holes(struct fth_kv *kv, void *to, uint64_t bytes, uint64_t at, uint64_t *holes)
{
	int rc = fth_dev_read(kv->dev, to, bytes, at, FTH_DEV_TIMEOUT);

	if (!kv_medium_error(rc))
		return rc;
	rc = 0;
	for (uint64_t done = 0, piece; done < bytes && rc == 0; done += piece) {
		piece = bytes - done < kv->block ? bytes - done : kv->block;
		rc = fth_dev_read(kv->dev, (uint8_t *)to + done, piece, at + done, FTH_DEV_TIMEOUT);
		if (!kv_medium_error(rc))
			continue;
		memset((uint8_t *)to + done, 0, piece);
		++*holes;
		rc = 0;
	}
	return rc;
}
