/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Examining a volume, from any bytes to a list of what is wrong with them. Goes on as long as
 * there is something to go on with: labels, then catalogs, then objects. Sibling:
 * replica_sync.c, the data.
 */
#include "vol/vol_check.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fth_vol_finding_name(enum fth_vol_finding_kind kind)
{
	static const char *const names[FTH_VOL_F_KINDS] = {
		"label",  "device", "slot",    "catalog", "name",
		"object", "extent", "overlap", "replica", "data",
	};

	return kind < FTH_VOL_F_KINDS ? names[kind] : "unknown";
}

void vol_find(struct vol_checker *c, enum fth_vol_finding_kind kind, bool harmless, bool repaired,
	      const char *format, ...)
{
	char text[FTH_ERROR_TEXT_MAX];
	struct fth_vol_finding finding = {kind, harmless, repaired, text};
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	c->findings += !harmless && !repaired;
	if (c->report && !c->cancelled && c->report(&finding, c->user) != 0)
		c->cancelled = true;
}

static bool may_repair(const struct vol_checker *c)
{
	return c->flags & FTH_VOL_REPAIR;
}

/* ---- labels ---- */

/* Write a copy anew from the other one. */
static bool mend_copy(const struct vol_checker *c, struct fth_dev *dev,
		      const struct vol_label *good, unsigned copy)
{
	return may_repair(c) && vol_label_write(dev, good, copy) == 0 &&
	       fth_dev_flush(dev, FTH_DEV_TIMEOUT) == 0;
}

/* The label of one device; true when it can be used. */
static bool check_label(struct vol_checker *c, struct fth_dev *dev)
{
	const char *uri = fth_dev_uri(dev);
	struct vol_labels labels;
	int rc = vol_labels_read(dev, &labels);

	if (rc == 0)
		rc = vol_labels_usable(&labels, dev);
	if (rc < 0) {
		vol_find(c, FTH_VOL_F_DEVICE, false, false, "%s", fth_error_text(rc));
		return false;
	}
	for (unsigned i = 0; i < 2; i++)
		if (labels.state[i] != VOL_FOUND)
			vol_find(c, FTH_VOL_F_LABEL, false,
				 mend_copy(c, dev, vol_labels_best(&labels), i),
				 "%s: copy %u of the label: %s", uri, i, labels.why[i]);
	if (labels.state[0] == VOL_FOUND && labels.state[1] == VOL_FOUND &&
	    !vol_labels_agree(&labels))
		vol_find(c, FTH_VOL_F_LABEL, false, mend_copy(c, dev, &labels.copy[0], 1),
			 "%s: the copies of the label differ", uri);
	return true;
}

/* Put together what has a label. */
static int check_devices(struct vol_checker *c, struct fth_dev *const *devs, unsigned n)
{
	struct fth_dev *good[FTH_VOL_DEVICES_MAX];
	unsigned count = 0;
	int rc;

	if (n == 0 || n > FTH_VOL_DEVICES_MAX)
		return fth_fail(EINVAL, "a volume needs 1 to %u devices, %u given",
				FTH_VOL_DEVICES_MAX, n);
	for (unsigned i = 0; i < n; i++)
		if (check_label(c, devs[i]))
			good[count++] = devs[i];
	if (count == 0)
		return 1;
	rc = vol_assemble(c->vol, good, count, FTH_VOL_MINORITY);
	if (rc < 0) {
		vol_find(c, FTH_VOL_F_DEVICE, false, false, "%s", fth_error_text(rc));
		return 1;
	}
	for (unsigned i = 0; i < c->vol->count; i++)
		if (!c->vol->members[i].dev)
			vol_find(c, FTH_VOL_F_DEVICE, false, false,
				 "device %u of %u of the volume is missing", i, c->vol->count);
	if (!vol_is_sure(c->vol))
		vol_find(c, FTH_VOL_F_DEVICE, false, false,
			 "the devices that are missing may hold newer data than those that are "
			 "here");
	/* Nothing but labels is mended while devices are missing. */
	c->vol->readonly = !may_repair(c) || c->vol->missing;
	return 0;
}

/* ---- catalogs ---- */

