#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""run.py PACKAGE FILE...: run tests of the package with pytest; exit 77 where it is missing.

Under AddressSanitizer the interpreter, which was built without it, starts again with its library
loaded first.
"""
import os
import subprocess
import sys


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def with_sanitizer():
    kind = os.environ.get("FTH_SANITIZE")
    if kind == "thread":
        skip("ThreadSanitizer does not know what the interpreter does")
    if kind == "address" and "LD_PRELOAD" not in os.environ:
        library = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout.strip()
        # Leaks: the interpreter keeps things until its end.
        os.environ.update(LD_PRELOAD=library, PYTHONMALLOC="malloc",
                          ASAN_OPTIONS="detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", ""))
        os.execv(sys.executable, [sys.executable] + sys.argv)


def main():
    with_sanitizer()
    package, files = sys.argv[1], sys.argv[2:]
    for module in ("numpy", "pytest"):
        try:
            __import__(module)
        except ImportError:
            skip("python3-%s is not here" % module)
    if not os.path.exists(os.path.join(package, "fathom", "_core.abi3.so")):
        skip("the extension module was not built")
    sys.path.insert(0, package)
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ["PYTHONPATH"] = package + os.pathsep + os.environ.get("PYTHONPATH", "")
    import pytest
    status = pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short"] + files)
    sys.exit(77 if status == pytest.ExitCode.NO_TESTS_COLLECTED else int(status))


if __name__ == "__main__":
    main()
