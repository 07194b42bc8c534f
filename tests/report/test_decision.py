"""Which defense a comparison recommends, and when it recommends none."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from foltr_audit.core.results import Estimate
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import ComparedAttackRow, CompareRow
from foltr_audit.report.results.decision import MOST_LOSS, UNBOUNDED, Decision, decide, json_with_decision
from tests.fixtures.comparisons import checked, report, run_bound, setting, warning


def decision(found: CompareReport) -> Decision:
    made = decide(found)
    assert made is not None
    return made


def chosen(found: CompareReport) -> str:
    best = decision(found).best
    return "" if best is None else best.name


def audited(verdicts: dict[str, str]) -> dict[str, Any]:
    """The audits of several views."""
    found = {}
    for view, verdict in verdicts.items():
        (found[view],) = checked(verdict)["audits"].values()
    return {"audits": found}


def with_rows(found: CompareReport, **changes: dict[str, Any]) -> CompareReport:
    """The report with other values in the rows of these defenses."""

    def row(one: CompareRow) -> CompareRow:
        return replace(one, **changes.get(one.setting.alternative, {}))

    return replace(found, results=tuple(map(row, found.results)))


NONE = setting("none", auc=0.99, ndcg=0.45)
PROVEN = setting("laplace", 1.2, auc=0.52, ndcg=0.40, **checked("proven"))


def test_a_proven_defense_under_which_attacks_fail_is_recommended() -> None:
    found = decision(report(NONE, PROVEN))
    assert found.best is not None
    assert found.best.name == "laplace, eps 1.2"
    assert found.sentences[0] == "Use laplace, eps 1.2."
    proof = "and epsilon 1.2 is proven for one interaction; for one client over 20 rounds nothing is."
    assert f"(AUC .520, .50 to .54), {proof}" in found.sentences[1]
    assert found.sentences[-1].startswith("Not tested: ")
    assert "since no audit was run" not in found.sentences[-1]
    judged = {one.name: one.judgement for one in found.judged}
    assert judged == {"none": "leaks", "laplace, eps 1.2": "holds"}


def test_the_bound_of_a_run_stands_beside_that_of_an_interaction() -> None:
    (audit,) = checked("proven")["audits"].values()
    bounded = {"individual": replace(audit, run=run_bound(6.1))}
    found = decision(report(NONE, setting("laplace", 1.2, auc=0.52, ndcg=0.40, audits=bounded)))
    assert found.sentences[1].endswith("for one interaction; for one client over 20 rounds epsilon 6.1.")


def test_what_secure_aggregation_needs_is_counted_in_clients() -> None:
    """More than half of the cohort, unless the defense sets another threshold."""
    chain = "secure-aggregation"
    found = report(NONE, setting("skellam", 1.2, auc=0.52, ndcg=0.44, **checked("proven")))
    found = replace(found, config={"spec": {"population": {"clients": 400, "cohort": 20}}})

    def needs(defense: str) -> str:
        named = replace(found.results[1].setting, defense=defense)
        return decision(with_rows(found, skellam={"setting": named})).sentences[2]

    assert needs(chain).endswith("of a round, each sum with at least 11 of 20 clients.")
    assert "at least 15 of 20 clients" in needs(f"{chain}:threshold=15")


def test_the_decision_as_json_names_what_to_use() -> None:
    found = json.loads(json_with_decision(report(NONE, PROVEN)))["decision"]
    assert (found["use"], found["use_with_lists"]) == ("laplace, eps 1.2", "laplace, eps 1.2")
    assert [one["verdict"] for one in found["verdicts"]] == ["leaks", "recommended"]
    assert json.loads(json_with_decision(report(NONE)))["decision"]["use"] is None
    assert json.loads(json_with_decision(replace(report(NONE), results=())))["decision"] is None


def test_no_defense_is_never_recommended_even_if_no_attack_succeeds() -> None:
    assert chosen(report(setting("none", auc=0.5, ndcg=0.45))) == ""


@pytest.mark.parametrize(
    "verdict", ["refuted", "false by exact loss", "declared law broken", "contradiction"]
)
def test_a_false_claim_is_never_recommended(verdict: str) -> None:
    false = setting("published", 1.2, auc=0.5, ndcg=0.45, **checked(verdict))
    found = decision(report(NONE, false))
    assert found.best is None
    assert found.sentences == ["Use none of these defenses: the claim is false for published, eps 1.2."]
    assert chosen(report(NONE, false, PROVEN)) == "laplace, eps 1.2"


def test_of_several_that_hold_the_smallest_epsilon_is_recommended() -> None:
    """A larger epsilon promises less, and a thousandth of nDCG is no reason for it."""
    larger = setting("laplace", 10, auc=0.51, ndcg=0.41, **checked("proven", claimed=10))
    assert chosen(report(NONE, larger)) == "laplace, eps 10"
    assert chosen(report(NONE, PROVEN, larger)) == "laplace, eps 1.2"


def test_noise_without_a_clip_is_never_recommended() -> None:
    """However well it hides clicks in this sample: nothing bounds what it has to hide."""
    noise = setting("gaussian", auc=0.52, ndcg=0.44)
    found = report(NONE, noise)
    assert chosen(found) == "gaussian"
    warned = [warning("gaussian", "no clip before the noise")]
    assert warned[0].code == UNBOUNDED
    found = replace(found, warnings=warned)
    assert chosen(found) == ""
    assert "not computed for what the clip allows under gaussian" in decision(found).sentences[0]
    assert chosen(replace(report(NONE, noise, PROVEN), warnings=warned)) == "laplace, eps 1.2"


def test_where_nothing_is_proven_with_lists_the_first_sentence_says_so() -> None:
    unproven = {"individual": "proven", "individual+lists": "not refuted"}
    found = decision(report(NONE, setting("skellam", 1.2, auc=0.52, ndcg=0.44, **audited(unproven))))
    start = "Use skellam, eps 1.2, if the server does not see the shown lists."
    assert found.sentences[0] == f"{start} Where it sees them, nothing is proven of it."


def test_a_view_without_a_claim_is_not_proven() -> None:
    views = audited({"individual": "proven", "individual+lists": "not refuted"})
    views["audits"]["individual+lists"] = replace(views["audits"]["individual+lists"], eps_claimed=math.inf)
    hidden = setting("skellam", 1.2, auc=0.52, ndcg=0.44, **views)
    clicks = audited(dict.fromkeys(views["audits"], "proven"))
    found = decision(report(NONE, hidden, setting("click-rr", 2.3, auc=0.53, ndcg=0.40, **clicks)))
    assert found.sentences[0].endswith("shown lists. Where it sees them, use click-rr, eps 2.3.")


def test_a_proof_comes_before_ndcg_and_ndcg_before_the_attack() -> None:
    unproven = setting("top-k", 1.2, auc=0.51, ndcg=0.45, **checked("not refuted"))
    assert chosen(report(NONE, unproven)) == "top-k, eps 1.2"
    assert chosen(report(NONE, unproven, PROVEN)) == "laplace, eps 1.2"
    better = setting("skellam", 1.2, auc=0.53, ndcg=0.42, **checked("proven"))
    assert chosen(report(NONE, PROVEN, better)) == "skellam, eps 1.2"
    equal = setting("skellam", 1.2, auc=0.51, ndcg=0.40, **checked("proven"))
    assert chosen(report(NONE, PROVEN, equal)) == "skellam, eps 1.2"


@pytest.mark.parametrize(
    ("loss", "p", "kept"),
    [(2 * MOST_LOSS, 0.001, False), (2 * MOST_LOSS, 0.4, True), (MOST_LOSS / 2, 0.001, True)],
)
def test_only_a_significant_and_large_loss_costs_too_much(loss: float, p: float, kept: bool) -> None:
    costs = {"ndcg_difference": Estimate(-loss, (-loss - 0.01, -loss + 0.01)), "ndcg_p": p}
    found = with_rows(report(NONE, PROVEN), laplace=costs)
    assert (chosen(found) == "laplace, eps 1.2") == kept
    if not kept:
        assert decision(found).sentences[0].endswith("ranking gets worse under laplace, eps 1.2.")


def test_where_lists_are_seen_another_defense_is_recommended() -> None:
    listed = {"individual": "proven", "individual+lists": "refuted"}
    hidden = setting("skellam", 1.2, auc=0.52, ndcg=0.44, **audited(listed))
    clicks = setting("click-rr", 1.2, auc=0.53, ndcg=0.40, **audited(dict.fromkeys(listed, "proven")))
    alone, both = decision(report(NONE, hidden)), decision(report(NONE, hidden, clicks))
    start = "Use skellam, eps 1.2, if the server does not see the shown lists."
    assert alone.sentences[0] == f"{start} Where it sees them, none of these holds."
    assert both.sentences[0] == f"{start} Where it sees them, use click-rr, eps 1.2."


def test_a_defense_must_hold_in_every_world() -> None:
    perfect = report(NONE, PROVEN)

    def clicks(row: Any) -> Any:
        return replace(row, setting=replace(row.setting, click_model="informational"))

    leaks = report(NONE, setting("laplace", 1.2, auc=0.9, ndcg=0.40, **checked("proven")))
    results = (*perfect.results, *map(clicks, leaks.results))
    both = replace(perfect, results=results, attacks=(*perfect.attacks, *map(clicks, leaks.attacks)))
    assert chosen(perfect) == "laplace, eps 1.2"
    assert chosen(both) == ""
    (laplace,) = (one for one in decision(both).judged if one.name == "laplace, eps 1.2")
    assert laplace.judgement == "leaks"
    assert math.isclose(laplace.auc, 0.9)


def test_nothing_is_decided_without_results() -> None:
    assert decide(replace(report(NONE), results=())) is None


def test_a_server_that_cheats_is_named() -> None:
    honest = report(NONE, PROVEN)
    cheats = replace(honest, config={"spec": {"train": {"server": "saturate"}}})
    assert decision(honest).sentences[-1].endswith("servers that cheat (--server).")
    assert decision(cheats).sentences[-1].endswith("servers other than saturate.")


def test_an_attack_that_may_be_good_on_few_lists_is_no_success_of_a_defense() -> None:
    """An AUC of .7 from .45 to .95 is not shown to beat a guess, and no defense holds by that."""
    few = Estimate(0.7, (0.45, 0.95))
    found = with_rows(report(NONE, PROVEN), laplace={"auc": few})

    def unsure(one: ComparedAttackRow) -> ComparedAttackRow:
        real = one.setting.alternative == "laplace" and not one.baseline
        return replace(one, found=replace(one.found, auc=few)) if real else one

    wide = replace(found, attacks=tuple(map(unsure, found.attacks)))
    assert chosen(wide) == ""
    assert decision(wide).sentences[0].endswith("too few lists were attacked under laplace, eps 1.2.")
