/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Instructions executed natively and by emul_run() after a real fault, from the same registers and
 * memory: both must leave the same registers, flags, vector state and memory. Instructions are
 * random bytes that decode to something with an operand in memory; the test counts how often each
 * instruction that must be supported was tried. FTH_LONG_TESTS runs a million and more.
 */
#include "flat/emul/emul.h"
#include "fth_test.h"
#include "flat/emul/translate.h"
#include "flat/emul/translated.h"
#include "flat/emul/enter.h"

#include "fathom/base/rng.h"
#include "fathom/flat.h"

#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <Zydis/Zydis.h>

#define PAGE	   4096u
#define PAGES	   4u
#define SPACE	   (PAGES * PAGE)
#define CODE_SPACE (16u * PAGE)

enum outcome { DONE, FAULTED, ILLEGAL, REFUSED };

static struct {
	uint8_t *shadow, *cold; /* the same memory; cold is made inaccessible */
	uint8_t *code;
	uint64_t parts; /* of the XSAVE area */
	bool inaccessible;
	volatile enum outcome outcome;
	volatile unsigned faults;
} t;

struct state {
	_Alignas(64) uint8_t xsave[4096];
	long long gregs[NGREG];
};

/* Leaves the code that emul_enter() called. */
static void leave(ucontext_t *context, enum outcome outcome)
{
	greg_t *gregs = context->uc_mcontext.gregs;

	t.outcome = outcome;
	gregs[REG_RSP] += 8;
	gregs[REG_RIP] = (greg_t)(uintptr_t)emul_enter_fault;
}

static bool translate(const struct emul_use *use, void *at[2])
{
	bool any = false;

	for (unsigned i = 0; i < use->operands; i++) {
		uintptr_t offset = use->op[i].address - (uintptr_t)t.cold;

		at[i] = (void *)use->op[i].address;
		if (offset >= SPACE)
			continue;
		if (offset + use->op[i].length > SPACE)
			return false;
		at[i] = t.shadow + offset;
		any = true;
	}
	return any;
}

static void on_fault(int sig, siginfo_t *info, void *raw)
{
	ucontext_t *context = raw;
	uintptr_t rip = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
	struct emul_use use;
	void *at[2] = {NULL, NULL};

	(void)info;
	if (sig != SIGILL && emul_fixup(context))
		return;
	if (rip - (uintptr_t)t.code >= CODE_SPACE)
		abort();
	t.faults++;
	if (sig == SIGILL) {
		leave(context, ILLEGAL);
		return;
	}
	if (!t.inaccessible) {
		leave(context, FAULTED);
		return;
	}
	if (emul_decode(context, PAGE, &use) < 0 || !translate(&use, at)) {
		leave(context, REFUSED);
		return;
	}
	switch (emul_run(context, &use, at)) {
	case 0:
		break;
	case -EFAULT:
		leave(context, FAULTED);
		break;
	default:
		leave(context, REFUSED);
	}
}

