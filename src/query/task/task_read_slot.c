/* SPDX-License-Identifier: BSD-2-Clause */
/* Task text: slots, types and what is known of values. */
#include "query/task/task_names.h"
#include "query/task/task_read_internal.h"
#include "query/task/slot.h"
#include "scalar/num.h"

#include <string.h>

/* ---- types and ranges ---- */

static void read_digits(struct reader *r, struct fth_type *type)
{
	reader_expect(r, "(");
	type->precision = (uint8_t)reader_number(r, FTH_DEC_COMPARED);
	reader_expect(r, ",");
	type->scale = (uint8_t)reader_number(r, FTH_DEC_DIGITS);
	reader_expect(r, ")");
}

bool read_type(struct reader *r, struct fth_type *out)
{
	unsigned kind = 0;

	while (kind < FTH_T_COUNT && !reader_at(r, task_type_names[kind]))
		kind++;
	if (kind == FTH_T_COUNT || lex_is(&r->ahead, LEX_MARK, "#"))
		return false;
	reader_next(r);
	*out = fth_type((enum fth_tkind)kind);
	if (kind == FTH_T_DECIMAL) {
		read_digits(r, out);
	} else if (fth_type_is_text(*out) && reader_skip(r, "(")) {
		out->length = (uint32_t)reader_number(r, UINT32_MAX);
		reader_expect(r, ")");
	}
	return true;
}

/* Up to 10^38, the bound of decimals that are only compared. */
static fth_i128 read_int(struct reader *r)
{
	bool negative = reader_skip(r, "-"), valid = r->token.kind == LEX_NUMBER;
	fth_i128 value = 0, most = fth_dec_max() + 1;

	for (size_t i = 0; valid && i < r->token.length; i++) {
		int digit = r->token.text[i] - '0';

		valid = digit >= 0 && digit <= 9 && value <= (most - digit) / 10;
		value = valid ? value * 10 + digit : 0;
	}
	if (!valid)
		reader_fail(r, "expected an integer of at most %d digits", FTH_DEC_DIGITS);
	reader_next(r);
	return negative ? -value : value;
}

void read_facts(struct reader *r, struct made *made)
{
	struct task_slot *f = &made->facts;

	*f = (struct task_slot){.lo = 1, .hi = 0};
	made->has_facts = read_type(r, &f->type);
	if (!made->has_facts)
		return;
	f->nullable = reader_skip(r, "null");
	if (!reader_skip(r, "["))
		return;
	f->lo = read_int(r);
	reader_expect(r, "..");
	f->hi = read_int(r);
	reader_expect(r, "]");
	if (f->lo > f->hi)
		reader_fail(r, "the upper bound of the range is below the lower bound");
}

/* ---- slots ---- */

static unsigned read_slot_number(struct reader *r)
{
	reader_expect(r, "#");
	return (unsigned)reader_number(r, READ_SLOTS_MAX - 1);
}

struct made read_made(struct reader *r)
{
	struct made made = {.name = reader_name(r)};

	made.slot = read_slot_number(r);
	read_facts(r, &made);
	return made;
}

/*
 * Digits bound the values of a decimal as a range does: they are believed if all values have no
 * more.
 */
static bool digits_hold(const struct task_slot *slot, unsigned digits)
{
	fth_i128 most;

	if (digits == 0 || digits >= FTH_DEC_DIGITS)
		return true;
	most = fth_pow10(digits) - 1;
	return slot->lo <= slot->hi && slot->lo >= -most && slot->hi <= most;
}

/* Values of an integer-like type that is not limited further. */
static void widest(struct fth_type type, fth_i128 *lo, fth_i128 *hi)
{
	type.precision = 0;
	fth_type_range(type, lo, hi);
}

struct task_slot combine(struct reader *r, const struct made *made, const struct task_slot *proved)
{
	struct task_slot slot = *proved;
	const struct task_slot *f = &made->facts;
	fth_i128 lo, hi;

	if (made->has_facts) {
		if (!task_same_type(f->type, proved->type))
			reader_fail(r, "%s has type %s here", made->name,
				    task_type_names[proved->type.kind]);
		slot.nullable |= f->nullable;
		if (r->how->trusted) {
			slot = *f;
		} else if (f->lo > f->hi) {
			slot.lo = 1;
			slot.hi = 0;
		} else if (proved->lo <= proved->hi && f->lo <= proved->lo && f->hi >= proved->hi) {
			slot.lo = f->lo;
			slot.hi = f->hi;
		}
		if (r->how->trusted || digits_hold(&slot, f->type.precision))
			slot.type.precision = f->type.precision;
		slot.type.length = f->type.length;
	}
	widest(slot.type, &lo, &hi);
	if (fth_type_is_int(slot.type) && slot.lo <= slot.hi && (slot.lo < lo || slot.hi > hi)) {
		slot.lo = 1;
		slot.hi = 0;
	}
	slot.name = made->name;
	return slot;
}

void settle(struct reader *r, const struct made *made, const struct task_slot *proved)
{
	struct task *t = r->task;

	if (r->error != 0)
		return;
	if (r->used[made->slot]) {
		reader_fail(r, "slot #%u is assigned twice", made->slot);
		return;
	}
	while (t->slot_count <= made->slot) {
		t->slots =
			reader_grow(r, t->slots, t->slot_count, &r->slot_room, sizeof(*t->slots));
		if (!t->slots)
			return;
		t->slots[t->slot_count++] = (struct task_slot){.lo = 1, .hi = 0};
	}
	t->slots[made->slot] = combine(r, made, proved);
	r->used[made->slot] = r->there[made->slot] = true;
}

unsigned read_slot(struct reader *r)
{
	struct lex_token at = r->token;
	const char *name = reader_name(r);
	unsigned slot = read_slot_number(r);

	if (r->error != 0)
		return 0;
	if (slot < r->task->slot_count && r->there[slot] &&
	    strcmp(r->task->slots[slot].name, name) == 0)
		return slot;
	r->token = at;
	if (slot >= r->task->slot_count || !r->there[slot])
		reader_fail(r, "slot #%u has no value here", slot);
	else
		reader_fail(r, "the name of slot #%u is %s", slot, r->task->slots[slot].name);
	return 0;
}

unsigned read_slots(struct reader *r, unsigned **out)
{
	unsigned n = 0, room = 0;

	*out = NULL;
	do {
		if (n == READ_LIST_MAX)
			reader_fail(r, "more than %u slots in a list", READ_LIST_MAX);
		*out = reader_grow(r, *out, n, &room, sizeof(**out));
		if (!*out)
			return 0;
		(*out)[n++] = read_slot(r);
	} while (reader_skip(r, ","));
	return n;
}
