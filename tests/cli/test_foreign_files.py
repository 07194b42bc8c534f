"""Files that a stranger forged or a newcomer mistook: one line names each and says what was expected."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.cli.options import split_methods
from foltr_audit.core.plugins import Attack
from foltr_audit.core.plugins.registry import plugin_class
from foltr_audit.data.letor import read_letor
from foltr_audit.errors import DataError, TraceError, UsageError, suggest_name
from foltr_audit.experiments.comparison.folder import ComparisonFolder
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.experiments.runs.folder import load_model
from foltr_audit.report.attack import recorded_report
from foltr_audit.report.compare import CompareReport
from foltr_audit.trace import Trace
from tests.fixtures.command import SMALL, answer, but, refusal
from tests.fuzz.samples import (
    Lines,
    cell_arrays,
    line_of,
    lines_of,
    packed,
    sealed,
    write_comparison,
    write_trace,
)
from tests.utils.test_reading import archive

HUGE = "9" * 5000
DROPPED: Any = object()

# --- cells of comparisons -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    write_comparison(tmp_path_factory.mktemp("good") / "compared")
    return tmp_path_factory.getbasetemp() / "good0" / "compared"


@pytest.fixture
def compared(good: Path, tmp_path: Path) -> Path:
    return shutil.copytree(good, tmp_path / "compared")


def attacked_cell(compared: Path) -> Path:
    cells = sorted(compared.glob("cells/*/records.jsonl"))
    return next(path.parent for path in cells if b'"evidence"' in path.read_bytes())


def forge(cell: Path, change: Callable[[Lines], object] = lambda _: None, **arrays: Any) -> None:
    """Change records and arrays (by name, `/` as `__`) of a cell, and put the hash right."""
    members = {**packed(cell_arrays())}
    for name, values in arrays.items():
        members |= packed({name.replace("__", "/"): np.asarray(values)})
    content = archive(members)
    lines = lines_of((cell / "records.jsonl").read_bytes())
    change(lines)
    (cell / "arrays.npz").write_bytes(content)
    (cell / "records.jsonl").write_bytes(sealed(lines, content))


def refused(compared: Path, problem: str) -> None:
    with pytest.raises(TraceError) as error:
        CompareReport.of(ComparisonFolder.open(compared)).json()
    assert problem in str(error.value), str(error.value)
    assert "cells" in str(error.value) or "judged lists" in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_a_cell_that_is_forged_well_is_read(compared: Path) -> None:
    forge(attacked_cell(compared))
    assert CompareReport.of(ComparisonFolder.open(compared)).json()


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"lists__query": "a"}, "lists/query: <U1 with 0 axes"),
        ({"lists__told": np.zeros((10, 4), dtype=bool)}, "10 along an axis of 6"),
        ({"lists__clicks": np.zeros((6, 4))}, "lists/clicks: float64 with 2 axes; expected b1"),
        ({"lists__shown": np.zeros(6, dtype=np.int64)}, "lists/shown: int64 with 1 axes"),
        ({"lists__clicks": np.ones((6, 4), dtype=bool)}, "a click where the list is padded"),
        ({"lists__shown": np.tile([0, -1, 1, 2], (6, 1))}, "a document after the padding"),
        ({"lists__group": np.full(6, 2)}, "lists/group: 2; expected less than 2"),
        ({"lists__message": np.full(6, 2**62)}, "lists/message: a value outside of 0"),
        ({"guessed__0__scores": np.full((6, 4), np.nan)}, "scores of position-prior: NaN"),
        ({"guessed__7__scores": np.zeros((6, 4))}, "guessed/7/scores: not expected"),
        ({"guessed__1__surprisal": np.zeros(6)}, "guessed/1/surprisal: not expected"),
        ({"query_ndcg": np.array([1.5])}, "query_ndcg: a value outside of 0 to 1"),
        ({"query_ndcg": np.array(0.5)}, "query_ndcg: float64 with 0 axes"),
        ({"rounds__round": np.array([0.0, 7.0])}, "rounds/round: expected the 2 rounds"),
        ({"rounds__offline_ndcg@10": np.array([0.0, np.inf])}, "a value outside of 0 to 1"),
        ({"rounds__online_ndcg@10": np.zeros(3)}, "3 along an axis of 2"),
        ({"other": np.zeros(3)}, "'other': no array that is expected"),
    ],
    ids=str,
)
def test_arrays_of_a_cell(compared: Path, arrays: dict[str, Any], problem: str) -> None:
    forge(attacked_cell(compared), **arrays)
    refused(compared, problem)


@pytest.mark.parametrize(
    ("kind", "values", "problem"),
    [
        ("utility", {"online_sum": 10**400}, "line 4: not JSON: a whole number beyond 64 bits"),
        ("utility", {"online_mean": 1e300}, "expected a number from 0 to 1"),
        ("utility", {"online_mean": "nan"}, "expected a number"),
        ("utility", {"clipped": True}, "utility.clipped: expected a number"),
        ("utility", {"ndcg": DROPPED}, "line 4: damaged: utility.ndcg is missing"),
        ("utility", {"kind": "run"}, "line 4: damaged: run.run is missing"),
        ("utility", {"kind": "usefulness"}, "line 4: made by another version; run again with --overwrite"),
        ("run", {"learner": "\ud800"}, "half of a character"),
        ("run", {"learner": "\x1b[31m"}, "text without control characters"),
        ("run", {"warnings": [1]}, "run.warnings"),
        ("run", {"groups": ["a", "a"]}, "run.groups: expected different names"),
        ("run", {"run": DROPPED}, "run.run is missing"),
        ("run", {"run": "0" * 64}, "made by another Spec"),
        ("data", {"fold": DROPPED}, "line 3: damaged: data.fold is missing"),
        ("proof", {"upper": {"epsilon": "nan", "delta": 0.0, "how": ""}}, "proof.upper: not a number"),
        ("evidence", {"guessed": ["a", "a"]}, "expected different names"),
        ("evidence", {"groups": []}, "evidence.groups"),
        ("evidence", {"steps": "2"}, "evidence.steps"),
        ("evidence", {"refused": []}, "evidence.refused"),
        ("evidence", {"guessed": ["position-prior"]}, "guessed/1/any_click: not expected"),
        (None, {"schema": "foltr-audit/records/9"}, "line 1: made by another version"),
        (None, {"arrays": "0" * 64}, "damaged: not the content that records.jsonl names"),
    ],
)
def test_records_of_a_cell(compared: Path, kind: str | None, values: dict[str, Any], problem: str) -> None:
    cell = attacked_cell(compared)
    lines = lines_of((cell / "records.jsonl").read_bytes())
    line = lines[0] if kind is None else line_of(lines, kind)
    line |= values
    kept = [{name: value for name, value in each.items() if value is not DROPPED} for each in lines]
    (cell / "records.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in kept))
    refused(compared, problem)


def test_a_cell_without_its_run_and_one_with_an_unknown_field(compared: Path) -> None:
    cell = attacked_cell(compared)
    forge(cell, lambda lines: lines[1].update(of_a_later_version=1))
    assert CompareReport.of(ComparisonFolder.open(compared)).json()
    forge(cell, lambda lines: lines.pop(1))
    refused(compared, "damaged: 0 of kind RunRecord; expected one")


def test_a_finding_of_another_form(compared: Path) -> None:
    for path in sorted(compared.glob("cells/*/records.jsonl")):
        lines = path.read_text().splitlines()
        changed = [
            line.replace('"view": "individual"', '"view": "nobody"') if '"audit"' in line else line
            for line in lines
        ]
        path.write_text("\n".join(changed) + "\n")
    refused(compared, "line 6: damaged: audit.view=nobody")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"hello"])
def test_archives_that_are_none(compared: Path, content: bytes) -> None:
    cell = attacked_cell(compared)
    lines = lines_of((cell / "records.jsonl").read_bytes())
    (cell / "arrays.npz").write_bytes(content)
    (cell / "records.jsonl").write_bytes(sealed(lines, content))
    refused(compared, "arrays.npz: damaged")


def test_cells_of_one_setting_with_lists_of_another_room(compared: Path) -> None:
    flags = ("lists__clicks", "lists__observed", "lists__told", "guessed__0__guess", "guessed__1__guess")
    wide: dict[str, Any] = {name: np.zeros((6, 5), dtype=bool) for name in flags}
    wide |= {f"guessed__{number}__scores": np.zeros((6, 5)) for number in range(2)}
    wide |= {"lists__shown": np.tile(np.arange(5), (6, 1))}
    forge(attacked_cell(compared), **wide)
    refused(compared, "room for [4, 5] documents")


# --- models, data and their cache -----------------------------------------------------------------


@pytest.mark.parametrize(
    "header", ["(3,", "(10000000000,)", f"({HUGE},)", "__import__('os')", "(1, 2", "'", "{" * 200]
)
def test_a_model_whose_header_is_another(tmp_path: Path, header: str) -> None:
    path = tmp_path / "model.npy"
    np.save(path, np.zeros(3), allow_pickle=False)
    data = path.read_bytes()
    written = data[10:].replace(b"(3,)", header.encode())
    path.write_bytes(data[:8] + (len(written) - 24).to_bytes(2, "little") + written)
    with pytest.raises(UsageError, match=r"--init: .*model.npy: no .npy file with one plain array"):
        load_model(path, 3)


@pytest.mark.parametrize("piece", [b"\n", b"0", b"1 qid:1 1:1\n"])
def test_a_packed_file_of_nothing_but_repetitions(tmp_path: Path, piece: bytes) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(gzip.compress(piece * (40_000_000 // len(piece)), 9))
    with pytest.raises(DataError, match=r"letor: train.txt: .* bytes unpack to \d+ and more"):
        read_letor(path)


def test_a_line_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"1 qid:1 " + b"1:1 " * 5_000_000)
    with pytest.raises(DataError, match=r"letor: train\.txt: a line of more than"):
        read_letor(path)


def test_a_few_rows_that_would_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("".join(f"1 qid:{number} 65536:1\n" for number in range(2000)))
    with pytest.raises(DataError, match="2000 rows of 65536 features, of which 2000 are given"):
        read_letor(path)


# --- traces ---------------------------------------------------------------------------------------


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    write_trace(tmp_path / "trace")
    return tmp_path / "trace"


def seal(folder: Path) -> None:
    """Put the hashes in the markers right."""
    identity = hashlib.sha256((folder / "trace.toml").read_bytes()).hexdigest()
    for path in folder.glob("part-*.json"):
        marker = json.loads(path.read_text())
        marker["trace"] = identity
        for name, entry in marker["files"].items():
            data = (folder / name).read_bytes()
            entry |= {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        path.write_text(json.dumps(marker))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("k = 4", f"k = {HUGE}", "trace.toml: not TOML: a whole number beyond 64 bits"),
        ("k = 4", "k = 4294967296", "trace.toml: k is 4294967296, expected 1 to 2147483647"),
        ("k = 4", "k = 2147483647", "expected whole numbers of shape (rows, 2147483647)"),
        ("trace/1", f"trace/{HUGE}", "expected foltr-audit/trace/1"),
        ("trace/1", "trace/²", "expected foltr-audit/trace/1"),
    ],
)
def test_a_header_with_other_numbers(trace: Path, old: str, new: str, problem: str) -> None:
    path = trace / "trace.toml"
    path.write_text(path.read_text().replace(old, new))
    seal(trace)
    with pytest.raises(TraceError, match="trace") as error:
        list(Trace.open(trace).rounds())
    assert problem in str(error.value)


def unsolved(*_: object) -> None:
    """LAPACK gives up on some numbers near the end of the range."""
    raise np.linalg.LinAlgError("SVD did not converge")


def test_an_attack_whose_equations_cannot_be_solved_is_refused(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One attack less, with the reason."""
    monkeypatch.setattr(plugin_class(Attack, "lad"), "infer", unsolved)
    report = recorded_report(TraceAttack.open(trace, changes={"methods": ("olsr", "lad")}))
    why = next(row["reason"] for row in report.refused if row["method"] == "lad")
    assert why.startswith("its equations cannot be solved in round ")
    assert why.endswith(": SVD did not converge")
    assert any(row["method"] == "olsr" for row in report.results)
    with pytest.raises(UsageError, match="attack lad: cannot run on this view: its equations cannot"):
        recorded_report(TraceAttack.open(trace, changes={"methods": ("lad",)}))