struct slots {
	struct vol_slot slot[FTH_VOL_DEVICES_MAX][VOL_SLOTS];
	struct vol_slot *best;
};

static int read_slots(struct vol_checker *c, struct slots *s)
{
	for (unsigned i = 0; i < c->vol->count; i++) {
		struct vol_member *member = &c->vol->members[i];

		for (unsigned k = 0; member->dev && k < VOL_SLOTS; k++) {
			struct vol_slot *slot = &s->slot[i][k];
			int rc = vol_slot_read(c->vol, i, k, slot);

			if (rc < 0)
				return rc;
			/* What is not understood is not mended either. */
			if (slot->state == VOL_OTHER_VERSION)
				c->vol->readonly = true;
			if (slot->state != VOL_FOUND)
				continue;
			if (slot->sequence >= member->held) {
				member->held = slot->sequence;
				member->held_digest = slot->digest;
				member->good_slot = k;
			}
			if (!s->best || slot->sequence > s->best->sequence)
				s->best = slot;
		}
	}
	return 0;
}

static void release_slots(struct slots *s)
{
	for (unsigned i = 0; i < FTH_VOL_DEVICES_MAX; i++)
		for (unsigned k = 0; k < VOL_SLOTS; k++)
			free(s->slot[i][k].buf);
	free(s);
}

static void report_fault(void *user, enum fth_vol_finding_kind kind, const char *text)
{
	vol_find(user, kind, false, false, "catalog: %s", text);
}

/* What is odd about a slot, given the newest catalog; NULL: nothing. */
static const char *oddity(const struct vol_catalog *cat, const struct vol_slot *slot)
{
	if (slot->state == VOL_NOTHING)
		return cat->sequence > 1 ? "was never written" : NULL;
	if (slot->state != VOL_FOUND)
		return slot->why;
	if (slot->sequence == cat->sequence && slot->digest != cat->digest)
		return "differs from the newest one, of the same number";
	if (slot->sequence + 1 == cat->sequence && slot->digest != cat->previous)
		return "is not the one that the newest one replaced";
	return NULL;
}

static bool has_oddity(struct vol_checker *c, const struct slots *s)
{
	for (unsigned i = 0; i < c->vol->count; i++)
		for (unsigned k = 0; c->vol->members[i].dev && k < VOL_SLOTS; k++)
			if (oddity(&c->vol->cat, &s->slot[i][k]) ||
			    s->slot[i][k].sequence + 1 < c->vol->cat.sequence)
				return true;
	return false;
}

/* Histories that lead to the newest catalog can be overwritten by it; others are a question. */
static bool one_history(struct vol_checker *c)
{
	bool one = true;

	for (unsigned i = 0; i < c->vol->count; i++) {
		if (!c->vol->members[i].dev || vol_leads_to(c->vol, i, &c->vol->cat))
			continue;
		one = false;
		vol_find(c, FTH_VOL_F_DEVICE, false, false,
			 "%s has the uuid of this volume, but another history (update %llu, the "
			 "volume is at %llu)",
			 fth_dev_uri(c->vol->members[i].dev),
			 (unsigned long long)c->vol->members[i].held,
			 (unsigned long long)c->vol->cat.sequence);
	}
	return one;
}

/* The catalog as it is, into both slots of every device. */
static bool rewrite_slots(struct vol_checker *c)
{
	for (unsigned k = 0; k < VOL_SLOTS; k++) {
		struct vol_catalog next;

		if (vol_catalog_change(&c->vol->cat, NULL, NULL, &next) < 0 ||
		    vol_commit(c->vol, &next) < 0)
			return false;
	}
	for (unsigned i = 0; i < c->vol->count; i++)
		if (c->vol->members[i].held != c->vol->cat.sequence)
			return false;
	return true;
}