static int set_up(void **unused)
{
	unsigned eax, ebx, ecx, edx;
	int fd = memfd_create("emul_test", MFD_CLOEXEC);

	(void)unused;
	assert_int_equal(emul_setup(), 0);
	assert_int_equal(ftruncate(fd, SPACE), 0);
	t.shadow = mmap(NULL, SPACE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* code within 2 GiB of the memory, for addresses relative to RIP */
	t.code = mmap(NULL, CODE_SPACE + SPACE + PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(t.code, MAP_FAILED);
	t.cold = mmap(t.code + CODE_SPACE, SPACE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		      fd, 0);
	assert_ptr_equal(t.cold, t.code + CODE_SPACE);
	assert_ptr_not_equal(t.shadow, MAP_FAILED);
	close(fd);
	__cpuid(1, eax, ebx, ecx, edx);
	assert_true(ecx & bit_OSXSAVE);
	__asm__("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
	t.parts = eax & 0xe7u;
	return 0;
}

/* In the test itself: cmocka has handlers of its own outside. */
static void take_signals(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};

	assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
	assert_int_equal(sigaction(SIGBUS, &action, NULL), 0);
	assert_int_equal(sigaction(SIGILL, &action, NULL), 0);
}

static void set_access(bool inaccessible)
{
	t.inaccessible = inaccessible;
	assert_int_equal(mprotect(t.cold, SPACE, inaccessible ? PROT_NONE : PROT_READ | PROT_WRITE),
			 0);
}

static void fill_random(struct fth_rng *rng, void *to, size_t length)
{
	uint64_t *words = to;

	for (size_t i = 0; i < length / 8; i++)
		words[i] = fth_rng_next(rng);
}

/* Registers with random contents, the vector state in its standard form. */
static void random_state(struct fth_rng *rng, struct state *state)
{
	uint16_t control = 0x37f, top = 0;
	uint32_t mxcsr = 0x1f80;
	uint64_t header[8] = {t.parts};

	fill_random(rng, state->gregs, sizeof(state->gregs));
	for (unsigned i = 0; i < NGREG; i++)
		if (fth_rng_below(rng, 3) == 0)
			state->gregs[i] = (long long)fth_rng_below(rng, 256) - 128;
	state->gregs[REG_EFL] &= ENTER_FLAGS & ~0x400u;
	fill_random(rng, state->xsave, sizeof(state->xsave));
	memset(state->xsave, 0, 32);
	memcpy(state->xsave, &control, 2);
	memcpy(state->xsave + 2, &top, 2);
	state->xsave[4] = (uint8_t)fth_rng_next(rng); /* which x87 registers are in use */
	memcpy(state->xsave + 24, &mxcsr, 4);
	memcpy(state->xsave + 512, header, sizeof(header));
}

static enum outcome execute(struct state *state, const uint8_t *code, bool inaccessible)
{
	set_access(inaccessible);
	t.outcome = DONE;
	t.faults = 0;
	emul_enter(state->gregs, code, state->xsave, t.parts);
	return t.outcome;
}

/* Random bytes that look like an instruction with a ModRM byte for memory. */
static void random_bytes(struct fth_rng *rng, uint8_t *bytes)
{
	static const uint8_t legacy[] = {0x66, 0xf2, 0xf3, 0xf0};
	unsigned n = 0, form = (unsigned)fth_rng_below(rng, 10);
	uint8_t modrm;

	fill_random(rng, bytes, 24);
	if (fth_rng_below(rng, 2))
		bytes[n++] = legacy[fth_rng_below(rng, 4)];
	if (form < 7 && fth_rng_below(rng, 2))
		bytes[n++] = (uint8_t)(0x40 | fth_rng_below(rng, 16));
	switch (form) {
	case 0:
	case 1:
	case 2:
		break;
	case 3:
	case 4:
	case 5:
		bytes[n++] = 0x0f;
		break;
	case 6:
		bytes[n++] = 0x0f;
		bytes[n++] = fth_rng_below(rng, 2) ? 0x38 : 0x3a;
		break;
	case 7:
		n = 0;
		bytes[n++] = 0xc5;
		n++;
		break;
	case 8:
		n = 0;
		bytes[n++] = 0xc4;
		bytes[n++] = (uint8_t)((fth_rng_next(rng) & 0xe0) | (1 + fth_rng_below(rng, 3)));
		n++;
		break;
	default:
		n = 0;
		bytes[n++] = 0x62;
		bytes[n] = (uint8_t)((bytes[n] & 0xf0) | (1 + fth_rng_below(rng, 3)));
		bytes[n + 1] |= 4;
		n += 3;
		if (fth_rng_below(rng, 2)) /* no mask */
			bytes[n - 1] &= 0x78;
	}
	n++; /* opcode */
	modrm = bytes[n];
	if ((modrm & 0xc0) == 0xc0)
		bytes[n] &= (uint8_t)~0x40;
}

/*
 * Choose registers and, relative to RIP, the displacement, so that the operand is at `target`.
 * Returns false if no registers and displacement give that address.
 */
static bool aim(struct state *state, struct emul_translated *made, uint8_t *code, uint8_t *target)
{
	struct emul_address *a = &made->address;
	uint64_t rest = (uint64_t)(uintptr_t)target - (uint64_t)a->displacement;

	if (a->base < 0 && a->index < 0) {
		ZydisDecodedInstruction in;
		ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
		ZydisDecoder decoder;
		int32_t displacement = (int32_t)(target - (code + made->length));

		ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
		assert_true(ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, 15, &in, op)));
		if (!(in.attributes & ZYDIS_ATTRIB_IS_RELATIVE))
			return false;
		memcpy(code + in.raw.disp.offset, &displacement, 4);
		return true;
	}
	if (a->base == REG_RSP || a->index == REG_RSP || a->base == a->index)
		return false;
	if (a->base >= 0) {
		if (a->index >= 0)
			rest -= (uint64_t)state->gregs[a->index] * a->scale;
		state->gregs[a->base] = (long long)rest;
		return true;
	}
	if (rest % a->scale)
		return false;
	state->gregs[a->index] = (long long)(rest / a->scale);
	return true;
}

