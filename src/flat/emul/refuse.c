/* SPDX-License-Identifier: BSD-2-Clause */
/* Processors without emulation: every instruction is refused, and its page is mapped instead. */
#include "flat/emul/emul.h"

#include <errno.h>

int emul_setup(void)
{
	return -ENOTSUP;
}

int emul_forked(void)
{
	return 0;
}

int emul_decode(const ucontext_t *context, uint64_t page, struct emul_use *use)
{
	(void)context;
	(void)page;
	(void)use;
	return -ENOTSUP;
}

int emul_run(ucontext_t *context, const struct emul_use *use, void *const at[2])
{
	(void)context;
	(void)use;
	(void)at;
	return -ENOTSUP;
}

bool emul_fixup(ucontext_t *context)
{
	(void)context;
	return false;
}
