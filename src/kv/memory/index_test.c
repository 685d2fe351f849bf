/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index and the store by themselves: how full they become, and that nothing in them gets lost.
 */
#include "kv/test/kv_fixture.h"

#include "kv/kv_internal.h"

static void id_of_number(const struct fth_kv *kv, uint64_t i, struct kv_key_id *id)
{
	kv_key_id(kv, &i, sizeof(i), id);
}

static bool insert(struct fth_kv *kv, uint64_t i)
{
	struct kv_key_id id;
	struct kv_entry *e;

	id_of_number(kv, i, &id);
	while (!(e = kv_find_free(kv, &id)))
		if (!kv_make_room(kv, &id))
			return false;
	/* In memory, so that no position makes it stale. */
	kv_entry_set(e, kv_entry_extent(i + 1, 16), kv_entry_traits(&id, KV_MEMORY, 0, 0));
	kv->items++;
	return true;
}

static unsigned times_found(struct fth_kv *kv, uint64_t i)
{
	struct kv_key_id id;
	unsigned n = 0;

	id_of_number(kv, i, &id);
	for (unsigned b = 0; b < (id.bucket[0] == id.bucket[1] ? 1 : 2); b++)
		for (unsigned w = 0; w < KV_WAYS; w++) {
			const struct kv_entry *e = &kv->buckets[id.bucket[b]].way[w];

			n += kv_kind(e) == KV_MEMORY && kv_place(e) == i + 1 &&
			     (e->traits & KV_TAG_MASK) == id.tag;
		}
	return n;
}

static struct fth_kv *new_index(uint64_t items)
{
	struct fth_kv *kv = calloc(1, sizeof(*kv));

	assert_ok(kv_init(kv));
	kv->lock = -1;
	assert_ok(kv_index_init(kv, items));
	return kv;
}

/*
 * Until it is at its limit and there is no way to make room: all that went in is found once, and it
 * is as many as it was made for at least. On its way there it is never much larger than it has to
 * be.
 */
static void an_index_grows_until_it_is_full(void **state)
{
	static const uint64_t counts[] = {1, 7, 100, 2000, 4096, 20000, 262144, 300000, 400000};

	(void)state;
	for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		struct fth_kv *kv = new_index(counts[c]);
		uint64_t n = 0;

		while (insert(kv, n)) {
			n++;
			if (n > 2048 && kv->bucket_count < kv->bucket_limit)
				assert_true(n * 100 >= (uint64_t)kv->bucket_count * KV_WAYS * 75);
		}
		print_message("%llu items: room for %llu, %.1f %%, %.2f kicks an item\n",
			      (unsigned long long)counts[c], (unsigned long long)n,
			      100.0 * (double)n / (double)((uint64_t)kv->bucket_limit * KV_WAYS),
			      (double)fth_kv_stat(kv, FTH_KV_STAT_KICKS) / (double)n);
		assert_true(n >= counts[c]);
		assert_int_equal(kv->bucket_count, kv->bucket_limit);
		for (uint64_t i = 0; i < n; i++)
			assert_int_equal(times_found(kv, i), 1);
		assert_int_equal(kv->items, n);
		kv_free(kv);
	}
}

/* Any number of buckets: the other bucket of the other bucket is the first one. */
static void the_other_bucket_is_its_own_inverse(void **state)
{
	struct fth_kv *kv = calloc(1, sizeof(*kv));
	struct fth_rng rng = {5};

	(void)state;
	for (unsigned n = 0; n < 100000; n++) {
		struct kv_key_id id;

		kv->bucket_count = (uint32_t)fth_rng_below(&rng, n % 2 ? 20 : UINT32_MAX - 2) + 1;
		kv_key_id_of(kv, fth_rng_next(&rng) & KV_TAG_MASK, &id);
		for (unsigned i = 0; i < 2; i++) {
			assert_true(id.bucket[i] < kv->bucket_count);
			assert_int_equal(kv_other_bucket(kv, id.bucket[i], id.tag), id.bucket[!i]);
		}
	}
	free(kv);
}

