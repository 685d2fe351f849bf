/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys, values, and which keys are picked.
 *
 * A key has a state of 32 bits: the version that the server has acknowledged last, 0 if this
 * program knows of none, and BUSY while a set of the next version is under way. One set of a key is
 * under way at a time, so that versions come in order. A get may return the version that was
 * acknowledged when it was sent, or a later one that has at least been sent when it is answered.
 */
#include "kv_load_internal.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BUSY	     UINT32_C(0x80000000)
#define VERSION_MASK (BUSY - 1)
#define STEP	     UINT64_C(0x9e3779b97f4a7c15)

int fth_kv_data_init(struct fth_kv_data *data, uint64_t items, uint32_t value_bytes)
{
	*data = (struct fth_kv_data){.items = items, .value_bytes = value_bytes};
	if (!items || value_bytes < FTH_KV_LOAD_VALUE_MIN)
		return fth_fail(EINVAL,
				"%llu items of %u bytes: expected at least 1 item of %u bytes",
				(unsigned long long)items, value_bytes, FTH_KV_LOAD_VALUE_MIN);
	data->run = (uint32_t)fth_mix64(fth_now_ns());
	data->versions = calloc(items, sizeof(*data->versions));
	return data->versions ? 0 : -ENOMEM;
}

void fth_kv_data_release(struct fth_kv_data *data)
{
	free(data->versions);
	data->versions = NULL;
}

/* ---- keys ---- */

void kv_data_key(uint64_t index, char key[FTH_KV_LOAD_KEY])
{
	static const char digits[] = "0123456789abcdef";

	key[0] = 'k';
	for (unsigned i = FTH_KV_LOAD_KEY - 1; i > 0; i--, index >>= 4)
		key[i] = digits[index & 15];
}

bool kv_data_parse_key(const char *key, size_t length, uint64_t *index)
{
	uint64_t n = 0;

	if (length != FTH_KV_LOAD_KEY || key[0] != 'k')
		return false;
	for (unsigned i = 1; i < FTH_KV_LOAD_KEY; i++) {
		char c = key[i];

		if (c >= '0' && c <= '9')
			n = n << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			n = n << 4 | (uint64_t)(c - 'a' + 10);
		else
			return false;
	}
	*index = n;
	return true;
}

/*
 * J. Gray et al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994; scrambled
 * as in YCSB (B. Cooper et al., SoCC 2010), so that popular keys are not neighbours.
 */
void kv_zipf_init(struct kv_zipf *zipf, uint64_t items, double theta)
{
	double zeta = 0, zeta2 = 1 + pow(0.5, theta);

	for (uint64_t i = 1; i <= items; i++)
		zeta += pow(1.0 / (double)i, theta);
	*zipf = (struct kv_zipf){
		.theta = theta,
		.zeta = zeta,
		.alpha = 1 / (1 - theta),
		.eta = (1 - pow(2.0 / (double)items, 1 - theta)) / (1 - zeta2 / zeta),
		.items = items,
	};
}

static uint64_t pick_rank(const struct kv_zipf *zipf, struct fth_rng *rng)
{
	double u = fth_rng_unit(rng), uz = u * zipf->zeta;
	uint64_t rank;

	if (uz < 1)
		return 0;
	if (uz < 1 + pow(0.5, zipf->theta))
		return 1;
	rank = (uint64_t)((double)zipf->items * pow(zipf->eta * u - zipf->eta + 1, zipf->alpha));
	return rank < zipf->items ? rank : zipf->items - 1;
}

uint64_t kv_zipf_pick(const struct kv_zipf *zipf, struct fth_rng *rng)
{
	return fth_mix64(pick_rank(zipf, rng) + STEP) % zipf->items;
}

/* ---- values ---- */

struct value_head {
	uint64_t index;
	uint32_t version, run;
};
_Static_assert(sizeof(struct value_head) == FTH_KV_LOAD_VALUE_MIN, "it fits the smallest value");

static uint64_t value_seed(const struct value_head *head)
{
	return fth_mix64(head->index * STEP + ((uint64_t)head->run << 32) + head->version);
}

void kv_data_value(const struct fth_kv_data *data, uint64_t index, uint32_t version, char *out)
{
	struct value_head head = {index, version, data->run};
	uint64_t word = value_seed(&head);
	size_t left = data->value_bytes - sizeof(head);

	memcpy(out, &head, sizeof(head));
	out += sizeof(head);
	for (; left >= sizeof(word); left -= sizeof(word), out += sizeof(word), word += STEP)
		memcpy(out, &word, sizeof(word));
	memcpy(out, &word, left);
}

/* Do the bytes behind the head follow from it? */
static bool body_is_right(const struct value_head *head, const char *at, size_t left)
{
	uint64_t word = value_seed(head), difference = 0, is;

	for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word), word += STEP) {
		memcpy(&is, at, sizeof(is));
		difference |= is ^ word;
	}
	return difference == 0 && memcmp(at, &word, left) == 0;
}

bool kv_data_begin_set(struct fth_kv_data *data, uint64_t index, uint32_t *version)
{
	uint32_t *state = &data->versions[index], now = __atomic_load_n(state, __ATOMIC_RELAXED);

	if (now & BUSY)
		return false;
	*version = (now & VERSION_MASK) + 1;
	/* acquire: the set before this one has ended */
	return __atomic_compare_exchange_n(state, &now, now | BUSY, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

void kv_data_end_set(struct fth_kv_data *data, uint64_t index, bool stored)
{
	uint32_t *state = &data->versions[index], now = __atomic_load_n(state, __ATOMIC_RELAXED);

	/* release: a get that sees this version is sent after the answer came */
	__atomic_store_n(state, (now & VERSION_MASK) + stored, __ATOMIC_RELEASE);
}

uint32_t kv_data_before_get(const struct fth_kv_data *data, uint64_t index)
{
	return __atomic_load_n(&data->versions[index], __ATOMIC_ACQUIRE) & VERSION_MASK;
}

enum kv_verdict kv_data_check(const struct fth_kv_data *data, uint64_t index, uint32_t before,
			      const char *value, size_t length)
{
	uint32_t now = __atomic_load_n(&data->versions[index], __ATOMIC_ACQUIRE);
	uint32_t newest = (now & VERSION_MASK) + (now & BUSY ? 1 : 0);
	struct value_head head;

	if (length != data->value_bytes)
		return KV_WRONG;
	memcpy(&head, value, sizeof(head));
	if (head.index != index ||
	    !body_is_right(&head, value + sizeof(head), length - sizeof(head)))
		return KV_WRONG;
	if (head.run != data->run)
		return before ? KV_STALE : KV_RIGHT;
	if (head.version < before)
		return KV_STALE;
	return head.version <= newest ? KV_RIGHT : KV_WRONG;
}
