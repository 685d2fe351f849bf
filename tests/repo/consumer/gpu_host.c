/* SPDX-License-Identifier: BSD-2-Clause */
/* The host's half of a GPU program, in C: it links without nvcc. */
#include <fathom/gpu.h>

int main(void)
{
	return fth_gpu_drive_close(NULL);
}