static const char *const required[] = {
	"mov",	      "movzx",	  "movsx", "movsxd",  "add",	 "or",		 "adc",
	"sbb",	      "and",	  "sub",   "xor",     "cmp",	 "test",	 "inc",
	"dec",	      "neg",	  "not",   "xchg",    "xadd",	 "cmpxchg",	 "cmpxchg8b",
	"cmpxchg16b", "shl",	  "shr",   "sar",     "rol",	 "ror",		 "rcl",
	"rcr",	      "bt",	  "bts",   "imul",    "mul",	 "cmovnbe",	 "setz",
	"movnti",     "popcnt",	  "bsf",   "movaps",  "movups",	 "movdqa",	 "movdqu",
	"movss",      "movsd",	  "movd",  "movq",    "addps",	 "mulsd",	 "pxor",
	"pshufb",     "cvtsi2sd", "fld",   "fstp",    "fild",	 "vmovups",	 "vmovdqu",
	"vaddps",     "vpaddd",	  "vpxor", "vmovaps", "vpshufb", "vpbroadcastd", "vmovd",
	"vmovq",
};
#define REQUIRED (sizeof(required) / sizeof(required[0]))

static unsigned tried[ZYDIS_MNEMONIC_MAX_VALUE + 1];

static void count_mnemonic(const uint8_t *code)
{
	ZydisDecodedInstruction in;
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, 15, &in, op)))
		tried[in.mnemonic]++;
}

static void describe(const uint8_t *code, unsigned length, const char *what)
{
	ZydisDisassembledInstruction text;

	ZydisDisassembleIntel(ZYDIS_MACHINE_MODE_LONG_64, (ZyanU64)(uintptr_t)code, code, 15,
			      &text);
	print_error("%s: %s:", what, text.text);
	for (unsigned i = 0; i < length; i++)
		print_error(" %02x", code[i]);
	print_error("\n");
}

/* An instruction that has to be supported and was not executed yet, or NULL. */
static const char *untried(void)
{
	for (unsigned i = 0; i < REQUIRED; i++) {
		if (required[i][0] == 'v' && !(t.parts & 4)) /* no AVX here */
			continue;
		for (unsigned m = 1; m <= ZYDIS_MNEMONIC_MAX_VALUE; m++)
			if (!tried[m] && strcmp(ZydisMnemonicGetString(m), required[i]) == 0)
				return required[i];
	}
	return NULL;
}

/* RSP and RIP are not loaded; the rest of the array is not of the processor. */
static bool same_gregs(const struct state *a, const struct state *b)
{
	for (int i = 0; i <= REG_RCX; i++)
		if (a->gregs[i] != b->gregs[i])
			return false;
	return ((a->gregs[REG_EFL] ^ b->gregs[REG_EFL]) & ENTER_FLAGS) == 0;
}

