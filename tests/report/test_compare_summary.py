"""The sentences on a comparison: every number is from its rows, and they are right in odd cases too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from foltr_audit.experiments.comparison.grid import GridExclusion
from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import CellCounts
from foltr_audit.report.results.compare_summary import (
    StrongestLeak,
    describe_claims,
    describe_contradictions,
    describe_leaks,
    describe_lost_proofs,
    describe_most_useful,
    find_leaks,
    summarise,
    worlds,
)
from foltr_audit.report.results.decision import decide
from foltr_audit.report.tables.compare import glance_table
from foltr_audit.report.tables.table import Table
from foltr_audit.utils.rows import UNKNOWN, Estimate, ResultRow
from tests.fixtures.comparisons import (
    LEARNER,
    against,
    attack,
    checked,
    claim,
    failed,
    guesses,
    report,
    result,
    setting,
    several,
    unfinished,
    where,
)

R = TypeVar("R", bound=ResultRow)


def glanced(found: CompareReport) -> Table:
    """The table at a glance of the only world."""
    (world,), decision = worlds(found), decide(found)
    assert decision is not None
    return glance_table(world, decision)


def said(found: CompareReport) -> str:
    return " ".join(sentence for one in summarise(found) for sentence in one.sentences)


def changed(rows: Sequence[R], number: int, **values: Any) -> list[R]:
    return [replace(row, **values) if place == number else row for place, row in enumerate(rows)]


def test_what_was_found() -> None:
    text = said(several())
    assert "Defenses: none, published, laplace, skellam. Claimed epsilons: 1.2. On synthetic data" in text
    assert "synthetic data synthetic:mq2007, with perfect clicks. Runs of each: 2." in text
    false = "False: 1 (published, eps 1.2: at least 4.5 measured, from the message)"
    assert f"Checked claims: 2. {false}. Proven: 1 (laplace, eps 1.2)." in text
    assert "under none (AUC .990); published, eps 1.2 (AUC .980)" in text
    assert "Under published, eps 1.2, map recovers 98 % of the clicks, at a precision of 98 %" in text
    assert "under laplace, eps 1.2 (AUC .550); skellam, eps 1.2 (AUC .560)" in text
    assert "skellam, eps 1.2 keeps the most nDCG@10, .440, which is .010 below no defense" in text
    front = "On the front of attack AUC and nDCG@10: none; laplace, eps 1.2; skellam, eps 1.2; "
    assert f"{front}left out for a false claim: 1." in text
    assert "rests on only" not in text


def test_one_that_is_beaten_and_none_on_the_front() -> None:
    beaten = said(report(setting("none", auc=0.99, ndcg=0.45), setting("skellam", 1.2, auc=0.56, ndcg=0.46)))
    assert "nDCG@10: skellam, eps 1.2; dominated by one of these: 1." in beaten
    false = setting("published", 1.2, auc=0.98, ndcg=0.45, **checked("refuted"))
    again = setting("published", 4.5, auc=0.98, ndcg=0.45, **checked("refuted"))
    assert "nDCG@10: no row; left out for a false claim: 2." in said(report(false, again))


def test_a_sum_that_some_runs_lack_is_told() -> None:
    rows = (setting("none", auc=0.99), setting("skellam", 1.2, auc=0.56), setting("guard", auc=None))
    found = report(*rows)
    some = replace(found, results=changed(found.results, 1, runs_without_sum=1))
    text = said(some)
    assert "In 1 of 2 runs under skellam, eps 1.2 no round opens a sum; what attacks find" in text
    assert "nothing to read" not in text
    assert "that is 1 of 2 runs" in " ".join(glanced(some).caption.split())


def test_no_sum_in_any_run_is_no_success_of_zero() -> None:
    found = report(setting("none", auc=0.99, ndcg=0.45), setting("guard", auc=None, ndcg=0.3))
    every = replace(found, results=changed(found.results, 1, runs_without_sum=2))
    text = said(every)
    assert "nothing to read, since no round opens a sum, under guard." in text
    assert "not shown to beat a guess or has nothing to read, guard keeps the most nDCG@10, .300" in text
    assert "None of these defenses keeps" not in text
    (line,) = [line for line in glanced(every).lines if "guard" in str(line[0])]
    assert "no sum" in str(line)


def test_few_attacked_lists_are_told() -> None:
    few = report(setting("none", auc=0.99, lists=14), setting("skellam", 1.2, auc=0.56, lists=11))
    assert "This rests on only 11 to 14 lists." in said(few)


@pytest.mark.parametrize(
    ("kind", "number", "change", "sentence"),
    [
        ("results", 0, {"auc": Estimate(0.971, (0.95, 0.98))}, "none (AUC .971)"),
        ("results", 1, {"recall": Estimate(0.314)}, "recovers 31 % of the clicks"),
        ("results", 1, {"precision": UNKNOWN}, "at a precision of none"),
        ("results", 3, {"ndcg": Estimate(0.4321)}, "nDCG@10, .432"),
        ("results", 3, {"ndcg_difference": Estimate(-0.0201)}, ".020 below no defense"),
        ("results", 3, {"ndcg_difference": Estimate(0.0004)}, "within .001 of no defense"),
        ("results", 3, {"ndcg_p": 0.011}, "a significant difference, p = .033"),
        ("claims", 0, {"eps_lower": 3.21}, "at least 3.21 measured"),
        ("claims", 0, {"verdict": "false by exact loss", "eps_exact": 7.1}, "an exact loss of 7.1,"),
        ("claims", 0, {"verdict": "false by exact loss", "eps_exact": math.inf}, "an infinite exact loss"),
        ("claims", 0, {"verdict": "not refuted"}, "False: none. Proven: 1"),
    ],
)
def test_a_changed_number_changes_the_sentence(
    kind: str, number: int, change: dict[str, Any], sentence: str
) -> None:
    before = several()
    rows: Any = changed(getattr(before, kind), number, **change)
    after = replace(before, **{kind: rows})
    assert sentence not in said(before)
    assert sentence in said(after)


def test_p_values_are_corrected_for_the_tests_of_their_world() -> None:
    (world,) = worlds(several())
    key = (LEARNER, "skellam, eps 1.2")
    assert world.corrected[key] == 1.0  # 3 tests of .4
    assert world.corrected[LEARNER, "laplace, eps 1.2"] == pytest.approx(0.003)
    two = report(
        setting("none"),
        setting("a", **against(-0.1, 0.02)),
        setting("b", click_model="x", **against(0, 0.02)),
    )
    assert [list(one.corrected.values()) for one in worlds(two)] == [[0.02], [0.02]]


# --- what an attack tells ---------------------------------------------------------------------------


def leak(auc: float | None, width: float = 0.02) -> StrongestLeak | None:
    place = where("a", 1.2)
    attacks = [*guesses(place), attack(place, "map", auc, width=width)]
    made = report({"results": [result(place, attacks)], "attacks": attacks, "curves": []})
    (world,) = worlds(made)
    return next(iter(find_leaks(world)), None)


@pytest.mark.parametrize(
    ("auc", "bound"),
    [
        (0.99, None),
        (0.93, "relevance-prior"),
        (0.7, "relevance-prior"),
        (0.63, "position-prior"),
        (0.51, "random:k=3"),
    ],
)
def test_an_attack_is_held_against_guesses_without_a_message(auc: float, bound: str | None) -> None:
    found = leak(auc)
    assert found is not None
    assert (found.bound and found.bound.method) == bound
    assert found.held is (bound in ("position-prior", "random:k=3"))


def test_an_attack_without_an_interval_beats_nothing() -> None:
    place = where("a", 1.2)
    best = attack(place, "map", 0.95)
    best = replace(best, found=replace(best.found, auc=Estimate(0.95)))
    attacks = [*guesses(place), best]
    made = report({"results": [result(place, attacks)], "attacks": attacks, "curves": []})
    (world,) = worlds(made)
    (found,) = find_leaks(world)
    assert not found.held
    assert glanced(made).lines[0].cells[2].mark == ""
    (sentence,) = describe_leaks(world)
    assert "has no interval, so that nothing is shown of it, under a, eps 1.2 (AUC .950)" in sentence
    assert describe_most_useful(world) == ""
    assert leak(None) is None


def test_a_best_attack_at_chance() -> None:
    text = said(report(setting("none", auc=0.51), setting("a", 1.2, auc=0.49, **against(-0.1, 0.5))))
    assert "reads clicks" not in text
    assert "to beat a guess without a message (random)" in text


def test_nothing_holds_the_attack_off() -> None:
    text = said(report(setting("none", auc=1.0), setting("a", 1.2, auc=1.0)))
    assert "None of these defenses keeps the best attack from reading clicks." in text


def test_grades_tell_more_than_the_attack() -> None:
    text = said(report(setting("a", 1.2, auc=0.75)))
    assert (
        "but is not shown to beat a server that knows the grades of the documents (relevance-prior)" in text
    )
    assert "None of these defenses" in text


def test_a_useful_defense_with_a_false_claim_is_not_praised() -> None:
    false = {**against(0.01, 0.5), **checked("refuted")}
    proven = {**against(-0.01, 0.5), **checked("proven")}
    text = said(
        report(
            setting("a", 1.2, auc=0.5, ndcg=0.45, **false), setting("b", 1.2, auc=0.5, ndcg=0.43, **proven)
        )
    )
    assert "a, eps 1.2 keeps the most nDCG@10, .450, which is .010 above no defense" in text
    assert (
        "but its claim is false. Of those with a proven claim, b, eps 1.2 keeps the most nDCG@10, .430"
        in text
    )
    text = said(report(setting("a", 1.2, auc=0.5, **checked("not refuted"))))
    assert "its claim is neither refuted nor proven. None of these has a proven claim." in text


def test_what_claims_nothing_has_no_open_claim() -> None:
    nothing = checked("not refuted", claimed=math.inf)
    proven = {**against(-0.01, 0.5), **checked("proven")}
    best = setting("top-k", auc=0.5, ndcg=0.45, **against(0.01, 0.5), **nothing)
    text = said(report(best, setting("b", 1.2, auc=0.5, ndcg=0.43, **proven)))
    assert "Of the defenses under which it is not shown to beat a guess, top-k keeps the most" in text
    assert "; it makes no claim. Of those with a proven claim, b, eps 1.2 keeps" in text
    assert "neither refuted nor proven" not in text
    alone = said(report(best))
    assert "; it makes no claim." in alone
    assert "proven claim" not in alone


# --- odd comparisons --------------------------------------------------------------------------------


def test_nothing_is_done() -> None:
    empty = report(cells=CellCounts(attack=3, audit=1), unfinished=[unfinished(4, 0)])
    text = said(empty)
    assert text.startswith("No cell of this comparison is done")
    assert "0 of 4 cells are done" in text


def test_unfinished_and_failed_cells_and_combinations_are_counted() -> None:
    found = report(
        setting("none", runs=1),
        cells=CellCounts(attack=5, audit=2),
        unfinished=[unfinished(3, 1), unfinished(1, 0)],
        failed=[failed("x")],
        left_out=[GridExclusion(learner="x", defense="a", why=why) for why in "yz"],
    )
    text = said(found)
    assert "4 of 7 cells are done" in text
    assert "could not be run and are left out (see below): 1." in text
    assert "Combinations that cannot be (see below): 2." in text
    assert "Runs of each: 1, so that no interval here" in text


def test_the_worst_view_of_a_false_claim_is_told() -> None:
    place, loss = where("a", 1.2), "false by exact loss"
    finite = claim(place, loss, exact=5.0)
    infinite = claim(place, loss, exact=math.inf, view="aggregate")
    refuted = claim(place, "refuted", measured=2.0, exact=2.5, view="aggregate+lists")
    worse = claim(place, "refuted", measured=1.9, exact=math.inf)
    for rows, told in (
        ([finite, infinite], "a, eps 1.2: an infinite exact loss, from the sum"),
        ([finite, infinite, refuted], "a, eps 1.2: at least 2 measured, from the sum and lists"),
        ([worse, refuted], "a, eps 1.2: at least 1.9 measured, from the message"),
    ):
        assert told in describe_claims(rows)
        assert told in describe_claims(rows[::-1])


def test_nothing_was_audited_attacked_or_claimed() -> None:
    text = said(report(setting("none", auc=None, ndcg=None), setting("top-k", auc=None)))
    assert "No claim was checked." in text
    assert "No list with a click was attacked" in text
    assert "Claimed epsilons" not in text
    assert "front" not in text
    assert describe_claims([claim(where("none"), "not refuted")]).startswith("No defense claims an epsilon")


def test_without_the_undefended_run_nothing_is_compared_with_it() -> None:
    text = said(report(setting("a", 1.2, auc=0.5)))
    assert "there is no run without a defense to compare it with" in text
    assert "On the front" not in text  # one row is on every front


def test_one_run_of_a_difference_without_a_test() -> None:
    one = setting("a", 1.2, auc=0.5, ndcg_difference=Estimate(-0.1))
    assert "(not tested)" in said(report(setting("none"), one))


def test_several_worlds_and_learners_are_told_apart() -> None:
    found = report(
        setting("none", auc=1.0),
        setting("none", auc=1.0, learner="foltr-es:p=1"),
        setting("none", auc=1.0, click_model="informational"),
    )
    assert [one.world for one in summarise(found)] == ["", "perfect clicks", "informational clicks"]
    assert "foltr-es, none (AUC 1.000)" in said(found)


def test_clients_that_differ() -> None:
    served: dict[str, Any] = {"worst_served_group": "rare", "worst_served_online": 0.21, "groups": 2}
    text = said(
        report(setting("none", **served), setting("a", 1.2, **served | {"worst_served_group": "often"}))
    )
    assert "under none the group 'rare' is served worst (online nDCG@10 .210; of all clients .350)" in text
    assert "so in 1 of 2 rows" in text


def test_long_lists_of_names_are_cut() -> None:
    text = said(report(*(setting(f"d{number}", 1.2, auc=1.0) for number in range(9))))
    assert "d3, eps 1.2 (AUC 1.000); and 5 more" in text


def test_proofs_that_do_not_reach_who_sees_lists_are_told() -> None:
    place, other = where("laplace", 1.2), where("click-rr", 1.2)
    rows = [
        claim(place, "proven"),
        claim(replace(place, eps_claimed=math.inf), "not refuted", view="individual+lists"),
        claim(other, "proven"),
        claim(other, "proven", view="individual+lists"),
    ]
    assert describe_lost_proofs(rows).startswith(
        "Nothing is proven of laplace, eps 1.2 where the server sees"
    )
    assert describe_lost_proofs(rows[2:]) == describe_lost_proofs(rows[:1]) == ""


def test_a_contradiction_is_neither_proof_nor_refutation() -> None:
    rows = [claim(where("laplace", 1.2), "contradiction", exact=2.0), claim(where("b", 1.2), "proven")]
    counts = "Checked claims: 2. False: none. Proven: 1 (b, eps 1.2). Neither: 1;"
    assert counts in describe_claims(rows)
    assert describe_contradictions(rows).startswith(
        "Proof and trials contradict each other for laplace, eps 1.2:"
    )
    assert describe_contradictions(rows[1:]) == ""


def test_a_link_that_does_less_than_it_declares_is_told() -> None:
    (row,) = [claim(where("laplace", 1.2), "declared law broken")]
    told = "False: 1 (laplace, eps 1.2: does less than it declares, from the message)"
    assert told in describe_claims([row])
