# SPDX-License-Identifier: BSD-2-Clause
"""The Python samples of both README.md run as they stand, each in an empty folder."""
import os
import re
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAMPLES = []
for folder in (os.path.dirname(HERE), HERE):
    with open(os.path.join(folder, "README.md")) as file:
        SAMPLES += re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)


def test_there_are_samples():
    assert len(SAMPLES) >= 4


@pytest.mark.parametrize("sample", SAMPLES, ids=range(len(SAMPLES)))
def test_a_sample_runs(sample, tmp_path):
    subprocess.run([sys.executable, "-W", "error", "-c", sample], cwd=tmp_path, check=True)
