#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check-folders.py [ROOT]: fails where the tree is harder to read than it need be.

- A folder holds at most 30 files.
- Within a module (a folder of src/ with all its subfolders) each file name occurs once.
"""
import collections
import os
import subprocess
import sys

FILES_MAX = 30
SHARED_NAMES = {"CMakeLists.txt", "README.md"}
# Folders whose files are data, or that a tool wants flat.
DATA = ("tests/fuzz/corpus/", "doc/data", "doc/figures", "tests/tpch")


def listed_files():
    """The files of the tree: those that git knows, or all where it is no git tree."""
    git = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if git.returncode == 0:
        return [name for name in git.stdout.splitlines() if os.path.exists(name)]
    found = []
    for folder, folders, names in os.walk("."):
        folders[:] = [f for f in folders if not f.startswith((".", "build"))]
        found += [os.path.relpath(os.path.join(folder, name)) for name in names]
    return found


def full_folders(files):
    count = collections.Counter(os.path.dirname(name) for name in files)
    return ["%s: %d files, at most %d" % (folder, n, FILES_MAX)
            for folder, n in sorted(count.items())
            if n > FILES_MAX and not folder.startswith(DATA)]


def repeated_names(files):
    places = collections.defaultdict(list)
    for name in files:
        part = name.split("/")
        if part[0] == "src" and len(part) > 2 and part[-1] not in SHARED_NAMES:
            places[part[1], part[-1]].append(name)
    return ["%s: the module has another file of this name: %s" % (found[0], ", ".join(found[1:]))
            for _, found in sorted(places.items()) if len(found) > 1]


def main():
    os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), ".."))
    files = listed_files()
    problems = full_folders(files) + repeated_names(files)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit("folders: %d problems" % len(problems))
    print("folders: %d files keep to the rules" % len(files))


if __name__ == "__main__":
    main()
