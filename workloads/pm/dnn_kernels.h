/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Training of LeNet (LeCun et al., Proceedings of the IEEE, 1998) by stochastic gradient descent with momentum, on
 * pictures of the shape of MNIST's that a generator makes. Every sum is made by one lane in a fixed order, so
 * that a training that was interrupted ends with the same weights, bit by bit. Weights and momenta are saved
 * by checkpoints.
 *
 * Layers: convolution 1 (20 maps of 24 x 24), maximum of 2 x 2, convolution 2 (50 maps of 8 x 8), maximum,
 * 500 units with a ramp, 10 units with softmax. A convolution is computed together with the maximum behind it, and
 * remembers which of the four it was.
 */
#ifndef FTH_WORKLOADS_PM_DNN_KERNELS_H
#define FTH_WORKLOADS_PM_DNN_KERNELS_H

#include "workloads/pm/lanes.h"
#include "fathom/base/rng.h"

#include <math.h>

enum {
	DNN_SIDE = 28,
	DNN_PIXELS = DNN_SIDE * DNN_SIDE,
	DNN_KERNEL = 5,
	DNN_MAPS1 = 20,
	DNN_SIDE1 = 12, /* after the maximum */
	DNN_OUT1 = DNN_MAPS1 * DNN_SIDE1 * DNN_SIDE1,
	DNN_MAPS2 = 50,
	DNN_SIDE2 = 4,
	DNN_OUT2 = DNN_MAPS2 * DNN_SIDE2 * DNN_SIDE2,
	DNN_UNITS = 500,
	DNN_CLASSES = 10,
	/* where the weights of each layer begin; its biases come after them */
	DNN_W1 = 0,
	DNN_B1 = DNN_W1 + DNN_MAPS1 * DNN_KERNEL * DNN_KERNEL,
	DNN_W2 = DNN_B1 + DNN_MAPS1,
	DNN_B2 = DNN_W2 + DNN_MAPS2 * DNN_MAPS1 * DNN_KERNEL * DNN_KERNEL,
	DNN_W3 = DNN_B2 + DNN_MAPS2,
	DNN_B3 = DNN_W3 + DNN_UNITS * DNN_OUT2,
	DNN_W4 = DNN_B3 + DNN_UNITS,
	DNN_B4 = DNN_W4 + DNN_CLASSES * DNN_UNITS,
	DNN_WEIGHTS = DNN_B4 + DNN_CLASSES,
	DNN_ITEM = 32 /* outputs of an item */
};

struct pmw_dnn {
	float *weights, *momenta; /* DNN_WEIGHTS */
	float *pictures;	  /* batch * DNN_PIXELS, and so on for each layer */
	uint32_t *labels;
	float *out1, *out2, *out3, *out4;
	uint32_t *which1, *which2; /* position in the convolution's output that was the maximum */
	float *error1, *error2, *error3, *error4;
	float *losses;	       /* of each picture */
	uint32_t *right;       /* whether the class was */
	uint64_t batch, first; /* pictures, and the number of the first */
	uint64_t seed;
	float rate, momentum;
};

/* Behind the last output of an item, of n. */
FTH_HD uint64_t pmw_dnn_end(uint64_t item, uint64_t n)
{
	return (item + 1) * DNN_ITEM < n ? (item + 1) * DNN_ITEM : n;
}

/* ---- pictures and weights ---- */

/* What a picture of a class looks like without noise: three strokes. */
FTH_HD float pmw_dnn_ideal(uint64_t seed, uint32_t label, int y, int x)
{
	float value = 0;

	for (uint32_t stroke = 0; stroke < 3; stroke++) {
		struct fth_rng rng = {seed * 31 + label * 3 + stroke};
		float x0 = 4 + 20 * (float)fth_rng_unit(&rng),
		      y0 = 4 + 20 * (float)fth_rng_unit(&rng);
		float angle = 6.2831853f * (float)fth_rng_unit(&rng);
		float dx = cosf(angle), dy = sinf(angle);
		float along = ((float)x - x0) * dx + ((float)y - y0) * dy;
		float off = ((float)y - y0) * dx - ((float)x - x0) * dy;

		if (along > -9 && along < 9 && off > -1.5f && off < 1.5f)
			value = 1;
	}
	return value;
}

