"""Which defense a comparison recommends, when it recommends none, and what it says of that."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from foltr_audit.core.results import Estimate, GapRecord
from foltr_audit.experiments.decide import ABOVE_GUESS, MOST_AUC, MOST_LOSS, UNBOUNDED, Decision
from foltr_audit.experiments.table import ComparedPool
from foltr_audit.report.compare import CompareReport
from foltr_audit.report.decision import decision_sentences
from tests.fixtures.comparisons import (
    LISTS,
    SUM,
    attack,
    audit,
    beside_guesses,
    checked,
    guesses,
    lost,
    proofs,
    report,
    seen_as,
    setting,
    warned,
)


def decision(found: CompareReport) -> Decision:
    assert found.decision is not None
    return found.decision


def sentences(*pools: ComparedPool) -> list[str]:
    return decision_sentences(decision(report(*pools)))


def chosen(*pools: ComparedPool) -> str:
    found = report(*pools).decision
    return "" if found is None or found.best is None else found.best.name


def audited(verdicts: dict[str, str]) -> dict[str, Any]:
    """The audits of several views."""
    return {"audits": tuple(audit(verdict, view) for view, verdict in verdicts.items())}


NONE = setting("none", auc=0.99, ndcg=0.45)
PROVEN = setting("laplace", 1.2, auc=0.52, ndcg=0.40, **checked("proven"))


def test_the_decision_as_json_names_what_to_use() -> None:
    found = json.loads(report(NONE, PROVEN).json())["decision"]
    assert (found["use"], found["use_with_lists"]) == ("laplace, eps 1.2", "laplace, eps 1.2")
    assert [one["verdict"] for one in found["verdicts"]] == ["leaks", "recommended"]
    assert json.loads(report(NONE).json())["decision"]["use"] is None
    assert json.loads(report().json())["decision"] is None


def unaudited(name: str, eps: float, ndcg: float) -> ComparedPool:
    """A defense of which an epsilon is proven for all rounds, and which was not audited."""
    attacked = proofs(0.7)["proofs"]
    upper = replace(attacked[0].upper, epsilon=eps)
    whole = attacked[0].model_copy(update={"of": "all rounds", "upper": upper})
    return setting(name, 2 * eps, auc=0.52, ndcg=ndcg, proofs=(*attacked, whole))


LARGER = setting("laplace", 10, auc=0.51, ndcg=0.44, **checked("proven", claim=10, proven=10))
LESS_PROVEN = setting("laplace", 10, auc=0.51, ndcg=0.39, **checked("proven", claim=10, proven=0.8))
AS_SAFE = setting("skellam", 1.2, auc=0.5, ndcg=0.39, **checked("proven", proven=1.1999))
SMALL_CLAIM = setting("top-k", 0.1, auc=0.5, ndcg=0.45, **checked("not refuted", claim=0.1))
NO_CLIP = setting("gaussian", auc=0.52, ndcg=0.44, **warned("no clip before the noise", UNBOUNDED))
UNPROVEN = setting("top-k", 1.2, auc=0.51, ndcg=0.45, **checked("not refuted"))
BETTER = setting("skellam", 1.2, auc=0.53, ndcg=0.42, **checked("proven"))
EQUAL = setting("skellam", 1.2, auc=0.51, ndcg=0.40, **checked("proven"))
FEW = replace(PROVEN, attacks=beside_guesses((*guesses(), attack("map", Estimate(0.7, (0.45, 0.95))))))
FALSE = ("refuted", "false by exact loss", "declared law broken", "contradiction")
FALSE_CLAIMS = [setting("published", 1.2, auc=0.5, ndcg=0.45, **checked(verdict)) for verdict in FALSE]


@pytest.mark.parametrize(
    ("pools", "best"),
    [
        ([], ""),
        ([setting("none", auc=0.5, ndcg=0.45)], ""),  # no defense is none, even if no attack succeeds
        *(([NONE, false], "") for false in FALSE_CLAIMS),
        *(([NONE, false, PROVEN], PROVEN.name) for false in FALSE_CLAIMS),
        ([NONE, LARGER], "laplace, eps 10"),
        ([NONE, PROVEN, LARGER], PROVEN.name),  # more nDCG is no reason for a larger epsilon
        ([NONE, PROVEN, LESS_PROVEN], "laplace, eps 10"),  # what is proven comes before what is claimed
        ([NONE, PROVEN, AS_SAFE], PROVEN.name),  # 1.1999 is no safer than 1.2, which is more useful
        ([NONE, PROVEN, SMALL_CLAIM], PROVEN.name),
        ([NONE, unaudited("a", 1.2, 0.41), unaudited("b", 0.6, 0.4)], "b, eps 1.2"),
        ([NONE, setting("gaussian", auc=0.52, ndcg=0.44)], "gaussian"),
        ([NONE, NO_CLIP], ""),  # nothing bounds what the noise has to hide
        ([NONE, NO_CLIP, PROVEN], PROVEN.name),
        ([NONE, UNPROVEN], "top-k, eps 1.2"),
        ([NONE, UNPROVEN, PROVEN], PROVEN.name),  # a proof comes before nDCG
        ([NONE, PROVEN, BETTER], "skellam, eps 1.2"),  # and nDCG before the attack
        ([NONE, PROVEN, EQUAL], "skellam, eps 1.2"),
        ([NONE, FEW], ""),  # an AUC of .7 from .45 to .95 may be good
    ],
)
def test_what_is_recommended(pools: list[ComparedPool], best: str) -> None:
    assert chosen(*pools) == best


@pytest.mark.parametrize(
    ("loss", "width", "judgement"),
    [
        (0.04, 0.005, "holds"), (0.045, 0.01, "cost not known"), (0.055, 0.01, "cost not known"),
        (0.07, 0.01, "costs too much"), (-0.1, 0.2, "cost not known"),
    ],
)  # fmt: skip
def test_a_loss_has_to_be_shown_to_be_within_the_limit(loss: float, width: float, judgement: str) -> None:
    """Whatever its p-value, which says something about a loss of 0."""
    for p in (1e-9, 0.9):
        costly = replace(PROVEN, difference=lost(loss, width, p))
        (_, judged) = decision(report(NONE, costly)).judged
        assert judged.judgement == judgement
        assert (chosen(NONE, costly) == "laplace, eps 1.2") == (judgement == "holds")


def test_the_answer_says_how_many_queries_would_show_what_a_defense_costs() -> None:
    """By the square root of the queries: bounds of .04 to either side of .03 have to halve, of .055 to
    become .005, and of .05 no number would do."""

    def unknown(eps: float, loss: float) -> ComparedPool:
        return setting("laplace", eps, auc=0.52, difference=lost(loss, 0.04), **checked("proven", proven=eps))

    said = sentences(NONE, PROVEN, unknown(0.1, 0.03), unknown(0.2, 0.055), unknown(0.3, MOST_LOSS))
    assert said[0] == "Use laplace, eps 1.2."
    counts = re.findall(r"eps (0\.\d)(?: \(about ([\d,]+)\))?", said[-1])
    assert [eps for eps, _ in counts] == ["0.1", "0.2", "0.3"]
    near, far = (int(count.replace(",", "")) for _, count in counts[:2])
    assert near == pytest.approx(400, rel=0.02)
    assert far == pytest.approx(6400, rel=0.02)
    assert counts[2][1] == ""
    assert "(100 here)" in said[-1]
    assert "Cost not known" not in " ".join(sentences(NONE, PROVEN))


def test_a_defense_must_hold_in_every_world() -> None:
    leaks = setting(
        "laplace", 1.2, auc=0.9, ndcg=0.40, click_model="informational", **checked("proven")
    )  # fmt: skip
    pools = (NONE, PROVEN, setting("none", auc=0.99, ndcg=0.45, click_model="informational"), leaks)
    assert chosen(*pools[:2]) == "laplace, eps 1.2"
    assert chosen(*pools) == ""
    found = decision(report(*pools))
    (laplace,) = (one for one in found.judged if one.name == "laplace, eps 1.2")
    assert laplace.judgement == "leaks"
    assert math.isclose(laplace.auc, 0.9)
    assert {found.judgement(row) for row in report(*pools).results if row["eps"]} == {"leaks"}


def test_rows_of_a_world_stand_together() -> None:
    """Also where a comparison has them apart: all click models of one learner, then those of the next."""
    clicks = ("perfect", "informational")
    found = report(*(setting("none", learner=name, click_model=model) for name in "xy" for model in clicks))
    assert [(row["click_model"], row["learner"]) for row in found.results] == [
        *(("perfect", "x"), ("perfect", "y"), ("informational", "x"), ("informational", "y"))
    ]
    assert [row["learner"] for row in found.curves] == ["x", "x", "y", "y"]


def test_few_lists_are_judged_by_one_sided_bounds() -> None:
    def ends(tail: float) -> tuple[float, float]:
        return (0.5, 0.76 if tail < 0.05 else 0.74)

    few = attack("map", Estimate(0.6, ends))
    pool = replace(PROVEN, attacks=beside_guesses((*guesses(), few)))
    assert pool.attacks[-1].metric("auc").ci95 == (0.5, 0.76)
    assert chosen(NONE, pool) == PROVEN.name


def test_the_thresholds_of_too_few_lists_stand_below_their_table() -> None:
    """Those of other verdicts are in `tests/golden/compare-brief.txt`."""
    few = setting("c", 1.2, attacks=(*guesses(), attack("map", Estimate(0.7, (0.45, 0.95)))))
    below = report(NONE, few).short_answer()
    assert below is not None
    assert below.table is not None
    caption = below.table.caption
    assert f"may be above .{MOST_AUC * 100:g}, and what" in caption
    assert f"adds to the guess above .{ABOVE_GUESS * 10:g}" in caption


def test_an_attack_that_cannot_run_is_named_with_the_server_that_it_would_be_of() -> None:
    refusal = GapRecord(what="refused", method="map", why="it decodes one interaction")
    others = tuple(replace(seen_as(sees, 0.5), gaps=(refusal,)) for sees in (LISTS, SUM))
    found = report(setting("none", others=others)).refused
    assert [(row["method"], row["view"]) for row in found] == [
        ("map", "individual+lists"),
        ("map", "aggregate"),
    ]