def test_equations_outside_of_an_attack_that_cannot_be_solved(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foltr_audit.judge.clicks.revealed", unsolved)
    with pytest.raises(UsageError, match=r"of messages and features cannot be solved \(SVD did not"):
        recorded_report(TraceAttack.open(trace, changes={"methods": ("olsr",)}))


# --- texts and command lines ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["--config", "limits"])
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"seed = {HUGE}", "beyond 64 bits"),
        (f"seed = 0x{'f' * 5000}", "beyond 64 bits"),
        ("seed = " + "[" * 5000, "too many levels"),
        ("seed = 1979-05-27", "a date"),
        ("\ufffd\x00", "not TOML"),
    ],
)
def test_numbers_of_thousands_of_digits(tmp_path: Path, kind: str, line: str, problem: str) -> None:
    path = tmp_path / "given.toml"
    path.write_text(f"{line}\n" if kind == "--config" else line.replace("seed", "min_ndcg") + "\n")
    found = refusal(*(("train --config", path) if kind == "--config" else ("check", path)))
    assert "given.toml" in found
    assert problem in found
    assert len(found) < 500


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (f"train --fold {HUGE}", "--fold: "),
        (f"train --data synthetic:mq2007:{HUGE}", "expected synthetic:NAME or synthetic:NAME:QUERIES"),
        ("train --data a\udcff", "unicode"),
        (f"train --init {'x' * 5000} --data synthetic:mq2007:30", "File name too long"),
    ],
)
def test_odd_command_lines(command: str, problem: str) -> None:
    line = refusal(command)
    assert problem in line
    assert len(line) < 6000