static void positions_survive_the_wrap_of_their_entries(void **state)
{
	struct fth_kv *kv = calloc(1, sizeof(*kv));
	uint64_t wrap = (KV_PLACE_MASK + 1) * KV_UNIT;

	(void)state;
	for (uint64_t base = 0; base < 3 * wrap; base += wrap)
		for (int64_t d = -3; d <= 3; d++) {
			uint64_t position = base + wrap + (uint64_t)(d * (int64_t)KV_UNIT);

			kv->log.head = position + KV_UNIT;
			assert_true(kv_position(kv, (position / KV_UNIT) & KV_PLACE_MASK) ==
				    position);
			kv->log.head = position + (UINT64_C(1) << 46);
			assert_true(kv_position(kv, (position / KV_UNIT) & KV_PLACE_MASK) ==
				    position);
		}
	free(kv);
}

/*
 * Neither readmission nor promotion may take an item for the latest whose chunk was given up: its
 * key may have been set since.
 */
static void an_entry_of_a_chunk_that_was_given_up_is_not_found(void **state)
{
	struct fth_kv *kv = new_index(100);
	struct kv_key_id id;
	struct kv_entry *e;

	(void)state;
	id_of_number(kv, 1, &id);
	kv->log.head = 10 << 20;
	e = kv_take_entry(kv, &id);
	kv_entry_set(e, kv_entry_extent((1 << 20) / KV_UNIT, 100),
		     kv_entry_traits(&id, KV_FLASH, 3, 0));
	kv->items++;
	assert_ptr_equal(kv_find_place(kv, &id, (1 << 20) / KV_UNIT), e);
	kv->log.tail = 2 << 20;
	assert_null(kv_find_place(kv, &id, (1 << 20) / KV_UNIT));
	kv_sweep(kv, kv->bucket_count);
	assert_int_equal(kv->items, 0);
	assert_int_equal(fth_kv_stat(kv, FTH_KV_STAT_LOST), 1);
	kv_free(kv);
}

/* ---- the store ---- */

/*
 * Slots of all sizes are apart from each other, and a class without a page takes one from others.
 */
static void slots_of_any_size(void **state)
{
	struct fth_kv_options o = small_options();
	struct kv_slot *slots[64];
	unsigned taken = 0;
	struct box box;

	(void)state;
	box_open(&box, &o, NULL);
	/* One class has all pages. */
	for (unsigned i = 0; i < 20000; i++)
		assert_ok(box_text(&box, FTH_KV_SET, i, "small"));
	for (uint64_t bytes = 40; bytes <= 4300 && taken < 64; bytes += 400) {
		struct kv_slot *slot;

		while (!(slot = kv_slot_try(box.kv, bytes)))
			if (kv_slots_evict(box.kv, bytes) < 0)
				break;
		if (!slot)
			break; /* each page has a slot that is held */
		memset(&slot->record, (int)taken + 1, bytes);
		slots[taken++] = slot;
	}
	assert_true(taken >= 6);
	for (unsigned i = 0; i < taken; i++) {
		const uint8_t *data = (const uint8_t *)&slots[i]->record;

		for (unsigned at = 0; at < 40 + 400 * i; at++)
			assert_int_equal(data[at], i + 1);
		kv_slot_unref(box.kv, slots[i]);
	}
	/* And back: what is held by nobody can be had again. */
	for (unsigned i = 0; i < 5000; i++)
		assert_ok(box_text(&box, FTH_KV_SET, i, "small"));
	assert_ok(box_close(&box));
}

/* A value that somebody holds stays as it is, whatever happens to its item. */
static void a_value_that_is_held_stays(void **state)
{
	struct fth_kv_options o = small_options();
	struct fth_kv_op op = {.verb = FTH_KV_GET};
	uint8_t value[KV_VALUE_MAX];
	struct box box;

	(void)state;
	box_open(&box, &o, NULL);
	assert_ok(box_set(&box, 1, 1));
	assert_ok(box_do(&box, &op, 1));
	assert_ok(box_set(&box, 1, 2));
	assert_ok(box_delete(&box, 1));
	push_out(&box);
	fill_value(1, 1, op.length, value);
	assert_memory_equal(op.data, value, op.length);
	fth_kv_release(box.worker, &op);
	assert_ok(box_close(&box));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_index_grows_until_it_is_full),
		cmocka_unit_test(the_other_bucket_is_its_own_inverse),
		cmocka_unit_test(positions_survive_the_wrap_of_their_entries),
		cmocka_unit_test(an_entry_of_a_chunk_that_was_given_up_is_not_found),
		cmocka_unit_test(slots_of_any_size),
		cmocka_unit_test(a_value_that_is_held_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
