from __future__ import annotations

from pathlib import Path

import pytest

from foltr_audit.data.synthetic import synthesise
from tests.fixtures.command import SHARED, answer, refusal, run


def test_synth_writes_data_that_read_back_as_generated(tmp_path: Path) -> None:
    out = tmp_path / "made"
    assert run("data synth --like mq2007 --queries 20 --out", out).code == 0
    facts = answer("data info", out)
    assert facts["fingerprint"] == synthesise("mq2007", queries=20).fingerprint
    assert [facts["parts"][part]["queries"] for part in ("train", "vali", "test")] == [12, 4, 4]


def test_synth_refuses_a_folder_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("dear")
    assert "--overwrite" in refusal("data synth --queries 10 --out", tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "dear"
    assert run("data synth --queries 10 --out", tmp_path, "--overwrite").code == 0


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")
def test_info_counts_a_query_with_one_document() -> None:
    facts = answer("data info", SHARED / "data" / "lightgbm-rank")
    counted = sum(part["queries_with_one_document"] for part in facts["parts"].values())
    assert counted == 1
    assert facts["features"] == 300
