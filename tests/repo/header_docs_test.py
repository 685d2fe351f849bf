#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""header_docs_test.py BUILD-FOLDER: scripts/header_docs.py reads headers by its rules, every public function has
a comment, every exported function a man page with its declaration, and mandoc finds no fault in the pages."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import header_docs  # noqa: E402

SAMPLE = """/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Things in boxes.
 *
 *	fth_box_open(&box);
 *
 *	fth_box_close(box);
 *
 * A box is one of:
 * - open: .can be used
 * - closed, which is
 *   final
 */
#ifndef FATHOM_BOX_H
#define FATHOM_BOX_H

FTH_BEGIN_DECLS

struct fth_box;

/* ---- opening ---- */

/* Sides of a box. */
#define FTH_BOX_SIDES 6u

/*
 * Open a box. Returns 0 or
 * -ENOMEM.
 */
int fth_box_open(struct fth_box **out);
/* Close it. */
void fth_box_close(struct fth_box *box);
void fth_box_burn(struct fth_box *box);

/* Not part of the interface. */
void fth_box_secret(void);

/* How it went. */
struct fth_box_report {
	uint64_t lids; /* opened; {sic */
};

int fth_box_hidden_(void);

/* Inline. */
static inline int fth_box_twice(int n)
{
	return 2 * n;
}
FTH_END_DECLS
#endif
""".split("\n")


def check(what, got, expected):
    if got != expected:
        sys.exit(f"header_docs_test: {what}: {got!r}, expected {expected!r}")


def check_rules():
    header = header_docs.Header("fathom/box.h", SAMPLE)
    check("name", header.name, "fathom_box")
    check("title", header.title, "Things in boxes")
    check("parts of a comment", list(header_docs.blocks(header.overview)), [
        ("text", ["Things in boxes."]),
        ("code", ["fth_box_open(&box);", "", "fth_box_close(box);"]),
        ("text", ["A box is one of:"]),
        ("item", ["open: .can be used"]),
        ("item", ["closed, which is", "final"])])
    named = [e for e in header.entries if e.names]
    check("names", [e.names for e in named], [
        ["FTH_BOX_SIDES"], ["fth_box_open"], ["fth_box_close", "fth_box_burn"], ["fth_box_secret"],
        ["struct fth_box_report"], ["fth_box_twice"]])
    check("sections", [e.comment for e in header.entries if e.section], [["opening"]])
    check("comment", named[1].comment, ["Open a box. Returns 0 or", "-ENOMEM."])
    check("inline function", named[5].declarations, ["int fth_box_twice(int n);"])
    page = header_docs.man_page(header, "January 1, 2000", "1.2.3")
    check("a period is no request", "open: .can be used" in page, True)


def undocumented(headers):
    """Functions of headers without a comment above them or above the group that they are in."""
    names = []
    for header in headers:
        for entry in header.entries:
            if not entry.comment:
                names += [f"{name} ({header.path})" for name, text in zip(entry.names, entry.declarations)
                          if is_function(name, text)]
    return names


def is_function(name, declaration):
    return name.startswith("fth_") and re.search(rf"\b{name}\s*\(", declaration) is not None


def check_comments():
    lines = [line for line in SAMPLE if line != "/* Inline. */"]
    check("a function without a comment", undocumented([header_docs.Header("fathom/box.h", lines)]),
          ["fth_box_twice (fathom/box.h)"])
    missing = undocumented(header_docs.public_headers())
    if missing:
        sys.exit(f"header_docs_test: no comment above {', '.join(missing)}")


def check_exports(build, folder):
    library = os.path.join(build, "src/libfathom.so")
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    missing = []
    exported = sorted(set(re.findall(r" T (fth_\w+)@@(?!FATHOM_PRIVATE)", listing.stdout)))
    check("the library exports functions", len(exported) > 100, True)
    internal = internal_functions()
    for name in exported:
        path = os.path.join(folder, name + ".3")
        if name in internal:
            continue
        if not os.path.exists(path):
            missing.append(name)
            continue
        with open(path, encoding="utf-8") as file:
            page = file.read().removeprefix(".so man3/").strip()
        with open(os.path.join(folder, page), encoding="utf-8") as file:
            if not re.search(rf"\b{name}\(", file.read()):
                missing.append(name)
    if missing:
        sys.exit(f"header_docs_test: no man page declares {', '.join(missing)}")
    return len(exported)


def internal_functions():
    """Functions that only headers in detail/ declare, or that end with an underscore."""
    names = set()
    for base, _, files in os.walk(os.path.join(ROOT, "include/fathom/detail")):
        for file in files:
            with open(os.path.join(base, file), encoding="utf-8") as stream:
                names |= set(re.findall(r"\b(fth_\w+)\(", stream.read()))
    return names


def check_lint(folder):
    if not shutil.which("mandoc"):
        return "not checked by mandoc, which is not here"
    pages = [os.path.join(folder, f) for f in sorted(os.listdir(folder)) if f.startswith("fathom")]
    if subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages], check=False).returncode != 0:
        sys.exit("header_docs_test: mandoc complains")
    return f"{len(pages)} pages are well-formed"


def main():
    check_rules()
    check_comments()
    with tempfile.TemporaryDirectory() as folder:
        header_docs.make_man(folder, list(header_docs.public_headers()))
        header_docs.make_markdown(folder, list(header_docs.public_headers()))
        exported = check_exports(sys.argv[1], folder)
        for file in os.listdir(folder):
            if file.endswith(".md"):
                os.remove(os.path.join(folder, file))
        said = check_lint(folder)
    print(f"header_docs_test: {exported} functions have man pages; {said}")


if __name__ == "__main__":
    main()
