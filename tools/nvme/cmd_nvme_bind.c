/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom nvme bind and unbind: from the kernel's driver to vfio-pci, and back. */
#include "commands.h"
#include "json.h"
#include "nvme_source.h"

#include "fathom/base/error.h"
#include "nvme/pci.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRIVES_MAX 16

extern char **environ;

/* One call: some drives, one direction. */
struct job {
	bool bind, dry_run;
	unsigned count;
	struct fth_nvme_pci drives[DRIVES_MAX];
	const char *bdfs[DRIVES_MAX]; /* of the drives, for their IOMMU groups */
	struct fth_json json;
};

static const char *wanted_driver(const struct job *job)
{
	return job->bind ? FTH_NVME_PCI_VFIO : FTH_NVME_PCI_KERNEL;
}

static bool has_it_already(const struct job *job, const struct fth_nvme_pci *pci)
{
	return strcmp(pci->driver, wanted_driver(job)) == 0;
}

static int complain(const char *bdf, int rc)
{
	fth_cli_error("%s: %s", bdf, fth_error_text(rc));
	return FTH_EXIT_FAILED;
}

/* ---- before anything is changed ---- */

static int look(struct job *job, char **args)
{
	for (; *args; args++) {
		struct fth_nvme_pci *pci = &job->drives[job->count];
		int rc = fth_nvme_pci_get(nvme_sysroot(), *args, pci);

		if (rc < 0)
			return complain(*args, rc);
		job->bdfs[job->count++] = pci->bdf;
	}
	return FTH_CLI_GO_ON;
}

static int check(const struct job *job)
{
	for (unsigned i = 0; i < job->count; i++) {
		const struct fth_nvme_pci *pci = &job->drives[i];
		int rc;

		if (has_it_already(job, pci))
			continue;
		rc = job->bind ? fth_nvme_pci_may_bind(nvme_sysroot(), pci, job->bdfs, job->count)
			       : fth_nvme_pci_may_unbind(nvme_sysroot(), pci);
		if (rc < 0)
			return complain(pci->bdf, rc);
	}
	return FTH_CLI_GO_ON;
}

/* Run modprobe and wait for it. 0, or what went wrong. */
static int modprobe(const char *module)
{
	char name[FTH_NVME_PCI_NAME], command[] = "modprobe";
	char *argv[] = {command, name, NULL};
	int status, rc;
	pid_t pid;

	snprintf(name, sizeof(name), "%s", module);
	rc = posix_spawnp(&pid, command, NULL, NULL, argv, environ);
	if (rc != 0)
		return -rc;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ENODEV;
}

static int load_driver(const char *driver)
{
	int rc = -ENODEV;

	if (fth_nvme_pci_has_driver(nvme_sysroot(), driver))
		return FTH_CLI_GO_ON;
	if (!nvme_sysroot()[0])
		rc = modprobe(driver);
	if (rc == 0 && fth_nvme_pci_has_driver("", driver))
		return FTH_CLI_GO_ON;
	fth_cli_error(
		"driver %s is not loaded, and modprobe failed (%s); the kernel may not have it",
		driver, strerror(rc < 0 ? -rc : ENODEV));
	return FTH_EXIT_IMPOSSIBLE;
}

/* ---- telling ---- */

static void print_steps(const struct job *job, const struct fth_nvme_pci *pci)
{
	struct fth_nvme_pci_step steps[FTH_NVME_PCI_STEPS_MAX];
	int n = fth_nvme_pci_plan(nvme_sysroot(), pci, job->bind, steps);

	for (int i = 0; i < n; i++)
		printf("would write \"%s\" to %s\n",
		       strcmp(steps[i].value, "\n") == 0 ? "\\n" : steps[i].value, steps[i].path);
}

static void print_done(const struct job *job, const struct fth_nvme_pci *pci)
{
	const char *verb = has_it_already(job, pci) ? "already belongs" : "now belongs";

	if (job->dry_run && !has_it_already(job, pci)) {
		print_steps(job, pci);
		return;
	}
	printf("%s %s to %s\n", pci->bdf, verb, wanted_driver(job));
	if (job->bind)
		printf("use it as nvme:%s; to undo: fathom nvme unbind %s\n", pci->bdf, pci->bdf);
}

