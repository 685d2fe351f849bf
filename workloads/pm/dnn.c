/* SPDX-License-Identifier: BSD-2-Clause */
/* Training of LeNet: items is pictures of a batch, a step is a batch. */
#include "workloads/pm/dnn_kernels.h"

#include "workloads/pm/job.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

#define TEST_PICTURES UINT64_C(1000000000) /* number of the first: far from those for training */
#define TEST_BATCHES  8u

struct dnn {
	struct pmw_dnn p;
	uint64_t done;
};

static uint64_t dnn_bytes(uint64_t items, uint64_t steps)
{
	(void)items, (void)steps;
	return pmw_checkpoint_bytes(
		(const uint64_t[]){DNN_WEIGHTS * sizeof(float), DNN_WEIGHTS * sizeof(float)}, 2);
}

static int dnn_check(uint64_t items)
{
	return items >= 1 && items <= 4096
		       ? 0
		       : fth_fail(EINVAL, "items (images per batch) must be 1 to 4096");
}

static int dnn_layers(struct pmw_job *job, struct pmw_dnn *p)
{
	struct {
		void *to;
		uint64_t count;
	} wanted[] = {
		{&p->weights, DNN_WEIGHTS},
		{&p->momenta, DNN_WEIGHTS},
		{&p->pictures, p->batch * DNN_PIXELS},
		{&p->labels, p->batch},
		{&p->out1, p->batch * DNN_OUT1},
		{&p->out2, p->batch * DNN_OUT2},
		{&p->out3, p->batch * DNN_UNITS},
		{&p->out4, p->batch * DNN_CLASSES},
		{&p->which1, p->batch * DNN_OUT1},
		{&p->which2, p->batch * DNN_OUT2},
		{&p->error1, p->batch * DNN_OUT1},
		{&p->error2, p->batch * DNN_OUT2},
		{&p->error3, p->batch * DNN_UNITS},
		{&p->error4, p->batch * DNN_CLASSES},
		{&p->losses, p->batch},
		{&p->right, p->batch},
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(wanted) / sizeof(wanted[0]); i++)
		rc = pmw_take(job, wanted[i].count * sizeof(float), wanted[i].to);
	return rc;
}

static int dnn_open(struct pmw_job *job)
{
	struct dnn *w = job->own;
	uint64_t bytes = DNN_WEIGHTS * sizeof(float);
	int rc;

	w->p.batch = job->items;
	w->p.seed = job->options->seed;
	w->p.rate = 0.01f;
	w->p.momentum = 0.9f;
	rc = dnn_layers(job, &w->p);
	if (rc == 0)
		rc = pmw_launch(job, PMW_DNN_START, &w->p, pmw_groups(DNN_WEIGHTS, DNN_ITEM));
	if (rc == 0)
		rc = pmw_checkpoint_open(job, (void *const[]){w->p.weights, w->p.momenta},
					 (const uint64_t[]){bytes, bytes}, 2);
	return rc ? rc : pmw_checkpoint_restore(job, &w->done);
}

static uint64_t dnn_done(struct pmw_job *job)
{
	return ((struct dnn *)job->own)->done;
}

/* Kernels, each with the outputs that it makes of a picture. */
struct layer {
	enum pmw_kernel kernel;
	uint64_t outputs;
};

static int run_layers(struct pmw_job *job, const struct layer *layers, size_t count)
{
	struct dnn *w = job->own;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = pmw_launch(job, layers[i].kernel, &w->p,
				pmw_groups(w->p.batch * layers[i].outputs, DNN_ITEM));
	return rc;
}

static int dnn_forward(struct pmw_job *job, uint64_t first)
{
	static const struct layer forward[] = {
		{PMW_DNN_PICTURE, DNN_PIXELS},	 {PMW_DNN_FORWARD1, DNN_OUT1},
		{PMW_DNN_FORWARD2, DNN_OUT2},	 {PMW_DNN_FORWARD3, DNN_UNITS},
		{PMW_DNN_FORWARD4, DNN_CLASSES}, {PMW_DNN_JUDGE, 1},
	};

	((struct dnn *)job->own)->p.first = first;
	return run_layers(job, forward, sizeof(forward) / sizeof(forward[0]));
}

static int dnn_step(struct pmw_job *job, uint64_t step)
{
	static const struct layer backward[] = {
		{PMW_DNN_BACKWARD3, DNN_UNITS},
		{PMW_DNN_BACKWARD2, DNN_OUT2},
		{PMW_DNN_BACKWARD1, DNN_OUT1},
	};
	struct dnn *w = job->own;
	int rc = dnn_forward(job, step * job->items);

	if (rc == 0)
		rc = run_layers(job, backward, sizeof(backward) / sizeof(backward[0]));
	if (rc == 0)
		rc = pmw_launch(job, PMW_DNN_LEARN, &w->p, pmw_groups(DNN_WEIGHTS, DNN_ITEM));
	return rc ? rc : pmw_checkpoint_after(job, step);
}

/* How many of some pictures that it has not seen does it know? */
static int dnn_finish(struct pmw_job *job)
{
	struct dnn *w = job->own;
	uint32_t *right = malloc(job->items * sizeof(*right));
	uint64_t known = 0;
	int rc = right ? 0 : fth_fail(ENOMEM, "no memory to check the result");

	for (uint64_t batch = 0; rc == 0 && batch < TEST_BATCHES; batch++) {
		rc = dnn_forward(job, TEST_PICTURES + batch * job->items);
		if (rc == 0)
			rc = pmw_download(job, right, w->p.right, job->items * sizeof(*right));
		for (uint64_t i = 0; rc == 0 && i < job->items; i++)
			known += right[i];
	}
	free(right);
	job->result->quality = (double)known / (double)(TEST_BATCHES * job->items);
	if (rc == 0 && job->steps * job->items >= 600 && job->result->quality < 0.5)
		rc = fth_fail(EILSEQ, "dnn: only %.0f %% of the images are classified correctly",
			      100 * job->result->quality);
	return rc ? rc : pmw_digest(job, w->p.weights, DNN_WEIGHTS * sizeof(float));
}

const struct fth_pmw_workload pmw_dnn_workload = {
	.name = "dnn",
	.about = "training of LeNet, with checkpoints",
	.kind = FTH_PMW_CHECKPOINTED,
	.items = 8,
	.steps = 100,
	.paper_items = 64,
	.paper_steps = 10000,
	.every = 10,
	.own = sizeof(struct dnn),
	.bytes = dnn_bytes,
	.check = dnn_check,
	.open = dnn_open,
	.done = dnn_done,
	.step = dnn_step,
	.finish = dnn_finish,
};
