/* SPDX-License-Identifier: BSD-2-Clause */
#include "flat_program.h"

#include "fathom/base/error.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define HEAD_MAX    4096
#define SCRIPTS	    4 /* interpreters of interpreters, as in the kernel */
#define HEADERS_MAX 64

static int try_path(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	return access(path, X_OK) < 0 ? -errno : 0;
}

int fth_flat_find_program(const char *name, char path[PATH_MAX])
{
	const char *folders = getenv("PATH");
	int rc = -ENOENT;

	if (strchr(name, '/')) {
		snprintf(path, PATH_MAX, "%s", name);
		rc = try_path(path);
	} else {
		for (const char *at = folders ? folders : "/bin:/usr/bin"; *at && rc < 0;) {
			int length = (int)strcspn(at, ":");
			int one;

			snprintf(path, PATH_MAX, "%.*s%s%s", length, at, length ? "/" : "", name);
			one = try_path(path);
			if (one != -ENOENT && one != -ENOTDIR)
				rc = one;
			at += length + (at[length] == ':');
		}
	}
	return rc < 0 ? fth_fail(-rc, "cannot start %s: %s", name, strerror(-rc)) : 0;
}

/* The interpreter of a script, from its first line; with `env` the program that it looks for. */
static int find_interpreter(char *line, char path[PATH_MAX])
{
	char *rest, *word = strtok_r(line + 2, " \t\n", &rest), *base;

	if (!word)
		return fth_fail(ENOEXEC, "the script does not name an interpreter");
	base = strrchr(word, '/');
	if (base && strcmp(base, "/env") == 0) {
		do
			word = strtok_r(NULL, " \t\n", &rest);
		while (word && (word[0] == '-' || strchr(word, '=')));
		return word ? fth_flat_find_program(word, path)
			    : fth_fail(ENOEXEC, "the script does not name an interpreter");
	}
	return fth_flat_find_program(word, path);
}

static int check_rights(const char *path, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	if (((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
	    ((st.st_mode & S_ISGID) && st.st_gid != getgid()))
		return fth_fail(
			ENOTSUP,
			"%s is setuid or setgid: the dynamic linker ignores LD_PRELOAD for it",
			path);
	if (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return fth_fail(
			ENOTSUP,
			"%s has file capabilities: the dynamic linker ignores LD_PRELOAD for it",
			path);
	return 0;
}

/* The dynamic linker that the program names, or "". */
static int read_linker(const char *path, int fd, const Elf64_Ehdr *elf, char out[PATH_MAX])
{
	for (unsigned i = 0; i < elf->e_phnum && i < HEADERS_MAX; i++) {
		Elf64_Phdr header;

		if (pread(fd, &header, sizeof(header),
			  (off_t)(elf->e_phoff + (uint64_t)i * elf->e_phentsize)) !=
		    (ssize_t)sizeof(header))
			break;
		if (header.p_type != PT_INTERP)
			continue;
		memset(out, 0, PATH_MAX);
		if (header.p_filesz >= PATH_MAX ||
		    pread(fd, out, header.p_filesz, (off_t)header.p_offset) !=
			    (ssize_t)header.p_filesz)
			return fth_fail(ENOEXEC, "%s is not a valid ELF file", path);
		return 0;
	}
	out[0] = '\0';
	return 0;
}

static int check_elf(const char *path, int fd, const Elf64_Ehdr *elf)
{
	char linker[PATH_MAX];
	int rc;

	if (elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_machine != EM_X86_64)
		return fth_fail(ENOTSUP, "%s is not an x86-64 program", path);
	rc = read_linker(path, fd, elf, linker);
	if (rc == 0 && !linker[0])
		return fth_fail(ENOTSUP,
				"%s is statically linked: no library can be preloaded into it",
				path);
	if (rc == 0 && !strstr(linker, "/ld-linux"))
		return fth_fail(ENOTSUP, "%s uses the dynamic linker %s, not that of glibc", path,
				linker);
	return rc;
}

static int check_file(const char *path, int fd, unsigned scripts)
{
	char head[HEAD_MAX + 1] = {0}, interpreter[PATH_MAX];
	ssize_t n = pread(fd, head, HEAD_MAX, 0);
	Elf64_Ehdr elf;
	int rc = check_rights(path, fd);

	if (rc < 0)
		return rc;
	if (n > 2 && head[0] == '#' && head[1] == '!') {
		head[strcspn(head, "\n")] = '\0';
		rc = find_interpreter(head, interpreter);
		if (rc < 0 || scripts == 0)
			return rc;
		fd = open(interpreter, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return 0; /* it can be started, though not read */
		rc = check_file(interpreter, fd, scripts - 1);
		close(fd);
		return rc;
	}
	if (n < (ssize_t)sizeof(elf) || memcmp(head, ELFMAG, SELFMAG) != 0)
		return fth_fail(ENOEXEC, "%s is neither an ELF program nor a script with #!", path);
	memcpy(&elf, head, sizeof(elf));
	return check_elf(path, fd, &elf);
}

int fth_flat_check_program(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return fth_fail(errno, "cannot read %s to check whether it can be run: %s", path,
				strerror(errno));
	rc = check_file(path, fd, SCRIPTS);
	close(fd);
	return rc;
}
