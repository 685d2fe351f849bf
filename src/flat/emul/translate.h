/* SPDX-License-Identifier: BSD-2-Clause */
/* From the bytes of an instruction to the translated one. */
#ifndef FATHOM_SRC_FLAT_EMUL_TRANSLATE_H
#define FATHOM_SRC_FLAT_EMUL_TRANSLATE_H

#include "flat/emul/translated.h"

/* Load the decoder, before the first call of emul_translate(). Returns 0 or -ENOTSUP. */
int emul_translate_setup(void);

/*
 * Decode the instruction at rip, of which `available` bytes can be read, and write code for it.
 * *made is complete except for `code`; kind EMUL_REFUSED: no code. Returns the length of the code,
 * or -EAGAIN if the instruction is longer than what is available, or -EILSEQ if the bytes are no
 * instruction.
 */
int emul_translate(uintptr_t rip, const uint8_t *bytes, unsigned available,
		   struct emul_translated *made, uint8_t code[EMUL_CODE_MAX]);

#endif
