/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power losses at random points of random operations, again and again on the same volume. After
 * each one the volume is opened and compared with what was promised:
 *
 *	- every operation that had returned is there; the one that was cut short happened or did
 *	  not;
 *	- each sector of each object holds what it held at the last flush, or something that was
 *	  written to it since; objects that appear with their data have all of it;
 *	- reading twice gives the same, and fth_vol_check() finds nothing that is not harmless.
 *
 * FATHOM_CRASH_POINTS makes it longer.
 */
#include "vol/vol_fixture.h"

#include "fathom/dev/crash.h"
#include "fathom/dev/wrap.h"
#include "fathom/hd/wait.h"

#define POINTS	16000
#define NAMES	5
#define SECTOR	512u
#define SECTORS 48u

struct sector {
	uint32_t durable, newest; /* versions; 0: zeroes */
	uint32_t cut;		  /* so many bytes at its end were zeroed when the object grew */
	bool fresh;		  /* written since the volume was opened */
	bool rewritten;		  /* written since it was cut: perhaps it is whole again */
};

struct object {
	bool there;
	uint64_t id;			   /* 0: of an object that is not known to be there yet */
	uint32_t stamp, sectors, replicas; /* stamp: which object its data is of */
	uint32_t less;			   /* bytes of the last sector that are not in it */
	struct sector sector[SECTORS];
};

struct model {
	struct object object[NAMES];
};

/* `after` is `before` with the operation under way done. */
struct world {
	struct rack rack;
	struct fth_rng rng;
	struct model before, after;
	uint32_t version, stamp;
	uint64_t max_id; /* of all objects seen */
	unsigned losses;
};

static const char *const names[NAMES] = {"a", "bb", "c/c", "d", "\xc3\xa9"};

static uint32_t below(struct world *w, uint32_t n)
{
	return (uint32_t)fth_rng_below(&w->rng, n);
}

/* ---- data ---- */

static void stamp_sector(char *buf, uint32_t stamp, uint32_t sector, uint32_t version)
{
	uint64_t *words = (uint64_t *)buf;

	for (unsigned i = 0; i < SECTOR / 8; i++)
		words[i] = version ? (uint64_t)stamp << 40 | (uint64_t)sector << 32 | version : 0;
}

static uint64_t bytes_of(const struct object *object)
{
	return (uint64_t)object->sectors * SECTOR - object->less;
}

/* The version that a sector holds; fails when it is none of this object and place. */
static uint32_t version_of(const char *buf, const struct object *object, uint32_t i)
{
	const struct sector *sector = &object->sector[i];
	uint32_t version = (uint32_t) * (const uint64_t *)buf;
	/* Behind the end of the object there is anything. */
	uint32_t bytes = i == object->sectors - 1 ? SECTOR - object->less : SECTOR;
	char want[SECTOR];

	stamp_sector(want, object->stamp, i, version);
	if (sector->cut && (!sector->rewritten || memcmp(buf, want, bytes) != 0))
		memset(want + SECTOR - sector->cut, 0, sector->cut);
	assert_memory_equal(buf, want, bytes);
	return version;
}

static int write_sectors(struct fth_dev *dev, uint32_t stamp, uint32_t first, uint32_t count,
			 uint32_t version)
{
	_Alignas(4096) char buf[SECTORS * SECTOR];

	for (uint32_t i = 0; i < count; i++)
		stamp_sector(buf + i * SECTOR, stamp, first + i, version);
	return fth_dev_write(dev, buf, (uint64_t)count * SECTOR, (uint64_t)first * SECTOR,
			     FTH_DEV_TIMEOUT);
}

/* ---- operations: change w->after, then do it ---- */

static struct fth_vol_object_options random_shape(struct world *w)
{
	struct fth_vol_object_options o =
		shape(512u << below(w, 4), 1 + below(w, w->rack.count), 0);

	o.width = 1 + below(w, w->rack.count);
	o.zero = true;
	return o;
}

