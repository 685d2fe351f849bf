#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""mutants.py: do the tests of a module notice a mistake in it?

Changes one line of a module at a time, at random, in a copy of the tree: flips a comparison, adds
one to a number, negates a condition, drops a call, returns 0 in place of an error. Then builds the
module's tests and runs them, the shortest first, until one fails. A change that no test notices has
survived: either it means the same, or a test is missing.

  scripts/mutants.py --module vol --count 20 --seed 7
  scripts/mutants.py --module vol --line src/vol/scheme.c:120      all changes of one line

The copy and its build are in build-mutants and are used again by the next run.
"""
import argparse
import concurrent.futures
import difflib
import hashlib
import json
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import time

# The tests of a module: ctest's names. Models checked with spin do not depend on the code.
TESTS = {
    "cache": r"^cache_(?!model_(line|broken))",
    "vol": r"^vol_",
    "array": r"^array_",
    "dev": r"^dev_",
    "nvme": r"^nvme_(?!model_|.*device_test)",
}
NOT_MUTATED = re.compile(r"(_test|fixture)\.c$|/(model|testkit)/")
SECONDS_MIN = 10  # a test may take this long at least before it counts as hanging


# ---- mutations ----

def mask(text):
    """The text with comments, strings and characters blanked, of the same length."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())

    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text,
                  flags=re.S)


def swap(text, at, old, new):
    return text[:at] + new + text[at + len(old):]


def swaps(line, code, pairs, what):
    for pattern, new in pairs:
        for match in re.finditer(pattern, code):
            yield what, swap(line, match.start(), match.group(), new)


COMPARE = [(r"(?<![<>=!-])<(?![<=])(?= )", "<="), (r"(?<![<>-])<=", "<"),
           (r"(?<![<>=!-])>(?![>=])(?= )", ">="), (r"(?<![<>-])>=", ">"), (r"==", "!="), (r"!=", "==")]
LOGIC = [(r"&&", "||"), (r"\|\|", "&&")]
ARITHMETIC = [(r"(?<= )\+(?= )", "-"), (r"(?<= )-(?= )", "+"), (r"\+\+", "--"), (r"(?<!-)--(?!-)", "++"),
              (r"(?<= )\+=(?= )", "-="), (r"(?<= )-=(?= )", "+=")]


def numbers(line, code):
    for match in re.finditer(r"(?<![\w.])(\d+)(?=u?\b)(?![\w]*x)", code):
        yield "number + 1", swap(line, match.start(), match.group(), str(int(match.group()) + 1))


def conditions(line, code):
    match = re.match(r"(\t+(?:\} else )?if \()(.*)(\)(?: \{)?)$", code)
    if match and match.group(2).count("(") == match.group(2).count(")"):
        inner = line[match.start(2):match.end(2)]
        yield "condition negated", line[:match.start(2)] + f"!({inner})" + line[match.end(2):]


def returns(line, code):
    match = re.match(r"(\t+return )(.+);$", code)
    if not match or match.group(2) == "0":
        return
    value = match.group(2)
    if re.match(r"(-E[A-Z]+|rc|fth_fail\w*\(.*\)|\w+ < 0 \? \w+ : \w+)$", value):
        yield "error lost", match.group(1) + "0;"
    if value in ("true", "false"):
        yield "other answer", match.group(1) + ("false;" if value == "true" else "true;")


def drops(line, code):
    """Statements of one line whose result nobody uses."""
    del line
    if re.match(r"\t+(?!return|if|for|while|else|goto|case)[a-z]\w*\(.*\);$", code):
        yield "call dropped", re.match(r"\t+", code).group() + ";"
    elif re.match(r"\t+\*?[a-z][\w.>\[\]()-]* ?(=|\+=|-=|\|=|&=) .*;$", code) or re.match(
            r"\t+[a-z][\w.>\[\]-]*(\+\+|--);$", code):
        yield "assignment dropped", re.match(r"\t+", code).group() + ";"
    elif re.match(r"\t+(break|continue);$", code):
        yield "jump dropped", re.match(r"\t+", code).group() + ";"


