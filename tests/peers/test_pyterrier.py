"""The program of docs/ranker.md in PyTerrier, which has an environment of its own: `make test-pyterrier`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fixtures.doc_examples import DOCS, blocks

PAGE = DOCS / "ranker.md"


@pytest.mark.filterwarnings("ignore")  # those of PyTerrier and pandas are not ours
def test_pyterrier_takes_a_federated_ranker_unchanged() -> None:
    pytest.importorskip("pyterrier")
    (program,) = [block for block in blocks(PAGE) if block.kind == "python pyterrier"]
    left: dict[str, Any] = program.executed(PAGE.name)
    first, federated = (
        left["pt"]
        .Experiment(left["runs"], left["topics"], left["test_qrels"], ["ndcg_cut_10"], dataframe=False)
        .values()
    )
    assert federated["ndcg_cut_10"] > first["ndcg_cut_10"]
    scores = left["ranker"].predict(list(left["test"]["features"]))
    assert sorted(scores) == sorted(left["runs"][1]["score"])
