/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Euler equations of an inviscid, compressible gas by finite volumes, as in the solver of
 * Corrigan et al. (AIAA 2009-4001) that Rodinia has: fluxes through the faces of each cell with
 * artificial viscosity, three Runge-Kutta stages a step, local time steps. The mesh is given by
 * neighbours and normals of each cell; ours is a bent channel that a generator makes. The conserved
 * variables are saved by checkpoints.
 */
#ifndef FTH_WORKLOADS_PM_CFD_KERNELS_H
#define FTH_WORKLOADS_PM_CFD_KERNELS_H

#include "workloads/pm/lanes.h"
#include "fathom/base/rng.h"

#include <math.h>

#define PMW_CFD_ITEM	 PMW_WARP /* cells */
#define PMW_CFD_FACES	 4u
#define PMW_CFD_VARS	 4u /* density, momentum in x and y, energy */
#define PMW_CFD_WALL	 (-1)
#define PMW_CFD_FARFIELD (-2)
#define PMW_CFD_GAMMA	 1.4f
#define PMW_CFD_MACH	 1.2f

struct pmw_cfd {
	float *now; /* PMW_CFD_VARS arrays of `cells`, as all of variables here */
	float *old; /* at the beginning of the step */
	float *flux;
	float *step;	     /* of each cell */
	int32_t *neighbours; /* PMW_CFD_FACES arrays of `cells` */
	float *normals; /* PMW_CFD_FACES * 2 arrays of `cells`: outwards, as long as the face */
	float *areas;
	uint64_t cells;
	uint64_t width; /* cells in a row of the channel */
	uint64_t seed;
	uint32_t stage; /* 0 to 2 */
};

struct pmw_cfd_state {
	float density, x, y, energy; /* conserved */
	float u, v, pressure, sound; /* and what follows from them */
};

FTH_HD struct pmw_cfd_state pmw_cfd_derive(float density, float x, float y, float energy)
{
	struct pmw_cfd_state s;

	s.density = density;
	s.x = x;
	s.y = y;
	s.energy = energy;
	s.u = x / density;
	s.v = y / density;
	s.pressure = (PMW_CFD_GAMMA - 1) * (energy - 0.5f * density * (s.u * s.u + s.v * s.v));
	s.sound = sqrtf(PMW_CFD_GAMMA * s.pressure / density);
	return s;
}

FTH_HD struct pmw_cfd_state pmw_cfd_cell(const struct pmw_cfd *p, uint64_t i)
{
	return pmw_cfd_derive(p->now[i], p->now[p->cells + i], p->now[2 * p->cells + i],
			      p->now[3 * p->cells + i]);
}

/* The gas that comes from far away. */
FTH_HD struct pmw_cfd_state pmw_cfd_far(void)
{
	float density = 1.4f, pressure = 1, u = PMW_CFD_MACH; /* where the speed of sound is 1 */

	return pmw_cfd_derive(density, density * u, 0,
			      pressure / (PMW_CFD_GAMMA - 1) + 0.5f * density * u * u);
}

/* A corner of the channel: its floor rises to a bump in the middle. */
FTH_HD void pmw_cfd_corner(const struct pmw_cfd *p, uint64_t column, uint64_t row, float *x,
			   float *y)
{
	float rows = (float)(p->cells / p->width), along = (float)column / (float)p->width;
	float length = (float)p->width / rows;
	float bump = along > 0.35f && along < 0.65f
			     ? 0.02f * length * sinf((along - 0.35f) / 0.3f * 3.14159265f)
			     : 0;
	float height = (float)row / rows;

	*x = along * length;
	*y = height + bump * (1 - height);
}

FTH_HD int32_t pmw_cfd_beside(const struct pmw_cfd *p, uint64_t i, uint32_t face)
{
	uint64_t column = i % p->width, row = i / p->width, rows = p->cells / p->width;

	switch (face) {
	case 0:
		return row > 0 ? (int32_t)(i - p->width) : PMW_CFD_WALL;
	case 1:
		return column + 1 < p->width ? (int32_t)(i + 1) : PMW_CFD_FARFIELD;
	case 2:
		return row + 1 < rows ? (int32_t)(i + p->width) : PMW_CFD_WALL;
	default:
		return column > 0 ? (int32_t)(i - 1) : PMW_CFD_FARFIELD;
	}
}

/* Item: 32 cells. Makes the mesh; the last row is whole. */
FTH_HD void pmw_cfd_mesh(const struct pmw_cfd *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * PMW_CFD_ITEM + lane; i < p->cells && i < (item + 1) * PMW_CFD_ITEM;
	     i += PMW_LANES) {
		uint64_t column = i % p->width, row = i / p->width;
		float x[4], y[4], area = 0;

		for (uint32_t c = 0; c < 4; c++) /* counterclockwise */
			pmw_cfd_corner(p, column + (c == 1 || c == 2), row + (c >= 2), &x[c],
				       &y[c]);
		for (uint32_t face = 0; face < PMW_CFD_FACES; face++) {
			uint32_t next = (face + 1) % 4;

			p->neighbours[face * p->cells + i] = pmw_cfd_beside(p, i, face);
			p->normals[(2 * face) * p->cells + i] = y[next] - y[face];
			p->normals[(2 * face + 1) * p->cells + i] = x[face] - x[next];
			area += 0.5f * (x[face] * y[next] - x[next] * y[face]);
		}
		p->areas[i] = area;
	}
}

