/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs as a whole: compiling the roots, dropping what nothing needs, registers to slots,
 * release.
 */
#include "query/vec/prog/prog_internal.h"

#include "fathom/base/error.h"

#include <errno.h>

/* ---- liveness ---- */

static void use(struct fth_prog *p, int r, int at)
{
	if (r >= 0 && p->regs[r].last_use < at)
		p->regs[r].last_use = at;
}

static void use_operands(struct fth_prog *p, const struct insn *in, int at)
{
	use(p, in->a, at);
	use(p, in->b, at);
	use(p, in->c, at);
	if (in->error != ERR_NONE)
		use(p, in->scope, at);
}

/* Backwards: an instruction that nothing later uses goes. */
static void drop_dead(struct fth_prog *p)
{
	unsigned kept = p->ninsns;

	for (unsigned i = 0; i < p->nregs; i++)
		p->regs[i].last_use = -1;
	for (unsigned i = 0; i < p->nroots; i++)
		use(p, p->roots[i], INT32_MAX);
	for (unsigned i = p->ninsns; i-- > 0;) {
		struct insn *in = &p->insns[i];

		if (p->regs[in->dst].last_use < 0) {
			fth_prog_free(in->prog);
			continue;
		}
		use_operands(p, in, 0);
		p->insns[--kept] = *in;
	}
	p->ninsns -= kept;
	memmove(p->insns, p->insns + kept, p->ninsns * sizeof(*p->insns));
	for (unsigned i = 0; i < p->nregs; i++)
		p->regs[i].last_use = -1;
	for (unsigned i = 0; i < p->ninsns; i++)
		use_operands(p, &p->insns[i], (int)i);
	for (unsigned i = 0; i < p->nroots; i++)
		use(p, p->roots[i], INT32_MAX);
}

static size_t reg_bytes(const struct reg *reg)
{
	return reg->type == FTH_BITS ? FTH_BATCH / 8
				     : (size_t)fth_phys_width(reg->type) * FTH_BATCH;
}

/* The smallest free slot that is large enough, or else a new one. */
static int take_slot(struct fth_prog *p, bool *busy, size_t bytes)
{
	int best = -1;

	for (unsigned i = 0; i < p->nslots; i++)
		if (!busy[i] && p->slot_size[i] >= bytes &&
		    (best < 0 || p->slot_size[i] < p->slot_size[best]))
			best = (int)i;
	if (best < 0) {
		best = (int)p->nslots++;
		p->slot_size[best] = bytes;
	}
	busy[best] = true;
	return best;
}

static void end_of_life(struct fth_prog *p, bool *busy, int r, int at)
{
	if (r >= 0 && p->regs[r].slot >= 0 && p->regs[r].last_use == at)
		busy[p->regs[r].slot] = false;
}

static int assign_slots(struct fth_prog *p)
{
	size_t room = p->ninsns + 1;
	bool *busy = fth_qmem_zalloc(p->mem, room);

	p->slot_size = fth_arena_alloc(&p->arena, room * sizeof(*p->slot_size), 8);
	if (!busy || !p->slot_size) {
		fth_qmem_free(p->mem, busy, room);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < p->ninsns; i++) {
		const struct insn *in = &p->insns[i];

		p->regs[in->dst].slot = take_slot(p, busy, reg_bytes(&p->regs[in->dst]));
		end_of_life(p, busy, in->a, (int)i);
		end_of_life(p, busy, in->b, (int)i);
		end_of_life(p, busy, in->c, (int)i);
		if (in->error != ERR_NONE)
			end_of_life(p, busy, in->scope, (int)i);
	}
	fth_qmem_free(p->mem, busy, room);
	return 0;
}

/* ---- compiling ---- */

static int lower_root(struct lower *l, unsigned i, const struct fth_expr *e)
{
	struct fth_prog *p = l->prog;
	int r = fth_emit_vector(l, fth_lower(l, e, -1));

	if (r < 0)
		return r;
	p->roots[i] = r;
	p->outs[i] = (struct fth_prog_out){
		.type = p->regs[r].type,
		.logical = e->type,
		.nullable = p->regs[r].nullable,
		.lo = p->regs[r].lo,
		.hi = p->regs[r].hi,
	};
	return 0;
}

static struct fth_prog *new_prog(struct fth_qmem *mem, unsigned nroots)
{
	struct fth_prog *p = fth_qmem_zalloc(mem, sizeof(*p));

	if (!p)
		return NULL;
	p->mem = mem;
	p->nroots = nroots;
	fth_arena_init(&p->arena, mem, 2048);
	p->roots = fth_arena_alloc(&p->arena, (nroots + 1) * sizeof(*p->roots), 8);
	p->outs = fth_arena_alloc(&p->arena, (nroots + 1) * sizeof(*p->outs), 16);
	if (p->roots && p->outs)
		return p;
	fth_prog_free(p);
	return NULL;
}

int fth_prog_compile_with(struct fth_qmem *mem, struct fth_expr *const *roots, unsigned nroots,
			  const struct lower *how, struct fth_prog **out)
{
	struct lower l = *how;
	int rc = 0;

	*out = NULL;
	l.prog = new_prog(mem, nroots);
	if (!l.prog)
		return -ENOMEM;
	for (unsigned i = 0; i < nroots && rc == 0; i++)
		rc = lower_root(&l, i, roots[i]);
	if (rc == 0) {
		drop_dead(l.prog);
		rc = assign_slots(l.prog);
	}
	if (rc < 0) {
		fth_prog_free(l.prog);
		return rc;
	}
	*out = l.prog;
	return 0;
}

int fth_prog_compile(struct fth_qmem *mem, struct fth_expr *const *roots, unsigned nroots,
		     struct fth_prog **out)
{
	const struct lower how = {0};

	return fth_prog_compile_with(mem, roots, nroots, &how, out);
}

void fth_prog_free(struct fth_prog *prog)
{
	if (!prog)
		return;
	for (unsigned i = 0; i < prog->ninsns; i++)
		fth_prog_free(prog->insns[i].prog);
	fth_qmem_free(prog->mem, prog->insns, prog->insn_room * sizeof(*prog->insns));
	fth_qmem_free(prog->mem, prog->regs, prog->reg_room * sizeof(*prog->regs));
	fth_arena_release(&prog->arena);
	fth_qmem_free(prog->mem, prog, sizeof(*prog));
}

const struct fth_prog_out *fth_prog_output(const struct fth_prog *prog, unsigned root)
{
	return &prog->outs[root];
}

unsigned fth_prog_length(const struct fth_prog *prog)
{
	return prog->ninsns;
}
