"""`foltr-audit ceiling`: its table, its JSON, the other direction, chains, and what it refuses."""

from __future__ import annotations

import math
import re

import pytest

from tests.fixtures.command import answer
from tests.fixtures.import_graph import ROOT

LAPLACE = "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3"
SMALL_DATA = ("--data", "synthetic:mq2007:20")


def test_one_epsilon_by_its_formulas() -> None:
    found = answer("ceiling --eps 1.2 --prior 0.137 --prior 0.5")
    assert found["scope"] is None
    (row,) = found["results"]
    odds = math.exp(1.2)
    assert row["odds"] == pytest.approx(odds)
    assert [row["auc"], row["accuracy"]] == pytest.approx([odds / (1 + odds)] * 2)
    powers = [row[name] for name in ("tpr_at_01", "tpr_at_1", "tpr_at_10")]
    assert powers == pytest.approx([odds * rate for rate in (0.001, 0.01, 0.1)])
    secrets = {one["prior"]: one["success"] for one in row["secrets"]}
    grown = odds * 0.137 / 0.863
    assert secrets == pytest.approx({0.137: grown / (1 + grown), 0.5: odds / (1 + odds)})
    near = {one["prior"]: one["near"] for one in row["secrets"]}
    assert near == pytest.approx({0.137: odds * 0.137, 0.5: 1 - 0.5 / odds})


def test_the_other_direction() -> None:
    by_auc, by_accuracy = answer("ceiling --auc 0.6 --accuracy 0.75 --delta 0.001")["results"]
    assert by_auc["auc"] == pytest.approx(0.6)
    assert by_accuracy["accuracy"] == pytest.approx(0.75)
    assert (by_auc["delta"], by_auc["given"]) == (0.001, "AUC 0.6")


def test_gaussian_dp() -> None:
    (row,) = answer("ceiling --mu 1")["results"]
    assert row["eps"] is None
    assert row["auc"] == pytest.approx(0.5 * (1 + math.erf(0.5)), abs=1e-4)
    assert row["accuracy"] == pytest.approx(0.5 * (1 + math.erf(0.5 / math.sqrt(2))), abs=1e-4)


def test_a_chain_by_its_proof() -> None:
    found = answer("ceiling --defense", LAPLACE, "--defense", "none", *SMALL_DATA)
    assert (found["scope"]["unit"], found["scope"]["view"]) == ("interaction", "individual")
    laplace, none = found["results"]
    pure = math.exp(1.2) / (1 + math.exp(1.2))
    assert 0.5 < laplace["auc"] < pure, "noise on many coordinates is more private than its pure epsilon"
    assert (none["auc"], none["tpr_at_01"]) == (1, 1)


@pytest.mark.parametrize(
    ("options", "proven"),
    [
        ("--interactions 4", True),
        ("--view individual+lists", True),
        ("--view individual+lists --interactions 4", False),
        ("--view individual+lists --interactions 4 --rank-with global", True),
        ("--unit client --rounds 3", True),
    ],
)
def test_a_chain_in_another_scope(options: str, proven: bool) -> None:
    (row,) = answer(f"ceiling {options} --defense", LAPLACE, *SMALL_DATA)["results"]
    assert (row["auc"] < 1) == proven


def test_more_rounds_promise_less() -> None:
    asked = ("ceiling --unit client --defense", LAPLACE, *SMALL_DATA, "--rounds")
    one, three = (answer(*asked, n)["results"][0]["auc"] for n in (1, 3))
    assert one < three < 1


def test_the_odds_of_the_page_are_those_of_epsilon() -> None:
    """The beliefs that a factor of e^eps on prior odds of 1 to 9 and 1 to 1 leads to."""
    text = (ROOT / "docs" / "epsilon-and-auc.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| ([\d.]+) \| ([\d.]+) to 9 \| (\d+) % \| (\d+) % \|$", text, re.MULTILINE)
    assert len(lines) == 5
    for eps, odds, tenth, half in lines:
        factor = math.exp(float(eps))
        assert float(odds) == pytest.approx(factor, rel=5e-3)
        assert int(tenth) == round(100 * factor / (factor + 9))
        assert int(half) == round(100 * factor / (factor + 1))