static void note_object(struct world *w, unsigned n, const struct fth_vol_object_options *o,
			uint32_t version)
{
	struct object *object = &w->after.object[n];

	memset(object, 0, sizeof(*object));
	object->there = true;
	object->stamp = ++w->stamp;
	object->sectors = 1 + below(w, SECTORS);
	object->replicas = o->replicas;
	for (unsigned i = 0; i < object->sectors; i++)
		object->sector[i] = (struct sector){version, version, 0, true, false};
}

static int do_create(struct world *w)
{
	struct fth_vol_object_options o = random_shape(w);
	unsigned n = below(w, NAMES);

	o.replace = below(w, 2);
	note_object(w, n, &o, 0);
	return fth_vol_create(w->rack.vol, names[n], w->after.object[n].sectors * SECTOR, &o);
}

static int do_import(struct world *w)
{
	struct fth_vol_object_options o = random_shape(w);
	unsigned n = below(w, NAMES);
	struct object *object = &w->after.object[n];
	struct fth_dev *dev;
	int rc;

	o.replace = below(w, 2);
	o.zero = false;
	o.whole = true;
	note_object(w, n, &o, ++w->version);
	rc = fth_vol_object_new(w->rack.vol, names[n], object->sectors * SECTOR, &o, &dev);
	if (rc < 0)
		return rc;
	rc = write_sectors(dev, object->stamp, 0, object->sectors, w->version);
	if (rc == 0)
		rc = fth_vol_object_commit(dev);
	fth_dev_close(dev);
	return rc;
}

static int do_remove(struct world *w)
{
	unsigned n = below(w, NAMES);

	w->after.object[n].there = false;
	return fth_vol_remove(w->rack.vol, names[n]);
}

static int do_rename(struct world *w)
{
	unsigned from = below(w, NAMES), to = below(w, NAMES);

	if (from != to) {
		w->after.object[to] = w->after.object[from];
		w->after.object[from].there = false;
	}
	return fth_vol_rename(w->rack.vol, names[from], names[to], below(w, 2));
}

static int do_resize(struct world *w)
{
	unsigned n = below(w, NAMES);
	struct object *object = &w->after.object[n];
	uint32_t sectors = below(w, SECTORS + 1);
	uint32_t less = sectors && below(w, 2) ? below(w, SECTOR / 8) * 8 : 0;
	uint64_t size = (uint64_t)sectors * SECTOR - less;

	if (object->there && size > bytes_of(object) && object->less) {
		struct sector *last = &object->sector[object->sectors - 1];

		if (last->cut < object->less || last->rewritten)
			last->cut = object->less;
		last->rewritten = false;
	}
	for (uint32_t i = object->sectors; i < sectors; i++)
		object->sector[i] = (struct sector){.fresh = true};
	object->sectors = sectors;
	object->less = less;
	return fth_vol_resize(w->rack.vol, names[n], size, true);
}

/* After a flush: what was written since the volume was opened is durable on all replicas. */
static void note_flush(struct object *object)
{
	for (unsigned i = 0; i < object->sectors; i++)
		if (object->sector[i].fresh) {
			object->sector[i].durable = object->sector[i].newest;
			if (object->sector[i].rewritten)
				object->sector[i].cut = 0;
		}
}

static int write_some(struct world *w, struct fth_dev *dev, struct object *object)
{
	uint32_t first = below(w, object->sectors), count = 1 + below(w, object->sectors - first);

	w->version++;
	for (uint32_t i = first; i < first + count; i++) {
		object->sector[i].newest = w->version;
		object->sector[i].fresh = true;
		object->sector[i].rewritten = true;
	}
	return write_sectors(dev, object->stamp, first, count, w->version);
}

static int do_write(struct world *w)
{
	unsigned n = below(w, NAMES);
	struct object *object = &w->after.object[n];
	struct fth_dev *dev;
	int rc = fth_vol_object_open(w->rack.vol, names[n], 0, &dev);

	if (rc < 0)
		return rc;
	for (unsigned i = below(w, 3); rc == 0 && object->sectors && i < 3; i++) {
		rc = write_some(w, dev, object);
		if (rc == 0 && below(w, 2)) {
			rc = fth_dev_flush(dev, FTH_DEV_TIMEOUT);
			if (rc == 0)
				note_flush(object);
		}
	}
	fth_dev_close(dev);
	return rc;
}

