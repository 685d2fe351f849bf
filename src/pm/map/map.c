/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mapping persistent memory by name. Its siblings:
 *
 *	header.c	the header on the medium
 *	kind_*.c	what names mean: shared memory, libpmem, windows, drained devices; memory
 *			for tests
 *	owner.c		the process that mapped it, and its children
 *	remove.c	removing by name
 *
 * The other folders: persist/ makes stores durable (persist.c on the CPU; write_back.c writes
 * drained memory to its device; control_block.c has the memory that both share), areas/ has logs,
 * transactions and checkpoints in such memory, gpu/ the same for kernels, explore/ the crash
 * explorer.
 */
#include "pm/pm_internal.h"
#include "base/options.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 30000u
#define LENGTH_MAX (UINT64_C(1) << 46)

static const struct fth_pm_options defaults = FTH_PM_OPTIONS_INIT;

const struct pm_kind *pm_kind_of(const struct fth_uri *uri)
{
	if (strcmp(uri->scheme, "shm") == 0 && uri->path)
		return &pm_kind_shm;
	if (strcmp(uri->scheme, "pmem") == 0 && uri->path)
		return &pm_kind_pmem;
	if (strcmp(uri->scheme, "window") == 0 && uri->inner)
		return &pm_kind_window;
	return &pm_kind_drained;
}

static int check_options(const struct fth_pm_options *o)
{
	int rc = fth_options_check("pm", o->size, sizeof(*o));

	if (rc < 0)
		return rc;
	if (o->flags & ~(FTH_PM_CREATE | FTH_PM_EXCLUSIVE | FTH_PM_READ_ONLY))
		return fth_fail(EINVAL, "options.flags %#x has unknown flags", o->flags);
	if ((o->flags & FTH_PM_CREATE) && (o->flags & FTH_PM_READ_ONLY))
		return fth_fail(EINVAL,
				"FTH_PM_CREATE and FTH_PM_READ_ONLY are mutually exclusive");
	if ((o->flags & FTH_PM_EXCLUSIVE) && !(o->flags & FTH_PM_CREATE))
		return fth_fail(EINVAL, "FTH_PM_EXCLUSIVE requires FTH_PM_CREATE");
	if ((unsigned)o->least > FTH_PM_POWER)
		return fth_fail(EINVAL, "options.least %u is not a guarantee", (unsigned)o->least);
	return 0;
}

/* The header's own page, and whole pages. */
static int check_size(uint64_t bytes, uint64_t *length)
{
	if (bytes > LENGTH_MAX)
		return fth_fail(EINVAL, "size %" PRIu64 " exceeds the limit of 64 TiB", bytes);
	*length = bytes == 0
			  ? 0
			  : FTH_PM_HEADER + (bytes + FTH_PM_PAGE - 1) / FTH_PM_PAGE * FTH_PM_PAGE;
	return 0;
}

static int check_guarantee(const struct fth_pm *pm, enum fth_pm_guarantee least)
{
	if (pm->guarantee >= least)
		return 0;
	return fth_fail(ENOTSUP, "the guarantee is \"%s\", weaker than the required \"%s\": %s",
			fth_pm_guarantee_name(pm->guarantee), fth_pm_guarantee_name(least),
			pm->text);
}

/* The header: of blank memory it is made, else it is checked. */
static int settle_header(struct fth_pm *pm, const struct pm_request *request, uint64_t tag)
{
	int rc;

	if (request->create && pm_header_blank(pm)) {
		if (request->length == 0)
			return fth_fail(EINVAL, "a size is required to create it");
		if (request->length > pm->length)
			return fth_fail(ENOSPC,
					"%" PRIu64
					" bytes and a header exceed the available %" PRIu64,
					request->length - FTH_PM_HEADER, pm->length);
		pm->length = request->length;
		rc = pm_header_make(pm, tag);
		if (rc < 0)
			return fth_fail_in(rc, "writing the header");
	} else if (request->exclusive) {
		return fth_fail(EEXIST, "already exists, or is not blank");
	} else if (request->unfinished && pm_header_creating(pm)) {
		return 0;
	}
	rc = pm_header_check(pm, tag);
	if (rc == 0 && request->length != 0 && request->length != pm->view.size + FTH_PM_HEADER)
		return fth_fail(EINVAL, "it has %" PRIu64 " bytes, the requested size is %" PRIu64,
				pm->view.size, request->length - FTH_PM_HEADER);
	return rc;
}

