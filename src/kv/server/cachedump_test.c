/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys of items in memory, as memcdump asks for them. */
#include "server_fixture.h"

static char *dump(int fd, const char *arguments)
{
	char line[64];

	snprintf(line, sizeof(line), "stats cachedump %s\r\n", arguments);
	put(fd, line, strlen(line));
	return take_until(fd, "END\r\n");
}

static void items_that_are_there_are_listed(void **state)
{
	static const char a[] = "ITEM a [3 b; 4000000000 s]\r\n", b[] = "ITEM b [0 b; 0 s]\r\n";
	struct fixture f;
	char *text;
	int fd;

	(void)state;
	start(&f, NULL, NULL);
	fd = dial(&f);
	ask(fd, "stats cachedump 1 0\r\n", "END\r\n");
	ask(fd, "set a 0 4000000000 3\r\nabc\r\nset b 0 0 0\r\n\r\n", "STORED\r\nSTORED\r\n");
	/* Deleted, expired, and one whose key is "a b c". */
	ask(fd, "set c 0 0 1\r\nx\r\ndelete c\r\n", "STORED\r\nDELETED\r\n");
	ask(fd, "set d 0 -1 1\r\nx\r\nms YSBiIGM= 1 b\r\nx\r\n", "STORED\r\nHD\r\n");
	text = dump(fd, "1 0");
	assert_true(strstr(text, a) && strstr(text, b));
	assert_int_equal(strlen(text), strlen(a) + strlen(b) + strlen("END\r\n"));
	free(text);
	text = dump(fd, "1 1");
	assert_true(!strstr(text, a) != !strstr(text, b));
	free(text);
	close(fd);
	stop(&f);
}

static void other_arguments(void **state)
{
	static const char *const none[] = {"", " 1"}, *const bad[] = {" x 0", " 1 x"};
	struct fixture f;
	char line[64];
	int fd;

	(void)state;
	start(&f, NULL, NULL);
	fd = dial(&f);
	ask(fd, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
	ask(fd, "stats cachedump 2 0\r\n", "END\r\n");
	for (unsigned i = 0; i < 2; i++) {
		snprintf(line, sizeof(line), "stats cachedump%s\r\n", none[i]);
		ask(fd, line, "CLIENT_ERROR bad command line\r\n");
		snprintf(line, sizeof(line), "stats cachedump%s\r\n", bad[i]);
		ask(fd, line, "CLIENT_ERROR bad command line format\r\n");
	}
	close(fd);
	stop(&f);
}

/* While items come, change and go to flash, by way of another worker. */
static void a_cache_in_use(void **state)
{
	enum { ITEMS = 300, LENGTH = 4000 };
	char *text, value[LENGTH + 64];
	struct fixture f;
	int fds[8];

	(void)state;
	start(&f, "mem:64M", NULL);
	for (unsigned i = 0; i < 8; i++)
		fds[i] = dial(&f);
	for (unsigned turn = 0; turn < 40; turn++) {
		put(fds[turn % 2], "stats cachedump 1 0\r\n", 21);
		for (unsigned i = 0; i < ITEMS; i++) {
			int at = sprintf(value, "set key%u 0 0 %u noreply\r\n",
					 turn / 4 * ITEMS + i, (unsigned)LENGTH);

			memset(value + at, 'v', LENGTH);
			memcpy(value + at + LENGTH, "\r\n", 2);
			put(fds[2 + turn % 6], value, (size_t)at + LENGTH + 2);
		}
		text = take_until(fds[turn % 2], "END\r\n");
		for (char *line = text; strcmp(line, "END\r\n") != 0; line = strchr(line, '\n') + 1)
			assert_int_equal(strncmp(line, "ITEM key", 8), 0);
		free(text);
	}
	for (unsigned i = 0; i < 8; i++) {
		ask(fds[i], "mn\r\n", "MN\r\n");
		close(fds[i]);
	}
	stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_that_are_there_are_listed),
		cmocka_unit_test(other_arguments),
		cmocka_unit_test(a_cache_in_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