static void print_done_json(struct job *job, const struct fth_nvme_pci *pci)
{
	struct fth_nvme_pci_step steps[FTH_NVME_PCI_STEPS_MAX];
	int n = has_it_already(job, pci) ? 0
					 : fth_nvme_pci_plan(nvme_sysroot(), pci, job->bind, steps);
	struct fth_json *j = &job->json;
	char undo[FTH_NVME_PCI_NAME + 32];

	snprintf(undo, sizeof(undo), "fathom nvme %s %s", job->bind ? "unbind" : "bind", pci->bdf);
	fth_json_object(j, NULL);
	fth_json_string(j, "bdf", pci->bdf);
	fth_json_string(j, "driver", job->dry_run ? pci->driver : wanted_driver(job));
	fth_json_string(j, "undo", undo);
	fth_json_array(j, "steps");
	for (int i = 0; i < n; i++) {
		fth_json_object(j, NULL);
		fth_json_string(j, "path", steps[i].path);
		fth_json_string(j, "value", steps[i].value);
		fth_json_end(j);
	}
	fth_json_end(j);
	fth_json_end(j);
}

/* ---- doing ---- */

/* Half a change would leave a drive without a driver: signals wait until it is done. */
static int change(const struct job *job, const struct fth_nvme_pci *pci)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	rc = job->bind ? fth_nvme_pci_bind(nvme_sysroot(), pci)
		       : fth_nvme_pci_unbind(nvme_sysroot(), pci);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static int change_all(struct job *job)
{
	for (unsigned i = 0; i < job->count; i++) {
		const struct fth_nvme_pci *pci = &job->drives[i];
		int rc = 0;

		if (fth_cli_stopped())
			return FTH_EXIT_INTERRUPTED;
		if (!job->dry_run && !has_it_already(job, pci))
			rc = change(job, pci);
		if (rc < 0)
			return complain(pci->bdf, rc);
		if (fth_cli_json())
			print_done_json(job, pci);
		else
			print_done(job, pci);
	}
	return FTH_EXIT_OK;
}

static int carry_out(struct job *job, char **args)
{
	int status = look(job, args);

	if (status == FTH_CLI_GO_ON)
		status = check(job);
	if (status == FTH_CLI_GO_ON && !job->dry_run)
		status = load_driver(wanted_driver(job));
	if (status != FTH_CLI_GO_ON)
		return status;
	if (fth_cli_json()) {
		fth_json_begin(&job->json, stdout);
		fth_json_bool(&job->json, "dry_run", job->dry_run);
		fth_json_array(&job->json, "drives");
	}
	status = change_all(job);
	if (fth_cli_json()) {
		fth_json_end(&job->json);
		fth_json_bool(&job->json, "ok", status == FTH_EXIT_OK);
		fth_json_finish(&job->json);
	}
	return status;
}

static int run_job(struct job *job, char **args)
{
	int status;

	if (!nvme_sysroot()[0] && !job->dry_run && geteuid() != 0) {
		fth_cli_error("changing the driver of a drive requires root; use sudo");
		return FTH_EXIT_FAILED;
	}
	status = carry_out(job, args);
	for (unsigned i = 0; i < job->count; i++)
		fth_nvme_pci_release(&job->drives[i]);
	return status;
}

/* Both ways, which differ in what they say of themselves. */
static int run(bool bind, const char *synopsis, const char *text, int argc, char **argv)
{
	struct job job = {.bind = bind};
	const struct fth_cli_option options[] = {
		{"dry-run", FTH_CLI_FLAG, &job.dry_run, 0, 0, "only show what would be written"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = synopsis,
		.text = text,
		.options = options,
		.min_args = 1,
		.max_args = DRIVES_MAX,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	return status != FTH_CLI_GO_ON ? status : run_job(&job, args);
}

static int run_bind(int argc, char **argv)
{
	return run(
		true, "nvme bind [--dry-run] BDF...",
		"Hand drives from the kernel's driver to vfio-pci, so that they can be opened as\n"
		"nvme:BDF. Their block devices go away until unbind. A drive that is mounted or "
		"in\n"
		"use in any other way is refused, and so is one that shares its IOMMU group with\n"
		"a function that is not given as well.",
		argc, argv);
}

static int run_unbind(int argc, char **argv)
{
	return run(false, "nvme unbind [--dry-run] BDF...",
		   "Give drives back to the kernel's nvme driver: undoes bind.", argc, argv);
}

const struct fth_command fth_cmd_nvme_bind = {
	.name = "bind",
	.summary = "move a drive from the kernel's NVMe driver to vfio-pci",
	.run = run_bind,
};

const struct fth_command fth_cmd_nvme_unbind = {
	.name = "unbind",
	.summary = "return a drive to the kernel's NVMe driver",
	.run = run_unbind,
};