def left_alone(code, in_error):
    """Lines that no test can or should notice: declarations, error texts, checks for debugging."""
    return (in_error or not code.startswith("\t") or "assert" in code.lower()
            or re.match(r"\t+(static|const|struct|enum|unsigned|uint\w+|int|bool|size_t|char)\b[^=(]*;$", code)
            or "fth_fail(" in code and "return" not in code)


def mutations_of(path, text):
    """Yield (path, line number, what, old, new) for each change that makes sense."""
    in_error = False
    in_macro = False
    for number, (line, code) in enumerate(zip(text.split("\n"), mask(text).split("\n")), 1):
        code = code.rstrip()
        skip, was_macro = in_error, in_macro
        in_macro = line.endswith("\\") and (in_macro or line.startswith("#"))
        if "fth_fail" in code or in_error:
            in_error = not code.endswith(";")
        if was_macro or line.startswith("#") or left_alone(code, skip):
            continue
        found = [*returns(line, code), *drops(line, code)]
        if "fth_fail" not in code:
            found += [*swaps(line, code, COMPARE, "comparison"), *swaps(line, code, LOGIC, "and, or"),
                      *swaps(line, code, ARITHMETIC, "arithmetic"), *numbers(line, code),
                      *conditions(line, code)]
        for what, new in found:
            if new != line:
                yield path, number, what, line, new


def sources(root, module):
    files = subprocess.run(["git", "-C", root, "ls-files", f"src/{module}"], check=True, text=True,
                           capture_output=True).stdout.split()
    return [f for f in files if f.endswith(".c") and not NOT_MUTATED.search(f)]


def choose(root, args):
    """The changes to try: drawn from all, at most one in a line."""
    found = []
    wanted = args.line.split(":") if args.line else None
    for path in sources(root, args.module):
        if wanted and path != wanted[0]:
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            found += mutations_of(path, file.read())
    if wanted:
        return [m for m in found if m[1] == int(wanted[1])], len(found)
    random.Random(args.seed).shuffle(found)
    chosen, seen = [], set()
    for mutant in found:
        if mutant[:2] not in seen and len(chosen) < args.count:
            seen.add(mutant[:2])
            chosen.append(mutant)
    return chosen, len(found)


# ---- a copy of the tree that is built and tested ----

