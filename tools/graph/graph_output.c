/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph_output.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER (1u << 20)

bool graph_output_is_stdout(const struct graph_output *output)
{
	return output->path && strcmp(output->path, "-") == 0;
}

static bool is_npy(const char *path)
{
	size_t length = strlen(path);

	return length > 4 && strcmp(path + length - 4, ".npy") == 0;
}

int graph_output_open(struct graph_output *output)
{
	int rc, fd;

	if (!output->path)
		return 0;
	if (graph_output_is_stdout(output)) {
		output->out = stdout;
		return 0;
	}
	rc = fth_output_open_file(&output->file, output->path, &fd);
	if (rc < 0)
		return fth_fail_in(rc, output->path);
	output->out = fdopen(fd, "w");
	if (!output->out) {
		close(fd);
		return -ENOMEM;
	}
	setvbuf(output->out, NULL, _IOFBF, BUFFER);
	return 0;
}

int graph_output_write(struct graph_output *output, const struct graph_table *table)
{
	const struct graph_top *top = output->top ? &output->chosen : NULL;
	int rc = top ? graph_table_top(table, output->top, &output->chosen) : 0;

	if (rc < 0 || !output->out)
		return rc;
	/* Labels in the order of vertices come fast through the cache, those of others do not. */
	if (!top && table->kinds[1] == GRAPH_VERTEX)
		rc = fth_graph_load_labels(table->graph);
	if (rc < 0 && rc != -ENOMEM)
		return rc;
	rc = is_npy(output->path) ? graph_table_npy(table, top, output->out)
				  : graph_table_text(table, top, output->out);
	output->failed = rc < 0;
	if (output->failed && rc != -EINTR)
		fth_fail_in(rc, graph_output_is_stdout(output) ? "standard output" : output->path);
	return rc;
}

int graph_output_close(struct graph_output *output, int rc)
{
	bool file = output->out && output->out != stdout;
	off_t bytes = file ? ftello(output->out) : 0;

	/* graph_output_write() has flushed it: nothing is left to fail here. */
	if (file && fclose(output->out) != 0 && rc == 0)
		rc = fth_fail(errno, "%s: %s", output->path, strerror(errno));
	if (file && rc == 0) {
		rc = fth_output_close(&output->file, (uint64_t)bytes, 0);
		output->failed = rc < 0;
		if (rc < 0)
			fth_fail_in(rc, output->path);
	} else if (file) {
		fth_output_close(&output->file, 0, rc);
	}
	if (!output->out)
		fth_output_close(&output->file, 0, rc);
	free(output->chosen.rows);
	output->chosen = (struct graph_top){0};
	output->out = NULL;
	return rc;
}
