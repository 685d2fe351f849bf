/* SPDX-License-Identifier: BSD-2-Clause */
#include "flat/preload/syscall_direct.h"

#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Newer than some headers. */
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
#ifndef PR_SYS_DISPATCH_ON
#define PR_SYS_DISPATCH_ON 1
#endif

/* As many as the assembler makes below, and as long. */
#define PLAIN_SITES 512
#define FORK_SITES  32
#define SHARE_SITES 32

#define PLAIN_SIZE 8  /* bytes of code of a site */
#define CHILD_SIZE 32 /* the same, of a site that looks for a child */

__thread volatile uint8_t dispatch_selector = DISPATCH_ALLOW;

/* Where sites jump to; 0: free. They never change after that. */
__attribute__((visibility("hidden"))) uintptr_t direct_plain_back[PLAIN_SITES];
__attribute__((visibility("hidden"))) uintptr_t direct_fork_back[FORK_SITES];
__attribute__((visibility("hidden"))) uintptr_t direct_share_back[SHARE_SITES];

extern const uint8_t direct_plain_sites[], direct_fork_sites[], direct_share_sites[];
extern const uint8_t __start_fathom_direct[], __stop_fathom_direct[];

/*
 * In a child RAX is 0 and the stack is the new thread's, or a copy. Only RAX, RCX and R11 may
 * change, as with every system call.
 */
__asm__(".pushsection fathom_direct, \"ax\", @progbits\n"
	".hidden __start_fathom_direct, __stop_fathom_direct\n"
	".hidden direct_call, direct_restorer, direct_plain_sites, direct_fork_sites, "
	"direct_share_sites\n"
	".globl direct_call, direct_restorer, direct_plain_sites, direct_fork_sites, "
	"direct_share_sites\n"
	".type direct_call, @function\n"
	"direct_call:\n"
	"	.cfi_startproc\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	mov %rdx, %rsi\n"
	"	mov %rcx, %rdx\n"
	"	mov %r8, %r10\n"
	"	mov %r9, %r8\n"
	"	mov 8(%rsp), %r9\n"
	"	syscall\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size direct_call, . - direct_call\n"
	"	nop\n"
	".type direct_restorer, @function\n"
	"direct_restorer:\n"
	"	.byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00\n" /* mov $15, %rax */
	"	syscall\n"
	".size direct_restorer, . - direct_restorer\n"
	/* a thread, or a process with this memory: its selector is in its thread-local memory */
	"direct_share_child:\n"
	"	push %rdi\n"
	"	push %rsi\n"
	"	push %rdx\n"
	"	push %r8\n"
	"	push %r10\n"
	"	mov $157, %eax\n" /* prctl */
	"	mov $59, %edi\n"
	"	mov $1, %esi\n"
	"	lea __start_fathom_direct(%rip), %rdx\n"
	"	lea __stop_fathom_direct(%rip), %r10\n"
	"	sub %rdx, %r10\n"
	"	mov %fs:0, %r8\n"
	"	add dispatch_selector@gottpoff(%rip), %r8\n"
	"	movb $1, (%r8)\n"
	"	syscall\n"
	"	pop %r10\n"
	"	pop %r8\n"
	"	pop %rdx\n"
	"	pop %rsi\n"
	"	pop %rdi\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	/* a new process: RBX keeps the stack pointer while it is aligned for C */
	"direct_fork_child:\n"
	"	push %rdi\n"
	"	push %rsi\n"
	"	push %rdx\n"
	"	push %r8\n"
	"	push %r9\n"
	"	push %r10\n"
	"	push %rbx\n"
	"	mov %rsp, %rbx\n"
	"	and $-64, %rsp\n"
	"	call direct_forked\n"
	"	mov %rbx, %rsp\n"
	"	pop %rbx\n"
	"	pop %r10\n"
	"	pop %r9\n"
	"	pop %r8\n"
	"	pop %rdx\n"
	"	pop %rsi\n"
	"	pop %rdi\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	"	.balign 64\n"
	"direct_plain_sites:\n"
	"	.set direct_at, 0\n"
	"	.rept 512\n"
	"	syscall\n"
	"	jmp *(direct_plain_back + direct_at)(%rip)\n"
	"	.set direct_at, direct_at + 8\n"
	"	.endr\n"
	"direct_fork_sites:\n"
	"	.set direct_at, 0\n"
	"	.rept 32\n"
	"	.balign 32\n"
	"	syscall\n"
	"	test %rax, %rax\n"
	"	jnz 1f\n"
	"	lea -128(%rsp), %rsp\n"
	"	call direct_fork_child\n"
	"	lea 128(%rsp), %rsp\n"
	"1:	jmp *(direct_fork_back + direct_at)(%rip)\n"
	"	.set direct_at, direct_at + 8\n"
	"	.endr\n"
	"	.balign 32\n"
	"direct_share_sites:\n"
	"	.set direct_at, 0\n"
	"	.rept 32\n"
	"	.balign 32\n"
	"	syscall\n"
	"	test %rax, %rax\n"
	"	jnz 1f\n"
	"	lea -128(%rsp), %rsp\n"
	"	call direct_share_child\n"
	"	lea 128(%rsp), %rsp\n"
	"1:	jmp *(direct_share_back + direct_at)(%rip)\n"
	"	.set direct_at, direct_at + 8\n"
	"	.endr\n"
	".popsection\n");

int dispatch_enable(void)
{
	dispatch_selector = DISPATCH_BLOCK;
	return (int)direct_call(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON,
				(long)(uintptr_t)__start_fathom_direct,
				__stop_fathom_direct - __start_fathom_direct,
				(long)(uintptr_t)&dispatch_selector, 0);
}

static const struct sites {
	uintptr_t *back;
	const uint8_t *code;
	unsigned n, size;
} sites[DIRECT_KINDS] = {
	[DIRECT_PLAIN] = {direct_plain_back, direct_plain_sites, PLAIN_SITES, PLAIN_SIZE},
	[DIRECT_FORK] = {direct_fork_back, direct_fork_sites, FORK_SITES, CHILD_SIZE},
	[DIRECT_SHARE] = {direct_share_back, direct_share_sites, SHARE_SITES, CHILD_SIZE},
};

uintptr_t direct_site(enum direct_kind kind, uintptr_t back)
{
	const struct sites *of = &sites[kind];
	unsigned first = (unsigned)((back * 0x9e3779b97f4a7c15u) >> 40);

	for (unsigned i = 0; i < of->n; i++) {
		unsigned at = (first + i) % of->n;
		uintptr_t old = __atomic_load_n(&of->back[at], __ATOMIC_RELAXED);

		if (old == 0 && __atomic_compare_exchange_n(&of->back[at], &old, back, false,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			old = back;
		if (old == back)
			return (uintptr_t)of->code + (uintptr_t)at * of->size;
	}
	return 0;
}