/* The volume is closed, repaired and opened again. */
static int do_repair(struct world *w)
{
	int rc;

	fth_vol_close(w->rack.vol);
	w->rack.vol = NULL;
	rc = fth_vol_check(w->rack.devs, w->rack.count, FTH_VOL_REPAIR, NULL, NULL, NULL);
	return rc < 0 ? rc : fth_vol_open(w->rack.devs, w->rack.count, 0, &w->rack.vol);
}

/* ---- power ---- */

static bool power_went(const struct world *w)
{
	for (unsigned i = 0; i < w->rack.count; i++)
		if (!fth_dev_crash_powered(w->rack.devs[i]))
			return true;
	return false;
}

static void lose_all_power(struct world *w)
{
	rack_close(&w->rack);
	for (unsigned i = 0; i < w->rack.count; i++) {
		if (fth_dev_crash_powered(w->rack.devs[i]))
			assert_ok(fth_dev_crash_power_loss(w->rack.devs[i], fth_rng_next(&w->rng)));
		assert_ok(fth_dev_crash_at(w->rack.devs[i], 0, 0));
		assert_ok(fth_dev_crash_restart(w->rack.devs[i]));
	}
	w->losses++;
}

/* ---- afterwards ---- */

static bool matches(struct world *w, const struct model *model)
{
	for (unsigned n = 0; n < NAMES; n++) {
		struct fth_vol_object_info info;
		int rc = fth_vol_stat(w->rack.vol, names[n], &info);

		if ((rc == 0) != model->object[n].there)
			return false;
		if (rc == 0 &&
		    (info.size != bytes_of(&model->object[n]) ||
		     (model->object[n].id ? info.id != model->object[n].id : info.id <= w->max_id)))
			return false;
	}
	return true;
}

static void learn_ids(struct world *w)
{
	for (unsigned n = 0; n < NAMES; n++) {
		struct fth_vol_object_info info;

		if (!w->after.object[n].there)
			continue;
		assert_ok(fth_vol_stat(w->rack.vol, names[n], &info));
		w->after.object[n].id = info.id;
		if (info.id > w->max_id)
			w->max_id = info.id;
	}
	w->before = w->after;
}

/* Read sector by sector, all in flight at once and in any order: replicas are chosen by load. */
static void read_scattered(struct world *w, struct fth_dev *dev, char *buf, uint32_t sectors)
{
	struct fth_dev_req reqs[SECTORS], *list[SECTORS], *done[SECTORS];
	struct fth_dev_chan *chan;

	assert_ok(fth_dev_chan_open(dev, SECTORS, &chan));
	for (uint32_t i = 0; i < sectors; i++) {
		uint32_t other = below(w, i + 1);

		fth_dev_req_init(&reqs[i], FTH_DEV_READ, buf + i * SECTOR, SECTOR,
				 (uint64_t)i * SECTOR);
		list[i] = list[other];
		list[other] = &reqs[i];
	}
	assert_int_equal(fth_dev_submit(chan, list, sectors), sectors);
	assert_int_equal(fth_dev_reap(chan, done, sectors, sectors, FTH_NEVER), sectors);
	for (uint32_t i = 0; i < sectors; i++)
		assert_ok(reqs[i].result);
	fth_dev_chan_close(chan);
}

