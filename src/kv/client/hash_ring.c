/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv/client/hash_ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define POINTS		100u /* of a server without weights */
#define POINTS_WEIGHTED 160u /* of a server of average weight */
#define PER_DIGEST	4u   /* points from one digest, with weights */

static uint32_t part_of(const uint8_t digest[16], unsigned i)
{
	const uint8_t *at = digest + 4 * i;

	return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

/* Jenkins' one-at-a-time, of signed characters as libmemcached has it. */
static uint32_t one_at_a_time(const void *key, size_t length)
{
	const int8_t *at = key;
	uint32_t h = 0;

	for (size_t i = 0; i < length; i++) {
		h += (uint32_t)at[i];
		h += h << 10;
		h ^= h >> 6;
	}
	h += h << 3;
	h ^= h >> 11;
	return h + (h << 15);
}

/* Points of a server; the arithmetic in float is libmemcached's, and decides about rounding. */
static unsigned points_of(const struct kvc_ring *ring, unsigned weight, uint64_t total)
{
	float share;

	if (!ring->weighted)
		return POINTS;
	share = (float)weight / (float)total;
	return (unsigned)(float)(share * POINTS_WEIGHTED / 4 * (float)ring->servers +
				 0.0000000001) *
	       4;
}

static void add_points(struct kvc_ring *ring, const struct kvc_ring_server *server, unsigned number,
		       unsigned points)
{
	unsigned per_digest = ring->weighted ? PER_DIGEST : 1;

	for (unsigned i = 0; i < points / per_digest; i++) {
		char name[512];
		uint8_t digest[16];
		int n = server->port == FTH_KVC_PORT
				? snprintf(name, sizeof(name), "%s-%u", server->host, i)
				: snprintf(name, sizeof(name), "%s:%u-%u", server->host,
					   server->port, i);

		if (per_digest == 1) {
			ring->points[ring->count++] =
				(struct kvc_point){one_at_a_time(name, (size_t)n), number};
			continue;
		}
		kvc_md5(name, (size_t)n, digest);
		for (unsigned part = 0; part < per_digest; part++)
			ring->points[ring->count++] =
				(struct kvc_point){part_of(digest, part), number};
	}
}

static int compare_points(const void *a, const void *b)
{
	const struct kvc_point *x = a, *y = b;

	return (x->value > y->value) - (x->value < y->value);
}

int kvc_ring_init(struct kvc_ring *ring, enum fth_kvc_distribution distribution,
		  const struct kvc_ring_server *servers, unsigned count)
{
	uint64_t total = 0;
	size_t room = 0;

	*ring = (struct kvc_ring){.distribution = distribution, .servers = count};
	if (distribution == FTH_KVC_MODULA)
		return 0;
	ring->weighted = distribution == FTH_KVC_KETAMA_WEIGHTED;
	for (unsigned i = 0; i < count; i++) {
		total += servers[i].weight;
		/* libmemcached weighs the points then, and hashes keys as before. */
		ring->weighted = ring->weighted || servers[i].weight > 1;
	}
	for (unsigned i = 0; i < count; i++)
		room += points_of(ring, servers[i].weight, total);
	ring->points = calloc(room, sizeof(*ring->points));
	if (!ring->points)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++)
		add_points(ring, &servers[i], i, points_of(ring, servers[i].weight, total));
	qsort(ring->points, ring->count, sizeof(*ring->points), compare_points);
	return 0;
}

void kvc_ring_release(struct kvc_ring *ring)
{
	free(ring->points);
	ring->points = NULL;
}

static uint32_t hash_of(const struct kvc_ring *ring, const void *key, size_t length)
{
	uint8_t digest[16];

	if (ring->distribution != FTH_KVC_KETAMA_WEIGHTED)
		return one_at_a_time(key, length);
	kvc_md5(key, length, digest);
	return part_of(digest, 0);
}

unsigned kvc_ring_find(const struct kvc_ring *ring, const void *key, size_t length)
{
	unsigned low = 0, high = ring->count;
	uint32_t value;

	if (ring->servers == 1)
		return 0;
	value = hash_of(ring, key, length);
	if (ring->distribution == FTH_KVC_MODULA)
		return value % ring->servers;
	while (low < high) {
		unsigned middle = low + (high - low) / 2;

		if (ring->points[middle].value < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low == ring->count ? 0 : low;
}

unsigned kvc_ring_server(const struct kvc_ring *ring, unsigned position)
{
	return ring->points ? ring->points[position].server : position;
}

unsigned kvc_ring_next(const struct kvc_ring *ring, unsigned position)
{
	unsigned positions = ring->points ? ring->count : ring->servers;

	return position + 1 == positions ? 0 : position + 1;
}
