# SPDX-License-Identifier: BSD-2-Clause
"""The samples of python/README.md run as they stand, each in an empty folder."""
import os
import re
import subprocess
import sys

import pytest

README = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "README.md")
with open(README) as file:
    SAMPLES = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)


def test_there_are_samples():
    assert SAMPLES


@pytest.mark.parametrize("sample", SAMPLES, ids=range(len(SAMPLES)))
def test_a_sample_runs(sample, tmp_path):
    subprocess.run([sys.executable, "-W", "error", "-c", sample], cwd=tmp_path, check=True)