static void verify_object(struct world *w, unsigned n)
{
	struct object *object = &w->after.object[n];
	_Alignas(4096) char buf[SECTORS * SECTOR], again[SECTORS * SECTOR];
	struct fth_vol_object_info info;
	struct fth_dev *dev;
	uint64_t bytes = (uint64_t)object->sectors * SECTOR;

	assert_ok(fth_vol_stat(w->rack.vol, names[n], &info));
	assert_ok(fth_vol_object_open(w->rack.vol, names[n], FTH_VOL_READONLY, &dev));
	if (bytes) {
		assert_ok(fth_dev_read(dev, buf, bytes, 0, FTH_DEV_TIMEOUT));
		read_scattered(w, dev, again, object->sectors);
		assert_memory_equal(buf, again, bytes);
	}
	fth_dev_close(dev);
	for (uint32_t i = 0; i < object->sectors; i++) {
		uint32_t version = version_of(buf + i * SECTOR, object, i);
		struct sector *sector = &object->sector[i];

		if (version < sector->durable || version > sector->newest)
			fail_msg("\"%s\" sector %u: version %u, durable is %u, newest %u", names[n],
				 i, version, sector->durable, sector->newest);
		/* On one replica it is on the medium now; of several, others may hold another. */
		if (object->replicas == 1)
			sector->durable = sector->newest = version;
		sector->fresh = false;
	}
}

/* Without one of three devices the others know all that was acknowledged. */
static bool matches_without(struct world *w, unsigned gone, const struct model *model)
{
	struct fth_dev *left[2] = {w->rack.devs[(gone + 1) % 3], w->rack.devs[(gone + 2) % 3]};
	struct fth_vol *all = w->rack.vol;
	bool same;

	assert_ok(fth_vol_open(left, 2, FTH_VOL_DEGRADED, &w->rack.vol));
	same = matches(w, model);
	fth_vol_close(w->rack.vol);
	w->rack.vol = all;
	return same;
}

static void recover(struct world *w)
{
	struct findings f = check(&w->rack, 0);
	unsigned gone = below(w, 3);

	/* The devices do not all go at once: one may have missed a write of the others. */
	if (f.serious != f.serious_kinds[FTH_VOL_F_REPLICA])
		fail_msg("loss %u: %s", w->losses, f.text);
	if (w->rack.count == 3 && !matches_without(w, gone, &w->after) &&
	    !matches_without(w, gone, &w->before))
		fail_msg("loss %u: without device %u, neither before nor after", w->losses, gone);
	rack_open(&w->rack);
	if (!matches(w, &w->after)) {
		if (!matches(w, &w->before))
			fail_msg("loss %u: neither before nor after the operation", w->losses);
		w->after = w->before;
	}
	/* From here on it is relied on. */
	if (w->rack.count == 3 && !matches_without(w, gone, &w->after))
		fail_msg("loss %u: device %u alone knows", w->losses, gone);
	for (unsigned n = 0; n < NAMES; n++)
		if (w->after.object[n].there)
			verify_object(w, n);
	learn_ids(w);
}

/* One operation. False: the power went. */
static bool step(struct world *w)
{
	static int (*const operations[])(struct world *) = {
		do_create, do_import, do_remove, do_rename, do_resize,
		do_write,  do_write,  do_write,	 do_write,
	};
	bool repair = below(w, 40) == 0;
	unsigned which = below(w, sizeof(operations) / sizeof(operations[0]));
	int rc = repair ? do_repair(w) : operations[which](w);

	if (power_went(w)) {
		/* It may have returned all the same: from then on it counts. */
		if (rc == 0)
			w->before = w->after;
		return false;
	}
	if (rc < 0 && rc != -ENOENT && rc != -EEXIST && rc != -ENOSPC)
		fail_msg("operation %u: %s", which, fth_error_text(rc));
	if (rc < 0)
		w->after = w->before;
	learn_ids(w);
	return true;
}

static void one_life(struct world *w)
{
	unsigned victim = below(w, w->rack.count), steps = 1 + below(w, 8);

	assert_ok(fth_dev_crash_at(w->rack.devs[victim], 1 + below(w, 40), fth_rng_next(&w->rng)));
	while (steps-- > 0 && step(w))
		;
	lose_all_power(w);
	recover(w);
}