/* Item: 32 cells. Everywhere as far away, but for a little noise in the density. */
FTH_HD void pmw_cfd_fill(const struct pmw_cfd *p, uint64_t item, uint32_t lane)
{
	struct pmw_cfd_state far = pmw_cfd_far();

	for (uint64_t i = item * PMW_CFD_ITEM + lane; i < p->cells && i < (item + 1) * PMW_CFD_ITEM;
	     i += PMW_LANES) {
		struct fth_rng rng = {p->seed + i};

		p->now[i] = far.density * (1 + 0.001f * (float)fth_rng_unit(&rng));
		p->now[p->cells + i] = far.x;
		p->now[2 * p->cells + i] = far.y;
		p->now[3 * p->cells + i] = far.energy;
	}
}

/* Item: 32 cells. Remembers the variables, and finds how far the time may go on in each cell. */
FTH_HD void pmw_cfd_begin(const struct pmw_cfd *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * PMW_CFD_ITEM + lane; i < p->cells && i < (item + 1) * PMW_CFD_ITEM;
	     i += PMW_LANES) {
		struct pmw_cfd_state s = pmw_cfd_cell(p, i);
		float speed = sqrtf(s.u * s.u + s.v * s.v) + s.sound;

		for (uint32_t v = 0; v < PMW_CFD_VARS; v++)
			p->old[v * p->cells + i] = p->now[v * p->cells + i];
		p->step[i] = 0.5f / (sqrtf(p->areas[i]) * speed); /* over the area */
	}
}

/* Half of what flows out through a face with this gas on both of its sides. */
FTH_HD void pmw_cfd_flow(float *flux, const struct pmw_cfd_state *s, float nx, float ny)
{
	float through = s->u * nx + s->v * ny;

	flux[0] += 0.5f * s->density * through;
	flux[1] += 0.5f * (s->x * through + s->pressure * nx);
	flux[2] += 0.5f * (s->y * through + s->pressure * ny);
	flux[3] += 0.5f * (s->energy + s->pressure) * through;
}

FTH_HD void pmw_cfd_face(float *flux, const struct pmw_cfd_state *here,
			 const struct pmw_cfd_state *there, float nx, float ny)
{
	float length = sqrtf(nx * nx + ny * ny);
	float speed = 0.5f * (sqrtf(here->u * here->u + here->v * here->v) +
			      sqrtf(there->u * there->u + there->v * there->v) + here->sound +
			      there->sound);
	float viscosity = 0.5f * length * speed;

	pmw_cfd_flow(flux, here, nx, ny);
	pmw_cfd_flow(flux, there, nx, ny);
	flux[0] += viscosity * (here->density - there->density);
	flux[1] += viscosity * (here->x - there->x);
	flux[2] += viscosity * (here->y - there->y);
	flux[3] += viscosity * (here->energy - there->energy);
}

/* Item: 32 cells. */
FTH_HD void pmw_cfd_flux(const struct pmw_cfd *p, uint64_t item, uint32_t lane)
{
	struct pmw_cfd_state far = pmw_cfd_far();

	for (uint64_t i = item * PMW_CFD_ITEM + lane; i < p->cells && i < (item + 1) * PMW_CFD_ITEM;
	     i += PMW_LANES) {
		struct pmw_cfd_state here = pmw_cfd_cell(p, i), there;
		float flux[PMW_CFD_VARS] = {0, 0, 0, 0};

		for (uint32_t face = 0; face < PMW_CFD_FACES; face++) {
			int32_t beside = p->neighbours[face * p->cells + i];
			float nx = p->normals[(2 * face) * p->cells + i],
			      ny = p->normals[(2 * face + 1) * p->cells + i];

			if (beside == PMW_CFD_WALL) {
				flux[1] += here.pressure * nx;
				flux[2] += here.pressure * ny;
				continue;
			}
			there = beside == PMW_CFD_FARFIELD ? far
							   : pmw_cfd_cell(p, (uint64_t)beside);
			pmw_cfd_face(flux, &here, &there, nx, ny);
		}
		for (uint32_t v = 0; v < PMW_CFD_VARS; v++)
			p->flux[v * p->cells + i] = flux[v];
	}
}

/* Item: 32 cells. A stage of the step. */
FTH_HD void pmw_cfd_advance(const struct pmw_cfd *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * PMW_CFD_ITEM + lane; i < p->cells && i < (item + 1) * PMW_CFD_ITEM;
	     i += PMW_LANES) {
		float factor = p->step[i] / (float)(3 - p->stage);

		for (uint32_t v = 0; v < PMW_CFD_VARS; v++)
			p->now[v * p->cells + i] =
				p->old[v * p->cells + i] - factor * p->flux[v * p->cells + i];
	}
}

#endif
