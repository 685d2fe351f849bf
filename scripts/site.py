#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""site.py FOLDER: the documentation as web pages, in FOLDER/html, made from the files of the repository by mkdocs.

The pages are those that are read in the repository too: README.md (whose sections about the ways in are the guide), doc/, the
README of each module, the examples, the headers' comments (scripts/header_docs.py) and the man page. Links between files become
links between pages; a link to a file that has no page becomes plain text. A link, an anchor or an image that leads nowhere is an
error. The pages need no network.
"""
import glob
import html.parser
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


STYLE = """.rst-content table { border-collapse: collapse; margin-bottom: 24px; }
.rst-content th, .rst-content td { border: 1px solid #e1e4e5; padding: 4px 8px; vertical-align: top; font-size: 90%; }
.rst-content code { white-space: pre-wrap; overflow-wrap: anywhere; }
.rst-content pre code { white-space: pre; }
.wy-nav-content { max-width: 1100px; }
"""


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
            return self.section_link(anchor, page)
        path = os.path.normpath(os.path.join(os.path.dirname(source), path))
        to = self.pages.get(path) or self.pages.get(os.path.join(path, "README.md"))
        if to is None:
            return None
        return os.path.relpath(to, os.path.dirname(page) or ".") + (f"#{anchor}" if anchor else "")

    def section_link(self, anchor, page):
        """A section of README.md about a way in has a page of its own; links between these pages."""
        for title, name in GUIDES:
            if page.startswith("guide/") and anchor == slug(title):
                return f"{name}.md"
        return f"#{anchor}"

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


def slug(title):
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def section(text, title):
    match = re.search(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return match[0].replace("## ", "# ", 1)


def add_guides(site):
    site.add_file("index.md", "README.md")
    text = read("README.md")
    site.add_file("guide/common.md", "doc/guide.md")
    site.add_file("guide/postgresql.md", "doc/postgresql.md")
    entries = []
    for title, name in GUIDES:
        page = f"guide/{name}.md"
        site.add(page, section(text, title), "README.md")
        entries.append((title, page))
    entries.append(("SQL beside PostgreSQL", "guide/postgresql.md"))
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
    site.add_file("internals/workloads.md", "workloads/README.md")
    entries.append(("workloads", "internals/workloads.md"))
    site.menu.append(("Internals", entries))


def add_results(site):
    site.add_file("results.md", "doc/results.md")
    figures = os.path.join(site.folder, "pages", "figures")
    shutil.copytree(os.path.join(ROOT, "doc/figures"), figures)
    for file in os.listdir(figures):
        site.pages[f"doc/figures/{file}"] = f"figures/{file}"
    site.menu.append(("Results", "results.md"))


def add_changes(site):
    site.add_file("changelog.md", "CHANGELOG.md")
    site.menu.append(("Changes", "changelog.md"))


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
    with open(os.path.join(site.folder, "pages", "extra.css"), "w", encoding="utf-8") as file:
        file.write(STYLE)
    lines = ["site_name: Fathom", "site_description: Data larger than memory, on flash", "docs_dir: pages", "site_dir: html",
             "theme:", "  name: readthedocs", "  highlightjs: false", "extra_css: [extra.css]", "use_directory_urls: false", "nav:", *menu_text([("Fathom", "index.md"), *site.menu], 1)]
    with open(os.path.join(site.folder, "mkdocs.yml"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


class Page(html.parser.HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, path):
        super().__init__()
        self.anchors = set()
        self.links = []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def supply_scripts(folder):
    """Debian's mkdocs has the theme's scripts under other names than its pages use."""
    scripts = os.path.join(folder, "js")
    for link in Page(os.path.join(folder, "index.html")).links:
        to = os.path.join(folder, link)
        if not link.startswith("js/") or os.path.exists(to):
            continue
        found = glob.glob(os.path.join(scripts, "jquery-*.min.js")) if "jquery" in link else []
        with open(to, "wb") as file:
            if found:
                with open(found[0], "rb") as source:
                    file.write(source.read())


def broken_links(folder):
    """(page, link) for each link inside the site that leads nowhere."""
    paths = glob.glob(os.path.join(folder, "**", "*.html"), recursive=True)
    pages = {os.path.normpath(path): Page(path) for path in paths if os.path.basename(path) != "404.html"}
    for path, page in pages.items():
        for link in page.links:
            file, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            to = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            if not os.path.exists(to) or (anchor and to in pages and anchor not in pages[to].anchors):
                yield os.path.relpath(path, folder), link


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.split("\n", maxsplit=1)[0])
    folder = sys.argv[1]
    if not shutil.which("mkdocs"):
        print("site: mkdocs is not here", file=sys.stderr)
        sys.exit(77)
    shutil.rmtree(folder, ignore_errors=True)
    site = Site(folder)
    for add in (add_guides, add_results, add_examples, add_reference, add_internals, add_changes):
        add(site)
    site.write()
    write_settings(site)
    subprocess.run(["mkdocs", "build", "--strict", "--quiet", "-f", os.path.join(folder, "mkdocs.yml")], check=True)
    supply_scripts(os.path.join(folder, "html"))
    broken = list(broken_links(os.path.join(folder, "html")))
    for page, link in broken:
        print(f"site: {page}: {link} leads nowhere", file=sys.stderr)
    if broken:
        sys.exit(1)
    print(f"site: {len(site.text)} pages and the reference are in {folder}/html")


if __name__ == "__main__":
    main()
