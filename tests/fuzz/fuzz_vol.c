/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The formats of volumes. The input is a list of changes to a small volume of two devices that was
 * made beforehand: bytes of its labels, catalogs and data. What must hold, whatever was changed:
 *
 *	- opening, listing, reading all objects, checking with and without repair never crash, and
 *	  an error comes with a text;
 *	- a volume that opens has nothing in it that contradicts itself: check agrees, and after a
 *	  repair it opens still;
 *	- unless checksums were made to hold again, each change of a byte of a label or of the
 *	  catalog is found by check, and the volume says of itself what it did before, or is
 *	  refused.
 *
 * First byte: bit 0, make checksums of labels hold again; bit 1, those of catalogs; bit 2, on
 * both devices alike; bit 3, repair. Then changes: where (1 byte: device, and which structure),
 * offset (2 bytes), how (1 byte: set, xor, add, or a 64-bit edge value), value (1 byte).
 */
#include "fuzz_input.h"

#include "fathom/base/error.h"
#include "fathom/vol.h"

#include "vol/catalog/catalog.h"
#include "vol/catalog/label.h"

#include <errno.h>
#include <string.h>

#define DEVICES 2
#define SIZE	(192u << 10)
#define SLOT	(16u << 10)
#define CHANGES 24
#define AREAS	4 /* label 0, label 1, slot 0, slot 1 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *images[DEVICES]; /* of the volume that was made */
static char *copies[DEVICES]; /* with the changes of this run */
static char expected[1024];   /* what the volume says of itself, */
static char previous[1024];   /* and said before its last update */

static const uint64_t areas[AREAS] = {0, SIZE - VOL_AREA, VOL_AREA, VOL_AREA + SLOT};

/* ---- the volume ---- */

static int describe(const struct fth_vol_object_info *info, void *user)
{
	char line[128];

	snprintf(line, sizeof(line), "%.40s %llu %u %u %u %llx %d;", info->name,
		 (unsigned long long)info->size, info->unit, info->width, info->replicas,
		 (unsigned long long)info->stale, info->unsynced);
	strncat(user, line, sizeof(expected) - strlen(user) - 1);
	return 0;
}

static void open_devices(struct fth_dev **devs, char *const *from)
{
	char uri[32];

	snprintf(uri, sizeof(uri), "mem:%u", SIZE);
	for (unsigned i = 0; i < DEVICES; i++) {
		require(fth_dev_open(uri, &devs[i]) == 0, "memory is there");
		if (from)
			require(fth_dev_write(devs[i], from[i], SIZE, 0, FTH_DEV_TIMEOUT) == 0,
				"memory works");
	}
}

static void make_objects(struct fth_vol *vol)
{
	struct fth_vol_object_options o = FTH_VOL_OBJECT_OPTIONS_INIT;

	o.unit = 512;
	require(fth_vol_create(vol, "alpha", 9000, &o) == 0, "alpha");
	require(fth_vol_create(vol, "gone", 5000, &o) == 0, "gone");
	o.replicas = 2;
	require(fth_vol_create(vol, "beta", 6000, &o) == 0, "beta");
	o.width = 1;
	require(fth_vol_create(vol, "gamma/delta", 4096, &o) == 0, "gamma");
	require(fth_vol_remove(vol, "gone") == 0, "remove");
	o.replicas = 1;
	o.width = 2;
	require(fth_vol_create(vol, "pieces", 30000, &o) == 0, "pieces");
	require(fth_vol_list(vol, describe, previous) == 0, "it can be listed");
	require(fth_vol_create(vol, "empty", 0, &o) == 0, "empty");
}

static void make_volume(void)
{
	struct fth_vol_format_options options = FTH_VOL_FORMAT_OPTIONS_INIT;
	struct fth_dev *devs[DEVICES];
	struct fth_vol *vol;

	memset(options.uuid, 0x5a, sizeof(options.uuid));
	open_devices(devs, NULL);
	require(fth_vol_format(devs, DEVICES, &options) == 0, "a volume is made");
	require(fth_vol_open(devs, DEVICES, 0, &vol) == 0, "it opens");
	make_objects(vol);
	require(fth_vol_list(vol, describe, expected) == 0, "it can be listed");
	fth_vol_close(vol);
	for (unsigned i = 0; i < DEVICES; i++) {
		images[i] = malloc(SIZE);
		copies[i] = malloc(SIZE);
		require(images[i] && copies[i], "memory");
		require(fth_dev_read(devs[i], images[i], SIZE, 0, FTH_DEV_TIMEOUT) == 0,
			"it can be read");
		fth_dev_close(devs[i]);
	}
}

/* ---- changes ---- */

/* The bytes of an area that mean something. */
static uint64_t area_bytes(unsigned device, unsigned area)
{
	struct vol_catalog_head head;

	if (area < 2)
		return sizeof(struct vol_label);
	memcpy(&head, images[device] + areas[area], sizeof(head));
	return head.bytes;
}

static void change_byte(char *at, uint8_t how, uint8_t value)
{
	static const uint64_t edges[] = {0, 1, UINT64_MAX, (uint64_t)1 << 63, 4096, SIZE, 0xffff};
	uint64_t edge = edges[value % (sizeof(edges) / sizeof(edges[0]))];

	switch (how % 4) {
	case 0:
		*at = (char)value;
		break;
	case 1:
		*at = (char)(*at ^ value);
		break;
	case 2:
		*at = (char)(*at + value);
		break;
	default:
		memcpy(at, &edge, sizeof(edge));
	}
}

