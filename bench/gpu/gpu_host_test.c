/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Benchmarks of GPU threads on a GPU whose kernels do nothing, and whose calls fail one after the
 * other: each run ends, with an error, and gives back all that it took.
 */
#include "gpu_driver.h"

#include "fth_test.h"
#include "gpu/fake_cuda_fixture.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS_MAX 100

static unsigned events; /* that are there now */

/* ---- what the stand-in lacks ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
	*count = 1;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *gpu, int device)
{
	(void)device;
	memset(gpu, 0, sizeof(*gpu));
	snprintf(gpu->name, sizeof(gpu->name), "none");
	gpu->multiProcessorCount = 2;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
	(void)device;
	return cudaSuccess;
}

cudaError_t cudaPeekAtLastError(void)
{
	return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	(void)flags;
	*event = (cudaEvent_t)&events;
	events++;
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	(void)event;
	events--;
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	(void)event;
	(void)stream;
	return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	(void)event;
	return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
	(void)begin;
	(void)end;
	*ms = 1;
	return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	(void)stream;
	(void)event;
	(void)flags;
	return cudaSuccess;
}

/* ---- runs ---- */

/* What a benchmark at its smallest returns when call number `fail_at` fails. */
static int run(const char *name, unsigned fail_at)
{
	char words[4][16] = {"", "--smallest", "--flash", "mem:16M"};
	char *argv[] = {words[0], words[1], words[2], words[3], NULL};
	int argc = strcmp(name, "gpufile") == 0 ? 4 : 2;

	snprintf(words[0], sizeof(words[0]), "%s", name);
	argv[argc] = NULL;
	fake_cuda_reset(fail_at);
	return gpu_bench(argc, argv);
}

enum { PASSED, WRONG, NO_FAILURE };

/* In a process of its own: CUB does not work again once it has failed. */
static int try(const char *name, unsigned n)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		status = run(name, n);
		/* A kernel that does nothing is noticed, at the latest. */
		if ((status != FTH_EXIT_FAILED && status != FTH_EXIT_IMPOSSIBLE) ||
		    !fake_cuda_clean() || events)
			_exit(WRONG);
		_exit(fake_cuda.calls < n ? NO_FAILURE : PASSED);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void everything_is_given_back(const char *name)
{
	int outcome = PASSED;

	/* What comes after so many calls are loops. */
	for (unsigned n = 1; n <= CALLS_MAX && outcome == PASSED; n++)
		outcome = try(name, n);
	assert_int_not_equal(outcome, WRONG);
}

static void benchmarks_give_back_what_they_took(void **state)
{
	(void)state;
	for (unsigned i = 0; i < GPU_WORKLOADS; i++)
		everything_is_given_back(fth_bench_gpu[i].command.name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(benchmarks_give_back_what_they_took),
	};
	int nowhere = open("/dev/null", O_WRONLY);

	/* Hundreds of errors are what it is for. */
	if (nowhere < 0 || !freopen("/dev/null", "w", stdout) || dup2(nowhere, STDERR_FILENO) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
