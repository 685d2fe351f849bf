/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Instructions of x86-64, decoded by Zydis.
 *
 * A translated instruction has the prefixes, opcode and immediates of the original. Only the
 * encoding of the operand in memory changes: to [spare], where spare is one of RAX, RCX, RDX, RBX,
 * RSI, RDI that the instruction does not use. These six need no REX.B, no SIB byte and no
 * displacement, so a translated instruction is never longer than the original.
 */
#include "flat/emul/translate.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <Zydis/Zydis.h>

/* Zydis is loaded when a region is opened, so that nothing needs it otherwise. */
#define FUNCTIONS(F)              \
	F(ZydisDecoderInit)       \
	F(ZydisDecoderDecodeFull) \
	F(ZydisRegisterGetClass)  \
	F(ZydisRegisterGetLargestEnclosing)

static struct {
#define POINTER(name) __typeof__(name) *name##_;
	FUNCTIONS(POINTER)
#undef POINTER
} zydis;

#define REP_BITS  (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE)
#define WIDTH_MAX 64

struct decoded {
	ZydisDecodedInstruction in;
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
};

/* Index in gregs of a 64-bit general register, or -1. */
static int greg_of(ZydisRegister reg)
{
	static const int8_t gregs[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
					 REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
					 REG_R12, REG_R13, REG_R14, REG_R15};

	if (reg < ZYDIS_REGISTER_RAX || reg > ZYDIS_REGISTER_R15)
		return -1;
	return gregs[reg - ZYDIS_REGISTER_RAX];
}

/* The 64-bit register that holds `reg`; NONE if it is no general register. */
static ZydisRegister whole(ZydisRegister reg)
{
	switch (zydis.ZydisRegisterGetClass_(reg)) {
	case ZYDIS_REGCLASS_GPR8:
	case ZYDIS_REGCLASS_GPR16:
	case ZYDIS_REGCLASS_GPR32:
	case ZYDIS_REGCLASS_GPR64:
		return zydis.ZydisRegisterGetLargestEnclosing_(ZYDIS_MACHINE_MODE_LONG_64, reg);
	default:
		return ZYDIS_REGISTER_NONE;
	}
}

static bool is_control(ZydisRegister reg)
{
	switch (zydis.ZydisRegisterGetClass_(reg)) {
	case ZYDIS_REGCLASS_FLAGS:
	case ZYDIS_REGCLASS_IP:
	case ZYDIS_REGCLASS_SEGMENT:
		return true;
	default:
		return false;
	}
}

/*
 * Instructions that change control flow, the stack, or state that a translated instruction would
 * not see.
 */
static bool category_refused(const ZydisDecodedInstruction *in)
{
	switch (in->meta.category) {
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_PUSH:
	case ZYDIS_CATEGORY_POP:
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_SYSTEM:
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_IO:
	case ZYDIS_CATEGORY_IOSTRINGOP:
	case ZYDIS_CATEGORY_XSAVE:
	case ZYDIS_CATEGORY_XSAVEOPT:
	case ZYDIS_CATEGORY_GATHER:
	case ZYDIS_CATEGORY_AVX2GATHER:
	case ZYDIS_CATEGORY_SCATTER:
	case ZYDIS_CATEGORY_AMX_TILE:
	case ZYDIS_CATEGORY_CET:
	case ZYDIS_CATEGORY_SEGOP:
	case ZYDIS_CATEGORY_VTX:
	case ZYDIS_CATEGORY_SGX:
		return true;
	default:
		break;
	}
	/* the signal of a division by zero would come from the translated instruction */
	return in->mnemonic == ZYDIS_MNEMONIC_DIV || in->mnemonic == ZYDIS_MNEMONIC_IDIV ||
	       (in->attributes & ZYDIS_ATTRIB_IS_PRIVILEGED) || in->address_width != 64;
}

