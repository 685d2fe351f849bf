/* SPDX-License-Identifier: BSD-2-Clause */
#include "u128.h"

#include <string.h>

const char *fth_u128_text(char buf[FTH_U128_MAX], const uint64_t words[2])
{
	unsigned __int128 value = (unsigned __int128)words[1] << 64 | words[0];
	char digits[FTH_U128_MAX];
	char *first = digits + sizeof(digits) - 1;

	*first = '\0';
	do {
		*--first = (char)('0' + (int)(value % 10));
		value /= 10;
	} while (value);
	return memcpy(buf, first, (size_t)(digits + sizeof(digits) - first));
}
