/* SPDX-License-Identifier: BSD-2-Clause */
/* Drives by name: gpu:MEDIUM is the controller on GPU blocks, all else a device. */
#include "drive.h"
#include "base/options.h"

#include "fathom/base/error.h"
#include "fathom/base/uri.h"

#include <errno.h>
#include <string.h>

static int take_medium(const struct fth_uri *uri, struct fth_gpu_drive_options *o)
{
	static const struct {
		const char *name;
		enum fth_gpu_medium medium;
	} media[] = {{"host", FTH_GPU_MEDIUM_HOST},
		     {"hbm", FTH_GPU_MEDIUM_DEVICE},
		     {"none", FTH_GPU_MEDIUM_NONE}};

	for (const auto &m : media)
		if (uri->path && strcmp(uri->path, m.name) == 0) {
			o->medium = m.medium;
			return 0;
		}
	return fth_fail(EINVAL, "gpu:%s: expected gpu:host, gpu:hbm or gpu:none",
			uri->path ? uri->path : "");
}

static int take_model(struct fth_uri *uri, struct fth_gpu_drive_options *o)
{
	const char *name = NULL;
	int rc = fth_uri_take_string(uri, "model", &name);

	if (rc <= 0)
		return rc;
	o->model = fth_dev_model(name);
	return o->model ? 0 : fth_fail(EINVAL, "unknown device model \"%s\"", name);
}

static int take_u32(struct fth_uri *uri, const char *key, uint32_t min, uint32_t max, uint32_t *out)
{
	uint64_t value = 0;
	int rc = fth_uri_take_u64(uri, key, min, max, &value);

	if (rc > 0)
		*out = (uint32_t)value;
	return rc;
}

static int take_block(struct fth_uri *uri, uint32_t *block)
{
	uint64_t value = 0;
	int rc = fth_uri_take_size(uri, "block", FTH_GPU_BLOCK_MIN, FTH_GPU_BLOCK_MAX, &value);

	if (rc > 0)
		*block = (uint32_t)value;
	return rc;
}

static int take_options(struct fth_uri *uri, struct fth_gpu_drive_options *o)
{
	int rc = fth_uri_take_size(uri, "bytes", FTH_NVME_PAGE_SIZE, UINT64_MAX, &o->bytes);

	if (rc >= 0)
		rc = take_block(uri, &o->block);
	if (rc >= 0)
		rc = take_u32(uri, "ssds", 1, FTH_GPU_SSDS_MAX, &o->ssds);
	if (rc >= 0)
		rc = take_u32(uri, "queues", 1, FTH_GPU_QUEUES_MAX, &o->queues);
	if (rc >= 0)
		rc = take_u32(uri, "entries", 2, 65536, &o->entries);
	if (rc >= 0)
		rc = take_u32(uri, "warps", 1, FTH_GPU_CTRL_WARPS_MAX, &o->warps);
	if (rc >= 0)
		rc = take_u32(uri, "batch", 1, 32, &o->batch);
	if (rc >= 0)
		rc = take_u32(uri, "late_us", 1, 1000000, &o->late_us);
	if (rc > 0)
		o->late_data = true;
	if (rc >= 0)
		rc = fth_uri_take_bool(uri, "ordered", &o->ordered);
	if (rc >= 0)
		rc = take_model(uri, o);
	return rc < 0 ? rc : fth_uri_finish(uri);
}

int fth_gpu_drive_open_uri(const char *text, const struct fth_gpu_drive_options *opts,
			   struct fth_gpu_drive **out)
{
	static const struct fth_gpu_drive_options plain = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct fth_gpu_drive_options o = plain;
	struct fth_uri uri = {};
	int rc;

	/* Before it is copied: a struct of another version may be shorter. */
	rc = opts ? fth_options_check("gpu drive", opts->size, sizeof(o)) : 0;
	if (rc < 0)
		return rc;
	if (opts)
		o = *opts;
	rc = fth_uri_parse(&uri, text);
	if (rc == 0 && strcmp(uri.scheme, "gpu") != 0) {
		rc = fth_gpu_drive_open_service(text, &o, out);
	} else if (rc == 0) {
		rc = take_medium(&uri, &o);
		if (rc == 0)
			rc = take_options(&uri, &o);
		if (rc == 0)
			rc = fth_gpu_drive_open(&o, out);
		rc = rc < 0 ? fth_fail_in(rc, text) : rc;
	}
	fth_uri_release(&uri);
	return rc;
}
