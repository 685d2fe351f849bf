/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Instructions that fault, executed elsewhere. translate_x86.c translates them, translated.c keeps
 * them, enter_x86.c runs them; without Zydis or on other processors refuse.c takes the place of
 * all.
 */
#include "flat/emul/emul.h"
#include "flat/emul/translate.h"
#include "flat/emul/translated.h"
#include "flat/emul/enter.h"

#include <errno.h>
#include <string.h>

#define INSTRUCTION_MAX 15
#define CODE_PAGE	4096u

/* Of the XSAVE area: x87, SSE, AVX, and AVX-512's masks and registers. */
#define XSAVE_PARTS 0xe7u
#define XSAVE_MAGIC 0x46505853u

/*
 * What the kernel says about the XSAVE area in a signal frame, in bytes that the processor leaves
 * alone.
 */
struct xsave_note {
	uint32_t magic, size;
	uint64_t parts;
	uint32_t area;
};

int emul_setup(void)
{
	int rc = emul_translate_setup();

	return rc < 0 ? rc : translated_setup();
}

int emul_forked(void)
{
	return translated_forked();
}

/*
 * Read no byte of the page behind the instruction unless the instruction reaches into it: that page
 * may not be there.
 */
static const struct emul_translated *translated_at(uintptr_t rip)
{
	const uint8_t *bytes = (const uint8_t *)rip;
	unsigned available = CODE_PAGE - (unsigned)(rip % CODE_PAGE);
	uint8_t code[EMUL_CODE_MAX];
	const struct emul_translated *translated;
	struct emul_translated made;
	int rc;

	if (available > INSTRUCTION_MAX)
		available = INSTRUCTION_MAX;
	translated = translated_find(rip, bytes, INSTRUCTION_MAX);
	if (translated)
		return translated;
	rc = emul_translate(rip, bytes, available, &made, code);
	if (rc == -EAGAIN)
		rc = emul_translate(rip, bytes, INSTRUCTION_MAX, &made, code);
	if (rc < 0)
		return NULL;
	return translated_keep(&made, code, (unsigned)rc);
}

static uint64_t elements_until(uintptr_t address, uint64_t page, uint32_t width)
{
	return (page - address % page) / width;
}

static void set_operand(struct emul_operand *op, uintptr_t address, uint64_t length, bool read,
			bool write)
{
	*op = (struct emul_operand){
		.address = address, .length = (uint32_t)length, .read = read, .write = write};
}

static int decode_string(const ucontext_t *context, uint64_t page, struct emul_use *use)
{
	const struct emul_translated *translated = use->translated;
	const greg_t *gregs = context->uc_mcontext.gregs;
	uintptr_t rdi = (uintptr_t)gregs[REG_RDI], rsi = (uintptr_t)gregs[REG_RSI];
	uint64_t n = translated->repeat == EMUL_ONCE ? 1 : (uint64_t)gregs[REG_RCX];

	if (n == 0 || (gregs[REG_EFL] & 0x400)) /* backwards: seldom */
		return -ENOTSUP;
	if (translated->at_rdi && n > elements_until(rdi, page, translated->width))
		n = elements_until(rdi, page, translated->width);
	if (translated->at_rsi && n > elements_until(rsi, page, translated->width))
		n = elements_until(rsi, page, translated->width);
	if (n == 0)
		n = 1; /* it lies in two pages */
	use->elements = n;
	use->operands = 0;
	if (translated->at_rdi)
		set_operand(&use->op[use->operands++], rdi, n * translated->width, translated->read,
			    translated->write);
	if (translated->at_rsi)
		set_operand(&use->op[use->operands++], rsi, n * translated->width, true, false);
	return 0;
}

static uintptr_t address_of(const struct emul_translated *translated, const greg_t *gregs)
{
	uint64_t address = (uint64_t)translated->address.displacement;

	if (translated->address.base >= 0)
		address += (uint64_t)gregs[translated->address.base];
	if (translated->address.index >= 0)
		address += (uint64_t)gregs[translated->address.index] * translated->address.scale;
	return (uintptr_t)address;
}

int emul_decode(const ucontext_t *context, uint64_t page, struct emul_use *use)
{
	const greg_t *gregs = context->uc_mcontext.gregs;
	const struct emul_translated *translated = translated_at((uintptr_t)gregs[REG_RIP]);

	/* single steps and alignment checks belong to the program's own instruction */
	if (!translated || translated->kind == EMUL_REFUSED || (gregs[REG_EFL] & 0x40100))
		return -ENOTSUP;
	*use = (struct emul_use){.translated = translated, .locked = translated->locked};
	if (translated->kind == EMUL_STRING)
		return decode_string(context, page, use);
	use->operands = 1;
	set_operand(&use->op[0], address_of(translated, gregs), translated->width, translated->read,
		    translated->write);
	return 0;
}

