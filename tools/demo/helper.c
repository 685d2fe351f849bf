/* SPDX-License-Identifier: BSD-2-Clause */
#include "demo.h"

#include "cli.h"

#include "fathom/base/error.h"
#include "fathom/base/uri.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- files ---- */

int demo_make_folder(char folder[DEMO_PATH_MAX])
{
	const char *base = getenv("TMPDIR");

	snprintf(folder, DEMO_PATH_MAX, "%s/fathom-demo-XXXXXX", base ? base : "/tmp");
	return mkdtemp(folder) ? 0 : fth_fail(errno, "%s: %s", folder, strerror(errno));
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *place)
{
	(void)stat;
	(void)type;
	(void)place;
	return remove(path);
}

void demo_remove_folder(const char *folder)
{
	nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int demo_uri(const char *path, char *uri, size_t room)
{
	snprintf(uri, room, "file:");
	return fth_uri_escape(path, uri + strlen(uri), room - strlen(uri));
}

/* ---- programs ---- */

bool demo_has_program(const char *name)
{
	const char *path = getenv("PATH");
	char file[1024];

	for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
		size_t length = strcspn(at, ":");

		snprintf(file, sizeof(file), "%.*s/%s", (int)length, at, name);
		if (length > 0 && access(file, X_OK) == 0)
			return true;
		at += length + (at[length] == ':');
	}
	return false;
}

__attribute__((noreturn)) static void become(char *const argv[], int out)
{
	int nowhere = open("/dev/null", O_RDWR);

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* not without this program */
	fth_cli_restore_signals();
	(void)dup2(nowhere, STDIN_FILENO);
	(void)dup2(out >= 0 ? out : nowhere, STDOUT_FILENO);
	if (out < 0)
		(void)dup2(nowhere, STDERR_FILENO);
	execvp(argv[0], argv);
	_exit(127);
}

pid_t demo_start(char *const argv[], int out)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		become(argv, out);
	return pid < 0 ? fth_fail(errno, "fork: %s", strerror(errno)) : pid;
}

void demo_kill(pid_t *pid)
{
	if (*pid > 0) {
		kill(*pid, SIGKILL);
		waitpid(*pid, NULL, 0);
	}
	*pid = 0;
}