/* The pointers of the last x87 instruction differ, as its address does. */
static bool same_vectors(const struct state *a, const struct state *b)
{
	return memcmp(a->xsave, b->xsave, 6) == 0 &&
	       memcmp(a->xsave + 24, b->xsave + 24, 440) == 0 &&
	       memcmp(a->xsave + 512, b->xsave + 512, sizeof(a->xsave) - 512) == 0;
}

/* One instruction, both ways. Returns true if it was executed. */
static bool compare_one(struct fth_rng *rng, uint8_t *code, struct emul_translated *made)
{
	static struct state first, native, emulated;
	static uint8_t before[SPACE], after[SPACE];
	uint8_t *target = t.cold + fth_rng_below(rng, SPACE - made->width);
	enum outcome a, b;

	if (fth_rng_below(rng, 2)) /* aligned */
		target = t.cold + (size_t)(target - t.cold) / 64 * 64;
	if (fth_rng_below(rng, 8) == 0 && made->width > 1) /* across a page's end */
		target = t.cold + 2 * PAGE - 1 - fth_rng_below(rng, made->width - 1);
	random_state(rng, &first);
	if (!aim(&first, made, code, target))
		return false;
	fill_random(rng, before, sizeof(before));
	if (fth_rng_below(rng, 2)) { /* comparisons that succeed */
		memcpy(before + (target - t.cold), &first.gregs[REG_RAX],
		       made->width < 8 ? made->width : 8);
		if (made->width == 16)
			memcpy(before + (target - t.cold) + 8, &first.gregs[REG_RDX], 8);
	}
	memcpy(t.shadow, before, sizeof(before));
	native = emulated = first;
	a = execute(&native, code, false);
	memcpy(after, t.shadow, sizeof(after));
	memcpy(t.shadow, before, sizeof(before));
	b = execute(&emulated, code, true);
	if (b == REFUSED) { /* exceptions unmasked by the instruction itself do not count */
		describe(code, made->length, "refused");
		return false;
	}
	if (a != b || memcmp(after, t.shadow, sizeof(after)) != 0) {
		describe(code, made->length, a != b ? "outcome differs" : "memory differs");
		fail();
	}
	if (a != DONE)
		return false;
	if (!same_gregs(&native, &emulated) || !same_vectors(&native, &emulated)) {
		describe(code, made->length,
			 same_gregs(&native, &emulated) ? "vectors differ" : "registers differ");
		fail();
	}
	return t.faults == 1;
}

static void instructions_give_the_same_as_natively(void **unused)
{
	uint64_t rounds = getenv("FTH_LONG_TESTS") ? 1200000 : 60000, executed = 0;
	struct fth_rng rng = {1};
	uint8_t bytes[24], code_out[EMUL_CODE_MAX];

	(void)unused;
	take_signals();
	for (uint64_t i = 0;
	     executed < rounds || i % 8192 != 0 || (untried() && executed < 20 * rounds); i++) {
		uint8_t *code = t.code + i % (CODE_SPACE / 32) * 32;
		struct emul_translated made;

		if (i % 8192 == 0)
			translated_reset();
		random_bytes(&rng, bytes);
		memcpy(code, bytes, sizeof(bytes));
		if (emul_translate((uintptr_t)code, code, 15, &made, code_out) <= 0 ||
		    made.kind != EMUL_SIMPLE)
			continue;
		code[made.length] = 0xc3;
		if (!compare_one(&rng, code, &made))
			continue;
		count_mnemonic(code);
		executed++;
	}
	set_access(false);
	if (untried())
		fail_msg("%s was never executed", untried());
}

/* A string instruction: prefix or none, width, and one of MOVS, CMPS, STOS, LODS, SCAS. */
static unsigned random_string(struct fth_rng *rng, uint8_t *code)
{
	static const uint8_t opcodes[] = {0xa4, 0xa6, 0xaa, 0xac, 0xae};
	uint8_t opcode = opcodes[fth_rng_below(rng, 5)];
	unsigned n = 0, prefix = (unsigned)fth_rng_below(rng, 4);

	if (prefix)
		code[n++] = prefix == 1 && (opcode == 0xa6 || opcode == 0xae) ? 0xf2 : 0xf3;
	switch (fth_rng_below(rng, 4)) {
	case 0:
		code[n++] = opcode;
		break;
	case 1:
		code[n++] = 0x66;
		code[n++] = opcode | 1;
		break;
	case 2:
		code[n++] = 0x48;
		code[n++] = opcode | 1;
		break;
	default:
		code[n++] = opcode | 1;
	}
	code[n] = 0xc3;
	return n;
}

