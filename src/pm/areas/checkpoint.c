/* SPDX-License-Identifier: BSD-2-Clause */
/* Checkpoints. fathom/detail/pm/checkpoint.h has the layout and the invariants. */
#include "pm/pm_internal.h"

#include "fathom/base/error.h"
#include "fathom/detail/pm/checkpoint.h"
#include "fathom/pm/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK FTH_PM_CP_BLOCK

_Static_assert(sizeof(struct fth_pm_cp_record) == 64, "a record is a line");
_Static_assert(sizeof(struct fth_pm_cp_header) == 64, "the header is a line");

struct cp_group {
	struct fth_pm_cp_buffer *buffers;
	uint32_t count;
	uint64_t used; /* bytes of data, in whole blocks */
	/* Of the copies: a checksum for each block, and whether they are known. */
	uint64_t *sums[2];
	bool known[2];
};

struct fth_pm_checkpoint {
	struct fth_pm *pm;
	uint64_t offset;		/* of the area, from the base */
	struct fth_pm_cp_header header; /* a copy, which was checked */
	struct cp_group *groups;
	uint64_t written;
};

static uint64_t whole_blocks(uint64_t bytes)
{
	return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

static bool shape_valid(const struct fth_pm_checkpoint_shape *s)
{
	return s->groups > 0 && s->groups <= FTH_PM_CHECKPOINT_GROUPS_MAX && s->buffers > 0 &&
	       s->buffers <= FTH_PM_CHECKPOINT_BUFFERS_MAX && s->bytes > 0 &&
	       s->bytes <= UINT64_C(1) << 45;
}

uint64_t fth_pm_checkpoint_bytes(const struct fth_pm_checkpoint_shape *shape)
{
	struct fth_pm_cp_header h = {.groups = shape->groups,
				     .capacity = whole_blocks(shape->bytes)};

	return shape_valid(shape) ? fth_pm_cp_data_at(&h, h.groups, 0) : 0;
}

static uint8_t *area_of(const struct fth_pm_checkpoint *cp)
{
	return cp->pm->view.base + cp->offset;
}

/* ---- create and open ---- */

static int check_range(const struct fth_pm *pm, uint64_t offset, uint64_t bytes)
{
	if (offset % BLOCK)
		return fth_fail(EINVAL, "checkpoint: offset %" PRIu64 " is not a multiple of 4096",
				offset);
	if (offset > pm->view.size || bytes > pm->view.size - offset)
		return fth_fail(ERANGE,
				"checkpoint: %" PRIu64 " bytes at offset %" PRIu64
				" exceed the memory of %" PRIu64,
				bytes, offset, pm->view.size);
	return 0;
}

static int check_place(const struct fth_pm *pm, uint64_t offset, uint64_t bytes)
{
	int rc;

	if (bytes == 0)
		return fth_fail(EINVAL,
				"checkpoint: invalid shape: expected 1 to %u groups of 1 to %u "
				"buffers, at most 32 TiB in all",
				FTH_PM_CHECKPOINT_GROUPS_MAX, FTH_PM_CHECKPOINT_BUFFERS_MAX);
	rc = check_range(pm, offset, bytes);
	if (rc == 0 && pm->readonly)
		rc = fth_fail(EROFS, "checkpoint: the memory is mapped read-only");
	return rc < 0 ? rc : pm_process_check(pm);
}

static void clear_records(struct fth_pm *pm, uint8_t *area, const struct fth_pm_cp_header *h,
			  uint32_t which)
{
	static const struct fth_pm_cp_record none;
	uint8_t *first = area + fth_pm_cp_record_at(h, 0, 0, which);

	for (uint32_t i = 0; i < 2 * h->groups; i++)
		fth_pm_put(&pm->view, first + i * sizeof(none), &none, sizeof(none));
	fth_pm_flush_range(&pm->view, first, 2 * h->groups * sizeof(none));
}

/* The magic is taken away first and comes back last: a crash leaves no area, or a whole one. */
static int write_area(struct fth_pm *pm, uint64_t offset, const struct fth_pm_cp_header *h)
{
	uint8_t *area = pm->view.base + offset;
	struct fth_pm_cp_header *to = (struct fth_pm_cp_header *)(void *)area;
	int rc;

	fth_pm_put64(&pm->view, &to->magic, PM_AREA_CREATING);
	rc = fth_pm_persist_range(&pm->view, to, sizeof(to->magic));
	if (rc < 0)
		return rc;
	for (uint32_t which = 0; which < FTH_PM_CP_RECORDS; which++)
		clear_records(pm, area, h, which);
	fth_pm_put(&pm->view, &to->version, &h->version, sizeof(*h) - sizeof(h->magic));
	rc = fth_pm_persist_range(&pm->view, to, sizeof(*to));
	if (rc < 0)
		return rc;
	fth_pm_put64(&pm->view, &to->magic, FTH_PM_CP_MAGIC);
	return fth_pm_persist_range(&pm->view, to, sizeof(to->magic));
}

/* The header was checked. */
static int cp_new(struct fth_pm *pm, uint64_t offset, const struct fth_pm_cp_header *h,
		  struct fth_pm_checkpoint **out)
{
	struct fth_pm_checkpoint *cp = calloc(1, sizeof(*cp));

	if (!cp)
		return -ENOMEM;
	cp->pm = pm;
	cp->offset = offset;
	cp->header = *h;
	cp->groups = calloc(h->groups, sizeof(*cp->groups));
	if (!cp->groups) {
		free(cp);
		return -ENOMEM;
	}
	*out = cp;
	return 0;
}

int fth_pm_checkpoint_create(struct fth_pm *pm, uint64_t offset,
			     const struct fth_pm_checkpoint_shape *shape,
			     struct fth_pm_checkpoint **out)
{
	struct fth_pm_cp_header h = {.magic = FTH_PM_CP_MAGIC,
				     .version = FTH_PM_CP_VERSION,
				     .groups = shape->groups,
				     .capacity = whole_blocks(shape->bytes),
				     .buffers = shape->buffers};
	struct timespec ts;
	int rc = check_place(pm, offset, fth_pm_checkpoint_bytes(shape));

	*out = NULL;
	if (rc < 0)
		return rc;
	clock_gettime(CLOCK_REALTIME, &ts);
	h.salt = fth_mix64((uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec);
	h.check = fth_pm_cp_header_check(&h);
	rc = write_area(pm, offset, &h);
	return rc < 0 ? rc : cp_new(pm, offset, &h, out);
}

static int check_header(const struct fth_pm *pm, uint64_t offset, const struct fth_pm_cp_header *h)
{
	struct fth_pm_checkpoint_shape shape = {
		.groups = h->groups, .buffers = (uint32_t)h->buffers, .bytes = h->capacity};
	uint64_t bytes;

	if (h->magic != FTH_PM_CP_MAGIC)
		return pm_area_missing(&pm->view, offset, sizeof(*h),
				       "checkpoint: no checkpoint area");
	if (h->check != fth_pm_cp_header_check(h))
		return fth_fail(EBADMSG, "checkpoint: the header of the area is damaged");
	if (h->version != FTH_PM_CP_VERSION)
		return fth_fail(EBADMSG,
				"checkpoint: the area has version %" PRIu32 ", expected %u",
				h->version, FTH_PM_CP_VERSION);
	bytes = fth_pm_checkpoint_bytes(&shape);
	if (bytes == 0 || h->capacity % BLOCK || h->buffers > UINT32_MAX ||
	    bytes > pm->view.size - offset)
		return fth_fail(EBADMSG,
				"checkpoint: %" PRIu32 " groups of %" PRIu64
				" bytes exceed the memory",
				h->groups, h->capacity);
	return 0;
}

int fth_pm_checkpoint_open(struct fth_pm *pm, uint64_t offset, struct fth_pm_checkpoint **out)
{
	struct fth_pm_cp_header h;
	int rc = check_range(pm, offset, sizeof(h));

	*out = NULL;
	if (rc < 0)
		return rc;
	memcpy(&h, pm->view.base + offset, sizeof(h));
	rc = check_header(pm, offset, &h);
	return rc < 0 ? rc : cp_new(pm, offset, &h, out);
}

int fth_pm_checkpoint_open_or_create(struct fth_pm *pm, uint64_t offset,
				     const struct fth_pm_checkpoint_shape *shape,
				     struct fth_pm_checkpoint **out)
{
	const struct fth_pm_cp_header *h;
	int rc = fth_pm_checkpoint_open(pm, offset, out);

	if (rc == -ENOENT)
		return fth_pm_checkpoint_create(pm, offset, shape, out);
	if (rc < 0)
		return rc;
	h = &(*out)->header;
	if (h->groups == shape->groups && h->buffers == shape->buffers &&
	    h->capacity == whole_blocks(shape->bytes))
		return 0;
	rc = fth_fail(EINVAL,
		      "checkpoint: the area at offset %" PRIu64 " has %" PRIu32
		      " groups of %" PRIu64 " buffers and %" PRIu64 " bytes, requested are %" PRIu32
		      " of %" PRIu32 " and %" PRIu64,
		      offset, h->groups, h->buffers, h->capacity, shape->groups, shape->buffers,
		      shape->bytes);
	fth_pm_checkpoint_close(*out);
	*out = NULL;
	return rc;
}

void fth_pm_checkpoint_close(struct fth_pm_checkpoint *cp)
{
	if (!cp)
		return;
	for (uint32_t g = 0; g < cp->header.groups; g++) {
		free(cp->groups[g].buffers);
		free(cp->groups[g].sums[0]);
		free(cp->groups[g].sums[1]);
	}
	free(cp->groups);
	free(cp);
}

struct fth_pm *fth_pm_checkpoint_memory(const struct fth_pm_checkpoint *cp)
{
	return cp->pm;
}

/* ---- buffers ---- */

static int check_group(const struct fth_pm_checkpoint *cp, uint32_t group)
{
	if (group < cp->header.groups)
		return 0;
	return fth_fail(EINVAL, "checkpoint: group %" PRIu32 " does not exist, there are %" PRIu32,
			group, cp->header.groups);
}

static int check_buffer(const struct fth_pm_checkpoint *cp, uint32_t group, uint64_t bytes)
{
	const struct cp_group *g;
	int rc = check_group(cp, group);

	if (rc < 0)
		return rc;
	g = &cp->groups[group];
	if (bytes == 0)
		return fth_fail(EINVAL, "checkpoint: buffer size is 0");
	if (bytes > cp->header.capacity - g->used || g->count == cp->header.buffers)
		return fth_fail(ENOSPC,
				"checkpoint: group %" PRIu32 " has %" PRIu64 " of %" PRIu64
				" bytes and %" PRIu64 " of %" PRIu64
				" buffers left, too few for a buffer of %" PRIu64 " bytes",
				group, cp->header.capacity - g->used, cp->header.capacity,
				cp->header.buffers - g->count, cp->header.buffers, bytes);
	return 0;
}

int fth_pm_checkpoint_register(struct fth_pm_checkpoint *cp, uint32_t group, void *buffer,
			       uint64_t bytes)
{
	struct fth_pm_cp_buffer *grown;
	struct cp_group *g;
	int rc = check_buffer(cp, group, bytes);

	if (rc < 0)
		return rc;
	g = &cp->groups[group];
	grown = realloc(g->buffers, (g->count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	g->buffers = grown;
	g->buffers[g->count++] =
		(struct fth_pm_cp_buffer){.address = buffer, .bytes = bytes, .at = g->used};
	g->used += whole_blocks(bytes);
	/* The sums are of the data as it was laid out before. */
	g->known[0] = g->known[1] = false;
	return 0;
}

static uint64_t group_digest(const struct cp_group *g)
{
	uint64_t h = fth_pm_cp_chain(FTH_PM_CP_MAGIC, g->count);

	for (uint32_t i = 0; i < g->count; i++)
		h = fth_pm_cp_chain(h, g->buffers[i].bytes);
	return h;
}

/* ---- records ---- */

static bool record_valid(const struct fth_pm_checkpoint *cp, uint32_t group, uint32_t copy,
			 const struct fth_pm_cp_record *r)
{
	return r->version > 0 && r->bytes % BLOCK == 0 && r->bytes <= cp->header.capacity &&
	       r->check == fth_pm_cp_record_check(r, cp->header.salt, group, copy);
}

static uint8_t *record_at(const struct fth_pm_checkpoint *cp, uint32_t group, uint32_t copy,
			  uint32_t which)
{
	return area_of(cp) + fth_pm_cp_record_at(&cp->header, group, copy, which);
}

/*
 * The newest record of the copy that verifies; its version is 0 without one. The highest version in
 * those that do not.
 */
static uint64_t record_of(const struct fth_pm_checkpoint *cp, uint32_t group, uint32_t copy,
			  struct fth_pm_cp_record *best)
{
	struct fth_pm_cp_record r;
	uint64_t lost = 0;

	*best = (struct fth_pm_cp_record){0};
	for (uint32_t which = 0; which < FTH_PM_CP_RECORDS; which++) {
		memcpy(&r, record_at(cp, group, copy, which), sizeof(r));
		if (!record_valid(cp, group, copy, &r))
			lost = r.version > lost ? r.version : lost;
		else if (r.version > best->version)
			*best = r;
	}
	return lost;
}

/* Invariant 1. The copy, or -ENODATA. */
static int newest(const struct fth_pm_checkpoint *cp, uint32_t group, struct fth_pm_cp_record *best)
{
	struct fth_pm_cp_record r;
	int found = -ENODATA;

	*best = (struct fth_pm_cp_record){0};
	for (uint32_t copy = 0; copy < 2; copy++) {
		record_of(cp, group, copy, &r);
		if (r.version > best->version) {
			*best = r;
			found = (int)copy;
		}
	}
	return found;
}

/* By invariant 3: what a restore of `copy`, the newest one, returns. */
static int result_of(const struct fth_pm_checkpoint *cp, uint32_t group, int copy, uint64_t version)
{
	struct fth_pm_cp_record r;
	uint64_t lost = record_of(cp, group, !copy, &r);

	return r.version == 0 && lost > version ? FTH_PM_CHECKPOINT_OLDER : 0;
}

static uint8_t *copy_at(const struct fth_pm_checkpoint *cp, uint32_t group, uint32_t copy)
{
	return area_of(cp) + fth_pm_cp_data_at(&cp->header, group, copy);
}

uint64_t fth_pm_checkpoint_version(const struct fth_pm_checkpoint *cp, uint32_t group)
{
	struct fth_pm_cp_record r;

	return group < cp->header.groups && newest(cp, group, &r) >= 0 ? r.version : 0;
}

uint32_t fth_pm_checkpoint_groups(const struct fth_pm_checkpoint *cp)
{
	return cp->header.groups;
}

uint64_t pm_checkpoint_area_bytes(const struct fth_pm_checkpoint *cp)
{
	return fth_pm_cp_data_at(&cp->header, cp->header.groups, 0);
}

uint64_t fth_pm_checkpoint_data(const struct fth_pm_checkpoint *cp, uint32_t group,
				const void **data)
{
	struct fth_pm_cp_record r;
	int copy = group < cp->header.groups ? newest(cp, group, &r) : -ENODATA;

	*data = copy < 0 ? NULL : copy_at(cp, group, (uint32_t)copy);
	return copy < 0 ? 0 : r.bytes;
}

uint64_t fth_pm_checkpoint_written(const struct fth_pm_checkpoint *cp)
{
	return cp->written;
}

/* ---- plans ---- */

static int need_sums(const struct fth_pm_checkpoint *cp, struct cp_group *g)
{
	for (unsigned c = 0; c < 2; c++) {
		if (!g->sums[c])
			g->sums[c] = calloc(cp->header.capacity / BLOCK, sizeof(uint64_t));
		if (!g->sums[c])
			return -ENOMEM;
	}
	return 0;
}

static void fill_plan(const struct fth_pm_checkpoint *cp, uint32_t group, uint32_t copy,
		      struct fth_pm_cp_plan *plan)
{
	const struct cp_group *g = &cp->groups[group];

	*plan = (struct fth_pm_cp_plan){.group = group,
					.copy = copy,
					.offset = cp->offset +
						  fth_pm_cp_data_at(&cp->header, group, copy),
					.bytes = g->used,
					.buffers = g->buffers,
					.count = g->count,
					.sums = g->sums[copy],
					.known = g->known[copy]};
}

int fth_pm_checkpoint_plan_save(struct fth_pm_checkpoint *cp, uint32_t group, uint32_t flags,
				struct fth_pm_cp_plan *plan)
{
	struct fth_pm_cp_record last;
	int rc = check_group(cp, group);
	uint32_t copy;

	if (rc == 0 && (flags & ~FTH_PM_CHECKPOINT_INCREMENTAL))
		rc = fth_fail(EINVAL, "checkpoint: unknown flags %#x", flags);
	if (rc == 0 && cp->pm->readonly)
		rc = fth_fail(EROFS, "checkpoint: the memory is mapped read-only");
	if (rc == 0 && cp->groups[group].count == 0)
		rc = fth_fail(EINVAL, "checkpoint: group %" PRIu32 " has no buffers", group);
	if (rc == 0)
		rc = pm_process_check(cp->pm);
	if (rc == 0)
		rc = need_sums(cp, &cp->groups[group]);
	if (rc < 0)
		return rc;
	copy = newest(cp, group, &last) == 0 ? 1 : 0;
	fill_plan(cp, group, copy, plan);
	plan->version = last.version + 1;
	plan->known = plan->known && (flags & FTH_PM_CHECKPOINT_INCREMENTAL);
	/* Until the commit the copy is a mixture. */
	cp->groups[group].known[copy] = false;
	return 0;
}

int fth_pm_checkpoint_commit(struct fth_pm_checkpoint *cp, const struct fth_pm_cp_plan *plan,
			     uint64_t written)
{
	struct cp_group *g = &cp->groups[plan->group];
	struct fth_pm_cp_record r = {
		.version = plan->version, .digest = group_digest(g), .bytes = plan->bytes};
	int rc = fth_pm_fence(&cp->pm->view);

	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < plan->bytes / BLOCK; i++)
		r.sum += plan->sums[i];
	r.check = fth_pm_cp_record_check(&r, cp->header.salt, plan->group, plan->copy);
	for (uint32_t which = 0; which < FTH_PM_CP_RECORDS; which++) {
		uint8_t *to = record_at(cp, plan->group, plan->copy, which);

		fth_pm_put(&cp->pm->view, to, &r, sizeof(r));
		fth_pm_flush_range(&cp->pm->view, to, sizeof(r));
	}
	rc = fth_pm_fence(&cp->pm->view);
	g->known[plan->copy] = rc == 0;
	cp->written += written;
	return rc;
}

int fth_pm_checkpoint_plan_restore(struct fth_pm_checkpoint *cp, uint32_t group,
				   struct fth_pm_cp_plan *plan)
{
	struct fth_pm_cp_record r;
	int rc = check_group(cp, group), copy;

	if (rc == 0)
		rc = need_sums(cp, &cp->groups[group]);
	if (rc < 0)
		return rc;
	copy = newest(cp, group, &r);
	if (copy < 0)
		return fth_fail(ENODATA, "checkpoint: group %" PRIu32 " has no saved version",
				group);
	if (r.digest != group_digest(&cp->groups[group]) || r.bytes != cp->groups[group].used)
		return fth_fail(
			EINVAL,
			"checkpoint: version %" PRIu64 " of group %" PRIu32
			" was saved from different buffers: their number, sizes or order differ",
			r.version, group);
	fill_plan(cp, group, (uint32_t)copy, plan);
	plan->version = r.version;
	plan->sum = r.sum;
	plan->result = result_of(cp, group, copy, r.version);
	cp->groups[group].known[copy] = false;
	return 0;
}

void fth_pm_checkpoint_verified(struct fth_pm_checkpoint *cp, const struct fth_pm_cp_plan *plan)
{
	cp->groups[plan->group].known[plan->copy] = true;
}

/* ---- buffers of the CPU ---- */

/* A block of a buffer; its last one is filled with zeroes. */
static void put_block(const struct fth_pm_view *view, uint8_t *to, const uint8_t *from,
		      uint64_t bytes)
{
	static const uint8_t zeroes[BLOCK];

	fth_pm_put(view, to, from, bytes);
	if (bytes < BLOCK)
		fth_pm_put(view, to + bytes, zeroes, BLOCK - bytes);
	fth_pm_flush_range(view, to, BLOCK);
}

/* The bytes written. */
static uint64_t save_buffer(const struct fth_pm_view *view, const struct fth_pm_cp_plan *plan,
			    const struct fth_pm_cp_buffer *b)
{
	uint8_t *to = view->base + plan->offset + b->at;
	uint64_t *sums = plan->sums + b->at / BLOCK, written = 0;

	for (uint64_t at = 0; at < b->bytes; at += BLOCK) {
		const uint8_t *from = (const uint8_t *)b->address + at;
		uint64_t bytes = b->bytes - at < BLOCK ? b->bytes - at : BLOCK;
		uint64_t sum = fth_pm_cp_sum((b->at + at) / 8, from, bytes);

		if (plan->known && sums[at / BLOCK] == sum)
			continue;
		put_block(view, to + at, from, bytes);
		sums[at / BLOCK] = sum;
		written += BLOCK;
	}
	return written;
}

int fth_pm_checkpoint_save(struct fth_pm_checkpoint *cp, uint32_t group, uint32_t flags)
{
	struct fth_pm_cp_plan plan;
	uint64_t written = 0;
	int rc = fth_pm_checkpoint_plan_save(cp, group, flags, &plan);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < plan.count; i++)
		written += save_buffer(&cp->pm->view, &plan, &plan.buffers[i]);
	return fth_pm_checkpoint_commit(cp, &plan, written);
}

/* The sum of a copy's blocks; `sums` may be NULL. */
static uint64_t sum_copy(const uint8_t *data, uint64_t bytes, uint64_t *sums)
{
	uint64_t sum = 0;

	for (uint64_t at = 0; at < bytes; at += BLOCK) {
		uint64_t one = fth_pm_cp_sum(at / 8, data + at, BLOCK);

		if (sums)
			sums[at / BLOCK] = one;
		sum += one;
	}
	return sum;
}

static int fail_damaged(uint64_t version, uint32_t group)
{
	return fth_fail(EBADMSG,
			"checkpoint: the data of version %" PRIu64 " of group %" PRIu32
			" is damaged: the checksum does not match",
			version, group);
}

int fth_pm_checkpoint_verify(struct fth_pm_checkpoint *cp, uint32_t group)
{
	struct fth_pm_cp_record r;
	int rc = check_group(cp, group), copy;

	if (rc < 0)
		return rc;
	copy = newest(cp, group, &r);
	if (copy < 0)
		return fth_fail(ENODATA, "checkpoint: group %" PRIu32 " has no saved version",
				group);
	if (sum_copy(copy_at(cp, group, (uint32_t)copy), r.bytes, NULL) != r.sum)
		return fail_damaged(r.version, group);
	return result_of(cp, group, copy, r.version);
}

int fth_pm_checkpoint_restore(struct fth_pm_checkpoint *cp, uint32_t group)
{
	struct fth_pm_cp_plan plan;
	const uint8_t *data;
	int rc = fth_pm_checkpoint_plan_restore(cp, group, &plan);

	if (rc < 0)
		return rc;
	data = cp->pm->view.base + plan.offset;
	if (sum_copy(data, plan.bytes, plan.sums) != plan.sum)
		return fail_damaged(plan.version, group);
	for (uint32_t i = 0; i < plan.count; i++)
		memcpy(plan.buffers[i].address, data + plan.buffers[i].at, plan.buffers[i].bytes);
	fth_pm_checkpoint_verified(cp, &plan);
	return plan.result;
}
