/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a key to a server, as libmemcached 1.1 does it, key for key: ketama (R. Jones, "libketama: a
 * consistent hashing algorithm", 2007), ketama with weights, and a hash modulo the number of
 * servers.
 */
#ifndef FTH_KVC_RING_H
#define FTH_KVC_RING_H

#include "fathom/kv/client.h"

struct kvc_ring_server {
	const char *host; /* as libmemcached names it: the path of a Unix socket */
	unsigned port;	  /* 0 of a Unix socket */
	unsigned weight;
};

struct kvc_point {
	uint32_t value;
	uint32_t server;
};

struct kvc_ring {
	enum fth_kvc_distribution distribution;
	unsigned servers;
	bool weighted;
	struct kvc_point *points; /* sorted; NULL for MODULA */
	unsigned count;
};

int kvc_ring_init(struct kvc_ring *ring, enum fth_kvc_distribution distribution,
		  const struct kvc_ring_server *servers, unsigned count);
void kvc_ring_release(struct kvc_ring *ring);

/* A position on the ring; its server is the key's. The next positions are those to try after it. */
unsigned kvc_ring_find(const struct kvc_ring *ring, const void *key, size_t length);
unsigned kvc_ring_server(const struct kvc_ring *ring, unsigned position);
unsigned kvc_ring_next(const struct kvc_ring *ring, unsigned position);

/* MD5 (RFC 1321). */
void kvc_md5(const void *data, size_t length, uint8_t digest[16]);

#endif
