#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""site.py FOLDER: the documentation as web pages, in FOLDER/html, made from the files of the repository by mkdocs.

The pages are those that are read in the repository too: README.md (whose sections about the ways in are the guide), doc/, the
README of each module, the examples, the headers' comments (scripts/header_docs.py) and the man page. Links between files become
links between pages; a link to a file that has no page becomes plain text. mkdocs runs with --strict: a link that leads nowhere is an error.
"""
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import header_docs  # noqa: E402

ROOT = os.path.normpath(header_docs.ROOT)
# Sections of README.md and their pages
GUIDES = [("Arrays and graphs", "array"), ("Plain pointers", "flat"), ("Persistent memory", "pm"),
          ("A cache server", "kv"), ("SQL", "query"), ("On a GPU", "gpu")]
DOCS = [("Architecture", "architecture.md"), ("Decisions", "decisions.md"), ("Dependencies", "dependencies.md"),
        ("Releases", "releasing.md"), ("GPUs and NVMe drives", "gpu-nvme.md"),
        ("Several cache servers", "kv-scale-out.md")]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Site:
    def __init__(self, folder):
        self.folder = folder
        self.pages = {}  # file in the repository -> page
        self.text = {}  # page -> (text, file that its links are relative to)
        self.menu = []

    def add(self, page, text, source):
        self.text[page] = (text, source)

    def add_file(self, page, source):
        self.pages[source] = page
        self.add(page, read(source), source)

    def link(self, target, source, page):
        """Where a link of `source` leads from `page`; None: to no page."""
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            return target
        if not path:
            return target
        path = os.path.normpath(os.path.join(os.path.dirname(source), path))
        to = self.pages.get(path) or self.pages.get(os.path.join(path, "README.md"))
        if to is None:
            return None
        return os.path.relpath(to, os.path.dirname(page) or ".") + (f"#{anchor}" if anchor else "")

    def rewrite(self, page):
        text, source = self.text[page]

        def replace(match):
            to = self.link(match[3], source, page)
            if to is None:
                return match[2]
            return f"{match[1]}[{match[2]}]({to})"

        parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
        for i in range(0, len(parts), 2):
            parts[i] = re.sub(r"(!?)\[([^\]]*)\]\(([^) ]+)\)", replace, parts[i])
        return "".join(parts)

    def write(self):
        for page in self.text:
            path = os.path.join(self.folder, "pages", page)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.rewrite(page))


def section(text, title):
    match = re.search(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return match[0].replace("## ", "# ", 1)


def add_guides(site):
    site.add_file("index.md", "README.md")
    text = read("README.md")
    site.add_file("guide/common.md", "doc/guide.md")
    entries = []
    for title, name in GUIDES:
        page = f"guide/{name}.md"
        site.add(page, section(text, title), "README.md")
        entries.append((title, page))
    entries.append(("Names, durability, words", "guide/common.md"))
    site.menu.append(("Guide", entries))


def add_reference(site):
    folder = os.path.join(site.folder, "pages", "reference")
    os.makedirs(folder)
    headers = list(header_docs.public_headers())
    header_docs.make_markdown(folder, headers)
    entries = [("All headers", "reference/index.md")]
    for header in headers:
        site.pages[f"include/{header.path}"] = f"reference/{header.name}.md"
        entries.append((header.path, f"reference/{header.name}.md"))
    page = command_page()
    if page:
        site.add("reference/fathom.1.md", page, "man/fathom.1")
        entries.insert(0, ("The command fathom", "reference/fathom.1.md"))
    site.menu.append(("Reference", entries))


def command_page():
    """The man page of the command, if mandoc is here."""
    if not shutil.which("mandoc"):
        return None
    text = subprocess.run(["mandoc", "-T", "markdown", os.path.join(ROOT, "man/fathom.1")], check=True,
                          capture_output=True, text=True).stdout
    return "# fathom(1)\n\n" + re.sub(r"^# ", "## ", "\n".join(text.split("\n")[2:]), flags=re.MULTILINE)


def add_examples(site):
    entries = []
    for file in sorted(os.listdir(os.path.join(ROOT, "examples"))):
        if file.endswith((".c", ".cu")):
            source, page = f"examples/{file}", f"examples/{file}.md"
            site.pages[source] = page
            site.add(page, f"# {file}\n\n```c\n{read(source)}```\n", source)
            entries.append((file, page))
    site.menu.append(("Examples", entries))


def add_internals(site):
    entries = []
    for title, file in DOCS:
        site.add_file(f"internals/{file}", f"doc/{file}")
        entries.append((title, f"internals/{file}"))
    site.add_file("internals/contributing.md", "CONTRIBUTING.md")
    entries.append(("Contributing", "internals/contributing.md"))
    for base, folders, files in os.walk(os.path.join(ROOT, "src")):
        folders.sort()
        if "README.md" in files:
            module = os.path.relpath(base, os.path.join(ROOT, "src"))
            page = f"internals/src/{module}.md"
            site.add_file(page, f"src/{module}/README.md")
            entries.append((f"src/{module}", page))
    site.menu.append(("Internals", entries))


def add_results(site):
    site.add_file("results.md", "doc/results.md")
    figures = os.path.join(site.folder, "pages", "figures")
    shutil.copytree(os.path.join(ROOT, "doc/figures"), figures)
    for file in os.listdir(figures):
        site.pages[f"doc/figures/{file}"] = f"figures/{file}"
    site.add_file("changelog.md", "CHANGELOG.md")
    site.menu += [("Results", "results.md"), ("Changes", "changelog.md")]


def menu_text(entries, indent=0):
    lines = []
    for title, target in entries:
        pad = "  " * indent
        if isinstance(target, str):
            lines.append(f'{pad}- "{title}": {target}')
        else:
            lines += [f'{pad}- "{title}":', *menu_text(target, indent + 2)]
    return lines


def write_settings(site):
    lines = ["site_name: Fathom", "docs_dir: pages", "site_dir: html", "theme: readthedocs", "use_directory_urls: false",
             "nav:", *menu_text([("Fathom", "index.md"), *site.menu], 1)]
    with open(os.path.join(site.folder, "mkdocs.yml"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.split("\n", maxsplit=1)[0])
    folder = sys.argv[1]
    if not shutil.which("mkdocs"):
        print("site: mkdocs is not here", file=sys.stderr)
        sys.exit(77)
    shutil.rmtree(folder, ignore_errors=True)
    site = Site(folder)
    for add in (add_guides, add_reference, add_examples, add_internals, add_results):
        add(site)
    site.write()
    write_settings(site)
    subprocess.run(["mkdocs", "build", "--strict", "--quiet", "-f", os.path.join(folder, "mkdocs.yml")], check=True)
    print(f"site: {len(site.text)} pages and the reference are in {folder}/html")


if __name__ == "__main__":
    main()
