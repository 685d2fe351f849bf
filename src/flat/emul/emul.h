/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Execute one faulting instruction on memory at another address.
 *
 * A load or store of a page that is not mapped raises a signal. Its handler asks emul_decode()
 * which bytes the instruction accesses, finds out where these bytes are, and calls emul_run(),
 * which executes the translated instruction with that address in place of its own: loads, stores,
 * arithmetic, SIMD and atomic operations have the processor's own semantics. String instructions
 * are executed page by page, as the processor itself may do after an interrupt.
 *
 * Invariants:
 *  1. emul_run() changes the registers in the context as the instruction would, and nothing else;
 *     if it returns an error, no register was changed (a string instruction: the elements done are
 *     accounted for).
 *  2. A translated instruction is never changed or removed while the process runs, so that threads
 *     use translated ones without a lock. It is found by the address and all bytes of the
 *     instruction.
 *  3. Nothing here allocates, locks, or calls libc functions that do: it all runs in signal
 *     handlers.
 *  4. A fault inside a translated instruction (a misaligned address, the other operand of a string
 *     move) ends emul_run() with -EFAULT: the handlers of SIGSEGV and SIGBUS call emul_fixup()
 *     first. The caller maps the page and the instruction faults again where the program can see
 *     it.
 */
#ifndef FATHOM_SRC_FLAT_EMUL_EMUL_H
#define FATHOM_SRC_FLAT_EMUL_EMUL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

/* One operand in memory: bytes [address, address + length). */
struct emul_operand {
	uintptr_t address;
	uint32_t length;
	bool read, write;
};

/* What an instruction accesses; made by emul_decode(), used by emul_run(). */
struct emul_use {
	const struct emul_translated *translated;
	uint64_t elements; /* of a string instruction, that this step executes */
	unsigned operands; /* 1 or 2 */
	struct emul_operand
		op[2]; /* of a string instruction: those at RDI and at RSI, in this order */
	bool locked;   /* the access is atomic */
};

/*
 * Prepare the process: executable memory for translated instructions. Call it once, before the
 * first fault. Returns 0; -ENOTSUP on processors that are not supported or without executable
 * memory: emul_decode() then refuses every instruction.
 */
int emul_setup(void);

/* In a child of fork(), before it uses a region. Returns 0 or a negative errno. */
int emul_forked(void);

/*
 * What does the instruction at the context's RIP access? `page` is the size in which the caller
 * finds memory: operands of string instructions end at its multiples unless an element crosses one.
 * Returns 0 or -ENOTSUP, for instructions that cannot be executed on another address.
 */
int emul_decode(const ucontext_t *context, uint64_t page, struct emul_use *use);

/*
 * Execute it with operand i at at[i] instead of at use->op[i].address. Returns 0, or -EFAULT
 * (invariant 4), or -ENOTSUP (floating-point exceptions are unmasked).
 */
int emul_run(ucontext_t *context, const struct emul_use *use, void *const at[2]);

/*
 * Called by handlers of SIGSEGV and SIGBUS: if the fault is inside a translated, makes emul_run()
 * return -EFAULT when the handler returns, and returns true.
 */
bool emul_fixup(ucontext_t *context);

#endif
