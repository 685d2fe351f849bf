/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MD5 against RFC 1321's examples; the servers of keys against known ones, and against
 * libmemcached.
 */
#include "kv/client/hash_ring.h"

#include "fathom/base/rng.h"

#include "fth_test.h"

#include <stdio.h>
#include <string.h>

#ifdef FTH_HAVE_LIBMEMCACHED
#include <libmemcached/memcached.h>
#endif

#define KEYS 20000u

static void md5(void **state)
{
	static const struct {
		const char *text, *digest;
	} known[] = {
		{"", "d41d8cd98f00b204e9800998ecf8427e"},
		{"a", "0cc175b9c0f1b6a831c399e269772661"},
		{"abc", "900150983cd24fb0d6963f7d28e17f72"},
		{"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
		{"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
		 "d174ab98d277d9f5a5611c2c9f419d9f"},
		{"1234567890123456789012345678901234567890123456789012345678901234567890123456789"
		 "0",
		 "57edf4a22be3c955ac49da2e2107b67a"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		uint8_t digest[16];
		char text[33];

		kvc_md5(known[i].text, strlen(known[i].text), digest);
		for (unsigned j = 0; j < 16; j++)
			snprintf(text + 2 * j, 3, "%02x", digest[j]);
		assert_string_equal(text, known[i].digest);
	}
}

/* ---- lists of servers ---- */

#define LIST_MAX 40u

static const struct kvc_ring_server lists[][LIST_MAX] = {
	{{"127.0.0.1", 11211, 1}},
	{{"10.0.1.1", 11211, 1}, {"10.0.1.2", 11211, 1}},
	{{"127.0.0.1", 11211, 1}, {"127.0.0.1", 11212, 1}, {"127.0.0.1", 11213, 1}},
	{{"cache-a.example", 11211, 3}, {"cache-b.example", 11300, 1}, {"::1", 4000, 2}},
	{{"10.0.1.1", 11211, 600},
	 {"10.0.1.2", 11211, 300},
	 {"10.0.1.3", 11211, 200},
	 {"10.0.1.4", 11211, 350},
	 {"10.0.1.5", 11211, 1000},
	 {"10.0.1.6", 11211, 800},
	 {"10.0.1.7", 11211, 950},
	 {"10.0.1.8", 11211, 100}},
	{{"/run/kv.sock", 0, 1}, {"a", 1, 7}, {"b", 65535, 65535}, {"c", 11211, 1}},
};
#define LISTS (sizeof(lists) / sizeof(lists[0]))

static unsigned length_of(const struct kvc_ring_server *list)
{
	unsigned n = 0;

	while (n < LIST_MAX && list[n].host)
		n++;
	return n;
}

static size_t make_key(struct fth_rng *rng, uint64_t i, char *key)
{
	size_t n = (size_t)sprintf(key, "key-%llu-", (unsigned long long)i);

	/* Bytes above 127 as well: they are what makes signed and unsigned hashes differ. */
	for (uint64_t more = fth_rng_below(rng, 40); more; more--)
		key[n++] = (char)(33 + fth_rng_below(rng, 222));
	for (size_t j = 0; j < n; j++)
		if ((uint8_t)key[j] == 127)
			key[j] = 'x';
	return n;
}

/* Each server has its share of the keys, and a server more takes keys from others only. */
static void shares(void **state)
{
	struct kvc_ring few, more;
	unsigned counts[8] = {0}, moved = 0;
	struct fth_rng rng = {5};
	struct kvc_ring_server equal[8];
	char key[100];

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		equal[i] = lists[4][i];
		equal[i].weight = 1;
	}
	assert_ok(kvc_ring_init(&few, FTH_KVC_KETAMA_WEIGHTED, equal, 7));
	assert_ok(kvc_ring_init(&more, FTH_KVC_KETAMA_WEIGHTED, equal, 8));
	for (unsigned i = 0; i < KEYS; i++) {
		size_t n = make_key(&rng, i, key);
		unsigned before = kvc_ring_server(&few, kvc_ring_find(&few, key, n));
		unsigned after = kvc_ring_server(&more, kvc_ring_find(&more, key, n));

		counts[before]++;
		assert_true(before == after || after == 7);
		moved += before != after;
	}
	for (unsigned i = 0; i < 7; i++)
		assert_true(counts[i] > KEYS / 7 / 2 && counts[i] < KEYS / 7 * 2);
	assert_true(moved > KEYS / 16 && moved < KEYS / 4);
	kvc_ring_release(&few);
	kvc_ring_release(&more);
}

/* Walking on from any position meets all servers. */
static void next_ones(void **state)
{
	(void)state;
	for (int d = FTH_KVC_KETAMA; d <= FTH_KVC_MODULA; d++) {
		struct kvc_ring ring;
		unsigned seen = 0, at, from;

		assert_ok(kvc_ring_init(&ring, (enum fth_kvc_distribution)d, lists[4], 8));
		from = at = kvc_ring_find(&ring, "key", 3);
		do {
			seen |= 1u << kvc_ring_server(&ring, at);
			at = kvc_ring_next(&ring, at);
		} while (at != from);
		assert_int_equal(seen, 255);
		kvc_ring_release(&ring);
	}
}

#ifdef FTH_HAVE_LIBMEMCACHED

static memcached_st *peer_open(const struct kvc_ring_server *list, enum fth_kvc_distribution d)
{
	memcached_st *peer = memcached_create(NULL);

	if (d == FTH_KVC_KETAMA)
		memcached_behavior_set(peer, MEMCACHED_BEHAVIOR_KETAMA, 1);
	else if (d == FTH_KVC_KETAMA_WEIGHTED)
		memcached_behavior_set(peer, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1);
	for (unsigned i = 0; i < length_of(list); i++) {
		memcached_return_t rc =
			list[i].port ? memcached_server_add_with_weight(peer, list[i].host,
									(in_port_t)list[i].port,
									list[i].weight)
				     : memcached_server_add_unix_socket_with_weight(
					       peer, list[i].host, list[i].weight);

		assert_int_equal(rc, MEMCACHED_SUCCESS);
	}
	return peer;
}

static void like_libmemcached(void **state)
{
	(void)state;
	for (unsigned l = 0; l < LISTS; l++) {
		for (int d = FTH_KVC_KETAMA; d <= FTH_KVC_MODULA; d++) {
			memcached_st *peer = peer_open(lists[l], (enum fth_kvc_distribution)d);
			struct fth_rng rng = {l + 1};
			struct kvc_ring ring;
			char key[100];

			assert_ok(kvc_ring_init(&ring, (enum fth_kvc_distribution)d, lists[l],
						length_of(lists[l])));
			for (unsigned i = 0; i < KEYS; i++) {
				size_t n = make_key(&rng, i, key);
				unsigned ours =
					kvc_ring_server(&ring, kvc_ring_find(&ring, key, n));
				unsigned theirs = memcached_generate_hash(peer, key, n);

				if (ours != theirs)
					fail_msg("list %u, distribution %d, key %u: server %u, "
						 "libmemcached has %u",
						 l, d, i, ours, theirs);
			}
			kvc_ring_release(&ring);
			memcached_free(peer);
		}
	}
}

#else

static void like_libmemcached(void **state)
{
	(void)state;
	skip(); /* its headers are not here */
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(md5),
		cmocka_unit_test(shares),
		cmocka_unit_test(next_ones),
		cmocka_unit_test(like_libmemcached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
