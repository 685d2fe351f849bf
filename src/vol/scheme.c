/* SPDX-License-Identifier: BSD-2-Clause */
/* vol(URI,URI,...)?object=NAME: an object together with its volume, as one device. */
#include "dev/schemes.h"
#include "vol/open_object.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

struct wish {
	const char *object;
	bool readonly, degraded, minority, format;
	uint64_t create; /* UINT64_MAX: no */
	struct fth_vol_object_options shape;
};

static int take_number(struct fth_uri *uri, const char *key, uint64_t max, uint32_t *out)
{
	uint64_t value = 0;
	int rc = fth_uri_take_size(uri, key, 1, max, &value);

	if (rc > 0)
		*out = (uint32_t)value;
	return rc;
}

static int take_options(struct fth_uri *uri, struct wish *wish)
{
	int rc = fth_uri_take_string(uri, "object", &wish->object);

	if (rc == 0)
		return fth_fail(EINVAL, "vol(...) needs ?object=NAME");
	if ((rc = fth_uri_take_bool(uri, "readonly", &wish->readonly)) < 0 ||
	    (rc = fth_uri_take_bool(uri, "degraded", &wish->degraded)) < 0 ||
	    (rc = fth_uri_take_bool(uri, "minority", &wish->minority)) < 0 ||
	    (rc = fth_uri_take_bool(uri, "format", &wish->format)) < 0 ||
	    (rc = fth_uri_take_size(uri, "create", 0, INT64_MAX, &wish->create)) < 0 ||
	    (rc = take_number(uri, "unit", FTH_VOL_UNIT_MAX, &wish->shape.unit)) < 0 ||
	    (rc = take_number(uri, "replicas", FTH_VOL_DEVICES_MAX, &wish->shape.replicas)) < 0 ||
	    (rc = take_number(uri, "width", FTH_VOL_DEVICES_MAX, &wish->shape.width)) < 0)
		return rc;
	if ((wish->readonly || wish->degraded || wish->minority) &&
	    (wish->format || wish->create != UINT64_MAX))
		return fth_fail(EINVAL,
				"readonly, degraded and minority exclude format and create");
	if (uri->readonly) {
		wish->readonly = true;
		wish->format = false;
		wish->create = UINT64_MAX;
	}
	return fth_uri_finish(uri);
}

/* Format devices that carry no label; leave a volume that is there alone. */
static int format_if_new(struct vol_opened *opened)
{
	int rc = fth_vol_format(opened->devs, opened->count, NULL);

	return rc == -EEXIST ? 0 : rc;
}

/*
 * Like fth_vol_open_uris(), but with the devices kept open after formatting: mem: would forget.
 */
static int open_volume(const char *list, const struct wish *wish, struct fth_vol **vol)
{
	unsigned flags = (wish->readonly ? FTH_VOL_READONLY : 0) |
			 (wish->degraded ? FTH_VOL_DEGRADED : 0) |
			 (wish->minority ? FTH_VOL_MINORITY : 0);
	struct vol_opened opened;
	const char **uris;
	unsigned n;
	int rc = fth_vol_split_uris(list, &uris, &n);

	if (rc < 0)
		return rc;
	rc = vol_open_all(uris, n, flags ? VOL_ACCESS_READ : VOL_ACCESS_WRITE, &opened);
	free(uris);
	if (rc < 0)
		return rc;
	if (wish->format)
		rc = format_if_new(&opened);
	if (rc == 0)
		rc = fth_vol_open(opened.devs, opened.count, flags, vol);
	if (rc < 0)
		vol_close_all(&opened);
	else
		vol_own(*vol, &opened);
	return rc;
}

static int open_object(struct fth_vol *vol, const struct wish *wish, struct vol_dev **out)
{
	int rc = 0;

	if (wish->create != UINT64_MAX)
		rc = fth_vol_create(vol, wish->object, wish->create, &wish->shape);
	if (rc < 0 && rc != -EEXIST)
		return rc;
	return vol_object_dev(vol, wish->object, wish->readonly ? FTH_VOL_READONLY : 0, out);
}

static int vol_open_scheme(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	struct wish wish = {.create = UINT64_MAX, .shape = FTH_VOL_OBJECT_OPTIONS_INIT};
	struct vol_dev *dev;
	struct fth_vol *vol;
	int rc = take_options(uri, &wish);

	(void)inner;
	if (rc == 0)
		rc = open_volume(uri->inner, &wish, &vol);
	if (rc < 0)
		return rc;
	rc = open_object(vol, &wish, &dev);
	if (rc < 0) {
		fth_vol_close(vol);
		return rc;
	}
	dev->owns_volume = true;
	*out = &dev->dev;
	return 0;
}

const struct fth_dev_scheme fth_vol_scheme = {
	.name = "vol", .wrapper = true, .list = true, .open = vol_open_scheme};
