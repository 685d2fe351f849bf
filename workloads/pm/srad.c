/* SPDX-License-Identifier: BSD-2-Clause */
/* Diffusion: items is rows of 1024 pixels. */
#include "workloads/pm/srad_kernels.h"

#include "workloads/pm/job.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

#define COLUMNS 1024u
#define BANDS	1024u

struct srad {
	struct pmw_srad p;
	struct pmw_area images[2], coefficient; /* step s reads image s % 2 */
	float *copies[2];
};

static uint64_t srad_bytes(uint64_t items, uint64_t steps)
{
	(void)steps;
	return 3 * (items * COLUMNS * sizeof(float) + PMW_ALIGN);
}

static int srad_memory(struct pmw_job *job, struct srad *w)
{
	uint64_t bytes = job->items * COLUMNS * sizeof(float);
	int rc = pmw_area(job, bytes, &w->coefficient);

	for (unsigned i = 0; rc == 0 && i < 2; i++) {
		rc = pmw_area(job, bytes, &w->images[i]);
		if (rc == 0)
			rc = pmw_take(job, bytes, &w->copies[i]);
	}
	if (rc == 0)
		rc = pmw_take(job, bytes, &w->p.spread);
	if (rc == 0)
		rc = pmw_take(job, w->p.bands * PMW_WARP * 2 * sizeof(double), &w->p.sums);
	if (rc == 0)
		rc = pmw_take(job, sizeof(double), &w->p.noise);
	return rc;
}

static int srad_open(struct pmw_job *job)
{
	struct srad *w = job->own;
	int rc;

	w->p.rows = job->items;
	w->p.columns = COLUMNS;
	w->p.bands = job->items < BANDS ? job->items : BANDS;
	w->p.seed = job->options->seed;
	w->p.view = job->view;
	rc = srad_memory(job, w);
	if (rc < 0)
		return rc;
	w->p.coefficient = (float *)(void *)w->coefficient.kernel;
	w->p.next = (float *)(void *)w->images[0].kernel;
	if (job->fresh)
		rc = pmw_launch(job, PMW_SRAD_FILL, &w->p, job->items);
	w->p.image = (float *)(void *)w->images[job->state->done % 2].kernel;
	w->p.now = w->copies[job->state->done % 2];
	return rc ? rc : pmw_launch(job, PMW_SRAD_LOAD, &w->p, job->items);
}

static uint64_t srad_done(struct pmw_job *job)
{
	return job->state->done;
}

static int srad_step(struct pmw_job *job, uint64_t step)
{
	struct srad *w = job->own;
	const struct pmw_area *out = &w->images[(step + 1) % 2];
	int rc;

	w->p.now = w->copies[step % 2];
	w->p.now_next = w->copies[(step + 1) % 2];
	w->p.next = (float *)(void *)out->kernel;
	rc = pmw_launch(job, PMW_SRAD_SUMS, &w->p, w->p.bands);
	if (rc == 0)
		rc = pmw_launch(job, PMW_SRAD_NOISE, &w->p, 1);
	if (rc == 0)
		rc = pmw_launch(job, PMW_SRAD_DIFFUSE, &w->p, job->items);
	if (rc == 0)
		rc = pmw_persist_area(job, &w->coefficient, 0, w->coefficient.bytes,
				      w->coefficient.bytes);
	if (rc == 0)
		rc = pmw_launch(job, PMW_SRAD_UPDATE, &w->p, job->items);
	if (rc == 0)
		rc = pmw_persist_area(job, out, 0, out->bytes, out->bytes);
	return rc ? rc : pmw_set_state(job, &job->state->done, step + 1);
}

/* The speckle has become less, and the mean has stayed. */
static int check_image(struct pmw_job *job, const float *image, uint64_t count)
{
	double sum = 0, rough = 0, before = 0;
	const struct srad *w = job->own;

	for (uint64_t i = 0; i < count; i++) {
		if (!(image[i] > 0.5f && image[i] < 3))
			return fth_fail(EILSEQ, "srad: pixel %llu has an invalid value, %g",
					(unsigned long long)i, (double)image[i]);
		sum += image[i];
		if (i % COLUMNS) {
			struct fth_rng a = {w->p.seed + i}, b = {w->p.seed + i - 1};
			double first = 0.4 * (fth_rng_unit(&a) - fth_rng_unit(&b)),
			       now = image[i] - image[i - 1];

			before += first * first;
			rough += i % COLUMNS % 32 ? now * now : 0;
		}
	}
	sum /= (double)count;
	if (sum < 1.6 || sum > 1.8 || (job->steps > 0 && rough > before))
		return fth_fail(
			EILSEQ,
			"srad: the result is not smooth: mean %g, differences %g, before %g", sum,
			rough, before);
	return 0;
}

static int srad_finish(struct pmw_job *job)
{
	struct srad *w = job->own;
	const struct pmw_area *out = &w->images[job->steps % 2];
	float *image = malloc(out->bytes);
	int rc = image ? 0 : fth_fail(ENOMEM, "no memory to check the result");

	if (rc == 0)
		rc = pmw_download(job, image, out->kernel, out->bytes);
	if (rc == 0)
		rc = check_image(job, image, out->bytes / sizeof(float));
	free(image);
	return rc ? rc : pmw_digest(job, out->kernel, out->bytes);
}

const struct fth_pmw_workload pmw_srad_workload = {
	.name = "srad",
	.about = "speckle-reducing diffusion of an image, in persistent memory",
	.kind = FTH_PMW_NATIVE,
	.items = 64,
	.steps = 10,
	.paper_items = 128 << 10,
	.paper_steps = 10,
	.own = sizeof(struct srad),
	.bytes = srad_bytes,
	.open = srad_open,
	.done = srad_done,
	.step = srad_step,
	.finish = srad_finish,
};
