from __future__ import annotations

from pathlib import Path

import pytest

from foltr_audit.data.synthetic.generate import synthesise
from tests.fixtures.command import SHARED, run


def test_synth_writes_data_that_read_back_as_generated(tmp_path: Path) -> None:
    out = tmp_path / "made"
    assert run("data", "synth", "--like", "mq2007", "--queries", 20, "--out", out).code == 0
    facts = run("data", "info", out, "--json").json()
    assert facts["fingerprint"] == synthesise("mq2007", queries=20).fingerprint
    assert [facts["parts"][part]["queries"] for part in ("train", "vali", "test")] == [12, 4, 4]
    shown = run("data", "info", out)
    assert shown.code == 0
    assert "queries" in shown.out


def test_synth_refuses_a_folder_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("dear")
    done = run("data", "synth", "--queries", 10, "--out", tmp_path)
    assert done.code == 2
    assert "--overwrite" in done.one_error()
    assert (tmp_path / "mine.txt").read_text() == "dear"
    assert run("data", "synth", "--queries", 10, "--out", tmp_path, "--overwrite").code == 0


@pytest.mark.parametrize(("option", "value"), [("--queries", 2), ("--like", "mq2008")])
def test_synth_refuses_what_it_cannot_make(tmp_path: Path, option: str, value: object) -> None:
    done = run("data", "synth", "--out", tmp_path / "made", option, value)
    assert done.code == 2
    assert str(value) in done.one_error()
    assert not (tmp_path / "made").exists()


def test_info_says_synthetic() -> None:
    assert "synthetic" in run("data", "info", "synthetic:mq2007:30").out


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")
def test_info_counts_a_query_with_one_document() -> None:
    facts = run("data", "info", SHARED / "data" / "lightgbm-rank", "--json").json()
    counted = sum(part["queries_with_one_document"] for part in facts["parts"].values())
    assert counted == 1
    assert facts["features"] == 300


def test_info_names_the_folds_that_five_pieces_have(tmp_path: Path) -> None:
    for k in range(1, 6):
        lines = [f"{i % 2} qid:{k}{q} 1:0.{i} #docid = D{i}\r\n" for q in range(3) for i in range(4)]
        (tmp_path / f"S{k}.txt").write_text("".join(lines), encoding="utf-8", newline="")
    shown = run("data", "info", tmp_path).out
    assert "vali and test split off by query with seed 1" in shown
    assert "the pieces also have folds 1 to 5: --fold K or --fold all" in shown
    assert "4 to 4, mean 4" in shown
    in_fold = run("data", "info", tmp_path, "--fold", 2).out
    assert "read from S2.txt, S3.txt, S4.txt, S5.txt, S1.txt" in " ".join(in_fold.split())
    assert "the pieces also have" not in in_fold
    (tmp_path / "S5.txt").unlink()
    assert "the pieces also have" not in run("data", "info", tmp_path).out


def test_info_on_qrels_says_where_they_belong(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("1 0 D1 1\n", encoding="utf-8")
    assert "qrels of intents are given by --intents" in run("data", "info", tmp_path).one_error()
