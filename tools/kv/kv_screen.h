/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines of text on a terminal, drawn again and again; by ncurses, which is loaded when it is
 * needed.
 */
#ifndef FTH_TOOLS_KV_SCREEN_H
#define FTH_TOOLS_KV_SCREEN_H

struct fth_kv_screen;

#define FTH_KV_SCREEN_RESIZED (-2)

/*
 * Take over the terminal. -EOPNOTSUPP: the tool was built without ncurses, it is not installed, or
 * it does not know this terminal; fth_error_text() says which.
 */
int fth_kv_screen_open(struct fth_kv_screen **out);
/* Give the terminal back as it was. Accepts NULL. */
void fth_kv_screen_close(struct fth_kv_screen *screen);

/* Draw lines from the top, as many as there is room for, and `foot` in the last line. */
void fth_kv_screen_draw(struct fth_kv_screen *screen, const char *const *lines, unsigned count,
			const char *foot);

/* The next key, FTH_KV_SCREEN_RESIZED, or -1 if there is none in so many milliseconds. */
int fth_kv_screen_key(struct fth_kv_screen *screen, int wait_ms);

#endif
