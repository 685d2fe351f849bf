/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of `fathom bench gpupm`, and the memory that they share. */
#include "gpupm.h"

#include "pm/pm_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- memory ---- */

static int map_process_memory(struct gpupm_memory *m, struct gpu_setup *setup, uint64_t bytes)
{
	struct fth_pm_options options = {};
	int rc = 0;

	options.size = sizeof(options);
	options.flags = FTH_PM_CREATE;
	m->name[0] = '\0';
	if (!setup->medium.host)
		rc = gpu_setup_map(setup, bytes);
	DO(rc, pm_map_memory(setup->medium.host, bytes, &options, &m->pm));
	return rc;
}

int gpupm_map(struct gpupm_memory *m, const struct gpu_settings *s, struct gpu_setup *setup,
	      uint64_t bytes)
{
	bool process = s->device && strcmp(s->device, "process") == 0;
	struct fth_pm_options options = {};
	int rc = -ENOSPC;

	options.size = sizeof(options);
	options.flags = FTH_PM_CREATE | FTH_PM_EXCLUSIVE;
	snprintf(m->name, sizeof(m->name), "shm:fathom-gpupm-%d", (int)getpid());
	bytes = (bytes + 4095) / 4096 * 4096;
	if (!process)
		rc = fth_pm_map(m->name, bytes, &options, &m->pm);
	if (rc == -ENOSPC)
		rc = map_process_memory(m, setup, bytes + FTH_PM_HEADER);
	return rc < 0 ? rc : fth_gpu_pm_register(m->pm, &m->gpu);
}

int gpupm_unmap(struct gpupm_memory *m)
{
	int rc = fth_gpu_pm_unregister(m->gpu), next;

	if (!m->pm)
		return rc;
	next = fth_pm_unmap(m->pm);
	rc = rc < 0 ? rc : next;
	next = m->name[0] ? fth_pm_remove(m->name) : 0;
	memset(m, 0, sizeof(*m));
	return rc < 0 ? rc : next;
}

/* ---- parts ---- */

void gpupm_note(struct gpupm_worst *worst, double ours, double peer)
{
	if (worst->peer == 0 || ours / peer < worst->ours / worst->peer) {
		worst->ours = ours;
		worst->peer = peer;
	}
}

static const struct {
	const char *name;
	int (*run)(const struct gpu_settings *s, struct gpu_setup *setup, struct gpu_report *report,
		   struct gpupm_worst *worst);
} parts[] = {
	{"log", gpupm_log_part},
};

int gpupm_run(const struct gpu_settings *s, struct gpu_setup *setup, struct gpu_report *report)
{
	struct gpupm_worst worst = {};
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!s->only || strcmp(s->only, parts[i].name) == 0)
			rc = parts[i].run(s, setup, report, &worst);
	if (rc == 0 && worst.peer == 0)
		rc = fth_fail(EINVAL, "--only: unknown part %s", s->only);
	if (rc == 0)
		gpu_sum(report, worst.ours, worst.peer);
	return rc;
}
