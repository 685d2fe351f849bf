/* SPDX-License-Identifier: BSD-2-Clause */
/* Several devices as the flash of one cache: an object of a volume that is striped over them. */
#ifndef FTH_TOOLS_KV_FLASH_H
#define FTH_TOOLS_KV_FLASH_H

#include "cli.h"

#define KV_FLASH_OBJECT "kv"

/*
 * Find the object KV_FLASH_OBJECT of the volume on these devices, and create what is missing: the
 * volume if all devices are empty or `format` is set, the object with the space that is free. *uri
 * names it, and is freed by the caller. -EMEDIUMTYPE: devices without a volume that are not empty;
 * other errors are those of fth_vol_open() and fth_vol_format().
 */
int kv_flash_join(const struct fth_cli_list *devices, bool format, char **uri);

#endif
