#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""readme_test.py BUILD-FOLDER [FILE...]: the samples of README.md work as they stand.

Fathom is installed into a temporary folder. Each block that begins with ```sh runs in an empty folder of its own,
by bash -eu, with `fathom` in PATH; each block of ```c with a main() is compiled with pkg-config, linked and run,
twice, in an empty folder. A block of Python, or one in a block of shell, whose modules are not installed is skipped, as is what this
machine does not allow (status 77).
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
SECONDS = 120
IMPOSSIBLE = 77


def blocks_of(path):
    """Yield (line, language, text) of each fenced block."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    first = language = None
    for at, text in enumerate(lines):
        if first is None and text.startswith("```"):
            first, language = at + 1, text[3:]
        elif first is not None and text == "```":
            yield first + 1, language, "\n".join(lines[first:at]) + "\n"
            first = None


def install(build, folder):
    """Install into a folder, and return an environment that uses it."""
    subprocess.run(["cmake", "--install", build, "--prefix", folder], check=True, stdout=subprocess.DEVNULL)
    env = dict(os.environ)
    libraries = next(base for base, _, files in os.walk(folder) if "libfathom.so" in files)
    # Debian's python3 has Debian's modules.
    env["PATH"] = os.path.join(folder, "bin") + ":/usr/bin:" + env["PATH"]
    env["PKG_CONFIG_PATH"] = os.path.join(libraries, "pkgconfig")
    env["LD_LIBRARY_PATH"] = libraries
    return env


def lacks_module(text, env):
    """The first Python module that a sample imports and that is not here."""
    for name in re.findall(r"\b(?:import|from) (numpy|pymemcache)\b", text):
        if subprocess.run(["python3", "-c", f"import {name}"], check=False, capture_output=True,
                          env=env).returncode:
            return name
    return None


def run(command, folder, env):
    """Run to its end; returns (status, output). Whatever it leaves running ends with its process group."""
    with subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            output += f"\nit took longer than {SECONDS} s"
    return process.returncode, output


def run_shell(text, folder, env):
    return run(["bash", "-euc", text], folder, env)


def run_program(text, folder, env):
    with open(os.path.join(folder, "program.c"), "w", encoding="utf-8") as file:
        file.write(text)
    cc = env.get("CC", "cc")
    status, output = run(["bash", "-euc", f"{cc} -Wall -Wextra -Werror program.c $(pkg-config --cflags --libs fathom)"
                          " -o program"], folder, env)
    for _ in range(2):
        if status == 0:
            status, output = run(["./program"], folder, env)
    return status, output


def may_use_flat(env, folder):
    return run(["fathom", "flat", "run", "--memory", "16M", "--", "true"], folder, env)[0] == 0


def main():
    build, files = sys.argv[1], sys.argv[2:] or [os.path.join(ROOT, "README.md")]
    done, skipped, failed = 0, [], 0
    with tempfile.TemporaryDirectory() as folder:
        env = install(build, os.path.join(folder, "installed"))
        flat = may_use_flat(env, folder)
        for path in files:
            for line, language, text in blocks_of(path):
                if language == "c" and "int main(" in text:
                    runner = run_program
                elif language == "sh":
                    runner = run_shell
                else:
                    continue
                missing = lacks_module(text, env)
                if missing is None and "flat" in text and not flat:
                    missing = "userfaultfd"
                where = f"{os.path.basename(path)}:{line}"
                if missing:
                    skipped.append(f"{where} ({missing} is not here)")
                    continue
                empty = os.path.join(folder, "empty")
                os.mkdir(empty)
                status, output = runner(text, empty, env)
                shutil.rmtree(empty)
                done += 1
                if status == IMPOSSIBLE:
                    skipped.append(f"{where} ({output.strip()})")
                elif status != 0:
                    print(f"readme_test: {where} fails with status {status}:\n{output}", file=sys.stderr)
                    failed += 1
    for what in skipped:
        print(f"readme_test: skipped {what}")
    if failed or not done:
        sys.exit(f"readme_test: {failed} of {done} samples fail")
    print(f"readme_test: {done} samples work")


if __name__ == "__main__":
    main()