/* Item: 32 pixels of the batch. */
FTH_HD void pmw_dnn_picture(const struct pmw_dnn *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * DNN_ITEM + lane; i < pmw_dnn_end(item, p->batch * DNN_PIXELS);
	     i += PMW_LANES) {
		uint64_t picture = i / DNN_PIXELS, pixel = i % DNN_PIXELS;
		uint64_t dice = fth_mix64(p->seed + (p->first + picture + 1) * 0x9e3779b97f4a7c15u);
		uint32_t label = (uint32_t)(dice % DNN_CLASSES);
		int shift_y = (int)(dice >> 32 & 3) - 1, shift_x = (int)(dice >> 40 & 3) - 1;
		struct fth_rng rng = {dice + pixel};

		if (pixel == 0)
			p->labels[picture] = label;
		p->pictures[i] = pmw_dnn_ideal(p->seed, label, (int)(pixel / DNN_SIDE) - shift_y,
					       (int)(pixel % DNN_SIDE) - shift_x) +
				 0.4f * (float)fth_rng_unit(&rng) - 0.2f;
	}
}

/* Item: 32 weights. Small and random; biases are 0. */
FTH_HD void pmw_dnn_start(const struct pmw_dnn *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * DNN_ITEM + lane; i < pmw_dnn_end(item, DNN_WEIGHTS);
	     i += PMW_LANES) {
		struct fth_rng rng = {p->seed * 7 + i};
		float inputs = i < DNN_B1   ? 25.0f
			       : i < DNN_B2 ? 500.0f
			       : i < DNN_B3 ? 800.0f
					    : 500.0f;
		bool bias = (i >= DNN_B1 && i < DNN_W2) || (i >= DNN_B2 && i < DNN_W3) ||
			    (i >= DNN_B3 && i < DNN_W4) || i >= DNN_B4;

		p->weights[i] = bias ? 0 : (2 * (float)fth_rng_unit(&rng) - 1) * sqrtf(3 / inputs);
		p->momenta[i] = 0;
	}
}

/* ---- forward ---- */

/* Item: 32 outputs of the first layer. */
FTH_HD void pmw_dnn_forward1(const struct pmw_dnn *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * DNN_ITEM + lane; i < pmw_dnn_end(item, p->batch * DNN_OUT1);
	     i += PMW_LANES) {
		uint64_t x = i % DNN_SIDE1, y = i / DNN_SIDE1 % DNN_SIDE1;
		uint64_t map = i / (DNN_SIDE1 * DNN_SIDE1) % DNN_MAPS1, picture = i / DNN_OUT1;
		const float *w = p->weights + DNN_W1 + map * 25;
		float best = -INFINITY;

		for (uint64_t q = 0; q < 4; q++) {
			uint64_t at = (2 * y + q / 2) * DNN_SIDE + 2 * x + q % 2;
			const float *in = p->pictures + picture * DNN_PIXELS + at;
			float sum = p->weights[DNN_B1 + map];

			for (uint32_t k = 0; k < 25; k++)
				sum += w[k] * in[k / 5 * DNN_SIDE + k % 5];
			if (sum > best) {
				best = sum;
				p->which1[i] = (uint32_t)at;
			}
		}
		p->out1[i] = best;
	}
}

/* Item: 32 outputs of the second layer. */
FTH_HD void pmw_dnn_forward2(const struct pmw_dnn *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * DNN_ITEM + lane; i < pmw_dnn_end(item, p->batch * DNN_OUT2);
	     i += PMW_LANES) {
		uint64_t x = i % DNN_SIDE2, y = i / DNN_SIDE2 % DNN_SIDE2;
		uint64_t map = i / (DNN_SIDE2 * DNN_SIDE2) % DNN_MAPS2, picture = i / DNN_OUT2;
		float best = -INFINITY;

		for (uint64_t q = 0; q < 4; q++) {
			uint64_t at = (2 * y + q / 2) * DNN_SIDE1 + 2 * x + q % 2;
			float sum = p->weights[DNN_B2 + map];

			for (uint64_t from = 0; from < DNN_MAPS1; from++) {
				const float *in =
					p->out1 +
					(picture * DNN_MAPS1 + from) * DNN_SIDE1 * DNN_SIDE1 + at;
				const float *w =
					p->weights + DNN_W2 + (map * DNN_MAPS1 + from) * 25;

				for (uint32_t k = 0; k < 25; k++)
					sum += w[k] * in[k / 5 * DNN_SIDE1 + k % 5];
			}
			if (sum > best) {
				best = sum;
				p->which2[i] = (uint32_t)at;
			}
		}
		p->out2[i] = best;
	}
}

