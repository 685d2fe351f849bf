# SPDX-License-Identifier: BSD-2-Clause
"""The wheel that pip makes without a network works, and needs only the stable ABI."""
import importlib.util
import os
import subprocess
import sys
import zipfile

import pytest

import fathom

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="python3-pip is not here")
@pytest.mark.skipif("FATHOM_BUILD" not in os.environ, reason="FATHOM_BUILD is not set")
@pytest.mark.skipif(bool(os.environ.get("FTH_SANITIZE")), reason="once is enough")
def test_pip_makes_a_wheel_that_works(tmp_path):
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "-q", "-w",
                    str(tmp_path), os.path.join(ROOT, "python")], check=True)
    wheel, = tmp_path.glob("fathom-*-cp311-abi3-*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "there")
    run = subprocess.run([sys.executable, "-c", "import fathom; print(fathom.__file__)"],
                         env={**os.environ, "PYTHONPATH": str(tmp_path / "there")}, cwd="/",
                         check=True, stdout=subprocess.PIPE, text=True)
    assert run.stdout.startswith(str(tmp_path))


def test_the_module_keeps_to_the_stable_abi():
    """Symbols of Python that it needs are all in the list of the interpreter's stable ABI."""
    core = os.path.join(os.path.dirname(fathom.__file__), "_core.abi3.so")
    run = subprocess.run(["nm", "-D", core], check=True, stdout=subprocess.PIPE, text=True)
    symbols = [line.split() for line in run.stdout.splitlines()]
    needed = {s[-1] for s in symbols if s[0] == "U" and s[-1].lstrip("_").startswith("Py")}
    assert "PyType_FromSpec" in needed
    private = {name for name in needed if name.startswith("_Py") and "_SizeT" not in name} - {
        "_Py_NoneStruct", "_Py_TrueStruct", "_Py_FalseStruct", "_Py_Dealloc", "_Py_IncRef",
        "_Py_DecRef", "_Py_EllipsisObject"}
    assert not private
    defined = [s[-1] for s in symbols if len(s) == 3 and s[1] == "T"]
    assert defined == ["PyInit__core"]
