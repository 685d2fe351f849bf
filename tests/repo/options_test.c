/* SPDX-License-Identifier: BSD-2-Clause */
/* Each function that takes options refuses a struct of another size, and says which it expects. */
#include "fth_test.h"

#include "fathom.h"
#include "fathom/graph.h"
#include "fathom/dev/fault.h"
#include "fathom/kv/client.h"
#include "nvme/ctrl.h"
#include "nvme/soft.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct fth_dev *dev;
static struct fth_cache *cache;

static int open_all(void **state)
{
	(void)state;
	return fth_dev_open("fault(mem:16M)", &dev) || fth_cache_open(NULL, &cache);
}

static int close_all(void **state)
{
	(void)state;
	fth_dev_close(dev);
	return fth_cache_close(cache);
}

/* The call left the error for a size of 4 where `expected` bytes are right. */
static void assert_refused(int rc, const char *module, size_t expected)
{
	char text[128];

	snprintf(text, sizeof(text), "%s: options.size is 4, expected %zu", module, expected);
	assert_int_equal(rc, -EINVAL);
	assert_string_equal(fth_error_text(rc), text);
}

static void cache_and_array(void **state)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_array_options place = FTH_ARRAY_OPTIONS_INIT;
	struct fth_cache *none = cache;
	struct fth_array *array;

	(void)state;
	options.size = place.size = 4;
	assert_refused(fth_cache_open(&options, &none), "cache", sizeof(options));
	assert_null(none);
	assert_refused(fth_array_open(cache, "mem:1M", 8, &place, &array), "array", sizeof(place));
	assert_null(array);
}

static void vol(void **state)
{
	struct fth_vol_format_options format = FTH_VOL_FORMAT_OPTIONS_INIT;
	struct fth_vol_object_options object = FTH_VOL_OBJECT_OPTIONS_INIT;
	struct fth_vol *volume;
	struct fth_dev *pending;

	(void)state;
	assert_ok(fth_vol_format(&dev, 1, &format));
	format.size = object.size = 4;
	assert_refused(fth_vol_format(&dev, 1, &format), "vol", sizeof(format));
	assert_ok(fth_vol_open(&dev, 1, 0, &volume));
	assert_refused(fth_vol_create(volume, "a", 4096, &object), "vol", sizeof(object));
	assert_refused(fth_vol_object_new(volume, "a", 4096, &object, &pending), "vol",
		       sizeof(object));
	assert_null(pending);
	fth_vol_close(volume);
}

static void kv_client(void **state)
{
	struct fth_kvc_options options = FTH_KVC_OPTIONS_INIT;
	const char *server = "127.0.0.1:1";
	struct fth_kvc *client;

	(void)state;
	assert_ok(fth_kvc_open(&server, 1, &options, &client));
	fth_kvc_close(client);
	options.size = 4;
	assert_refused(fth_kvc_open(&server, 1, &options, &client), "kv client", sizeof(options));
	assert_null(client);
}

static void nvme(void **state)
{
	struct fth_nvme_ctrl_options controller = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_nvme_options driver = FTH_NVME_OPTIONS_INIT;
	struct fth_nvme_transport *transport;
	struct fth_nvme_ctrl *ctrl;
	struct fth_nvme *nvme;

	(void)state;
	assert_ok(fth_nvme_ctrl_new(dev, &controller, &ctrl));
	assert_ok(fth_nvme_soft_new(ctrl, &transport));
	driver.size = controller.size = 4;
	assert_refused(fth_nvme_open(transport, &driver, &nvme), "nvme", sizeof(driver));
	transport->ops->close(transport);
	assert_refused(fth_nvme_ctrl_new(dev, &controller, &ctrl), "nvme controller",
		       sizeof(controller));
	assert_null(ctrl);
}

static void graph(void **state)
{
	struct fth_graph_pagerank_options ranks = FTH_GRAPH_PAGERANK_OPTIONS_INIT;
	struct fth_graph_options place = FTH_GRAPH_OPTIONS_INIT;
	struct fth_graph_pagerank ranked;
	struct fth_graph *opened;

	(void)state;
	ranks.size = place.size = 4;
	assert_refused(fth_graph_open_dev(cache, dev, &place, &opened), "graph", sizeof(place));
	assert_refused(fth_graph_pagerank(NULL, &ranks, NULL, &ranked), "graph", sizeof(ranks));
}

static void fault_plan(void **state)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	char text[128];

	(void)state;
	assert_ok(fth_dev_fault_set(dev, &plan));
	plan.size = 3;
	snprintf(text, sizeof(text), "fault: plan.size is 3, expected %zu", sizeof(plan));
	assert_int_equal(fth_dev_fault_set(dev, &plan), -EINVAL);
	assert_string_equal(fth_error_text(-EINVAL), text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cache_and_array), cmocka_unit_test(vol),
		cmocka_unit_test(kv_client),	   cmocka_unit_test(nvme),
		cmocka_unit_test(graph),	   cmocka_unit_test(fault_plan),
	};
	return cmocka_run_group_tests(tests, open_all, close_all);
}
