/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/spill/scratch.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

void scratch_init(struct scratch *s, struct fth_qmem *mem, const char *folder, uint64_t limit)
{
	*s = (struct scratch){.mem = mem, .folder = folder, .limit = limit};
	pthread_mutex_init(&s->lock, NULL);
}

void scratch_release(struct scratch *s)
{
	spill_file_close(s->spill);
	pthread_mutex_destroy(&s->lock);
}

static int free_bytes(const char *folder, uint64_t *out)
{
	struct statvfs fs;

	if (statvfs(folder, &fs) < 0)
		return fth_fail(errno, "%s: cannot determine the free space for scratch files",
				folder);
	*out = (uint64_t)fs.f_bavail * fs.f_frsize;
	return 0;
}

static int open_file(struct scratch *s)
{
	const char *folder = s->folder ? s->folder : getenv("TMPDIR");
	uint64_t limit = s->limit;
	int rc = 0;

	if (s->dev)
		return spill_file_open(s->mem, s->dev, spill_file_block_for(s->mem), &s->spill);
	if (!folder || *folder == 0)
		folder = "/tmp";
	if (limit == 0)
		rc = free_bytes(folder, &limit);
	if (rc < 0)
		return rc;
	return spill_file_open_folder(s->mem, folder, limit, &s->spill);
}

int scratch_get(struct scratch *s, struct spill_file **out)
{
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	if (!s->spill) {
		rc = open_file(s);
		if (rc == 0)
			spill_file_cancel_by(s->spill, s->cancel);
	}
	*out = s->spill;
	pthread_mutex_unlock(&s->lock);
	return rc;
}

uint64_t scratch_written(struct scratch *s)
{
	return s->spill ? spill_file_written(s->spill) : 0;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int scratch_choose(const char *asked, const char *database, char **out)
{
	const char *folder = asked;

	*out = NULL;
	if (asked && !is_folder(asked))
		return fth_fail(ENOTDIR, "query: scratch '%s' is not a directory", asked);
	if (!asked && database && is_folder(database) && access(database, W_OK | X_OK) == 0)
		folder = database;
	if (!folder)
		return 0;
	*out = strdup(folder);
	return *out ? 0 : -ENOMEM;
}