/* Comparisons over many elements that are equal, but for one now and then. */
static void random_memory(struct fth_rng *rng, uint8_t *memory, size_t length)
{
	memset(memory, (int)fth_rng_below(rng, 3), length);
	for (unsigned i = 0; i < fth_rng_below(rng, 4); i++)
		memory[fth_rng_below(rng, length)] = (uint8_t)fth_rng_next(rng);
}

static void strings_give_the_same_as_natively(void **unused)
{
	static struct state first, native, emulated;
	static uint8_t before[SPACE], after[SPACE], plain[SPACE], plain_before[SPACE],
		plain_after[SPACE];
	uint64_t rounds = getenv("FTH_LONG_TESTS") ? 200000 : 10000, emulations = 0;
	struct fth_rng rng = {2};

	(void)unused;
	take_signals();
	for (uint64_t i = 0; i < rounds; i++) {
		uint8_t *code = t.code + i % (CODE_SPACE / 32) * 32;
		uint64_t n = fth_rng_below(&rng, fth_rng_below(&rng, 2) ? 16 : SPACE / 16);
		unsigned where = (unsigned)fth_rng_below(&rng, 4);
		uint64_t at_rdi = fth_rng_below(&rng, SPACE - 8 * n - 8);
		uint64_t at_rsi = fth_rng_below(&rng, SPACE - 8 * n - 8);
		enum outcome a, b;
		unsigned length;

		if (i % 512 == 0)
			translated_reset();
		length = random_string(&rng, code);
		random_state(&rng, &first);
		first.gregs[REG_RCX] = (long long)n;
		first.gregs[REG_RAX] = (long long)fth_rng_below(&rng, 3);
		first.gregs[REG_RDI] =
			(long long)(uintptr_t)((where & 1 ? plain : t.cold) + at_rdi);
		first.gregs[REG_RSI] =
			(long long)(uintptr_t)((where & 2 ? plain : t.cold) + at_rsi);
		random_memory(&rng, before, SPACE);
		random_memory(&rng, plain_before, SPACE);
		native = emulated = first;
		memcpy(t.shadow, before, SPACE);
		memcpy(plain, plain_before, SPACE);
		a = execute(&native, code, false);
		memcpy(after, t.shadow, SPACE);
		memcpy(plain_after, plain, SPACE);
		memcpy(t.shadow, before, SPACE);
		memcpy(plain, plain_before, SPACE);
		b = execute(&emulated, code, true);
		emulations += t.faults;
		if (a != b || memcmp(after, t.shadow, SPACE) != 0 ||
		    memcmp(plain_after, plain, SPACE) != 0 || !same_gregs(&native, &emulated)) {
			describe(code, length, "string instruction differs");
			fail();
		}
	}
	set_access(false);
	assert_true(emulations > rounds / 2);
}

