/* SPDX-License-Identifier: BSD-2-Clause */
#include "workloads/pm/machine.h"

#include "workloads/pm/all_kernels.h"
#include "base/team.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK 16u /* items that a thread takes at once, at most */

struct cpu {
	struct pmw_machine machine;
	unsigned threads;
	struct fth_pm *pm;
	struct fth_pm_log *log;
};

/* Memory knows its length, for munmap(). */
#define PREFIX 4096u

typedef void (*range_fn)(const void *parameters, uint64_t from, uint64_t to);

#define RANGE(number, function, parameters)                                   \
	static void range_##number(const void *p, uint64_t from, uint64_t to) \
	{                                                                     \
		for (uint64_t item = from; item < to; item++)                 \
			function((const struct parameters *)p, item, 0);      \
	}
PMW_KERNELS(RANGE)

static const range_fn ranges[] = {
#define ENTRY(number, function, parameters) range_##number,
	PMW_KERNELS(ENTRY)};

static int allocate(struct pmw_machine *machine, uint64_t bytes, void **memory)
{
	uint64_t *start = mmap(NULL, bytes + PREFIX, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)machine;
	if (start == MAP_FAILED)
		return fth_fail(ENOMEM, "no memory for %llu bytes", (unsigned long long)bytes);
	*start = bytes + PREFIX;
	*memory = (uint8_t *)start + PREFIX;
	return 0;
}

static void release(struct pmw_machine *machine, void *memory)
{
	uint64_t *start;

	(void)machine;
	if (!memory)
		return;
	start = (uint64_t *)(void *)((uint8_t *)memory - PREFIX);
	munmap(start, *start);
}

static int copy(struct pmw_machine *machine, void *to, const void *from, uint64_t bytes)
{
	(void)machine;
	memcpy(to, from, bytes);
	return 0;
}

struct launch {
	range_fn range;
	const void *parameters;
	uint64_t items, chunk;
	uint64_t next;
};

static int run_thread(void *context, unsigned thread)
{
	struct launch *launch = context;
	uint64_t from;

	(void)thread;
	while ((from = fth_add_relaxed_dev64(&launch->next, launch->chunk)) < launch->items) {
		uint64_t left = launch->items - from;

		launch->range(launch->parameters, from,
			      from + (left < launch->chunk ? left : launch->chunk));
	}
	return 0;
}

static int launch_kernel(struct pmw_machine *machine, enum pmw_kernel kernel,
			 const void *parameters, uint64_t items)
{
	struct cpu *cpu = (struct cpu *)machine;
	struct launch launch = {ranges[kernel], parameters, items, CHUNK, 0};
	unsigned threads = items < cpu->threads ? (unsigned)items : cpu->threads;

	if (items == 0)
		return 0;
	if (launch.chunk * threads > items)
		launch.chunk = items / threads;
	return fth_team_run(threads, run_thread, &launch);
}

static int attach(struct pmw_machine *machine, struct fth_pm *pm, struct fth_pm_view *view)
{
	((struct cpu *)machine)->pm = pm;
	*view = fth_pm_view(pm);
	return 0;
}

static void detach(struct pmw_machine *machine)
{
	struct cpu *cpu = (struct cpu *)machine;

	fth_pm_log_close(cpu->log);
	cpu->log = NULL;
	cpu->pm = NULL;
}

static int log_open(struct pmw_machine *machine, uint64_t offset)
{
	struct cpu *cpu = (struct cpu *)machine;

	return fth_pm_log_open(cpu->pm, offset, &cpu->log);
}

static struct fth_pm_log_view log_view(struct pmw_machine *machine)
{
	return fth_pm_log_view(((struct cpu *)machine)->log);
}

static int log_clear(struct pmw_machine *machine)
{
	return fth_pm_log_clear(((struct cpu *)machine)->log);
}

static int save(struct pmw_machine *machine, struct fth_pm_checkpoint *checkpoint, uint32_t flags)
{
	(void)machine;
	return fth_pm_checkpoint_save(checkpoint, 0, flags);
}

static int restore(struct pmw_machine *machine, struct fth_pm_checkpoint *checkpoint)
{
	(void)machine;
	return fth_pm_checkpoint_restore(checkpoint, 0);
}

static void close_machine(struct pmw_machine *machine)
{
	free(machine);
}

static const struct pmw_machine_ops cpu_ops = {
	.name = "cpu",
	.allocate = allocate,
	.release = release,
	.upload = copy,
	.download = copy,
	.launch = launch_kernel,
	.attach = attach,
	.detach = detach,
	.log_open = log_open,
	.log_view = log_view,
	.log_clear = log_clear,
	.save = save,
	.restore = restore,
	.close = close_machine,
};

int pmw_machine_cpu(unsigned threads, struct pmw_machine **machine)
{
	struct cpu *cpu = calloc(1, sizeof(*cpu));
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (!cpu)
		return fth_fail(ENOMEM, "no memory for a machine");
	cpu->machine.ops = &cpu_ops;
	cpu->threads = threads ? threads : processors > 0 ? (unsigned)processors : 1;
	*machine = &cpu->machine;
	return 0;
}
