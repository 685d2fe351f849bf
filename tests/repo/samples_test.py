#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""samples_test.py [FILE...]: code samples in headers and in README.md compile.

A sample in a header is a part of a comment that is indented with a tab and calls functions; in a
README it is a block that begins with ```c and has no main(). It may leave out what a reader can guess:
- a line that begins with "..." or "(" stands for code that is left out, as does "..." at the end
  of a line; a function may end with it;
- a remark follows the code of its line after a tab;
- variables of the names in CONTEXT are declared.
Samples of device code are compiled where nvcc is. Compilers name the line of the header.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

CONTEXT_PM = """
static struct fth_pm *pm;
static uint64_t i, offset, *debit, *credit, amount;
static float weights[4], biases[4];
"""
CONTEXT = CONTEXT_PM + """
static struct fth_dev *dev;
static struct fth_cache *cache;
static struct fth_kv *kv;
static struct fth_nvme_ctrl *ctrl;
static struct fth_nvme_qp *qp;
static struct fth_nvme_reap reap;
static struct fth_nvme_done done;
static uint32_t id;
static struct { struct fth_array *base; uint64_t *type_of_element; } a;
static const char *uri, *path, *name;
static char buf[4096], record[64];
static void *memory;
static uint64_t n, v, w, line, length, bus_address, source, *word, *frame;
static uint64_t indices[4], values[4];
static int rc, fd, group;
static struct fth_table_db *db;
static struct fth_table *table;
static struct fth_table_page page;
static uint32_t column, from, to, rows, offsets[4];
static int64_t ids[4];
static char names[64];
static const void *image;
"""
CONTEXT_CUDA = """
template <typename... T> __global__ void my_kernel(T...) {}
static struct fth_dev *dev;
static struct fth_pm *pm;
static struct fth_gpu_pm *gpu;
static struct fth_gpu_drive *drive;
static struct fth_gpu_cache *cache;
static void *memory;
static struct fth_gpu_drive_options drive_opts = FTH_GPU_DRIVE_OPTIONS_INIT;
static struct fth_gpu_cache_options cache_opts = FTH_GPU_CACHE_OPTIONS_INIT;
static fth_gpu_array<uint64_t> a;
static cudaStream_t stream;
static unsigned long long *sum;
static uint64_t *total, bytes, n, source, vertices;
static uint32_t *level;
static int64_t *ids;
static float *out;
static int rc, blocks, threads, *error;
"""
CONTEXT_KERNEL = """
fth_gpu_array<uint64_t> a; uint64_t first, line, v; uint32_t n, k; uint64_t *data; int rc;
"""
C_FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-shadow",
           "-Wno-return-type", "-Wno-maybe-uninitialized", "-Iinclude", "-fsyntax-only"]
OF_GPU = re.compile(r"include/fathom/(gpu|graph/gpu|pm/gpu)")
KERNEL_HEADERS = ("gpu/claim.h", "gpu/look.h")  # their samples are inside a kernel


def blocks_of(path, lines):
    """Yield (number of first line, lines) of each sample in a file."""
    if path.endswith(".md"):
        first = None
        for at, text in enumerate(lines):
            if first is None and text == "```c":
                first = at + 1
            elif first is not None and text == "```":
                # tests/repo/readme_test.py compiles and runs complete programs.
                if not any(line.startswith("int main(") for line in lines[first:at]):
                    yield first + 1, lines[first:at]
                first = None
        return
    for first, block in indented(lines):
        if any(re.search(r"\bfth_\w+\(.*;", text) for text in block):
            yield first, block


def indented(lines):
    """Yield (number of first line, lines) of what is indented and looks like code, not a table."""
    first, block = 0, []
    at = 0
    while at < len(lines):
        end = at
        while lines[end].startswith(" *\t"):
            end += 1
        part = [text[3:] for text in lines[at:end]]
        if any(re.search(r"[;{}](\t.*)?$", text) for text in part):
            first = first if block else at + 1
            block += part
            at = end
        # An empty line may be inside a sample.
        if block and part and lines[at] == " *":
            block.append("")
        elif block:
            yield first, block
            block = []
        at += 1


