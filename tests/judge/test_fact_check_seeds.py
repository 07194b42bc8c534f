"""Lists that follow from seeds by the declared generator, and lists that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.command import run
from tests.fixtures.seeded_searchers import SOURCE, write_seeded

GENERATOR = "numpy-randomstate"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeded") / "trace"
    write_seeded(folder, perturbation=GENERATOR)
    return folder


def told(trace: Path, *options: Any) -> str:
    done = run("attack", "--trace", trace, "--data", SOURCE, "--method", "es-seed-link", *options, "--json")
    (facts,) = done.json()["facts"]
    return str(facts["text"])


def test_right_facts_explain_the_lists(trace: Path) -> None:
    assert told(trace) == "declared facts explain 100 % of 60 messages"


@pytest.mark.parametrize("wrong", ["sigma=5", "antithetic=false"])
def test_wrong_facts_are_noticed(trace: Path, wrong: str) -> None:
    said = told(trace, "--know", wrong)
    assert "no known generator explains more; check sigma, antithetic" in said
    share = int(said.removeprefix("declared facts explain ").partition(" %")[0])
    assert share < 50


def test_the_generator_that_explains_the_lists_is_named(tmp_path: Path) -> None:
    write_seeded(tmp_path / "trace", perturbation="foltr-audit")
    done = run(
        "attack", "--trace", tmp_path / "trace", "--data", SOURCE, "--method", "es-first-click", "--json"
    )
    (facts,) = done.json()["facts"]
    assert facts["state"] == "wrong"
    assert facts["better"] == {"perturbation": GENERATOR}
    assert "perturbation numpy-randomstate explains 100 %" in facts["text"]


def test_nothing_is_checked_without_the_fact(tmp_path: Path) -> None:
    write_seeded(tmp_path / "trace", perturbation=None)
    done = run(
        "attack", "--trace", tmp_path / "trace", "--data", SOURCE, "--method", "es-first-click", "--json"
    )
    (facts,) = done.json()["facts"]
    assert facts["state"] == "not checked"
    assert "the header does not say perturbation" in facts["text"]


def test_own_runs_explain_themselves(tmp_path: Path) -> None:
    options = ("--data", "synthetic:mq2007:60", "--clients", 20, "--rounds", 2, "--learner", "foltr-es")
    assert run("train", *options, "--out", tmp_path / "run").code == 0
    done = run("trace", "check-facts", tmp_path / "run")
    assert done.code == 0
    assert "declared facts explain 100 % of 40 messages" in done.out
