/* SPDX-License-Identifier: BSD-2-Clause */
#include "vec_plain.h"

#include <string.h>

void vec_plain_q1(const struct vec_columns *c, int32_t until, struct vec_group *groups)
{
	memset(groups, 0, VEC_GROUPS * sizeof(*groups));
	for (size_t i = 0; i < c->rows; i++) {
		struct vec_group *g = &groups[c->flag[i] * 2 + c->state[i]];
		int64_t discounted;

		if (VEC_SHIP_BASE + c->ship[i] > until)
			continue;
		discounted = (int64_t)c->price[i] * (100 - c->discount[i]);
		g->count++;
		g->quantity += c->quantity[i];
		g->price += c->price[i];
		g->discount += c->discount[i];
		g->discounted += discounted;
		g->charge += discounted * (100 + c->tax[i]);
	}
}

int64_t vec_plain_q6(const struct vec_columns *c, int32_t from, int32_t to, int lo, int hi,
		     int most)
{
	int64_t sum = 0;

	for (size_t i = 0; i < c->rows; i++) {
		int32_t ship = VEC_SHIP_BASE + c->ship[i];

		if (ship >= from && ship < to && c->discount[i] >= lo && c->discount[i] <= hi &&
		    c->quantity[i] < most)
			sum += (int64_t)c->price[i] * c->discount[i];
	}
	return sum;
}
