/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Translated instructions, in executable memory, found by address and bytes.
 */
#ifndef FATHOM_SRC_FLAT_EMUL_TRANSLATED_H
#define FATHOM_SRC_FLAT_EMUL_TRANSLATED_H

#include <stdbool.h>
#include <stdint.h>

#define EMUL_CODE_MAX 24 /* an instruction of at most 15 bytes, and a return */

enum emul_kind { EMUL_SIMPLE, EMUL_STRING, EMUL_REFUSED };

/* REPE/REPNE of CMPS and SCAS also end at a difference or a match. */
enum emul_repeat { EMUL_ONCE, EMUL_REP, EMUL_REPE, EMUL_REPNE };

/* How an instruction finds its operand: registers are indices of mcontext_t.gregs, -1: none. */
struct emul_address {
	int64_t displacement; /* relative to RIP: the address itself */
	int8_t base, index;
	uint8_t scale;
};

struct emul_translated {
	uintptr_t rip;
	uint8_t bytes[15], length; /* of the instruction */
	uint8_t kind;		   /* of enum emul_kind */
	bool read, write;	   /* the operand; of string instructions, that at RDI */
	bool at_rdi, at_rsi;	   /* a string instruction's operands */
	bool fpu;		   /* uses registers in the XSAVE area */
	bool locked;
	uint8_t repeat; /* of enum emul_repeat */
	/*
	 * register that the instruction does not use; the translated instruction's operand is
	 * [spare]
	 */
	int8_t spare;
	uint32_t width; /* bytes of the operand, or of one element */
	struct emul_address address;
	const void *code;
};

/* Executable memory for translated instructions; once. Returns 0 or -ENOTSUP. */
int translated_setup(void);

/*
 * In a child of fork(), which shares the code with its parent but not the table: an empty table,
 * and memory of its own. Returns 0 or a negative errno.
 */
int translated_forked(void);

/* The translated instruction for these bytes at this address, or NULL. */
const struct emul_translated *translated_find(uintptr_t rip, const uint8_t *bytes,
					      unsigned available);

/*
 * Keep `made` with this code and return where it is kept; NULL if the table is full. Another thread
 * may keep an equal one at the same time; both stay valid.
 */
const struct emul_translated *translated_keep(const struct emul_translated *made,
					      const uint8_t *code, unsigned code_length);

/*
 * Drop all translated instructions, while no thread uses one. For tests, which make more than a
 * program has.
 */
void translated_reset(void);

/* Is this address inside the code of a translated instruction? */
bool translated_contains(uintptr_t address);

#endif
