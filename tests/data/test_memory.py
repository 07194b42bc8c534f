"""Memory that large synthetic data need when they are made: their features once, and little more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foltr_audit.data import load as store

MEASURE = """
import re
from pathlib import Path
from foltr_audit.data.load import load_collection
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.experiment import DataSpec

def kibibytes(name):
    return int(re.search(name + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

def load(queries):
    data = {"source": f"synthetic:mslr-web10k:{queries}", "normalise": "HOW"}
    return load_collection(DataSpec.model_validate(data), 1)

load(5)  # imports and kernels do not count
before = kibibytes("VmRSS")
made = load(1500)
size = sum(made.part(name).features.nbytes for name in Collection.PARTS)
print((kibibytes("VmHWM") - before) * 1024 / size)
"""

STATUS = Path("/proc/self/status")
TOLD = STATUS.is_file() and "VmHWM" in STATUS.read_text()


@pytest.mark.slow
@pytest.mark.skipif(not TOLD, reason="the system does not tell a process its peak memory")
@pytest.mark.parametrize("how", ["zscore", "query-minmax"])
@pytest.mark.parametrize("kept", [True, False])
def test_making_data_takes_their_features_once(tmp_path: Path, kept: bool, how: str) -> None:
    place = str(tmp_path) if kept else ""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE.replace("HOW", how)],
        env={**os.environ, store.FOLDER_VARIABLE: place},
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(list(tmp_path.glob("data/*/*.json"))) == kept
    assert float(done.stdout) < 1.6, "as a multiple of the features; a second copy would make it 2 or more"