/* The area in the signal frame, if its components are known and no exception is unmasked. */
static int find_xsave(const ucontext_t *context, void **area, uint64_t *mask)
{
	const struct _libc_fpstate *fp = context->uc_mcontext.fpregs;
	struct xsave_note note;

	if (!fp)
		return -ENOTSUP;
	memcpy(&note, (const char *)fp + 464, sizeof(note));
	if (note.magic != XSAVE_MAGIC || (fp->mxcsr & 0x1f80) != 0x1f80 || (fp->cwd & 0x3f) != 0x3f)
		return -ENOTSUP;
	*area = context->uc_mcontext.fpregs;
	*mask = note.parts & XSAVE_PARTS;
	return 0;
}

static void merge_flags(greg_t *to, greg_t from)
{
	*to = (*to & ~(greg_t)ENTER_FLAGS) | (from & (greg_t)ENTER_FLAGS);
}

/* A string instruction ends when nothing is left, or when the comparison says so. */
static bool string_ended(const struct emul_translated *translated, uint64_t left, greg_t flags)
{
	bool equal = flags & 0x40;

	if (translated->repeat == EMUL_ONCE || left == 0)
		return true;
	return (translated->repeat == EMUL_REPE && !equal) ||
	       (translated->repeat == EMUL_REPNE && equal);
}

static int run_string(ucontext_t *context, const struct emul_use *use, void *const at[2])
{
	const struct emul_translated *translated = use->translated;
	greg_t *gregs = context->uc_mcontext.gregs, temp[NGREG];
	void *rdi = at[0], *rsi = translated->at_rdi ? at[1] : at[0];
	uint64_t done;
	int fault;

	memcpy(temp, gregs, sizeof(temp));
	temp[REG_EFL] = gregs[REG_EFL] & (greg_t)ENTER_FLAGS;
	if (translated->at_rdi)
		temp[REG_RDI] = (greg_t)rdi;
	if (translated->at_rsi)
		temp[REG_RSI] = (greg_t)rsi;
	if (translated->repeat != EMUL_ONCE)
		temp[REG_RCX] = (greg_t)use->elements;
	fault = emul_enter(temp, translated->code, NULL, 0);
	done = translated->repeat == EMUL_ONCE ? !fault : use->elements - (uint64_t)temp[REG_RCX];
	if (done > 0) {
		merge_flags(&gregs[REG_EFL], temp[REG_EFL]);
		gregs[REG_RAX] = temp[REG_RAX];
		if (translated->at_rdi)
			gregs[REG_RDI] += (greg_t)(done * translated->width);
		if (translated->at_rsi)
			gregs[REG_RSI] += (greg_t)(done * translated->width);
		if (translated->repeat != EMUL_ONCE)
			gregs[REG_RCX] -= (greg_t)done;
	}
	if (fault)
		return -EFAULT;
	if (string_ended(translated, (uint64_t)gregs[REG_RCX], gregs[REG_EFL]))
		gregs[REG_RIP] += translated->length;
	return 0;
}

int emul_run(ucontext_t *context, const struct emul_use *use, void *const at[2])
{
	const struct emul_translated *translated = use->translated;
	greg_t *gregs = context->uc_mcontext.gregs, temp[NGREG];
	void *xsave = NULL;
	uint64_t mask = 0;

	if (translated->kind == EMUL_STRING)
		return run_string(context, use, at);
	if (translated->fpu && find_xsave(context, &xsave, &mask) < 0)
		return -ENOTSUP;
	memcpy(temp, gregs, sizeof(temp));
	temp[REG_EFL] = gregs[REG_EFL] & (greg_t)ENTER_FLAGS;
	temp[translated->spare] = (greg_t)at[0];
	if (emul_enter(temp, translated->code, xsave, mask))
		return -EFAULT;
	temp[translated->spare] = gregs[translated->spare];
	temp[REG_RSP] = gregs[REG_RSP];
	temp[REG_RIP] = gregs[REG_RIP] + translated->length;
	merge_flags(&gregs[REG_EFL], temp[REG_EFL]);
	memcpy(gregs, temp, sizeof(greg_t) * REG_EFL);
	return 0;
}

bool emul_fixup(ucontext_t *context)
{
	greg_t *gregs = context->uc_mcontext.gregs;

	if (!translated_contains((uintptr_t)gregs[REG_RIP]))
		return false;
	gregs[REG_RSP] += 8; /* the return address of the call */
	gregs[REG_RIP] = (greg_t)(uintptr_t)emul_enter_fault;
	return true;
}