/* Item: 32 units. */
FTH_HD void pmw_dnn_forward3(const struct pmw_dnn *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * DNN_ITEM + lane; i < pmw_dnn_end(item, p->batch * DNN_UNITS);
	     i += PMW_LANES) {
		const float *w = p->weights + DNN_W3 + i % DNN_UNITS * DNN_OUT2;
		const float *in = p->out2 + i / DNN_UNITS * DNN_OUT2;
		float sum = p->weights[DNN_B3 + i % DNN_UNITS];

		for (uint32_t k = 0; k < DNN_OUT2; k++)
			sum += w[k] * in[k];
		p->out3[i] = sum > 0 ? sum : 0;
	}
}

/* Item: 32 classes. */
FTH_HD void pmw_dnn_forward4(const struct pmw_dnn *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * DNN_ITEM + lane; i < pmw_dnn_end(item, p->batch * DNN_CLASSES);
	     i += PMW_LANES) {
		const float *w = p->weights + DNN_W4 + i % DNN_CLASSES * DNN_UNITS;
		const float *in = p->out3 + i / DNN_CLASSES * DNN_UNITS;
		float sum = p->weights[DNN_B4 + i % DNN_CLASSES];

		for (uint32_t k = 0; k < DNN_UNITS; k++)
			sum += w[k] * in[k];
		p->out4[i] = sum;
	}
}

/* Item: 32 pictures. The loss, and the error of the last layer: softmax minus what is right. */
FTH_HD void pmw_dnn_judge(const struct pmw_dnn *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * DNN_ITEM + lane; i < pmw_dnn_end(item, p->batch); i += PMW_LANES) {
		const float *out = p->out4 + i * DNN_CLASSES;
		float *error = p->error4 + i * DNN_CLASSES, sum = 0;
		uint32_t best = 0, label = p->labels[i];

		for (uint32_t c = 1; c < DNN_CLASSES; c++)
			best = out[c] > out[best] ? c : best;
		for (uint32_t c = 0; c < DNN_CLASSES; c++)
			sum += expf(out[c] - out[best]);
		for (uint32_t c = 0; c < DNN_CLASSES; c++)
			error[c] =
				(expf(out[c] - out[best]) / sum - (c == label)) / (float)p->batch;
		p->losses[i] = logf(sum) - (out[label] - out[best]);
		p->right[i] = best == label;
	}
}

/* ---- backward ---- */

/* Item: 32 units. */
FTH_HD void pmw_dnn_backward3(const struct pmw_dnn *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * DNN_ITEM + lane; i < pmw_dnn_end(item, p->batch * DNN_UNITS);
	     i += PMW_LANES) {
		const float *error = p->error4 + i / DNN_UNITS * DNN_CLASSES;
		float sum = 0;

		for (uint32_t c = 0; c < DNN_CLASSES; c++)
			sum += error[c] * p->weights[DNN_W4 + c * DNN_UNITS + i % DNN_UNITS];
		p->error3[i] = p->out3[i] > 0 ? sum : 0;
	}
}

/* Item: 32 outputs of the second layer. */
FTH_HD void pmw_dnn_backward2(const struct pmw_dnn *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * DNN_ITEM + lane; i < pmw_dnn_end(item, p->batch * DNN_OUT2);
	     i += PMW_LANES) {
		const float *error = p->error3 + i / DNN_OUT2 * DNN_UNITS;
		float sum = 0;

		for (uint32_t u = 0; u < DNN_UNITS; u++)
			sum += error[u] * p->weights[DNN_W3 + u * DNN_OUT2 + i % DNN_OUT2];
		p->error2[i] = sum;
	}
}

