#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""header_docs.py man|markdown FOLDER: the reference, made from the comments of the public headers.

man: one page of section 3 for each header, fathom_kv_client.3 for fathom/kv/client.h, and one link
to it for each function and macro. markdown: one page for each header, and an index.

The rules for headers:
- The first comment describes the header. Its first sentence is the title.
- A comment belongs to the declarations below it, up to the next empty line.
- A comment of the form "---- text ----" begins a section.
- In a comment, lines that begin with a tab are code, and "- " and "1. " begin items of a list.
- Names that end with an underscore, and declarations whose comment says "Not part of the interface", are
  left out.
"""
import os
import re
import sys
import textwrap

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FUNCTION = re.compile(r"\b(fth_\w+)\s*\(")
NOT_PUBLIC = "Not part of the interface"


class Entry:
    """A comment and the declarations that it describes; or a section heading, without any."""

    def __init__(self, comment, section=False):
        self.comment = comment
        self.section = section
        self.declarations = []
        self.names = []


class Header:
    def __init__(self, path, lines):
        self.path = path  # below include/
        self.name = re.sub(r"\W", "_", path.removesuffix(".h"))
        self.overview = []
        self.entries = []
        Parser(self, lines).parse()
        first = " ".join(self.overview).split(": ")[0]
        self.title = re.split(r"[.;:](?:\s|$)|, (?:as|which|that)\b", first)[0].strip()


class Parser:
    """Reads a header line by line. What it knows of C is enough for headers in our format."""

    def __init__(self, header, lines):
        self.header = header
        self.lines = lines
        self.at = 0
        self.entry = None

    def parse(self):
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.startswith("/*"):
                self.take_comment()
            elif not line.strip():
                self.entry = None
                self.at += 1
            elif line.startswith("#define"):
                self.take_define()
            elif re.match(r"#|FTH_(BEGIN|END)_DECLS|\}|extern \"C", line):
                self.at += 1
            else:
                self.take_declaration()

    def take_comment(self):
        text = []
        while True:
            line = self.lines[self.at]
            self.at += 1
            body = re.sub(r"^(/\*| \*(?!/)| {3}(?=\S))", "", line)
            text.append(re.sub(r" ?\*/$", "", body))
            if "*/" in line:
                break
        text = [line.removeprefix(" ").rstrip() for line in text]
        while text and not text[0]:
            text.pop(0)
        while text and not text[-1]:
            text.pop()
        if not text or "SPDX-License-Identifier" in text[0]:
            return
        section = re.fullmatch(r"-{3,} (.*?) -{3,}", " ".join(text))
        if section:
            self.header.entries.append(Entry([section[1]], section=True))
            self.entry = None
        elif not self.header.overview:
            self.header.overview = text
        else:
            self.entry = Entry(text)
            self.header.entries.append(self.entry)

    def take_define(self):
        first = self.at
        while self.lines[self.at].endswith("\\"):
            self.at += 1
        self.at += 1
        whole = self.lines[first:self.at]
        match = re.match(r"#define (\w+)(\([^)]*\))?\s*(.*?)\s*\\?$", whole[0])
        name, arguments, value = match.groups()
        if name.startswith("FATHOM_"):  # include guard
            return
        if arguments is not None or len(whole) > 1:
            value = ""
        self.add(name, f"#define {name}{arguments or ''} {value}".strip())

    def take_declaration(self):
        first, depth = self.at, 0
        body = None  # line where the body of an inline function begins
        while True:
            code = re.sub(r"/\*.*?(\*/|$)", "", self.lines[self.at])
            if depth == 0 and code.rstrip() == "{":
                body = self.at
            depth += code.count("{") - code.count("}")
            self.at += 1
            if depth == 0 and (re.search(r";\s*$", code) or (body is not None and code.startswith("}"))):
                break
            if self.at == len(self.lines):
                return
        lines = self.lines[first:body if body is not None else self.at]
        text = "\n".join(lines)
        bare = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        if body is not None:
            text = re.sub(r"^(static inline|FTH_INLINE) ", "", text) + ";"
        if re.fullmatch(r"(struct|union) \w+;", bare.strip()):
            return  # an opaque type
        self.add(self.name_of(bare), text)

    @staticmethod
    def name_of(code):
        match = re.match(r"(?:typedef )?((?:struct|enum|union) \w+) \{", code)
        if match:
            return match[1]
        if code.startswith("typedef"):
            return re.search(r"(\w+)\)?\s*(?:\([^;]*\))?;$", code.strip())[1]
        match = FUNCTION.search(code)
        return match[1] if match else re.findall(r"\w+", code.split("=")[0].split("[")[0])[-1]

    def add(self, name, text):
        if name.endswith("_"):
            return
        if self.entry is None:
            self.entry = Entry([])
            self.header.entries.append(self.entry)
        self.entry.names.append(name)
        self.entry.declarations.append(text.expandtabs(8))


def public_headers():
    """All public headers, in the order of their paths."""
    base = os.path.join(ROOT, "include")
    for folder, folders, files in os.walk(base):
        folders[:] = sorted(f for f in folders if f != "detail")
        for file in sorted(files):
            path = os.path.join(folder, file)
            with open(path, encoding="utf-8") as stream:
                header = Header(os.path.relpath(path, base), stream.read().split("\n"))
            header.entries = [e for e in header.entries
                              if (e.section or e.names) and NOT_PUBLIC not in " ".join(e.comment)]
            yield header


def blocks(comment):
    """Yield (kind, lines) of the parts of a comment: text, item or code."""
    kind, part = None, []
    for line in [*comment, ""]:
        now = "code" if line.startswith("\t") else "text"
        item = re.match(r"(?:-|\d+\.) +", line)
        if item:
            now, line = "item", line[item.end():]
        elif kind == "item" and line.startswith(" "):
            now = "item"
        ends = not line.strip() if kind != "code" else bool(line.strip()) and now != "code"
        if part and (ends or item or now != kind):
            if not (kind == "code" and not line.strip()):
                while not part[-1].strip():
                    part.pop()
                yield kind, part
                part = []
        if line.strip() or (part and kind == "code"):
            kind = kind if not line.strip() else now
            part.append(line.removeprefix("\t") if kind == "code" else line.strip())
    if part:
        while not part[-1].strip():
            part.pop()
        yield kind, part


# ---- man pages ----

def roff(text):
    """Text without anything that roff would interpret."""
    text = text.replace("\\", "\\e")
    return "\\&" + text if text[:1] in (".", "'") else text


def roff_text(lines):
    """One sentence to a line, as mdoc wants it."""
    text = re.sub(r"\s+", " ", " ".join(lines))
    text = re.sub(r"(?<=[\w)\"'`\]])([.?!]) (?=[^a-z])", r"\1\n", text)
    out = []
    for sentence in text.split("\n"):
        out += [roff(line) for line in textwrap.wrap(sentence, 100, break_long_words=False,
                                                     break_on_hyphens=False)]
    return out


def man_comment(comment):
    out, kind = [], None
    for now, lines in blocks(comment):
        if kind == "item" and now != "item":
            out.append(".El")
        if now == "item":
            out += [".Bl -bullet -compact"] if kind != "item" else []
            out += [".It", *roff_text(lines)]
        elif now == "code":
            out += [".Bd -literal -offset indent", *[roff(l.expandtabs(8)) for l in lines], ".Ed"]
        else:
            out += ([".Pp"] if kind else []) + roff_text(lines)
        kind = now
    if kind == "item":
        out.append(".El")
    return out


def man_declaration(text):
    return [".Bd -literal", *[roff(line) for line in text.split("\n")], ".Ed"]


def linked_names(header):
    """The names for which a page of their own leads here."""
    names = [n for e in header.entries for n in e.names if re.fullmatch(r"fth_\w+", n)]
    return list(dict.fromkeys(names))


def man_page(header, date, version):
    names = linked_names(header)
    out = [f'.\\" Made from {header.path}: do not edit.', f".Dd {date}", f".Dt {header.name.upper()} 3",
           f".Os Fathom {version}", ".Sh NAME"]
    out += [f".Nm {name} ," for name in [header.name, *names][:-1]]
    out += [f".Nm {[header.name, *names][-1]}", f".Nd {roff(header.title)}"]
    out += [".Sh LIBRARY", "libfathom (pkg-config fathom)" if not of_gpu(header)
            else "libfathom_cuda (pkg-config fathom-cuda)", ".Sh SYNOPSIS", f".In {header.path}"]
    out += [".Sh DESCRIPTION", *man_comment(header.overview)]
    for entry in header.entries:
        if entry.section:
            out.append(f".Ss {roff(entry.comment[0])}")
            continue
        if not out[-1].startswith(".Ss"):
            out.append(".Pp")
        for text in entry.declarations:
            out += man_declaration(text)
        out += [".Pp", *man_comment(entry.comment)] if entry.comment else []
    out += [".Sh SEE ALSO", ".Xr fathom 1"]
    return tidy(out)


def tidy(lines):
    """No paragraph break where a display or a section has made one."""
    out = []
    for line in lines:
        if line == ".Pp" and out and re.match(r"\.(Ss|Sh|Pp)", out[-1]):
            continue
        if re.match(r"\.(Bd|Ss|Sh)", line) and out and out[-1] == ".Pp":
            out.pop()
        out.append(line)
    return "\n".join(out) + "\n"


def of_gpu(header):
    return bool(re.match(r"fathom/(gpu|graph/gpu|pm/gpu)", header.path))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def version():
    text = read("include/fathom/base/version.h")
    return ".".join(re.findall(r"#define FTH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))


def make_man(folder, headers):
    date = re.search(r"^\.Dd (.*)$", read("man/fathom.1"), re.MULTILINE)[1]
    for header in headers:
        write(folder, f"{header.name}.3", man_page(header, date, version()))
        for name in linked_names(header):
            write(folder, f"{name}.3", f".so man3/{header.name}.3\n")


# ---- markdown ----

def md_text(lines):
    text = re.sub(r"\s+", " ", " ".join(lines))
    # Names stand out; whatever else could be markup is escaped.
    parts = re.split(r"((?:\*|&)?\b(?:fth|FTH)_\w+(?:\(\))?|`[^`]*`|\B-E[A-Z0-9]+\b)", text)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = re.sub(r"([\\*_<\[\]#])", r"\\\1", part)
        elif not part.startswith("`"):
            parts[i] = f"`{part}`"
    return "".join(parts)


def md_comment(comment):
    out, kind = [], None
    for now, lines in blocks(comment):
        if now == "item":
            out += [] if kind == "item" else [""]
            out.append("- " + md_text(lines))
        elif now == "code":
            out += ["", "```c", *[l.expandtabs(8) for l in lines], "```"]
        else:
            out += ["", md_text(lines)]
        kind = now
    return out


def md_page(header):
    out = [f"# {header.path}", *md_comment(header.overview)]
    for entry in header.entries:
        if entry.section:
            out += ["", f"## {entry.comment[0].capitalize()}"]
            continue
        names = [n for n in entry.names if n.startswith("fth_")] or entry.names
        title = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        out += ["", f"### {title}".replace("_", "\\_"), "", "```c", *entry.declarations, "```",
                *md_comment(entry.comment)]
    return "\n".join(out) + "\n"


def make_markdown(folder, headers):
    index = ["# Reference", "", "Made from the comments of the public headers. The same text is in the man "
             "pages: `man fth_open`, `man fathom_array`.", "", "| header | contents |", "|---|---|"]
    for header in headers:
        write(folder, f"{header.name}.md", md_page(header))
        index.append(f"| [{header.path}]({header.name}.md) | {md_text([header.title])} |")
    write(folder, "index.md", "\n".join(index) + "\n")


def main():
    makers = {"man": make_man, "markdown": make_markdown}
    if len(sys.argv) != 3 or sys.argv[1] not in makers:
        sys.exit(__doc__.split("\n", maxsplit=1)[0])
    os.makedirs(sys.argv[2], exist_ok=True)
    makers[sys.argv[1]](sys.argv[2], list(public_headers()))


if __name__ == "__main__":
    main()
