"""When recording ends: bounds, full disks, rounds that do not fit, and servers that are killed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from foltr_audit.recorder import Recorder
from foltr_audit.recorder.part_files import marker_indices

from tests.fixtures.command import files
from tests.fixtures.import_graph import ROOT
from tests.recorder.test_recorder import MODEL, message, table


def test_recording_stops_at_the_bound_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "foltr_audit_recorder"):
        recorder = Recorder(tmp_path, max_bytes=20_000)
        kept = [recorder.round(MODEL, [message(node) for node in range(40)]) for _ in range(10)]
    size = sum(map(len, files(tmp_path).values()))
    assert 10_000 < size <= 20_000
    assert kept == sorted(kept, reverse=True)
    assert len(set(kept)) == 2
    assert marker_indices(tmp_path) == list(range(sum(kept)))
    assert len(caplog.records) == 1
    assert "max_bytes is 20000" in caplog.text


def test_a_full_disk_stops_a_lenient_recorder_and_breaks_a_strict_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorders = Recorder(tmp_path / "strict"), Recorder(tmp_path / "lenient", strict=False)
    for recorder in recorders:
        recorder.round(MODEL, [message(1)])

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("foltr_audit.recorder.atomic_files.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        recorders[0].round(MODEL, [message(1)])
    assert not recorders[1].round(MODEL, [message(1)])
    assert "No space left on device" in caplog.text
    assert [marker_indices(recorder.folder) for recorder in recorders] == [[0], [0]]


# --- a killed server ----------------------------------------------------------------------------------

SERVER = """
import sys, time
import numpy as np
from foltr_audit.recorder import ReceivedMessage, Recorder
recorder = Recorder(sys.argv[1])
number = 0
while True:
    messages = [ReceivedMessage(arrays=np.full(5_000, number, np.float32), sender=i) for i in range(20)]
    recorder.round(np.zeros(5_000, np.float32), messages)
    number += 1
    open(sys.argv[1] + ".count", "w").write(str(number))
"""


def test_a_killed_server_loses_at_most_the_open_round(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    counter = tmp_path / "trace.count"
    paths = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(folder)], env=paths)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(marker_indices(folder)) < 4:
        time.sleep(0.01)
    server.send_signal(signal.SIGKILL)
    server.wait()
    told = int(counter.read_text() or 0)
    parts = marker_indices(folder)
    assert parts == list(range(len(parts)))
    assert len(parts) >= max(told, 4)
    for part in parts:
        messages = table(folder, "observed/messages", part)
        np.testing.assert_array_equal(messages["array-0"], np.full((20, 5_000), part, np.float32))
    with Recorder(folder, resume=True) as again:
        assert again.round_count == len(parts)
        again.round(np.zeros(5_000, np.float32), [])


def test_the_last_files_of_a_process_that_ends_are_written(tmp_path: Path) -> None:
    """Flower's server lets go of its recorder when Python is about to end, and starts no thread any more."""
    program = (
        "import atexit, concurrent.futures.thread, sys; from pathlib import Path; "
        "from foltr_audit_recorder.atomic_files import write_files; "
        "atexit.register(write_files, Path(sys.argv[1]), {'first': [b'1'], 'second': [b'2']})"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT / "recorder", check=True)
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [b"1", b"2"]