def complete(block):
    """The lines of a sample with what it leaves out put in."""
    out, depth = [], 0
    for at, text in enumerate(block):
        if re.match(r"\s*(\.\.\.|\((all|what) )", text):
            text = ";"
            # A function may end here.
            if depth and (at + 1 == len(block) or not block[at + 1].strip()):
                text += "}" * depth
        text = re.sub(r"(;|\))\t+[^;]*$", r"\1", text)
        text = re.sub(r"\) \.\.\.$", ") {}", text)
        text = text.replace("<<<...>>>", "<<<1, 1>>>").replace(", ...)", ")")
        depth += text.count("{") - text.count("}")
        out.append(text)
    return out


def wrap(path, number, block, cuda):
    """A sample as C or CUDA source that names its lines."""
    where = f'#line {{}} "{path}"\n'
    name = re.sub(r"\W", "_", path) + f"_{number}"
    lines, outer, inner = complete(block), [], []
    at = 0
    while at < len(lines):
        # A function is defined outside of the one that the rest of a sample becomes.
        if re.match(r"(__global__|template)", lines[at]):
            depth, seen, begin = 0, False, at
            while not seen or depth > 0:
                depth += lines[at].count("{") - lines[at].count("}")
                seen = seen or "{" in lines[at]
                at += 1
            outer.append(where.format(number + begin) + "\n".join(lines[begin:at]))
            continue
        inner.append(where.format(number + at) + lines[at])
        at += 1
    if not cuda:
        return f"static int {name}(void)\n{{\n" + "\n".join(inner) + "\n}\n"
    if path.endswith(KERNEL_HEADERS):
        head = f"__device__ void run()\n{{\n{CONTEXT_KERNEL}\n{{"
    else:
        head = "void run()\n{\n{"
    return f"namespace {name} {{\n" + "\n".join(outer) + f"\n{head}\n" + "\n".join(inner) + "\n}\n}\n}\n"


def public_headers():
    for folder, _, files in sorted(os.walk("include")):
        for file in sorted(files):
            yield os.path.join(folder, file)


def compile_all(samples, headers, context, command, suffix):
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "samples" + suffix)
        with open(source, "w", encoding="utf-8") as file:
            file.write("".join(f'#include "{h.removeprefix("include/")}"\n' for h in headers))
            file.write("#include <stdio.h>\n#include <fcntl.h>\n#include <sys/eventfd.h>\n"
                       "#include <sys/ioctl.h>\n#include <linux/vfio.h>\n")
            file.write(context + "".join(samples))
        return subprocess.run([*command, source], check=False, cwd=os.getcwd()).returncode == 0


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    headers = list(public_headers())
    files = sys.argv[1:] or [*headers, "README.md"]
    host, device = [], []
    for path in files:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        for number, block in blocks_of(path, lines):
            cuda = bool(OF_GPU.match(path)) or any("__global__" in text for text in block)
            (device if cuda else host).append(wrap(path, number, block, cuda))
    # the CPU's headers; those of the GPU are C++
    for_c = [h for h in headers if not re.match(r"include/fathom/(detail/)?(gpu|graph/gpu|pm/gpu)", h)]
    ok = compile_all(host, for_c, CONTEXT, [os.environ.get("CC", "cc"), *C_FLAGS], ".c")
    said = f"{len(host)} samples compile"
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if os.path.exists(nvcc) and device:
        ok = compile_all(device, ["include/fathom.h", *[h for h in headers if OF_GPU.match(h)]],
                         CONTEXT_CUDA, [nvcc, "-std=c++17", "-arch=sm_90", "-Iinclude", "-w",
                                        "-ptx", "-o", os.devnull], ".cu") and ok
        said += f", and {len(device)} of device code"
    else:
        said += f"; {len(device)} of device code do not, nvcc is not here"
    if not ok:
        sys.exit("samples_test: a code sample does not compile; names that it may use without declaring "
                 "them are in CONTEXT of tests/repo/samples_test.py")
    print(f"samples_test: {said}")


if __name__ == "__main__":
    main()
