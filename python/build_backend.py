# SPDX-License-Identifier: BSD-2-Clause
"""Builds the wheel of the package for pip (PEP 517): CMake compiles, and this packs.

The wheel has the library inside. FATHOM_BUILD names a build folder of CMake to use; by default it
is build-python, beside the sources. FATHOM_CUDA=1 compiles fathom.gpu too, which needs nvcc.
"""
import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TAG = "cp311-abi3-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


def version():
    with open(os.path.join(ROOT, "include", "fathom", "base", "version.h")) as header:
        return ".".join(re.findall(r"#define FTH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
                                   header.read()))


def compile_package():
    """The folder with the package, built."""
    build = os.environ.get("FATHOM_BUILD") or os.path.join(ROOT, "build-python")
    if not os.path.exists(os.path.join(build, "CMakeCache.txt")):
        cuda = "ON" if os.environ.get("FATHOM_CUDA") == "1" else "OFF"
        subprocess.run(["cmake", "-S", ROOT, "-B", build, "-DBUILD_TESTING=OFF",
                        "-DFTH_CUDA=" + cuda, "-DFTH_PYTHON=" + sys.executable], check=True)
    subprocess.run(["cmake", "--build", build, "--target", "fathom_python", "--parallel",
                    str(os.cpu_count() or 1)], check=True)
    return os.path.join(build, "python", "package", "fathom")


def metadata():
    with open(os.path.join(HERE, "README.md")) as readme:
        return ("Metadata-Version: 2.1\nName: fathom\nVersion: %s\n"
                "Summary: Data larger than memory: arrays and SQL in a fixed amount of memory\n"
                "License: BSD-2-Clause\nRequires-Python: >=3.11\nRequires-Dist: numpy\n"
                "Description-Content-Type: text/markdown\n\n%s" % (version(), readme.read()))


def add(wheel, records, name, data):
    wheel.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    records.append("%s,sha256=%s,%d" % (name, digest, len(data)))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    package = compile_package()
    name = "fathom-%s-%s.whl" % (version(), TAG)
    info = "fathom-%s.dist-info/" % version()
    records = []
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        for file in sorted(os.listdir(package)):
            if file.endswith((".py", ".pyi", ".so", "py.typed")):
                with open(os.path.join(package, file), "rb") as f:
                    add(wheel, records, "fathom/" + file, f.read())
        add(wheel, records, info + "METADATA", metadata().encode())
        add(wheel, records, info + "WHEEL",
            ("Wheel-Version: 1.0\nGenerator: fathom\nRoot-Is-Purelib: false\nTag: %s\n"
             % TAG).encode())
        records.append(info + "RECORD,,\n")
        wheel.writestr(info + "RECORD", "\n".join(records))
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("install from the source tree: pip install ./python")