static void report_slots(struct vol_checker *c, const struct slots *s,
			 const struct vol_catalog *newest, bool repaired)
{
	for (unsigned i = 0; i < c->vol->count; i++) {
		uint64_t held = 0;

		if (!c->vol->members[i].dev)
			continue;
		for (unsigned k = 0; k < VOL_SLOTS; k++)
			if (s->slot[i][k].state == VOL_FOUND && s->slot[i][k].sequence > held)
				held = s->slot[i][k].sequence;
		for (unsigned k = 0; k < VOL_SLOTS; k++) {
			const char *why = oddity(newest, &s->slot[i][k]);

			/* An update that was cut short leaves one slot torn, the other as it was.
			 */
			if (why)
				vol_find(c, FTH_VOL_F_SLOT,
					 held > 0 && s->slot[i][k].state < VOL_OTHER_VERSION,
					 repaired, "%s: catalog slot %u: %s",
					 fth_dev_uri(c->vol->members[i].dev), k, why);
		}
		if (held > 0 && held < newest->sequence)
			vol_find(c, FTH_VOL_F_SLOT, true, repaired,
				 "%s: its catalog is of update %llu, the newest is %llu",
				 fth_dev_uri(c->vol->members[i].dev), (unsigned long long)held,
				 (unsigned long long)newest->sequence);
	}
}

static int check_catalogs(struct vol_checker *c, struct slots *s)
{
	struct vol_judge judge = {.report = report_fault, .user = c};
	struct vol_catalog newest;
	bool repaired = false;
	int rc = read_slots(c, s);

	if (rc < 0)
		return rc;
	if (!s->best) {
		for (unsigned i = 0; i < c->vol->count; i++)
			for (unsigned k = 0; c->vol->members[i].dev && k < VOL_SLOTS; k++)
				vol_find(c, FTH_VOL_F_SLOT, false, false, "%s: catalog slot %u: %s",
					 fth_dev_uri(c->vol->members[i].dev), k, s->slot[i][k].why);
		return 1;
	}
	rc = vol_catalog_parse(s->best->buf, s->best->bytes, &c->vol->space, &judge, &c->vol->cat);
	if (rc < 0)
		return rc == -EBADMSG ? 1 : rc;
	newest = c->vol->cat;
	if (one_history(c) && !c->vol->readonly && has_oddity(c, s))
		repaired = rewrite_slots(c);
	report_slots(c, s, &newest, repaired);
	return 0;
}

/* ---- all of it ---- */

static int check_objects(struct vol_checker *c)
{
	int rc = 0;

	for (unsigned i = 0; i < c->vol->cat.count; i++)
		c->total += c->vol->cat.entries[i]->size;
	/* Mending an object puts another entry in the same place. */
	for (unsigned i = 0; rc == 0 && i < c->vol->cat.count && !c->cancelled; i++)
		rc = vol_check_replicas(c, c->vol->cat.entries[i]);
	return rc;
}

static int check_all(struct vol_checker *c, struct fth_dev *const *devs, unsigned n)
{
	struct slots *slots = calloc(1, sizeof(*slots));
	int rc = slots ? check_devices(c, devs, n) : -ENOMEM;

	if (rc == 0)
		rc = check_catalogs(c, slots);
	if (slots)
		release_slots(slots);
	return rc == 0 ? check_objects(c) : rc;
}

int fth_vol_check(struct fth_dev *const *devs, unsigned n, unsigned flags, fth_vol_report report,
		  fth_vol_progress progress, void *user)
{
	struct fth_vol *vol = vol_new();
	struct vol_checker c = {
		.vol = vol, .flags = flags, .report = report, .progress = progress, .user = user};
	int rc;

	if (!vol)
		return -ENOMEM;
	rc = check_all(&c, devs, n);
	fth_vol_close(vol);
	if (c.cancelled)
		return fth_fail(ECANCELED, "canceled");
	return rc < 0 ? rc : c.findings;
}

int fth_vol_check_uris(const char *const *uris, unsigned n, unsigned flags, fth_vol_report report,
		       fth_vol_progress progress, void *user)
{
	struct vol_opened opened;
	enum vol_access access = flags & FTH_VOL_REPAIR ? VOL_ACCESS_WRITE : VOL_ACCESS_CHECK;
	int rc = vol_open_all(uris, n, access, &opened);

	if (rc < 0)
		return rc;
	rc = fth_vol_check(opened.devs, opened.count, flags, report, progress, user);
	vol_close_all(&opened);
	return rc;
}