# --- errors that newcomers met --------------------------------------------------------------------


def test_files_of_others_are_not_quoted(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("root:x:0:0:administrator:/root:/bin/bash\n")
    for given in (but(SMALL, "--data", secret), (*SMALL, "--queries", secret), (*SMALL, "--config", secret)):
        line = refusal("attack", *given).replace(str(secret), "")
        assert not [word for word in ("root", "administrator") if word in line]
    assert "label of 40 bytes is not a number" in refusal("attack --data", secret)


def test_several_attacks_in_one_option() -> None:
    assert split_methods(["olsr,lad", "map:a=b,c=d"]) == ["olsr", "lad", "map:a=b,c=d"]
    rows = answer("attack --click-model perfect --method olsr,first-position", *SMALL)["results"]
    assert {"olsr", "first-position"} <= {row["method"] for row in rows}


def test_a_longer_name_means_the_one_that_it_begins_with() -> None:
    known = ["pham-2022", "pham-2022-figure-1", "zhuang-2021-table-6"]
    assert suggest_name("pham-2022-table-4", known).startswith("did you mean 'pham-2022'?")
    assert suggest_name("pham-2022-figure-1x", known).startswith("did you mean 'pham-2022-figure-1'?")
    assert suggest_name("mapx", ["map", "max-gain"]).startswith("did you mean 'map'?")


def test_labels_beyond_every_published_click_model_are_refused(tmp_path: Path) -> None:
    rows = [f"{9 if q % 2 else 0} qid:{q} 1:{q}" for q in range(20) for _ in range(12)]
    (tmp_path / "data.txt").write_text("\n".join(rows))
    assert "labels 0..4" in refusal("attack --data", tmp_path / "data.txt")


def test_data_without_a_query_to_attack_are_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("\n".join(f"{q % 3} qid:{q} 1:{q}" for q in range(20)))
    assert "10 documents" in refusal("attack --data", tmp_path / "data.txt")


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_a_model_file_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.npy").write_bytes(content)
    assert "model.npy" in refusal("train", *SMALL, "--init", tmp_path / "model.npy")


def test_features_too_large_for_the_message_are_refused_with_advice(tmp_path: Path) -> None:
    rows = [f"{q % 3} qid:{q} 1:{3e38 if d % 2 else -3e38:g}" for q in range(10) for d in range(12)]
    (tmp_path / "data.txt").write_text("\n".join(rows))
    options = "--normalise none --clients 5 --learning-rate 1e6"
    assert "normalise" in refusal(f"attack {options} --data", tmp_path / "data.txt")
