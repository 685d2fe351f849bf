/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Speckle-reducing anisotropic diffusion (Yu and Acton, IEEE Transactions on Image Processing, 2002), with the
 * image and the diffusion coefficients persistent. A step reads one image and writes the other, so a step
 * that stopped is done again from the image it began with.
 */
#ifndef FTH_WORKLOADS_PM_SRAD_KERNELS_H
#define FTH_WORKLOADS_PM_SRAD_KERNELS_H

#include "workloads/pm/lanes.h"
#include "fathom/base/rng.h"

#include <math.h>

#define PMW_SRAD_LAMBDA 0.5f

struct pmw_srad {
	struct fth_pm_view view;
	float *coefficient;    /* persistent: rows * columns */
	float *next;	       /* persistent: the image after this step */
	float *now, *now_next; /* copies of the two images, where reading is cheap */
	float *spread;	       /* and of the coefficients */
	float *image;	       /* persistent: the image before this step; for the restart */
	double *sums;	       /* of each band and lane: the sum, and that of the squares */
	double *noise;	       /* q0 squared */
	uint64_t rows, columns;
	uint64_t bands; /* of rows, for the sums: row y is of band y % bands */
	uint64_t seed;
};

/* The cells of a row are durable. */
FTH_HD void pmw_srad_finish(const struct pmw_srad *p, const float *row, uint32_t lane)
{
	if (PMW_LANES == 1)
		fth_pm_flush_range(&p->view, row, p->columns * sizeof(*row));
	else
		for (uint64_t x = lane; x < p->columns; x += PMW_LANES)
			fth_pm_flush_range(&p->view, row + x, sizeof(*row));
	fth_pm_fence(&p->view);
}

FTH_HD void pmw_srad_put(const struct pmw_srad *p, float *to, float value)
{
	union {
		float value;
		uint32_t bits;
	} word;

	word.value = value;
	fth_pm_put32(&p->view, (uint32_t *)(void *)to, word.bits);
}

/* Item: a row. The first image: bright and dark areas with speckle. */
FTH_HD void pmw_srad_fill(const struct pmw_srad *p, uint64_t item, uint32_t lane)
{
	for (uint64_t x = lane; x < p->columns; x += PMW_LANES) {
		struct fth_rng rng = {p->seed + item * p->columns + x};
		float base = (item / 32 + x / 32) % 2 ? 1.8f : 1.2f;

		pmw_srad_put(p, p->next + item * p->columns + x,
			     base + 0.4f * (float)fth_rng_unit(&rng));
	}
	pmw_srad_finish(p, p->next + item * p->columns, lane);
}

/* Item: a row. After a start: the copy that kernels read. */
FTH_HD void pmw_srad_load(const struct pmw_srad *p, uint64_t item, uint32_t lane)
{
	for (uint64_t x = lane; x < p->columns; x += PMW_LANES)
		p->now[item * p->columns + x] = p->image[item * p->columns + x];
}

/* Item: a band of rows. Each lane keeps what it adds up apart, so that the order is always the same. */
FTH_HD void pmw_srad_sums(const struct pmw_srad *p, uint64_t item, uint32_t lane)
{
	double sum = 0, squares = 0;

	for (uint64_t y = item; y < p->rows; y += p->bands)
		for (uint64_t x = lane; x < p->columns; x += PMW_LANES) {
			double value = p->now[y * p->columns + x];

			sum += value;
			squares += value * value;
		}
	p->sums[(item * PMW_LANES + lane) * 2] = sum;
	p->sums[(item * PMW_LANES + lane) * 2 + 1] = squares;
}

/* Item: one. The sums of all bands, then those of all lanes. */
FTH_HD void pmw_srad_noise(const struct pmw_srad *p, uint64_t item, uint32_t lane)
{
	double sum = 0, squares = 0, count = (double)p->rows * (double)p->columns, mean;

	for (uint64_t band = item; band < p->bands; band++) {
		sum += p->sums[(band * PMW_LANES + lane) * 2];
		squares += p->sums[(band * PMW_LANES + lane) * 2 + 1];
	}
	p->sums[lane * 2] = sum;
	p->sums[lane * 2 + 1] = squares;
	pmw_meet();
	if (lane != 0)
		return;
	for (uint32_t l = 1; l < PMW_LANES; l++) {
		sum += p->sums[l * 2];
		squares += p->sums[l * 2 + 1];
	}
	mean = sum / count;
	*p->noise = (squares / count - mean * mean) / (mean * mean);
}

/* How far the four neighbours of a cell are from it. */
struct pmw_srad_slope {
	float here, north, south, west, east;
};

FTH_HD struct pmw_srad_slope pmw_srad_slope(const struct pmw_srad *p, uint64_t y, uint64_t x)
{
	const float *row = p->now + y * p->columns;
	struct pmw_srad_slope s;

	s.here = row[x];
	s.north = (y > 0 ? row[x - p->columns] : s.here) - s.here;
	s.south = (y + 1 < p->rows ? row[x + p->columns] : s.here) - s.here;
	s.west = (x > 0 ? row[x - 1] : s.here) - s.here;
	s.east = (x + 1 < p->columns ? row[x + 1] : s.here) - s.here;
	return s;
}

FTH_HD float pmw_srad_coefficient(const struct pmw_srad_slope *s, float noise)
{
	float gradient = (s->north * s->north + s->south * s->south + s->west * s->west +
			  s->east * s->east) /
			 (s->here * s->here);
	float laplace = (s->north + s->south + s->west + s->east) / s->here;
	float numerator = 0.5f * gradient - 0.0625f * laplace * laplace;
	float root = 1 + 0.25f * laplace;
	float c = 1 / (1 + (numerator / (root * root) - noise) / (noise * (1 + noise)));

	return c < 0 ? 0 : c > 1 ? 1 : c;
}

/* Item: a row. */
FTH_HD void pmw_srad_diffuse(const struct pmw_srad *p, uint64_t item, uint32_t lane)
{
	float noise = (float)*p->noise;

	for (uint64_t x = lane; x < p->columns; x += PMW_LANES) {
		struct pmw_srad_slope s = pmw_srad_slope(p, item, x);
		float c = pmw_srad_coefficient(&s, noise);

		pmw_srad_put(p, p->coefficient + item * p->columns + x, c);
		p->spread[item * p->columns + x] = c;
	}
	pmw_srad_finish(p, p->coefficient + item * p->columns, lane);
}

/* Item: a row. */
FTH_HD void pmw_srad_update(const struct pmw_srad *p, uint64_t item, uint32_t lane)
{
	for (uint64_t x = lane; x < p->columns; x += PMW_LANES) {
		struct pmw_srad_slope s = pmw_srad_slope(p, item, x);
		const float *c = p->spread + item * p->columns + x;
		float south = item + 1 < p->rows ? c[p->columns] : c[0];
		float east = x + 1 < p->columns ? c[1] : c[0];
		float sum = c[0] * (s.north + s.west) + south * s.south + east * s.east;
		float value = s.here + 0.25f * PMW_SRAD_LAMBDA * sum;

		pmw_srad_put(p, p->next + item * p->columns + x, value);
		p->now_next[item * p->columns + x] = value;
	}
	pmw_srad_finish(p, p->next + item * p->columns, lane);
}

#endif