static void run(unsigned devices, unsigned points, uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->rng.state = seed;
	rack_format(&w->rack, "crash(mem:256K)", devices);
	while (w->losses < points)
		one_life(w);
	rack_close(&w->rack);
	assert_int_equal(check(&w->rack, FTH_VOL_REPAIR).serious, 0);
	assert_sound(&w->rack, FTH_VOL_CHECK_DATA);
	rack_release(&w->rack);
	free(w);
}

static unsigned points(void)
{
	const char *text = getenv("FATHOM_CRASH_POINTS");

	return text ? (unsigned)strtoul(text, NULL, 0) : POINTS;
}

static void one_device_keeps_its_promises(void **state)
{
	(void)state;
	run(1, points() / 4, 11);
}

static void two_devices_keep_their_promises(void **state)
{
	(void)state;
	run(2, points() / 2, 12);
}

static void three_devices_keep_their_promises(void **state)
{
	(void)state;
	run(3, points() / 2, 13);
}

/* Formatting that is cut short leaves a volume or none, and never one that looks whole but is not.
 */
static void formatting_is_cut_short_cleanly(void **state)
{
	(void)state;
	for (unsigned nth = 1; nth < 40; nth++) {
		struct rack rack;
		int rc, opened;

		rack_init(&rack, "crash(mem:256K)", 2);
		assert_ok(fth_dev_crash_at(rack.devs[nth % 2], nth, nth));
		rc = fth_vol_format(rack.devs, 2, NULL);
		for (unsigned i = 0; i < 2; i++) {
			if (fth_dev_crash_powered(rack.devs[i]))
				assert_ok(fth_dev_crash_power_loss(rack.devs[i], nth));
			assert_ok(fth_dev_crash_at(rack.devs[i], 0, 0));
			assert_ok(fth_dev_crash_restart(rack.devs[i]));
		}
		opened = fth_vol_open(rack.devs, 2, 0, &rack.vol);
		assert_true(rc < 0 || opened == 0);
		if (opened == 0) {
			rack_close(&rack);
			/* At most the second copies of labels are to be made. */
			assert_int_equal(check(&rack, FTH_VOL_REPAIR).serious, 0);
			assert_sound(&rack, 0);
		}
		rack_release(&rack);
	}
}

/*
 * A process ended after it wrote a catalog to one device and before the flush. The next one finds
 * the catalog, and builds on it; then the power goes.
 */
static void what_was_found_is_made_durable_before_it_is_relied_on(void **state)
{
	struct fth_vol_object_options o = shape(4096, 1, 1);

	(void)state;
	for (uint64_t seed = 0; seed < 32; seed++) {
		unsigned victim = seed % 2; /* the object will be on the other one */
		struct fth_dev *dev;
		struct rack rack;

		rack_format(&rack, "fault(crash(mem:256K))", 2);
		if (victim == 1) /* it begins on the device that its id says */
			assert_ok(fth_vol_create(rack.vol, "first", 512, &o));
		fail_on(rack.devs[victim], 1u << FTH_DEV_FLUSH, 1, 0);
		fail_on(rack.devs[!victim], 1u << FTH_DEV_WRITE, 1, 0);
		assert_int_equal(fth_vol_create(rack.vol, "x", 4096, &o), -EIO);
		rack_reopen(&rack);
		dev = open_object(rack.vol, "x");
		write_all(dev, seed);
		assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
		fth_dev_close(dev);
		rack_close(&rack);
		for (unsigned i = 0; i < 2; i++) {
			struct fth_dev *inner = fth_dev_inner(rack.devs[i]);

			assert_ok(fth_dev_crash_power_loss(inner, seed));
			assert_ok(fth_dev_crash_restart(inner));
		}
		rack_open(&rack);
		dev = open_object(rack.vol, "x");
		assert_true(holds(dev, seed));
		fth_dev_close(dev);
		rack_release(&rack);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_device_keeps_its_promises),
		cmocka_unit_test(two_devices_keep_their_promises),
		cmocka_unit_test(three_devices_keep_their_promises),
		cmocka_unit_test(formatting_is_cut_short_cleanly),
		cmocka_unit_test(what_was_found_is_made_durable_before_it_is_relied_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
