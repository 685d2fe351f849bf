/* SPDX-License-Identifier: BSD-2-Clause */
/* The way into and out of a translated instruction. */
#ifndef FATHOM_SRC_FLAT_EMUL_ENTER_H
#define FATHOM_SRC_FLAT_EMUL_ENTER_H

#include <stdint.h>

#define ENTER_FLAGS 0xcd5u /* CF PF AF ZF SF DF OF */

/*
 * Load the registers in gregs (in the order of mcontext_t.gregs, RSP and RIP excepted; of the flags
 * ENTER_FLAGS), call `code`, and store the registers back. If `xsave` is not NULL, the components
 * in `mask` are loaded from there and saved to it. Returns 0, or 1 if the translated instruction
 * faulted.
 */
int emul_enter(long long *gregs, const void *code, void *xsave, uint64_t mask);

/* Where a translated instruction goes on after a fault. */
extern const char emul_enter_fault[];

#endif
