"""Traces whose writer made a mistake or means harm: rows of truth, pipes, and texts that a terminal obeys."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from foltr_audit.recorder import ReceivedMessage, Recorder, ShownList
from foltr_audit.recorder.part_files import file_name, marker_name
from foltr_audit.recorder.table_files import table_pieces
from numpy.typing import NDArray

from foltr_audit.errors import TraceError
from foltr_audit.trace import Trace, validate
from foltr_audit.utils.formatting import visible
from tests.fixtures.command import run

Table = dict[str, NDArray[np.generic]]
OBEYED = "\x1b[31m\u202e\x07\r\x9b"
FACTS = {"learning_rate": 0.1, "noise": "none", "pairs": "all", "normaliser": "shown"}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two rounds of three messages of a list each, of which another document is clicked."""
    rng = np.random.default_rng(3)
    with Recorder(tmp_path / "trace", FACTS) as recorder:
        for _ in range(2):
            rows = np.eye(3) == 1
            lists = [ShownList(features=rng.normal(size=(3, 4)), clicks=clicks) for clicks in rows]
            messages = [
                ReceivedMessage(arrays=rng.normal(size=4), sender=node, lists=[one], metrics={"clicks": 1.0})
                for node, one in enumerate(lists)
            ]
            recorder.round(np.zeros(4), messages, failures={9: "lost"})
    return tmp_path / "trace"


def rewrite(folder: Path, table: str, change: Callable[[Table], None]) -> None:
    """Change a table of the first part, and its marker with it."""
    path, marker = folder / file_name(table, 0), folder / marker_name(0)
    with np.load(path, allow_pickle=False) as arrays:
        columns = {name: arrays[name].copy() for name in arrays.files}
    change(columns)
    data = b"".join(table_pieces(columns))
    path.write_bytes(data)
    stated = json.loads(marker.read_text())
    stated["files"][file_name(table, 0)] |= {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    marker.write_text(json.dumps(stated))


def test_clicks_in_another_order_than_their_lists_are_refused_and_never_scored(trace: Path) -> None:
    def swap(columns: Table) -> None:
        rows = np.arange(len(columns["clicks"]))
        columns.update(round=0 * rows, slot=rows, step=0 * rows)
        for name in ("slot", "step", "clicks", "known"):
            columns[name][:2] = columns[name][1::-1].copy()

    rewrite(trace, "truth/clicks", swap)
    problem = "truth/clicks-00000.npz: rows differ from those of observed/interactions"
    assert len(list(Trace.open(trace).rounds())) == 2
    with pytest.raises(TraceError, match=problem):
        list(Trace.open(trace).truths())
    done = run("attack", "--trace", trace, "--method", "olsr")
    assert done.code not in (0, 1)
    assert problem in done.err
    assert any(problem in line for line in validate(trace))


@pytest.mark.parametrize("name", ["observed/messages-00000.npz", "part-00000.json"])
def test_a_pipe_among_the_files_is_refused_and_not_waited_for(trace: Path, name: str) -> None:
    (trace / name).unlink()
    os.mkfifo(trace / name)
    with pytest.raises(TraceError, match="no regular file"):
        Trace.open(trace)
    assert any("no regular file" in line for line in validate(trace))


def test_a_round_without_messages_of_a_large_model_is_read(tmp_path: Path) -> None:
    model = np.zeros((1 << 20) + 5, dtype=np.float32)
    with Recorder(tmp_path) as recorder:
        recorder.round(model, [], asked=[3])
    assert validate(tmp_path) == []
    [record] = Trace.open(tmp_path).rounds()
    assert record.messages.shape == (0, model.size)


def test_an_empty_table_may_claim_no_features_without_end(tmp_path: Path) -> None:
    with Recorder(tmp_path, list_length=3, features=4) as recorder:
        recorder.round(np.zeros(4), [])
    endless = np.empty((0, 3, 1 << 30))
    rewrite(tmp_path, "observed/interactions", lambda columns: columns.update(features=endless))
    assert any("column features is float64" in line for line in validate(tmp_path))


def test_texts_of_a_trace_move_no_cursor(trace: Path) -> None:
    def spoil(name: str) -> Callable[[Table], None]:
        return lambda columns: columns.update({name: np.char.add(OBEYED, columns[name].astype(np.str_))})

    rewrite(trace, "observed/metrics", spoil("name"))
    rewrite(trace, "observed/cohort", spoil("reason"))
    header = (trace / "trace.toml").read_text()
    spoilt = header.replace('source = "recorded"', 'source = "\\u001b[2Jhere\\u009b[bold]"')
    assert spoilt != header
    (trace / "trace.toml").write_text(spoilt)
    for part in range(2):
        stated = json.loads((trace / marker_name(part)).read_text())
        stated["trace"] = hashlib.sha256(spoilt.encode()).hexdigest()
        (trace / marker_name(part)).write_text(json.dumps(stated))
    for words in (("trace", "info"), ("trace", "lint"), ("trace", "validate"), ("attack", "--trace")):
        done = run(*words, trace)
        assert done.code in (0, 1), done.err
        printed = done.out + done.err
        assert visible(printed) == printed
    assert "?[2Jhere?[bold]" in run("trace", "info", trace).out
