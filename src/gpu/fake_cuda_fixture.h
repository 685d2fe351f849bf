/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stand-in for CUDA's runtime, for tests of what the host does with it: GPU memory is memory, and
 * kernels do nothing. But one does: a drive's controller comes up, and runs until it is told to
 * stop. Any call can be made to fail, what is not given back is counted, and so is what would wait
 * for ever.
 */
#ifndef FTH_GPU_FAKE_CUDA_FIXTURE_H
#define FTH_GPU_FAKE_CUDA_FIXTURE_H

#include <stdbool.h>

struct fake_cuda {
	unsigned calls;	    /* that could have failed */
	unsigned fail_at;   /* the one that does, from 1; 0: none */
	bool dead;	    /* a failure of the GPU itself: all that follows fails as well */
	bool never_up;	    /* controllers do not start, */
	bool never_ends;    /* and these do not end */
	bool full;	    /* of kernels of others: nothing comes to an end */
	bool (*slow)(void); /* other kernels run as long as this says; NULL: they end at once */
	/* What is there now. */
	unsigned memory, pinned, registered, streams, controllers;
	unsigned starts; /* of controllers, so far */
	unsigned hangs;	 /* calls that a controller would have kept from returning */
};

extern struct fake_cuda fake_cuda;

/* Begin anew; call number `fail_at` will fail. */
void fake_cuda_reset(unsigned fail_at);

/* Everything was given back, and nothing waited for ever. */
bool fake_cuda_clean(void);

/*
 * Call use() with each of its calls of CUDA failing in turn: it returns an error then, and gives
 * everything back. `closing`: failures of these last calls need not be told.
 */
void fake_cuda_fail_each(int (*use)(void), unsigned closing);

#endif
