/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The header in front of persistent memory.
 *
 * Creation has three steps, each persisted before the next: the word `magic` says that a creation
 * is under way; all other fields are stored; `magic` says that the memory is there. So a crash
 * leaves a blank header, an unfinished creation, or a whole header, and a header with the right
 * magic that does not verify was damaged. Nothing but creation writes to the header.
 */
#include "pm/map/header.h"
#include "pm/pm_internal.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

_Static_assert(sizeof(struct pm_header) <= FTH_PM_HEADER, "the header is one page");
_Static_assert(sizeof(struct pm_header) % 8 == 0, "the header is whole words");

static uint64_t header_checksum(const struct pm_header *h)
{
	return fth_checksum(&h->version,
			    offsetof(struct pm_header, checksum) -
				    offsetof(struct pm_header, version),
			    PM_HEADER_SEED);
}

bool pm_header_matches(const struct pm_header *h)
{
	return h->magic == PM_HEADER_MAGIC && h->version == PM_HEADER_VERSION &&
	       h->checksum == header_checksum(h);
}

/* Words, as a window may be memory of a device. */
static void header_load(const struct fth_pm *pm, struct pm_header *h)
{
	const volatile uint64_t *from = (const volatile uint64_t *)(const void *)pm->memory;
	uint64_t words[sizeof(*h) / 8];

	for (unsigned i = 0; i < sizeof(*h) / 8; i++)
		words[i] = from[i];
	memcpy(h, words, sizeof(*h));
}

bool pm_all_zero(const uint8_t *from, uint64_t length)
{
	const volatile uint64_t *word = (const volatile uint64_t *)(const void *)from;

	for (uint64_t i = 0; i < length / 8; i++)
		if (word[i] != 0)
			return false;
	return true;
}

bool pm_header_creating(const struct fth_pm *pm)
{
	struct pm_header h;

	header_load(pm, &h);
	return h.magic == PM_HEADER_CREATING;
}

bool pm_header_blank(const struct fth_pm *pm)
{
	struct pm_header h;

	header_load(pm, &h);
	if (h.magic == PM_HEADER_CREATING)
		return pm_all_zero(pm->memory + FTH_PM_HEADER, pm->length - FTH_PM_HEADER);
	return h.magic == 0 && pm_all_zero(pm->memory, pm->length);
}

/* The header's place in the view is before base, where flush and marks reach as well. */
static int put_word(struct fth_pm *pm, uint64_t *to, uint64_t value)
{
	fth_pm_put64(&pm->view, to, value);
	return fth_pm_persist_range(&pm->view, to, sizeof(*to));
}

int pm_header_make(struct fth_pm *pm, uint64_t tag)
{
	struct pm_header *at = (struct pm_header *)(void *)pm->memory;
	struct pm_header h = {.version = PM_HEADER_VERSION,
			      .header_bytes = FTH_PM_HEADER,
			      .length = pm->length,
			      .tag = tag,
			      .created = (uint64_t)time(NULL)};
	int rc;

	h.kind = pm->kind->id;
	h.checksum = header_checksum(&h);
	rc = put_word(pm, &at->magic, PM_HEADER_CREATING);
	if (rc == 0) {
		fth_pm_put(&pm->view, &at->version, &h.version,
			   sizeof(h) - offsetof(struct pm_header, version));
		rc = fth_pm_persist_range(&pm->view, pm->memory, sizeof(h));
	}
	return rc < 0 ? rc : put_word(pm, &at->magic, PM_HEADER_MAGIC);
}

static int check_magic(const struct fth_pm *pm, const struct pm_header *h)
{
	if (h->magic == PM_HEADER_MAGIC)
		return 0;
	if (h->magic == PM_HEADER_CREATING)
		return fth_fail(ENOENT, "creation was interrupted; create it again, or remove it");
	if (pm_header_blank(pm))
		return fth_fail(ENOENT, "blank: no persistent memory has been created here");
	return fth_fail(EBADMSG, "not a Fathom persistent memory: the magic number is %016" PRIx64,
			h->magic);
}

int pm_header_check(struct fth_pm *pm, uint64_t tag)
{
	struct pm_header h;
	int rc;

	header_load(pm, &h);
	rc = check_magic(pm, &h);
	if (rc < 0)
		return rc;
	if (h.checksum != header_checksum(&h))
		return fth_fail(EBADMSG, "the header is damaged: the checksum does not match");
	if (h.version != PM_HEADER_VERSION)
		return fth_fail(EBADMSG, "the header has version %" PRIu32 ", expected %u",
				h.version, PM_HEADER_VERSION);
	if (h.header_bytes != FTH_PM_HEADER || h.length % FTH_PM_PAGE || h.length <= FTH_PM_HEADER)
		return fth_fail(EBADMSG, "the header is damaged: %" PRIu64 " is not a valid size",
				h.length);
	if (h.length > pm->length)
		return fth_fail(EBADMSG,
				"truncated: it has %" PRIu64 " bytes, the header says %" PRIu64,
				pm->length, h.length);
	if (tag != 0 && h.tag != tag)
		return fth_fail(EMEDIUMTYPE, "the tag is %016" PRIx64 ", expected %016" PRIx64,
				h.tag, tag);
	pm->tag = h.tag;
	pm->view.size = h.length - FTH_PM_HEADER;
	return 0;
}
