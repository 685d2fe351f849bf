/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tool needs nothing but the C library, so ncurses is loaded when a screen is first asked for.
 * Its header is needed to build this; without it, opening a screen says so.
 */
#include "kv_screen.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef FTH_NCURSES

#define NCURSES_NOMACROS
#include <dlfcn.h>
#include <ncurses.h>

/* All of ncurses that is used. */
#define FUNCTIONS(X) \
	X(newterm)   \
	X(set_term)  \
	X(delscreen) \
	X(endwin)    \
	X(cbreak)    \
	X(noecho)    \
	X(curs_set)  \
	X(keypad)    \
	X(getmaxx)   \
	X(getmaxy)   \
	X(werase)    \
	X(wmove)     \
	X(waddnstr)  \
	X(wattr_on)  \
	X(wattr_off) \
	X(wrefresh)  \
	X(wtimeout)  \
	X(wgetch)

#define DECLARE(name) __typeof__(&name) name##_;
struct fth_kv_screen {
	void *library;
	SCREEN *term;
	WINDOW *window;
	FUNCTIONS(DECLARE)
};

static int load(struct fth_kv_screen *s)
{
	WINDOW **window;

	s->library = dlopen("libncursesw.so.6", RTLD_NOW | RTLD_LOCAL);
	if (!s->library)
		s->library = dlopen("libncurses.so.6", RTLD_NOW | RTLD_LOCAL);
	if (!s->library)
		return fth_fail(EOPNOTSUPP,
				"the interactive display needs ncurses 6: %s; --once does not",
				dlerror());
#define LOAD(name)                                        \
	*(void **)&s->name##_ = dlsym(s->library, #name); \
	if (!s->name##_)                                  \
		return fth_fail(EOPNOTSUPP, "ncurses has no " #name);
	FUNCTIONS(LOAD)
	window = dlsym(s->library, "stdscr");
	if (!window)
		return fth_fail(EOPNOTSUPP, "ncurses has no stdscr");
	s->term = s->newterm_(NULL, stdout, stdin);
	if (!s->term)
		return fth_fail(
			EOPNOTSUPP,
			"ncurses does not support the terminal %s; --once works without ncurses",
			getenv("TERM") ? getenv("TERM") : "(TERM is not set)");
	s->window = *window;
	return 0;
}

int fth_kv_screen_open(struct fth_kv_screen **out)
{
	struct fth_kv_screen *s = calloc(1, sizeof(*s));
	int rc = s ? load(s) : -ENOMEM;

	*out = NULL;
	if (rc < 0) {
		free(s); /* the library stays loaded: it has no way back */
		return rc;
	}
	s->cbreak_();
	s->noecho_();
	s->keypad_(s->window, TRUE);
	s->curs_set_(0);
	*out = s;
	return 0;
}

void fth_kv_screen_close(struct fth_kv_screen *s)
{
	if (!s)
		return;
	s->endwin_();
	s->delscreen_(s->term);
	free(s);
}

static void put_line(struct fth_kv_screen *s, int y, const char *text)
{
	if (s->wmove_(s->window, y, 0) != ERR)
		s->waddnstr_(s->window, text, s->getmaxx_(s->window) - 1);
}

void fth_kv_screen_draw(struct fth_kv_screen *s, const char *const *lines, unsigned count,
			const char *foot)
{
	int height = s->getmaxy_(s->window);

	s->werase_(s->window);
	for (int y = 0; y < height - 1 && y < (int)count; y++) {
		if (y == 0)
			s->wattr_on_(s->window, A_BOLD, NULL);
		put_line(s, y, lines[y]);
		if (y == 0)
			s->wattr_off_(s->window, A_BOLD, NULL);
	}
	s->wattr_on_(s->window, A_REVERSE, NULL);
	put_line(s, height - 1, foot);
	s->wattr_off_(s->window, A_REVERSE, NULL);
	s->wrefresh_(s->window);
}

int fth_kv_screen_key(struct fth_kv_screen *s, int wait_ms)
{
	int key;

	s->wtimeout_(s->window, wait_ms);
	key = s->wgetch_(s->window);
	if (key == KEY_RESIZE)
		return FTH_KV_SCREEN_RESIZED;
	return key == ERR ? -1 : key;
}

#else

int fth_kv_screen_open(struct fth_kv_screen **out)
{
	*out = NULL;
	return fth_fail(EOPNOTSUPP, "fathom was built without ncurses; use --once");
}

void fth_kv_screen_close(struct fth_kv_screen *s)
{
	(void)s;
}

void fth_kv_screen_draw(struct fth_kv_screen *s, const char *const *lines, unsigned count,
			const char *foot)
{
	(void)s;
	(void)lines;
	(void)count;
	(void)foot;
}

int fth_kv_screen_key(struct fth_kv_screen *s, int wait_ms)
{
	(void)s;
	(void)wait_ms;
	return -1;
}

#endif
