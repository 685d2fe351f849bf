/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom pm ls: persistent memory in shared memory and in directories, by a look at each file's
 * header.
 */
#include "commands.h"
#include "json.h"
#include "pm_source.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "pm/map/header.h"
#include "pm/pm_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SHM_FOLDER "/dev/shm"

struct found {
	char name[PATH_MAX + 8];
	struct pm_header header;
	bool used; /* mapped by somebody */
};

/* Whether a file is ours. What cannot be read is not. */
static bool look_at(const char *folder, const char *file, struct found *found)
{
	char path[PATH_MAX];
	struct stat st;
	bool ours = false;
	int fd;

	if ((unsigned)snprintf(path, sizeof path, "%s/%s", folder, file) >= sizeof path)
		return false;
	fd = fth_fd_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    pread(fd, &found->header, sizeof found->header, 0) == sizeof found->header)
		ours = pm_header_matches(&found->header);
	found->used = ours && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	close(fd);
	if (strcmp(folder, SHM_FOLDER) == 0)
		snprintf(found->name, sizeof found->name, "shm:%s", file);
	else
		snprintf(found->name, sizeof found->name, "%s:%s",
			 found->header.kind == FTH_PM_KIND_PMEM ? "pmem" : "file", path);
	return ours;
}

static void show(const struct found *found, struct fth_json *j)
{
	char bytes[FTH_CLI_BYTES_MAX], created[32] = "";
	uint64_t size = found->header.length - FTH_PM_HEADER;
	time_t when = (time_t)found->header.created;
	struct tm tm;

	if (j) {
		fth_json_object(j, NULL);
		fth_json_string(j, "name", found->name);
		fth_json_u64(j, "bytes", size);
		fth_json_u64(j, "tag", found->header.tag);
		fth_json_u64(j, "created", found->header.created);
		fth_json_bool(j, "mapped", found->used);
		fth_json_end(j);
		return;
	}
	if (gmtime_r(&when, &tm))
		strftime(created, sizeof created, "%Y-%m-%d %H:%M", &tm);
	printf("%10s  %16s  %016" PRIx64 "  %s%s\n", fth_cli_bytes(bytes, size), created,
	       found->header.tag, found->name, found->used ? "  (mapped)" : "");
}

static int list_folder(const char *folder, struct fth_json *j)
{
	struct dirent **entries;
	struct found found;
	int n = scandir(folder, &entries, NULL, alphasort);

	if (n < 0) {
		fth_cli_error("%s: %s", folder, strerror(errno));
		return FTH_EXIT_FAILED;
	}
	for (int i = 0; i < n; i++) {
		if (look_at(folder, entries[i]->d_name, &found))
			show(&found, j);
		free(entries[i]);
	}
	free(entries);
	return FTH_EXIT_OK;
}

static int run_ls(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "pm ls [DIRECTORY...]",
		.text = "List persistent memory: size, time of creation (UTC), tag, name. Without "
			"a\n"
			"directory that is shared memory; else files in these directories.",
		.max_args = 1000000,
	};
	static char *shared[] = {(char *)SHM_FOLDER, NULL};
	struct fth_json j;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (fth_cli_json()) {
		fth_json_begin(&j, stdout);
		fth_json_array(&j, "memory");
	}
	status = FTH_EXIT_OK;
	for (char **folder = *args ? args : shared; *folder && status == FTH_EXIT_OK; folder++)
		status = list_folder(*folder, fth_cli_json() ? &j : NULL);
	if (fth_cli_json())
		fth_json_finish(&j);
	return status;
}

const struct fth_command fth_cmd_pm_ls = {
	.name = "ls", .summary = "list persistent memory", .run = run_ls};
