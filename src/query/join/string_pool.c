/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/join/string_pool.h"

#include "fathom/base/checksum.h"

#include <errno.h>

#define POOL_CHUNK (4u << 10)

static size_t table_bytes(unsigned bits)
{
	return ((size_t)1 << bits) * sizeof(uint32_t);
}

int pool_init(struct pool *p, struct fth_qmem *mem)
{
	uint32_t empty;

	memset(p, 0, sizeof(*p));
	p->mem = mem;
	p->bits = 6;
	pthread_mutex_init(&p->lock, NULL);
	fth_arena_init(&p->bytes, mem, POOL_CHUNK);
	p->table = fth_qmem_zalloc(mem, table_bytes(p->bits));
	return p->table ? pool_add(p, fth_str_of(""), &empty) : -ENOMEM;
}

void pool_release(struct pool *p)
{
	if (!p->mem)
		return;
	if (p->table)
		fth_qmem_free(p->mem, p->table, table_bytes(p->bits));
	fth_qmem_free(p->mem, p->entries, p->room * sizeof(*p->entries));
	fth_arena_release(&p->bytes);
	pthread_mutex_destroy(&p->lock);
	memset(p, 0, sizeof(*p));
}

/* The place of a string in the table: where it is, or a free one. */
static size_t place_of(const struct pool *p, struct fth_str s)
{
	size_t mask = ((size_t)1 << p->bits) - 1, at = fth_checksum(s.data, s.len, 0) & mask;

	for (; p->table[at] != 0; at = (at + 1) & mask) {
		const struct fth_str *e = &p->entries[p->table[at] - 1];

		if (e->len == s.len && memcmp(e->data, s.data, s.len) == 0)
			break;
	}
	return at;
}

static int grow_table(struct pool *p)
{
	uint32_t *old = p->table;
	unsigned old_bits = p->bits;

	if ((uint64_t)p->count * 2 < (uint64_t)1 << p->bits)
		return 0;
	p->table = fth_qmem_zalloc(p->mem, table_bytes(p->bits + 1));
	if (!p->table) {
		p->table = old;
		return -ENOMEM;
	}
	p->bits++;
	for (uint32_t i = 0; i < p->count; i++)
		p->table[place_of(p, p->entries[i])] = i + 1;
	fth_qmem_free(p->mem, old, table_bytes(old_bits));
	return 0;
}

static int grow_entries(struct pool *p)
{
	uint32_t room = p->room == 0 ? 32 : p->room * 2;
	struct fth_str *larger;

	if (p->count < p->room)
		return 0;
	if (p->count > INT32_MAX / 2)
		return -ENOMEM;
	larger = fth_qmem_realloc(p->mem, p->entries, p->room * sizeof(*larger),
				  room * sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	p->entries = larger;
	p->room = room;
	return 0;
}

static int add_string(struct pool *p, struct fth_str s, uint32_t *number)
{
	size_t at = place_of(p, s);
	char *copy;

	if (p->table[at] != 0) {
		*number = p->table[at] - 1;
		return 0;
	}
	if (grow_entries(p) < 0 || grow_table(p) < 0)
		return -ENOMEM;
	copy = fth_arena_alloc(&p->bytes, s.len + 1, 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, s.data, s.len);
	p->entries[p->count] = (struct fth_str){copy, s.len, 0};
	p->table[place_of(p, s)] = p->count + 1;
	p->total += s.len + 1 + 2 * sizeof(struct fth_str);
	*number = p->count++;
	return 0;
}

int pool_add(struct pool *p, struct fth_str s, uint32_t *number)
{
	int rc;

	pthread_mutex_lock(&p->lock);
	rc = add_string(p, s, number);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

const struct fth_dict *pool_seal(struct pool *p)
{
	if (p->table)
		fth_qmem_free(p->mem, p->table, table_bytes(p->bits));
	p->table = NULL;
	p->dict = (struct fth_dict){fth_dict_next_id(), p->count, p->entries};
	return &p->dict;
}