/*
 * A killed process may have left bytes that can be read and are not persistent yet. The process
 * that maps the memory acts on them, so they become persistent first.
 */
static int settle_memory(struct fth_pm *pm)
{
	if (pm->readonly)
		return 0;
	if (pm->view.mode == FTH_PM_MODE_WRITE_BACK)
		return fth_dev_flush(pm->dev, fth_deadline_ns(pm->view.timeout_ns));
	if (pm->view.mode == FTH_PM_MODE_FLUSH || pm->view.mode == FTH_PM_MODE_WINDOW)
		return fth_pm_persist_range(&pm->view, pm->memory, pm->length);
	return 0;
}

static int map_parts(struct fth_pm *pm, const struct pm_request *request, uint64_t tag)
{
	int rc = pm->kind->open(pm, request);

	if (rc == 0 && pm->length <= FTH_PM_HEADER)
		rc = fth_fail(EBADMSG, "%" PRIu64 " bytes: too small for a header and a page",
			      pm->length);
	if (rc == 0)
		rc = check_guarantee(pm, request->least);
	if (rc < 0)
		return rc;
	pm->view.base = pm->memory + FTH_PM_HEADER;
	pm->view.size = pm->length - FTH_PM_HEADER;
	pm->view.timeout_ns = pm->timeout_ms * UINT64_C(1000000);
	pm->view.host = pm;
	rc = pm_control_open(pm);
	if (rc == 0 && pm->view.mode == FTH_PM_MODE_WRITE_BACK && !pm->readonly)
		rc = pm_write_back_open(pm);
	if (rc == 0)
		rc = settle_memory(pm);
	return rc < 0 ? rc : settle_header(pm, request, tag);
}

static void pm_free(struct fth_pm *pm)
{
	pm_control_close(pm);
	fth_stats_free(pm->stats);
	pthread_mutex_destroy(&pm->lock);
	free(pm->name);
	free(pm);
}

static struct fth_pm *pm_new(const char *name, const struct pm_kind *kind)
{
	struct fth_pm *pm = calloc(1, sizeof(*pm));

	if (!pm)
		return NULL;
	pm->kind = kind;
	pm->fd = pm->lock_fd = -1;
	pthread_mutex_init(&pm->lock, NULL);
	pm_process_note(pm);
	pm->name = strdup(name);
	pm->stats = fth_stats_new(FTH_PM_STAT_COUNT);
	if (pm->name && pm->stats)
		return pm;
	pm_free(pm);
	return NULL;
}

/* Takes over pm. */
static int map_new(struct fth_pm *pm, struct pm_request *request, const struct fth_pm_options *o,
		   struct fth_pm **out)
{
	int rc;

	if (!pm)
		return -ENOMEM;
	request->create = o->flags & FTH_PM_CREATE;
	request->exclusive = o->flags & FTH_PM_EXCLUSIVE;
	request->readonly = o->flags & FTH_PM_READ_ONLY;
	request->least = o->least;
	pm->readonly = request->readonly;
	pm->timeout_ms = o->timeout_ms ? o->timeout_ms : TIMEOUT_MS;
	rc = map_parts(pm, request, o->tag);
	if (rc == 0) {
		*out = pm;
		return 0;
	}
	if (pm->made && pm->kind->discard)
		pm->kind->discard(request);
	fth_pm_unmap(pm);
	return rc;
}

static int check_arguments(uint64_t bytes, const struct fth_pm_options **options, uint64_t *length)
{
	int rc;

	if (!*options)
		*options = &defaults;
	rc = check_options(*options);
	return rc < 0 ? rc : check_size(bytes, length);
}

static int map_by_name(struct pm_request *request, const struct fth_pm_options *options,
		       struct fth_pm **out)
{
	struct fth_uri uri;
	int rc = fth_uri_parse(&uri, request->name);

	if (rc < 0)
		return rc;
	request->uri = &uri;
	rc = map_new(pm_new(request->name, pm_kind_of(&uri)), request, options, out);
	fth_uri_release(&uri);
	return rc;
}

