/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The conformance suite against every device and many stacks of them; and against devices that
 * break a promise, which it must notice.
 */
#include "fth_test.h"

#include "dev/testkit/dev_conformance.h"
#include "dev/testkit/dev_narrow.h"
#include "dev/wrap/dev_wrap.h"

#include "fathom/hd/atomic.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES (2u << 20)

/* A %s is the path of a temporary file. `slow` ones get fewer operations on fewer bytes. */
static const struct entry {
	const char *uri;
	bool slow;
} entries[] = {
	{"mem:1M", false},
	{"mem:2M?block=512", false},
	{"mem:64K?block=1", false},
	{"mem:2M?block=4096", false},
	{"fault(mem:1M)", false},
	{"fault(mem:1M?block=1)?rate=0", true},
	{"delay(mem:1M)", true},
	{"delay(mem:1M)?read_us=5&write_us=8&flush_us=20&jitter=0.5", true},
	{"delay(mem:1M)?read_iops=200000&write_iops=100000&tail_p=0.01&tail_us=300", true},
	{"mem:1M?model=p5800x", true},
	{"mem:1M?block=4096&model=zssd", true},
	{"crash(mem:1M)", false},
	{"crash(mem:1M?block=1)", true},
	{"crash(mem:1M?block=4096)", true},
	{"crash(mem:1M)?limit=64K", false},
	{"crash(mem:1M)?lie=on", true},
	{"fault(delay(mem:1M)?write_us=3)", true},
	{"delay(fault(mem:1M))?read_us=3", true},
	{"crash(delay(mem:1M)?read_us=3)", true},
	{"delay(crash(mem:1M))?model=p5800x", true},
	{"crash(crash(mem:1M))", true},
	{"crash(fault(delay(mem:1M)?read_us=2))", true},
	{"fault(crash(delay(mem:1M)))", true},
	{"delay(fault(crash(mem:1M?block=4096)))?jitter=1", true},
	{"fault(fault(fault(mem:1M)?rate=0))?nth=1000000000", true},
	{"fault(narrow(mem:1M))", true},
	{"delay(narrow(mem:1M))?read_us=2", true},
	{"crash(narrow(mem:1M))", true},
	{"delay(narrow(crash(narrow(fault(mem:1M)))))", true},
	{"delay(fault(crash(fault(delay(fault(crash(mem:1M)))))))?read_us=10", true},
	{"file:%s", true},
	{"file:%s?direct=off", true},
	{"fault(file:%s)", true},
	{"delay(file:%s)?read_us=10", true},
	{"crash(file:%s)", true},
	{"crash(fault(delay(file:%s)))", true},
	{"file:%s?model=p5800x", true},
	{"file:%s?engine=threads", true},
	{"file:%s?engine=threads&direct=off", true},
	{"file:%s?engine=threads&threads=1", true},
	{"fault(file:%s?engine=threads)", true},
	{"delay(file:%s?engine=threads)?read_us=10", true},
	{"crash(fault(delay(file:%s?engine=threads&direct=off)))", true},
};

static char file_path[] = "/tmp/fathom-conformance-XXXXXX";

static bool has_file_scheme(void)
{
	struct fth_dev *dev;
	char uri[128];
	int rc;

	snprintf(uri, sizeof(uri), "file:%s", file_path);
	rc = fth_dev_open(uri, &dev);
	fth_dev_close(dev);
	return rc == 0 || !strstr(fth_error_text(rc), "unknown device scheme");
}

static void run_entries(bool with_file)
{
	for (unsigned i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		struct fth_conformance_options options = FTH_CONFORMANCE_DEFAULTS;
		bool on_file = strstr(entries[i].uri, "%s") != NULL;
		const char *rest = on_file ? strstr(entries[i].uri, "%s") + 2 : "";
		char uri[256];
		int rc;

		if (on_file != with_file)
			continue;
		snprintf(uri, sizeof(uri), "%.*s%s%s",
			 (int)(strlen(entries[i].uri) - strlen(rest) - (on_file ? 2 : 0)),
			 entries[i].uri, on_file ? file_path : "", rest);
		options.seed = i + 1;
		if (entries[i].slow) {
			options.operations = 800;
			options.bytes = 256 << 10;
		}
		rc = fth_dev_conformance(uri, &options);
		if (rc < 0)
			fail_msg("%s: %s", uri, fth_error_text(rc));
	}
}