/* A bit number in a register selects a byte that can be far from the operand. */
static bool reaches_beyond(const struct decoded *d)
{
	switch (d->in.mnemonic) {
	case ZYDIS_MNEMONIC_BT:
	case ZYDIS_MNEMONIC_BTC:
	case ZYDIS_MNEMONIC_BTR:
	case ZYDIS_MNEMONIC_BTS:
		return d->op[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
	default:
		return false;
	}
}

static int string_operands(struct emul_translated *made, const struct decoded *d)
{
	switch (d->in.mnemonic) {
	case ZYDIS_MNEMONIC_MOVSB:
	case ZYDIS_MNEMONIC_MOVSW:
	case ZYDIS_MNEMONIC_MOVSD:
	case ZYDIS_MNEMONIC_MOVSQ:
		made->at_rdi = made->at_rsi = made->write = true;
		return 0;
	case ZYDIS_MNEMONIC_STOSB:
	case ZYDIS_MNEMONIC_STOSW:
	case ZYDIS_MNEMONIC_STOSD:
	case ZYDIS_MNEMONIC_STOSQ:
		made->at_rdi = made->write = true;
		return 0;
	case ZYDIS_MNEMONIC_LODSB:
	case ZYDIS_MNEMONIC_LODSW:
	case ZYDIS_MNEMONIC_LODSD:
	case ZYDIS_MNEMONIC_LODSQ:
		made->at_rsi = true;
		return 0;
	case ZYDIS_MNEMONIC_CMPSB:
	case ZYDIS_MNEMONIC_CMPSW:
	case ZYDIS_MNEMONIC_CMPSD:
	case ZYDIS_MNEMONIC_CMPSQ:
		made->at_rdi = made->at_rsi = made->read = true;
		return 0;
	case ZYDIS_MNEMONIC_SCASB:
	case ZYDIS_MNEMONIC_SCASW:
	case ZYDIS_MNEMONIC_SCASD:
	case ZYDIS_MNEMONIC_SCASQ:
		made->at_rdi = made->read = true;
		return 0;
	default:
		return -ENOTSUP;
	}
}

/* A string instruction is translated to itself. */
static int translate_string(struct emul_translated *made, const struct decoded *d, uint8_t *code)
{
	for (unsigned i = 0; i < d->in.operand_count; i++) {
		const ZydisDecodedOperand *op = &d->op[i];

		if (op->type != ZYDIS_OPERAND_TYPE_MEMORY)
			continue;
		if (op->mem.segment == ZYDIS_REGISTER_FS || op->mem.segment == ZYDIS_REGISTER_GS)
			return -ENOTSUP;
		made->width = op->size / 8;
	}
	if (string_operands(made, d) < 0)
		return -ENOTSUP;
	if (d->in.attributes & ZYDIS_ATTRIB_HAS_REPE)
		made->repeat = EMUL_REPE;
	else if (d->in.attributes & ZYDIS_ATTRIB_HAS_REPNE)
		made->repeat = EMUL_REPNE;
	else if (d->in.attributes & ZYDIS_ATTRIB_HAS_REP)
		made->repeat = EMUL_REP;
	made->kind = EMUL_STRING;
	memcpy(code, made->bytes, made->length);
	code[made->length] = 0xc3;
	return made->length + 1;
}

/*
 * The one operand in memory; -ENOTSUP if there is none, or more, or one that a translated
 * instruction cannot have.
 */
static int find_operand(const struct decoded *d, const ZydisDecodedOperand **out)
{
	*out = NULL;
	for (unsigned i = 0; i < d->in.operand_count; i++) {
		const ZydisDecodedOperand *op = &d->op[i];

		if (op->type != ZYDIS_OPERAND_TYPE_MEMORY)
			continue;
		if (*out || op->mem.type != ZYDIS_MEMOP_TYPE_MEM ||
		    op->visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT)
			return -ENOTSUP;
		*out = op;
	}
	if (!*out || (*out)->mem.segment == ZYDIS_REGISTER_FS ||
	    (*out)->mem.segment == ZYDIS_REGISTER_GS || (*out)->size == 0 ||
	    (*out)->size > WIDTH_MAX * 8)
		return -ENOTSUP;
	return 0;
}

static int find_address(struct emul_translated *made, const ZydisDecodedOperand *op)
{
	made->address.displacement = op->mem.disp.has_displacement ? op->mem.disp.value : 0;
	made->address.scale = op->mem.scale;
	made->address.base = made->address.index = -1;
	if (op->mem.base == ZYDIS_REGISTER_RIP)
		made->address.displacement += (int64_t)(made->rip + made->length);
	else if (op->mem.base != ZYDIS_REGISTER_NONE)
		made->address.base = (int8_t)greg_of(op->mem.base);
	if (op->mem.index != ZYDIS_REGISTER_NONE)
		made->address.index = (int8_t)greg_of(op->mem.index);
	if (op->mem.base != ZYDIS_REGISTER_NONE && op->mem.base != ZYDIS_REGISTER_RIP &&
	    made->address.base < 0)
		return -ENOTSUP;
	return op->mem.index != ZYDIS_REGISTER_NONE && made->address.index < 0 ? -ENOTSUP : 0;
}

/*
 * A register that no operand names, out of the six; and whether others than general ones are used.
 */
static int find_spare(struct emul_translated *made, const struct decoded *d)
{
	uint32_t used = 0;

	for (unsigned i = 0; i < d->in.operand_count; i++) {
		const ZydisDecodedOperand *op = &d->op[i];
		ZydisRegister reg;

		if (op->type != ZYDIS_OPERAND_TYPE_REGISTER)
			continue;
		if (is_control(op->reg.value)) {
			if (zydis.ZydisRegisterGetClass_(op->reg.value) == ZYDIS_REGCLASS_SEGMENT &&
			    (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
				return -ENOTSUP;
			continue;
		}
		reg = whole(op->reg.value);
		if (reg == ZYDIS_REGISTER_NONE)
			made->fpu = true;
		else
			used |= 1u << (reg - ZYDIS_REGISTER_RAX);
	}
	if (d->in.fpu_flags || d->in.avx.mask.reg != ZYDIS_REGISTER_NONE)
		made->fpu = true;
	if (used & 1u << 4) /* RSP is that of the translated instruction */
		return -ENOTSUP;
	for (int reg = 7; reg >= 0; reg--) {
		if (reg == 4 || reg == 5 || (used & 1u << reg))
			continue;
		made->spare = (int8_t)greg_of(ZYDIS_REGISTER_RAX + (ZydisRegister)reg);
		return reg;
	}
	return -ENOTSUP;
}

/* X and B extend registers of the operand in memory: the translated instruction uses neither. */
static void clear_extensions(const ZydisDecodedInstruction *in, uint8_t *code)
{
	switch (in->encoding) {
	case ZYDIS_INSTRUCTION_ENCODING_VEX:
		if (in->raw.vex.size == 3)
			code[in->raw.vex.offset + 1] |= 0x60; /* stored inverted */
		break;
	case ZYDIS_INSTRUCTION_ENCODING_XOP:
		code[in->raw.xop.offset + 1] |= 0x60;
		break;
	case ZYDIS_INSTRUCTION_ENCODING_EVEX:
		code[in->raw.evex.offset + 1] |= 0x60;
		break;
	default:
		if (in->attributes & ZYDIS_ATTRIB_HAS_REX)
			code[in->raw.rex.offset] &= (uint8_t)~0x3;
	}
}

static int translate_simple(struct emul_translated *made, const struct decoded *d, uint8_t *code)
{
	const ZydisDecodedInstruction *in = &d->in;
	const ZydisDecodedOperand *op;
	unsigned head = in->raw.modrm.offset, tail = head + 1;
	int rc, spare;

	if (!(in->attributes & ZYDIS_ATTRIB_HAS_MODRM) || (in->attributes & REP_BITS))
		return -ENOTSUP;
	rc = find_operand(d, &op);
	if (rc == 0)
		rc = find_address(made, op);
	if (rc < 0)
		return rc;
	spare = find_spare(made, d);
	if (spare < 0)
		return spare;
	made->kind = EMUL_SIMPLE;
	made->width = op->size / 8;
	made->read = op->actions & ZYDIS_OPERAND_ACTION_MASK_READ;
	made->write = op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
	made->locked =
		in->attributes & ZYDIS_ATTRIB_HAS_LOCK || in->mnemonic == ZYDIS_MNEMONIC_XCHG;
	memcpy(code, made->bytes, head);
	clear_extensions(in, code);
	code[head] = (uint8_t)(in->raw.modrm.reg << 3 | spare);
	tail += (in->attributes & ZYDIS_ATTRIB_HAS_SIB) ? 1 : 0;
	tail += in->raw.disp.size / 8;
	memcpy(code + head + 1, made->bytes + tail, made->length - tail);
	head += 1 + made->length - tail;
	code[head] = 0xc3;
	return (int)head + 1;
}

int emul_translate_setup(void)
{
	char name[40];
	void *library;

	snprintf(name, sizeof(name), "libZydis.so.%u.%u",
		 (unsigned)ZYDIS_VERSION_MAJOR(ZYDIS_VERSION),
		 (unsigned)ZYDIS_VERSION_MINOR(ZYDIS_VERSION));
	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return -ENOTSUP;
#define LOAD(name)                                        \
	*(void **)&zydis.name##_ = dlsym(library, #name); \
	if (!zydis.name##_)                               \
		return -ENOTSUP;
	FUNCTIONS(LOAD)
#undef LOAD
	return 0; /* and it is never unloaded */
}

int emul_translate(uintptr_t rip, const uint8_t *bytes, unsigned available,
		   struct emul_translated *made, uint8_t code[EMUL_CODE_MAX])
{
	struct decoded d;
	ZydisDecoder decoder;
	ZyanStatus status;
	int rc;

	zydis.ZydisDecoderInit_(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	status = zydis.ZydisDecoderDecodeFull_(&decoder, bytes, available, &d.in, d.op);
	if (status == ZYDIS_STATUS_NO_MORE_DATA)
		return -EAGAIN;
	if (!ZYAN_SUCCESS(status))
		return -EILSEQ;
	*made = (struct emul_translated){.rip = rip, .length = d.in.length, .spare = -1};
	memcpy(made->bytes, bytes, d.in.length);
	if (category_refused(&d.in) || reaches_beyond(&d))
		rc = -ENOTSUP;
	else if (d.in.meta.category == ZYDIS_CATEGORY_STRINGOP)
		rc = translate_string(made, &d, code);
	else
		rc = translate_simple(made, &d, code);
	if (rc < 0) {
		made->kind = EMUL_REFUSED;
		return 0;
	}
	return rc;
}
