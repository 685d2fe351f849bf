/* SPDX-License-Identifier: BSD-2-Clause */
/* Is there data on a device that a command is about to overwrite? */
#ifndef FTH_TOOLS_HAS_DATA_H
#define FTH_TOOLS_HAS_DATA_H

/*
 * Returns 0 if the first 64 KiB of a device are zeroes; -EMEDIUMTYPE if not, with a text that names
 * `option` as the way to overwrite it; or the error of the device.
 */
int fth_tool_expect_blank(const char *uri, const char *option);

#endif