static void every_stack_on_memory_conforms(void **state)
{
	(void)state;
	run_entries(false);
}

static void every_stack_on_a_file_conforms(void **state)
{
	(void)state;
	if (!has_file_scheme())
		skip(); /* this library was built without file: */
	run_entries(true);
}

/* ---- devices that break a promise ---- */

/* broken(URI)?how=WAY passes everything on, except that it does one thing wrong. */
struct dev_broken {
	struct fth_wrap_dev wrap;
	char how[16];
	uint32_t writes;
};

struct chan_broken {
	struct fth_wrap_chan wrap;
	struct fth_wake wake; /* in place of the descriptor of wrap */
};

static bool breaks(const struct fth_dev *dev, const char *how)
{
	return strcmp(((const struct dev_broken *)dev)->how, how) == 0;
}

static void broken_done(struct fth_wrap_chan *chan, struct fth_dev_req *req)
{
	if (req->op == FTH_DEV_READ && breaks(chan->chan.dev, "flip") && req->length > 4096)
		((char *)req->iov[req->iov_count - 1].iov_base)[0] ^= 1;
	if (req->op == FTH_DEV_FLUSH && breaks(chan->chan.dev, "noflush"))
		req->result = -EOPNOTSUPP;
	fth_wrap_hold(chan, req, FTH_WRAP_NOW);
}

static int broken_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	struct chan_broken *chan = calloc(1, sizeof(*chan));
	int rc = -ENOMEM;

	if (chan)
		rc = fth_wrap_chan_init(&chan->wrap, ((struct fth_wrap_dev *)dev)->inner, depth,
					broken_done);
	if (rc < 0) {
		free(chan);
		return rc;
	}
	chan->wake = (struct fth_wake)FTH_WAKE_NONE;
	*out = &chan->wrap.chan;
	return 0;
}

static void broken_chan_close(struct fth_dev_chan *chan)
{
	fth_wake_close(&((struct chan_broken *)chan)->wake);
	fth_wrap_chan_close(chan);
}

static int broken_chan_fd(struct fth_dev_chan *base)
{
	struct chan_broken *chan = (struct chan_broken *)base;

	if (breaks(base->dev, "none"))
		return -EOPNOTSUPP;
	if (breaks(base->dev, "low"))
		return 0;
	if (breaks(base->dev, "another"))
		fth_wake_close(&chan->wake);
	if (breaks(base->dev, "deaf") || breaks(base->dev, "loud") || breaks(base->dev, "spin") ||
	    breaks(base->dev, "once") || breaks(base->dev, "late") ||
	    breaks(base->dev, "another")) {
		int fd = fth_wake_open(&chan->wake);

		if (breaks(base->dev, "another")) /* not the one that was just closed */
			fd = chan->wake.fd = fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
		fth_wake_set(&chan->wake, breaks(base->dev, "loud"));
		return fd;
	}
	return fth_wrap_chan_fd(base);
}

static int broken_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct fth_wrap_chan *chan = (struct fth_wrap_chan *)base;
	struct dev_broken *broken = (struct dev_broken *)base->dev;

	if (breaks(base->dev, "shallow") && n > 4)
		n = 4;
	for (unsigned i = 0; i < n; i++) {
		bool skip = false;

		if (reqs[i]->op == FTH_DEV_WRITE && breaks(base->dev, "lose"))
			skip = fth_add_relaxed_dev32(&broken->writes, 1) % 64 == 63;
		if (reqs[i]->op == FTH_DEV_ZERO && breaks(base->dev, "nozero"))
			skip = true;
		reqs[i]->result = 0;
		if (skip)
			fth_wrap_hold(chan, reqs[i], FTH_WRAP_NOW);
		else
			fth_wrap_pass(chan, &reqs[i], 1);
	}
	if (!breaks(base->dev, "deaf"))
		fth_wake_set(&((struct chan_broken *)base)->wake, true);
	return (int)n;
}

static int broken_reap(struct fth_dev_chan *chan, struct fth_dev_req **done, unsigned max,
		       unsigned min, uint64_t deadline)
{
	unsigned left;
	int n;

	/* One that comes back with fewer than it was asked to wait for. */
	if (breaks(chan->dev, "impatient") && min > 1)
		min = 1;
	n = fth_wrap_reap(chan, done, max, min, deadline);
	left = chan->in_flight - (n > 0 ? (unsigned)n : 0);
	/* Readable while anything is in flight, or until the first reap, or for good. */
	if (breaks(chan->dev, "spin") || breaks(chan->dev, "late"))
		fth_wake_set(&((struct chan_broken *)chan)->wake, left > 0);
	else if (breaks(chan->dev, "once"))
		fth_wake_set(&((struct chan_broken *)chan)->wake, false);
	return n;
}