/* What cannot be executed elsewhere is refused, never executed wrongly. */
static void other_instructions_are_refused(void **unused)
{
	static const struct {
		const char *name;
		uint8_t bytes[15];
	} cases[] = {
		{"push [rax]", {0xff, 0x30}},
		{"pop [rax]", {0x8f, 0x00}},
		{"call [rax]", {0xff, 0x10}},
		{"jmp [rax]", {0xff, 0x20}},
		{"mov [rax], rsp", {0x48, 0x89, 0x20}},
		{"mov rsp, [rax]", {0x48, 0x8b, 0x20}},
		{"mov ds, [rax]", {0x8e, 0x18}},
		{"mov rax, fs:[rax]", {0x64, 0x48, 0x8b, 0x00}},
		{"mov rax, [eax]", {0x67, 0x48, 0x8b, 0x00}},
		{"bts [rax], rcx", {0x48, 0x0f, 0xab, 0x08}},
		{"div [rax]", {0xf7, 0x30}},
		{"fxsave [rax]", {0x0f, 0xae, 0x00}},
		{"vpgatherdd xmm0, [rax+xmm1], xmm2", {0xc4, 0xe2, 0x69, 0x90, 0x04, 0x08}},
		{"lgdt [rax]", {0x0f, 0x01, 0x10}},
		{"maskmovdqu xmm0, xmm1", {0x66, 0x0f, 0xf7, 0xc1}},
		{"xlatb", {0xd7}},
		{"insb", {0x6c}},
		{"nop", {0x90}},
	};
	uint8_t code[EMUL_CODE_MAX];
	struct emul_translated made;

	(void)unused;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int rc = emul_translate(0x1000, cases[i].bytes, 15, &made, code);

		if (rc != 0 || made.kind != EMUL_REFUSED)
			fail_msg("%s was not refused (%d)", cases[i].name, rc);
	}
	assert_int_equal(emul_translate(0x1000, (const uint8_t[]){0x48, 0x8b}, 2, &made, code),
			 -EAGAIN);
	assert_int_equal(emul_translate(0x1000, (const uint8_t[15]){0x06}, 15, &made, code),
			 -EILSEQ);
}

/* An instruction that ends with its page, and nothing behind it. */
static void no_byte_behind_the_page_is_read(void **unused)
{
	static struct state state;
	uint8_t *code = t.code + CODE_SPACE - 4; /* mov rax, [rdi]; ret */
	static const uint8_t bytes[] = {0x48, 0x8b, 0x07, 0xc3};
	uint64_t value = 0x1122334455667788;

	(void)unused;
	take_signals();
	memcpy(code, bytes, sizeof(bytes));
	memcpy(t.shadow + 24, &value, sizeof(value));
	state.gregs[REG_RDI] =
		(long long)(uintptr_t)(t.cold + 24); /* inaccessible, behind the code */
	set_access(true);
	t.outcome = DONE;
	assert_int_equal(emul_enter(state.gregs, code, NULL, 0), 0);
	assert_int_equal(t.outcome, DONE);
	set_access(false);
	assert_true(state.gregs[REG_RAX] == (long long)value);
}

/*
 * A child of fork() that opens a region translates to memory of its own: what it keeps at a slot is
 * not its parent's.
 */
static void a_child_does_not_change_the_code_of_its_parent(void **unused)
{
	struct emul_translated made = {.rip = 0x7000, .length = 1};
	uint8_t ours[EMUL_CODE_MAX], theirs[EMUL_CODE_MAX], byte = 0;
	struct fth_flat *flat;
	int go[2], status;
	pid_t child;

	(void)unused;
	memset(ours, 0x90, sizeof(ours));
	memset(theirs, 0xcc, sizeof(theirs));
	if (fth_flat_open("mem:2M", 1u << 20, NULL, &flat) == -ENOTSUP)
		skip();
	translated_reset();
	assert_int_equal(pipe(go), 0);
	child = fork();
	if (child == 0) {
		struct fth_flat *own;

		if (read(go[0], &byte, 1) != 1 || fth_flat_open("mem:2M", 1u << 20, NULL, &own) < 0)
			_exit(1);
		_exit(translated_keep(&made, theirs, sizeof(theirs)) ? 0 : 2);
	}
	assert_non_null(translated_keep(&made, ours, sizeof(ours)));
	assert_int_equal(write(go[1], &byte, 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_memory_equal(translated_find(made.rip, made.bytes, 1)->code, ours, sizeof(ours));
	fth_flat_discard(flat);
	close(go[0]);
	close(go[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(instructions_give_the_same_as_natively),
		cmocka_unit_test(strings_give_the_same_as_natively),
		cmocka_unit_test(other_instructions_are_refused),
		cmocka_unit_test(no_byte_behind_the_page_is_read),
		cmocka_unit_test(a_child_does_not_change_the_code_of_its_parent),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