/* Item: 32 outputs of the first layer: from each maximum of the second that looked at it. */
FTH_HD void pmw_dnn_backward1(const struct pmw_dnn *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * DNN_ITEM + lane; i < pmw_dnn_end(item, p->batch * DNN_OUT1);
	     i += PMW_LANES) {
		int x = (int)(i % DNN_SIDE1), y = (int)(i / DNN_SIDE1 % DNN_SIDE1);
		uint64_t from = i / (DNN_SIDE1 * DNN_SIDE1) % DNN_MAPS1, picture = i / DNN_OUT1;
		float sum = 0;

		for (uint64_t out = 0; out < DNN_OUT2; out++) {
			int at = (int)p->which2[picture * DNN_OUT2 + out];
			int ky = y - at / DNN_SIDE1, kx = x - at % DNN_SIDE1;
			uint64_t map = out / (DNN_SIDE2 * DNN_SIDE2);

			if (ky >= 0 && ky < DNN_KERNEL && kx >= 0 && kx < DNN_KERNEL)
				sum += p->error2[picture * DNN_OUT2 + out] *
				       p->weights[DNN_W2 + (map * DNN_MAPS1 + from) * 25 +
						  (uint64_t)(ky * DNN_KERNEL + kx)];
		}
		p->error1[i] = sum;
	}
}

/* ---- gradients of the weights ---- */

FTH_HD float pmw_dnn_gradient1(const struct pmw_dnn *p, uint64_t w)
{
	bool bias = w >= DNN_B1;
	uint64_t map = bias ? w - DNN_B1 : w / 25, k = w % 25, area = DNN_SIDE1 * DNN_SIDE1;
	float sum = 0;

	for (uint64_t picture = 0; picture < p->batch; picture++)
		for (uint64_t o = 0; o < area; o++) {
			uint64_t out = picture * DNN_OUT1 + map * area + o;
			uint64_t at = p->which1[out] + k / 5 * DNN_SIDE + k % 5;

			sum += p->error1[out] * (bias ? 1 : p->pictures[picture * DNN_PIXELS + at]);
		}
	return sum;
}

FTH_HD float pmw_dnn_gradient2(const struct pmw_dnn *p, uint64_t w)
{
	bool bias = w >= DNN_B2;
	uint64_t i = bias ? w - DNN_B2 : w - DNN_W2, map = bias ? i : i / (25 * DNN_MAPS1);
	uint64_t from = i / 25 % DNN_MAPS1, k = i % 25, area = DNN_SIDE2 * DNN_SIDE2;
	float sum = 0;

	for (uint64_t picture = 0; picture < p->batch; picture++)
		for (uint64_t o = 0; o < area; o++) {
			uint64_t out = picture * DNN_OUT2 + map * area + o;
			uint64_t at = p->which2[out] + k / 5 * DNN_SIDE1 + k % 5;

			sum += p->error2[out] * (bias ? 1
						      : p->out1[(picture * DNN_MAPS1 + from) *
									DNN_SIDE1 * DNN_SIDE1 +
								at]);
		}
	return sum;
}

/* Of a layer in which every unit looks at every input. */
FTH_HD float pmw_dnn_gradient(const struct pmw_dnn *p, const float *error, uint64_t units,
			      const float *in, uint64_t inputs, uint64_t i)
{
	bool bias = i >= units * inputs;
	uint64_t unit = bias ? i - units * inputs : i / inputs;
	float sum = 0;

	for (uint64_t picture = 0; picture < p->batch; picture++)
		sum += error[picture * units + unit] *
		       (bias ? 1 : in[picture * inputs + i % inputs]);
	return sum;
}

/* Item: 32 weights. */
FTH_HD void pmw_dnn_learn(const struct pmw_dnn *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * DNN_ITEM + lane; i < pmw_dnn_end(item, DNN_WEIGHTS);
	     i += PMW_LANES) {
		float gradient;

		if (i < DNN_W2)
			gradient = pmw_dnn_gradient1(p, i);
		else if (i < DNN_W3)
			gradient = pmw_dnn_gradient2(p, i);
		else if (i < DNN_W4)
			gradient = pmw_dnn_gradient(p, p->error3, DNN_UNITS, p->out2, DNN_OUT2,
						    i - DNN_W3);
		else
			gradient = pmw_dnn_gradient(p, p->error4, DNN_CLASSES, p->out3, DNN_UNITS,
						    i - DNN_W4);
		p->momenta[i] = p->momentum * p->momenta[i] - p->rate * gradient;
		p->weights[i] += p->momenta[i];
	}
}

#endif