static void change(uint8_t mode)
{
	uint8_t where = byte();
	unsigned device = where & 1, area = where >> 1 & 3;
	uint64_t at = byte();
	uint8_t how, value;

	at |= (uint64_t)byte() << 8;
	how = byte();
	value = byte();
	at %= area_bytes(device, area);
	if (how % 4 == 3)
		at = at / 8 * 8;
	for (unsigned i = 0; i < DEVICES; i++)
		if (mode & 4 || i == device)
			change_byte(copies[i] + areas[area] + at, how, value);
}

static void seal_label(char *at, unsigned copy)
{
	struct vol_label label;

	memcpy(&label, at, sizeof(label));
	label.copy = copy;
	label.checksum = vol_label_checksum(&label);
	memcpy(at, &label, sizeof(label));
}

static void seal_slot(char *at, unsigned device, unsigned slot)
{
	struct vol_catalog_head head;
	uint64_t checksum;

	memcpy(&head, at, sizeof(head));
	if (head.bytes < sizeof(head) || head.bytes > SLOT)
		return;
	checksum = vol_catalog_checksum(at, head.bytes, device, slot);
	memcpy(at + offsetof(struct vol_catalog_head, checksum), &checksum, sizeof(checksum));
}

static void seal(uint8_t mode)
{
	for (unsigned i = 0; i < DEVICES; i++)
		for (unsigned area = 0; area < AREAS; area++) {
			if (area < 2 && mode & 1)
				seal_label(copies[i] + areas[area], area);
			if (area >= 2 && mode & 2)
				seal_slot(copies[i] + areas[area], i, area - 2);
		}
}

/* Was a byte that means something changed? */
static bool metadata_differs(void)
{
	for (unsigned i = 0; i < DEVICES; i++)
		for (unsigned area = 0; area < AREAS; area++)
			if (memcmp(images[i] + areas[area], copies[i] + areas[area],
				   area_bytes(i, area)) != 0)
				return true;
	return false;
}

/* ---- what must hold ---- */

struct tally {
	unsigned all;
};

static int note(const struct fth_vol_finding *finding, void *user)
{
	struct tally *tally = user;

	require(finding->text && finding->text[0], "a finding has a text");
	require(finding->kind < FTH_VOL_F_KINDS, "a finding has a kind");
	tally->all++;
	return 0;
}

static int read_object(const struct fth_vol_object_info *info, void *user)
{
	struct fth_vol *vol = user;
	struct fth_dev *dev;
	char buf[4096];
	int rc = fth_vol_object_open(vol, info->name, FTH_VOL_READONLY, &dev);

	require(rc == 0, "an object that is listed can be opened");
	for (uint64_t at = 0; at < fth_dev_info(dev)->size; at += sizeof(buf)) {
		uint64_t left = fth_dev_info(dev)->size - at;

		require(fth_dev_read(dev, buf, left < sizeof(buf) ? left : sizeof(buf), at,
				     FTH_DEV_TIMEOUT) == 0,
			"an object can be read");
	}
	fth_dev_close(dev);
	return 0;
}

/* True when it opened. */
static bool use_volume(struct fth_dev **devs, bool sealed)
{
	char listing[sizeof(expected)] = "";
	struct fth_vol *vol;
	int rc = fth_vol_open(devs, DEVICES, FTH_VOL_READONLY, &vol);

	if (rc < 0) {
		require(fth_error_text(rc)[0], "an error has a text");
		require(vol == NULL, "what is refused is not there");
		return false;
	}
	require(fth_vol_list(vol, read_object, vol) == 0, "objects can be read");
	require(fth_vol_list(vol, describe, listing) == 0, "objects can be listed");
	fth_vol_close(vol);
	/* One slot that was spoilt on both devices takes the update that it held with it. */
	require(sealed || strcmp(listing, expected) == 0 || strcmp(listing, previous) == 0,
		"a volume is what it was");
	return true;
}

/* One device alone: refused, unless its data may be old, and then it says so. */
static void use_one(struct fth_dev *dev)
{
	struct fth_vol *vol;

	require(fth_vol_open(&dev, 1, FTH_VOL_READONLY, &vol) < 0, "one of two is not all");
	if (fth_vol_open(&dev, 1, FTH_VOL_DEGRADED, &vol) == 0) {
		struct fth_vol_info info;

		fth_vol_info(vol, &info);
		require(info.quorum == 2, "one of two does not know");
		fth_vol_close(vol);
	}
	if (fth_vol_open(&dev, 1, FTH_VOL_MINORITY, &vol) == 0) {
		require(fth_vol_warning(vol)[0], "a missing device is worth a warning");
		fth_vol_close(vol);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fth_dev *devs[DEVICES];
	struct tally before = {0}, after = {0};
	bool opened, differs;
	uint8_t mode;
	int found;

	if (!images[0])
		make_volume();
	input = data;
	input_left = size;
	mode = byte();
	for (unsigned i = 0; i < DEVICES; i++)
		memcpy(copies[i], images[i], SIZE);
	for (unsigned i = 0; i < CHANGES && input_left > 0; i++)
		change(mode);
	differs = metadata_differs();
	seal(mode);
	open_devices(devs, copies);
	opened = use_volume(devs, mode & 3);
	if (!(mode & 1))
		for (unsigned i = 0; i < DEVICES; i++)
			use_one(devs[i]);
	found = fth_vol_check(devs, DEVICES, FTH_VOL_CHECK_DATA, note, NULL, &before);
	require(found >= 0, "a check comes to an end");
	require(mode & 3 || !differs || before.all > 0, "a change is found");
	require(opened || found > 0, "what is refused is found");
	if (mode & 8) {
		found = fth_vol_check(devs, DEVICES, FTH_VOL_REPAIR, note, NULL, &after);
		require(found >= 0, "a repair comes to an end");
		require(!opened || use_volume(devs, mode & 3), "a repair does no harm");
	}
	for (unsigned i = 0; i < DEVICES; i++)
		fth_dev_close(devs[i]);
	return 0;
}
