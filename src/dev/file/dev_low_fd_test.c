/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices and volumes in a process whose stdin, stdout and stderr are closed: none of their
 * descriptors is 0, 1 or 2, and what such a process prints reaches no device.
 */
#include "dev/file/dev_file_fixture.h"

#include "fathom/base/fd.h"
#include "fathom/vol.h"

#define BYTES (4u << 20)

static int saved[FTH_FD_MIN];

static void close_low(void)
{
	for (int i = 0; i < FTH_FD_MIN; i++) {
		saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 100);
		close(i);
	}
}

static void restore_low(void)
{
	for (int i = 0; i < FTH_FD_MIN; i++)
		if (saved[i] >= 0) {
			dup2(saved[i], i);
			close(saved[i]);
		}
}

/* Print, as a program that does not know would, and say whether a descriptor took it. */
static bool low_is_open(void)
{
	bool is_open = false;

	for (int i = 0; i < FTH_FD_MIN; i++) {
		(void)!write(i, "some output of the program\n", 27);
		if (fcntl(i, F_GETFD) >= 0) {
			is_open = true;
			close(i);
		}
	}
	return is_open;
}

struct outcome {
	const char *step; /* the first that went wrong, or NULL */
	char uri[1024];
	int rc;
	bool low; /* a low descriptor was open then */
};

static bool fine(struct outcome *o, const char *step, const char *uri, int rc)
{
	bool low = low_is_open();

	if (o->step)
		return false;
	if (rc >= 0 && !low)
		return true;
	*o = (struct outcome){.step = step, .rc = rc, .low = low};
	snprintf(o->uri, sizeof(o->uri), "%s", uri);
	return false;
}

static int read_something(struct fth_dev *dev, struct fth_dev_chan *chan)
{
	uint32_t block = fth_dev_info(dev)->block;
	size_t bytes = block < 4096 ? 4096 : block;
	void *buf = fth_dev_buf_alloc(dev, bytes);
	struct fth_dev_req req, *r = &req, *done;
	int rc;

	fth_dev_req_init(&req, FTH_DEV_READ, buf, bytes, 0);
	rc = fth_dev_submit(chan, &r, 1);
	if (rc == 1)
		rc = fth_dev_reap(chan, &done, 1, 1, FTH_NEVER);
	fth_dev_buf_free(dev, buf, bytes);
	return rc == 1 ? req.result : -EIO;
}

/* Not every device has one. */
static int descriptor_of(struct fth_dev_chan *chan)
{
	int fd = fth_dev_chan_fd(chan);

	return fd == -EOPNOTSUPP ? 0 : fd;
}

static void use_device(struct outcome *o, const char *uri)
{
	struct fth_dev_chan *chan = NULL;
	struct fth_dev *dev = NULL;

	if (fine(o, "open", uri, fth_dev_open(uri, &dev)) &&
	    fine(o, "channel", uri, fth_dev_chan_open(dev, 4, &chan)) &&
	    fine(o, "descriptor of the channel", uri, descriptor_of(chan)))
		fine(o, "read", uri, read_something(dev, chan));
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
	fine(o, "close", uri, 0);
}

static void use_volume(struct outcome *o, const char *const *uris, unsigned n)
{
	struct fth_vol_format_options options = FTH_VOL_FORMAT_OPTIONS_INIT;
	struct fth_vol *vol = NULL;
	struct fth_dev *dev = NULL;

	options.force = true;
	if (fine(o, "format", uris[0], fth_vol_format_uris(uris, n, &options)) &&
	    fine(o, "open volume", uris[0], fth_vol_open_uris(uris, n, 0, &vol)) &&
	    fine(o, "create", uris[0], fth_vol_create(vol, "x", 65536, NULL)))
		fine(o, "open object", uris[0], fth_vol_object_open(vol, "x", 0, &dev));
	fth_dev_close(dev);
	fth_vol_close(vol);
	fine(o, "close volume", uris[0], 0);
}

static void use_everything(struct outcome *o, unsigned place)
{
	static const char *const formats[] = {
		"file:%s",
		"file:%s?direct=off",
		"file:%s?engine=threads",
		"file:%s?readonly=on",
		"fault(file:%s)",
		"delay(file:%s)?read_us=1",
		"crash(file:%s)",
		"file:%s?fixed=off",
		"softnvme(file:%s?block=4096)",
		"file:%s?model=p5800x",
		"vol(file:%s)?object=x",
		"softnvme(mem:4M)",
		"mem:4M",
	};
	char uri[1024];
	const char *volume[] = {uri};

	snprintf(uri, sizeof(uri), "file:%s", path_in(place, "a"));
	use_volume(o, volume, 1);
	for (unsigned i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		snprintf(uri, sizeof(uri), formats[i], path_in(place, "a"));
		use_device(o, uri);
	}
}

static void no_device_gets_a_standard_descriptor(void **state)
{
	(void)state;
	for (unsigned place = 0; place < place_count; place++) {
		struct outcome o = {0};

		make_file(place, BYTES);
		close_low();
		use_everything(&o, place);
		restore_low();
		if (o.step)
			fail_msg("%s of %s: %s%s", o.step, o.uri, fth_error_text(o.rc),
				 o.low ? ", and descriptor 0, 1 or 2 was open" : "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_device_gets_a_standard_descriptor),
	};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
