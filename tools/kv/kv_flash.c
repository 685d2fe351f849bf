/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv_flash.h"
#include "has_data.h"

#include "fathom/base/error.h"
#include "fathom/vol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int format_volume(const struct fth_cli_list *devices, bool format)
{
	int rc = 0;

	for (unsigned i = 0; !format && rc == 0 && i < devices->count; i++)
		rc = fth_tool_expect_blank(devices->items[i], "--force");
	/* Without force: a device of another volume among them is an error. */
	return rc < 0 ? rc : fth_vol_format_uris(devices->items, devices->count, NULL);
}

/* All free space, as far as devices of different sizes can be striped over. */
static int create_object(struct fth_vol *vol)
{
	struct fth_vol_info info;
	uint64_t size;
	int rc;

	fth_vol_info(vol, &info);
	size = info.free;
	do {
		rc = fth_vol_create(vol, KV_FLASH_OBJECT, size, NULL);
		size -= size / 64;
	} while (rc == -ENOSPC && size > (1u << 20));
	return rc;
}

/* "vol(URI,URI)?object=kv"; commas inside a URI are written as vol(...) expects them. */
static char *join_uris(const struct fth_cli_list *devices)
{
	size_t room = sizeof("vol()?object=" KV_FLASH_OBJECT);
	char *uri, *to;

	for (unsigned i = 0; i < devices->count; i++)
		room += 3 * strlen(devices->items[i]) + 1;
	uri = malloc(room);
	if (!uri)
		return NULL;
	to = stpcpy(uri, "vol(");
	for (unsigned i = 0; i < devices->count; i++) {
		if (i)
			*to++ = ',';
		for (const char *from = devices->items[i]; *from; from++)
			if (*from == ',')
				to = stpcpy(to, "%2C");
			else
				*to++ = *from;
	}
	strcpy(to, ")?object=" KV_FLASH_OBJECT);
	return uri;
}

int kv_flash_join(const struct fth_cli_list *devices, bool format, char **uri)
{
	struct fth_vol_object_info object;
	struct fth_vol *vol;
	int rc = fth_vol_open_uris(devices->items, devices->count, 0, &vol);

	*uri = NULL;
	if (rc == -EMEDIUMTYPE) {
		rc = format_volume(devices, format);
		if (rc == 0)
			rc = fth_vol_open_uris(devices->items, devices->count, 0, &vol);
	}
	if (rc < 0)
		return rc;
	rc = fth_vol_stat(vol, KV_FLASH_OBJECT, &object);
	if (rc == -ENOENT)
		rc = create_object(vol);
	fth_vol_close(vol);
	if (rc < 0)
		return rc;
	*uri = join_uris(devices);
	return *uri ? 0 : -ENOMEM;
}