int fth_pm_map(const char *name, uint64_t bytes, const struct fth_pm_options *options,
	       struct fth_pm **out)
{
	struct pm_request request = {.name = name};
	int rc;

	*out = NULL;
	rc = check_arguments(bytes, &options, &request.length);
	return rc < 0 ? rc : map_by_name(&request, options, out);
}

int pm_map_unfinished(const char *name, struct fth_pm **out)
{
	struct pm_request request = {.name = name, .unfinished = true};

	*out = NULL;
	return map_by_name(&request, &defaults, out);
}

int fth_pm_map_dev(struct fth_dev *dev, uint64_t bytes, const struct fth_pm_options *options,
		   struct fth_pm **out)
{
	struct pm_request request = {.name = fth_dev_uri(dev)};
	struct fth_pm *pm;
	int rc;

	*out = NULL;
	rc = check_arguments(bytes, &options, &request.length);
	if (rc < 0)
		return rc;
	pm = pm_new(request.name, &pm_kind_drained);
	if (pm)
		pm->dev = dev;
	return map_new(pm, &request, options, out);
}

int pm_map_kind(const struct pm_kind *kind, void *memory, uint64_t length,
		const struct fth_pm_options *options, struct fth_pm **out)
{
	struct pm_request request = {.name = "memory"};
	struct fth_pm *pm;
	int rc;

	*out = NULL;
	rc = check_arguments(length - FTH_PM_HEADER, &options, &request.length);
	if (rc < 0)
		return rc;
	pm = pm_new(request.name, kind);
	if (pm) {
		pm->memory = memory;
		pm->length = length;
	}
	return map_new(pm, &request, options, out);
}

/*
 * In a child of fork(): the device, with its channel, is the parent's, and so is the thread that
 * serves. They are leaked here.
 */
static void leave_device(struct fth_pm *pm)
{
	pm->write_back = NULL;
	pm->window = NULL;
	pm->dev = NULL;
	pm->owns_dev = false;
}

int fth_pm_unmap(struct fth_pm *pm)
{
	int rc = 0, closed;

	if (!pm)
		return 0;
	if (pm_process_is_other(pm))
		leave_device(pm);
	else if (pm->write_back)
		rc = pm_write_back_close(pm);
	else if (pm->view.control)
		rc = -(int)fth_load_relaxed_sys64(&pm->view.control->error);
	closed = pm->kind->close(pm);
	pm_free(pm);
	return rc < 0 ? rc : closed;
}

void *fth_pm_base(const struct fth_pm *pm)
{
	return pm->view.base;
}

uint64_t fth_pm_size(const struct fth_pm *pm)
{
	return pm->view.size;
}

enum fth_pm_guarantee fth_pm_guarantee(const struct fth_pm *pm)
{
	return pm->guarantee;
}

const char *fth_pm_guarantee_text(const struct fth_pm *pm)
{
	return pm->text;
}

enum fth_pm_kind fth_pm_kind(const struct fth_pm *pm)
{
	return pm->kind->id;
}

uint64_t fth_pm_tag(const struct fth_pm *pm)
{
	return pm->tag;
}

const char *fth_pm_name(const struct fth_pm *pm)
{
	return pm->name;
}

struct fth_pm_view fth_pm_view(struct fth_pm *pm)
{
	return pm->view;
}

uint64_t fth_pm_stat(const struct fth_pm *pm, enum fth_pm_stat which)
{
	return (unsigned)which < FTH_PM_STAT_COUNT ? fth_stats_read(pm->stats, which) : 0;
}

static const char *name_of(const char *const *names, unsigned count, unsigned i)
{
	return i < count ? names[i] : "unknown";
}

const char *fth_pm_guarantee_name(enum fth_pm_guarantee guarantee)
{
	static const char *const names[] = {"volatile", "exit", "power"};

	return name_of(names, 3, guarantee);
}

const char *fth_pm_kind_name(enum fth_pm_kind kind)
{
	static const char *const names[FTH_PM_KIND_COUNT] = {"shm", "pmem", "window", "drained"};

	return name_of(names, FTH_PM_KIND_COUNT, kind);
}