class Bench:
    def __init__(self, root, folder, module):
        self.root, self.tree, self.build = root, os.path.join(folder, "tree"), os.path.join(folder, "build")
        self.copy()
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            # Without debug information equal code makes equal objects.
            self.call(["cmake", "-G", "Ninja", "-S", self.tree, "-B", self.build, "-DFTH_CUDA=OFF",
                       "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2", *os.environ.get("MUTANTS_CMAKE", "").split()])
        self.tests = self.find_tests(module)
        self.seconds = {}

    def copy(self):
        """Bring the copy up to date: tracked files and new ones that git does not ignore."""
        files = subprocess.run(["git", "-C", self.root, "ls-files", "-co", "--exclude-standard"], check=True,
                               text=True, capture_output=True).stdout.split("\n")
        for name in filter(None, files):
            source, target = os.path.join(self.root, name), os.path.join(self.tree, name)
            if not os.path.isfile(source):
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(source, "rb") as a:
                data = a.read()
            if os.path.exists(target):
                with open(target, "rb") as b:
                    if b.read() == data:
                        continue
            shutil.copy(source, target)

    def call(self, command):
        done = subprocess.run(command, check=False, text=True, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"mutants: {' '.join(command)} failed\n{done.stdout}{done.stderr}")
        return done.stdout

    def find_tests(self, module):
        """Unit tests of the module: (name, command, folder). They are programs of their own; scripts
        that run the tool are not among them. ctest knows the command of a program once it is built."""
        listed = [t for t in self.list_tests() if re.search(TESTS[module], t["name"])]
        targets = set(re.findall(r"^(\w+): phony$", self.call(["ninja", "-C", self.build, "-t", "targets", "all"]),
                                 re.M))
        names = [t["name"] for t in listed if t["name"] in targets]
        self.call(["ninja", "-C", self.build, "fathom_internal", *names])
        found = []
        for test in self.list_tests():
            if test["name"] in names and os.path.basename(test["command"][0]) == test["name"]:
                folder = [p["value"] for p in test["properties"] if p["name"] == "WORKING_DIRECTORY"]
                found.append((test["name"], test["command"], folder[0] if folder else self.build))
        return found

    def list_tests(self):
        return json.loads(self.call(["ctest", "--test-dir", self.build, "--show-only=json-v1"]))["tests"]

    def ninja(self, target):
        return subprocess.run(["ninja", "-C", self.build, target], check=False, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0

    def run(self, test, seconds):
        """None if the test passed, else how it failed."""
        name, command, folder = test
        if not self.ninja(name):
            return f"{name} does not build"
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              stdin=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return f"{name}, which hangs"
        return None if status in (0, 77) else name

    def measure(self):
        """Run all tests on the code as it is, for how long they take."""
        for test in self.tests:
            if not self.ninja(test[0]):
                sys.exit(f"mutants: {test[0]} does not build")
            begin = time.monotonic()
            failure = self.run(test, 600)
            self.seconds[test[0]] = time.monotonic() - begin
            if failure:
                sys.exit(f"mutants: without a change, {failure} fails")
        self.tests.sort(key=lambda test: self.seconds[test[0]])

    def object_of(self, path):
        name = os.path.join(self.build, "src/CMakeFiles/fathom_objects.dir", path.removeprefix("src/") + ".o")
        with open(name, "rb") as file:
            return hashlib.sha256(file.read()).digest()

    def judge(self, mutant):
        """(outcome, by which test)"""
        path, number, _, _, new = mutant
        target = os.path.join(self.tree, path)
        with open(target, encoding="utf-8") as file:
            text = file.read()
        lines = text.split("\n")
        lines[number - 1] = new
        try:
            before = self.object_of(path)
            with open(target, "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
            if not self.ninja("fathom_internal"):
                return "not compiled", ""
            if self.object_of(path) == before:
                return "same code", ""
            for test in self.tests:
                failure = self.run(test, max(SECONDS_MIN, 10 * self.seconds[test[0]]))
                if failure:
                    return "killed", failure
            return "survived", ""
        finally:
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
            self.ninja("fathom_internal")


# ---- the run ----

def show(mutant):
    path, number, what, old, new = mutant
    diff = difflib.unified_diff([old.strip()], [new.strip()], lineterm="", n=0)
    return f"{path}:{number}: {what}\n" + "\n".join(f"    {d}" for d in list(diff)[3:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", required=True, choices=sorted(TESTS))
    parser.add_argument("--count", type=int, default=20, help="changes to try")
    parser.add_argument("--seed", type=int, default=1, help="of the choice")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree that are worked on at once")
    parser.add_argument("--line", metavar="FILE:N", help="all changes of one line instead")
    parser.add_argument("--list", action="store_true", help="show the changes and try none")
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    args = parser.parse_args()
    root = os.path.abspath(args.root)

    chosen, possible = choose(root, args)
    print(f"mutants: {args.module}: {len(chosen)} of {possible} possible changes, seed {args.seed}", flush=True)
    if args.list:
        print("\n".join(show(mutant) for mutant in chosen))
        return
    benches = queue.Queue()
    first = None
    for job in range(max(1, args.jobs)):
        bench = Bench(root, os.path.join(root, "build-mutants", str(job)), args.module)
        if first:
            bench.tests, bench.seconds = bench.tests, first.seconds
            bench.tests.sort(key=lambda test: first.seconds[test[0]])
        else:
            bench.measure()
            first = bench
        benches.put(bench)
    if not first.tests:
        sys.exit(f"mutants: {args.module} has no tests")
    print(f"mutants: {len(first.tests)} tests of {sum(first.seconds.values()):.1f} s", flush=True)

    def work(mutant):
        bench = benches.get()
        try:
            return mutant, *bench.judge(mutant)
        finally:
            benches.put(bench)

    counts = {"killed": 0, "survived": 0, "not compiled": 0, "same code": 0}
    survivors = []
    with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as pool:
        for mutant, outcome, test in pool.map(work, chosen):
            counts[outcome] += 1
            by = f" by {test}" if test else ""
            print(f"{outcome}{by}: {show(mutant)}", flush=True)
            if outcome == "survived":
                survivors.append(mutant)
    print(f"mutants: {args.module}, seed {args.seed}: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    for mutant in survivors:
        print(f"survived: {show(mutant)}")


if __name__ == "__main__":
    main()
