"""Lists of FOLtR-ES follow from the seeds of their messages by the declared generator, or they do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.command import run


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeds") / "run"
    options = ("--data", "synthetic:mq2007:60", "--clients", 20, "--rounds", 2, "--learner", "foltr-es")
    assert run("train", *options, "--out", folder).code == 0
    return folder


def facts(folder: Path, *options: Any) -> Any:
    return run("trace", "check-facts", folder, *options, "--json").json()["facts"][0]


def test_right_facts_explain_the_lists(own_run: Path) -> None:
    assert facts(own_run)["text"] == "declared facts explain 100 % of 40 messages"


@pytest.mark.parametrize("wrong", ["sigma=5", "antithetic=false", "perturbation=numpy-randomstate"])
def test_wrong_facts_are_noticed(own_run: Path, wrong: str) -> None:
    assert facts(own_run, "--know", wrong)["state"] == "wrong"


def test_nothing_is_checked_without_the_fact(own_run: Path) -> None:
    checked = facts(own_run, "--know", "perturbation=other")
    assert checked["state"] == "not checked"
    assert "perturbation" in checked["reason"]