static void broken_close(struct fth_dev *dev)
{
	fth_dev_close(((struct fth_wrap_dev *)dev)->inner);
	free(dev);
}

static const struct fth_dev_ops broken_ops = {
	.close = broken_close,
	.chan_open = broken_chan_open,
	.chan_close = broken_chan_close,
	.submit = broken_submit,
	.reap = broken_reap,
	.chan_fd = broken_chan_fd,
	.map = fth_wrap_map,
	.unmap = fth_wrap_unmap,
};

static int broken_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	struct dev_broken *broken = calloc(1, sizeof(*broken));
	const char *how = "";

	if (!broken)
		return -ENOMEM;
	(void)fth_uri_take_string(uri, "how", &how);
	snprintf(broken->how, sizeof(broken->how), "%s", how);
	broken->wrap.inner = inner;
	broken->wrap.dev.ops = &broken_ops;
	broken->wrap.dev.info = *fth_dev_info(inner);
	if (breaks(&broken->wrap.dev, "align"))
		broken->wrap.dev.info.align = 3;
	*out = &broken->wrap.dev;
	return 0;
}

static const struct fth_dev_scheme broken_scheme = {
	.name = "broken", .wrapper = true, .open = broken_open};

/* Requests do not all come back together. */
#define SLOW "delay(mem:1M)?read_us=20&jitter=4"

static void broken_promises_are_noticed(void **state)
{
	static const struct {
		const char *how, *check, *inside;
	} ways[] = {
		{"flip", "sizes:", SLOW},
		{"noflush", "flush:", SLOW},
		{"shallow", "batches:", SLOW},
		{"lose", "", SLOW},
		{"nozero", "zero:", SLOW},
		{"align", "info:", SLOW},
		{"impatient", "", SLOW},
		{"none", "waiting:", SLOW},
		{"low", "waiting: check_descriptor", SLOW},
		{"another", "waiting: check_descriptor", SLOW},
		{"deaf", "waiting: the descriptor was not readable", SLOW},
		{"loud", "waiting: the descriptor stays readable", SLOW},
		{"late", "waiting: the descriptor was not readable", "mem:1M"},
		{"once", "waiting: the descriptor was not readable", "mem:1M"},
		{"spin", "times without a request", "delay(mem:1M)?flush_us=50000"},
	};
	struct fth_conformance_options options = FTH_CONFORMANCE_DEFAULTS;
	char uri[128];

	(void)state;
	options.bytes = 256 << 10;
	options.operations = 1500;
	options.wait_ms = 300; /* only to be had sooner: whole devices do not come near it */
	assert_ok(fth_dev_conformance("broken(mem:1M)", &options));
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		int rc;

		snprintf(uri, sizeof(uri), "broken(%s)?how=%s", ways[i].inside, ways[i].how);
		rc = fth_dev_conformance(uri, &options);
		if (rc >= 0)
			fail_msg("how=%s was not noticed", ways[i].how);
		if (!strstr(fth_error_text(rc), ways[i].check))
			fail_msg("how=%s: %s", ways[i].how, fth_error_text(rc));
	}
}

static void what_can_not_be_checked_is_said(void **state)
{
	(void)state;
	assert_int_equal(fth_dev_conformance("mem:4K", NULL), -EINVAL);
	assert_int_equal(fth_dev_conformance("nosuch:4K", NULL), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), "open: unknown device scheme"));
}

static int make_file(void **state)
{
	int fd = mkstemp(file_path), rc;

	(void)state;
	if (fd < 0)
		return -1;
	rc = ftruncate(fd, FILE_BYTES);
	close(fd);
	return rc;
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(file_path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_stack_on_memory_conforms),
		cmocka_unit_test(every_stack_on_a_file_conforms),
		cmocka_unit_test(broken_promises_are_noticed),
		cmocka_unit_test(what_can_not_be_checked_is_said),
	};
	if (fth_dev_scheme_register(&fth_dev_scheme_narrow) < 0 ||
	    fth_dev_scheme_register(&broken_scheme) < 0)
		return 1;
	return cmocka_run_group_tests(tests, make_file, remove_file);
}
