"""Limits: what their files say, which hold, which are broken, and which cannot be judged."""

from __future__ import annotations

import math
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.core.records.view import KNOWLEDGE
from foltr_audit.core.results import UNKNOWN, Estimate
from foltr_audit.core.warning_kinds import WARNINGS, CodedWarning
from foltr_audit.errors import ContradictionError
from foltr_audit.evidence.check.limits import NAMES, SystemLimits
from foltr_audit.evidence.check.outcomes import CheckSubject, outcomes
from foltr_audit.experiments.table import NOT_TESTED, over_queries
from foltr_audit.privacy.observer_views import VIEWS
from tests.fixtures.check_subjects import attack, claim, judged, line, proof, subject
from tests.fixtures.comparisons import lost

UNIT = st.floats(0.5, 0.99)
NUMBER = {"max_attack_auc": 0.7, "min_ndcg": 0.4, "max_ndcg_loss": 0.1}
ENDS = {"max_attack_auc": 0.8, "min_ndcg": 0.3, "max_ndcg_loss": 0.1 + 0.05}
STRONG = attack("a", 0.9, (0.9, 0.9))
EPS = {"max_measured_eps": 0.5, "max_exact_eps": 0.75, "max_proven_eps": 1.0}


@pytest.mark.parametrize("limit", [*NUMBER, *EPS])
def test_the_edge_holds_and_the_next_number_does_not(limit: str) -> None:
    edge = {**NUMBER, **EPS}[limit]
    beyond = math.nextafter(edge, 1 if limit == "min_ndcg" else 0)
    assert judged(limit, edge, subject(), use="value").status == "holds"
    assert judged(limit, beyond, subject(), use="value").status == "broken"


@pytest.mark.parametrize("limit", list(NUMBER))
def test_the_worse_end_of_the_interval_holds_too_unless_the_value_is_asked_for(limit: str) -> None:
    edge = ENDS[limit]
    beyond = math.nextafter(edge, 1 if limit == "min_ndcg" else 0)
    assert judged(limit, edge, subject()).status == "holds"
    assert judged(limit, beyond, subject()).status == "broken"
    assert judged(limit, beyond, subject(), use="value").status == "holds"


@given(allowed=UNIT, values=st.lists(st.tuples(UNIT, UNIT, UNIT), min_size=1, max_size=4))
def test_a_gate_on_the_interval_lets_nothing_through_that_one_on_values_stops(
    allowed: float, values: list[tuple[float, float, float]]
) -> None:
    rows = [attack(f"a{i}", v, (min(low, high), max(low, high))) for i, (v, low, high) in enumerate(values)]
    held = subject(attacks=rows)
    strict, loose = (judged("max_attack_auc", allowed, held, use=use).status for use in ("interval", "value"))
    assert loose == ("broken" if any(v > allowed for v, _, _ in values) else "holds")
    assert strict == ("broken" if any(max(one) > allowed for one in values) else "holds")


def test_the_attack_with_the_worst_end_is_told_and_not_the_one_with_the_best_value() -> None:
    rows = [attack("sure", 0.70, (0.69, 0.71)), attack("wide", 0.65, (0.5, 0.8))]
    told = judged("max_attack_auc", 0.75, subject(attacks=rows))
    assert (told.status, told.value) == ("broken", 0.65)
    assert told.about == "attack wide, with the highest upper bound of sure and wide"
    by_value = judged("max_attack_auc", 0.75, subject(attacks=rows), use="value")
    assert by_value.about == "attack sure, with the highest AUC of sure and wide"
    assert told.attacks == ("sure", "wide")


OLSR, NO_AUC = attack("olsr", 0.5, None), attack("olsr", None, None)
NO_LAW, NOT_EXACT = {"map": "no law"}, claim(unit="client", exact=None)
CANARIES = subject(audits=[claim(), claim(canary="data:no-click", most=0.8)])
ON_SUM = subject(audits=[claim("aggregate")])
UNTESTED: dict[str, Any] = {"audits": [], "missing": {"links": "foltr-es sends metrics"}}
VOIDED = [CodedWarning("FA109", "toy: no")]


@pytest.mark.parametrize(
    ("limit", "allowed", "held", "told"),
    [
        ("max_attack_auc", 0.9, subject(attacks=[]), "no attack was run"),
        ("max_attack_auc", 0.9, subject(attacks=[], refused=NO_LAW), "map: no law"),
        ("max_attack_auc", 0.9, subject(refused=NO_LAW), "map: no law"),
        ("max_attack_auc", 0.9, subject(attacks=[NO_AUC]), "no attacked list"),
        ("max_attack_auc", 0.9, subject(attacks=[attack("olsr", math.nan, None)]), "no attacked list"),
        ("max_attack_auc", 0.9, subject(attacks=[OLSR]), "no interval"),
        ("max_attack_auc", 0.9, subject(attacks=[STRONG, NO_AUC]), "no att"),
        ("min_ndcg", 0.9, subject(ndcg=UNKNOWN, missing={"ndcg": "no metrics"}), "no metrics"),
        ("min_ndcg", 0.9, subject(ndcg=UNKNOWN), "no value"),
        ("min_ndcg", 0.9, subject(ndcg=Estimate(0.9)), "no interval"),
        ("max_ndcg_loss", 0.9, subject(difference=NOT_TESTED, missing={"loss": "no twin"}), "no twin"),
        ("max_ndcg_loss", 0.9, subject(difference=over_queries(*np.full((2, 2), 0.5))), "2 queries have"),
        ("max_proven_eps", 0.9, subject(audits=[], missing={"audits": "metrics"}), "metrics"),
        ("max_proven_eps", 0.9, ON_SUM, "no audit where the server sees the mess"),
        ("max_proven_eps", 9.0, subject(audits=[], warnings=VOIDED), "FA109: toy: no; no audit was run"),
        ("max_measured_eps", 0.9, subject(audits=[]), "no audit was run"),
        ("max_exact_eps", 0.9, subject(audits=[NOT_EXACT]), "not computable"),
        ("max_exact_eps", 6.0, subject(audits=[claim(exact=5.0), NOT_EXACT]), "not computable"),
        ("max_measured_eps", 0.9, subject(audits=[claim(most=0.8)]), "at most 0.8"),
        ("max_measured_eps", 0.9, CANARIES, "at most 0.8"),
        ("max_ceiling_auc", 0.9, subject(proof=None, missing={"proof": "no Spec"}), "no Spec"),
        (
            "max_ceiling_auc", 0.9, subject(**UNTESTED),
            "no audit tested the links that the proof rests on: foltr-es sends metrics",
        ),
        ("no_refuted_claims", True, subject(audits=[claim(claim=None, verdict="not refuted")]), "claim"),
        (
            "no_refuted_claims", True, ON_SUM,
            "nothing is claimed where the server sees the message and lists; claimed: sum",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_says_what_is_missing(
    limit: str, allowed: Any, held: CheckSubject, told: str
) -> None:
    found = judged(limit, allowed, held)
    assert found.status == "not judged"
    assert told in found.missing
    assert told in line(found)


@pytest.mark.parametrize(
    ("limit", "allowed", "held"),
    [
        # What lad would find, that could not run, does not matter where map reads clicks.
        (
            "max_attack_auc",
            0.9,
            subject(attacks=[attack("map", 0.99, (0.9, 1.0)), OLSR], refused={"lad": "no"}),
        ),
        ("max_exact_eps", 4.0, subject(audits=[claim(exact=5.0), NOT_EXACT])),
        ("max_measured_eps", 0.8, subject(audits=[claim(measured=0.9), claim(measured=0.1, most=0.7)])),
        ("max_proven_eps", 0.9, subject(warnings=VOIDED, proof=proof(1.0))),
        ("max_ceiling_auc", 0.9, subject(warnings=VOIDED, proof=proof(1.0))),
        ("max_ceiling_auc", 0.9, subject(proof=proof(1.0), **UNTESTED)),
        ("no_refuted_claims", True, subject(audits=[claim(), claim("aggregate", verdict="refuted")])),
    ],
)
def test_a_broken_limit_is_broken_whatever_else_cannot_be_judged(
    limit: str, allowed: Any, held: CheckSubject
) -> None:
    assert judged(limit, allowed, held).status == "broken"


def test_what_need_not_be_there_is_not_missed() -> None:
    unchosen = subject(refused=NO_LAW, all_attacks=False)
    assert judged("max_attack_auc", 0.9, unchosen).status == "holds", "nobody chose map"
    assert judged("max_measured_eps", 0.7, CANARIES).status == "holds", "the lowest ceiling is above"
    assert judged("no_refuted_claims", True, ON_SUM, view="aggregate").status == "holds"
    open_ = [claim(verdict="not refuted")]
    assert judged("no_refuted_claims", True, subject(audits=open_)).value == "not refuted"


@pytest.mark.parametrize(
    ("limit", "attacks", "about"),
    [
        (0.9, [attack("map", 0.7, (0.6, 0.8), lists=14)], "attack map, the only one that ran, only 14 lists"),
        (
            0.75, [attack("wide", 0.9, (0.8, 1.0)), attack("sure", 0.97, (0.9, 1.0))],
            "attack sure, with the highest upper bound of wide and sure",
        ),
    ],
)  # fmt: skip
def test_the_attack_that_counts_is_told(limit: float, attacks: list[Any], about: str) -> None:
    """Of intervals that end alike it is the one with the best value."""
    assert judged("max_attack_auc", limit, subject(attacks=attacks)).about == about


def test_the_worst_of_several_units_counts_and_only_of_the_view_that_is_meant() -> None:
    rows = [claim(), claim(unit="client", proven=math.inf, measured=4.0, exact=9.0)]
    rows += [claim("aggregate", proven=20.0, measured=20.0, exact=20.0)]
    held = subject(audits=rows)
    found = {name: judged(name, 8.0, held) for name in EPS}
    assert found["max_proven_eps"].status == "broken"
    assert ": ∞; at most 8 allowed; " in line(found["max_proven_eps"])
    assert found["max_exact_eps"].value == 9.0
    assert "client" in found["max_exact_eps"].about
    assert found["max_measured_eps"].status == "not judged"  # its 100 trials show 5 at most
    assert judged("max_measured_eps", 4.5, held).status == "holds"
    assert judged("max_measured_eps", 3.0, held).value == 4.0
    assert judged("max_proven_eps", 8.0, held, view="aggregate").value == 20.0


def test_the_auc_that_a_proof_leaves_to_attacks() -> None:
    assert judged("max_ceiling_auc", 0.77, subject()).status == "holds"
    found = judged("max_ceiling_auc", 0.76, subject())
    assert (found.status, found.value, found.interval) == ("broken", 0.77, None)
    assert line(found).endswith(": .770; at most .76 allowed; message and lists, one interaction: by a toy")
    held = subject(proof=proof(1.0, "aggregate", "no noise"))
    nothing = judged("max_ceiling_auc", 0.999, held, view="aggregate")
    assert (nothing.status, nothing.value) == ("broken", 1.0)
    assert "nothing is proven: no noise" in line(nothing)


@pytest.mark.parametrize("verdict", ["refuted", "false by exact loss"])
def test_a_false_claim_in_any_view_breaks_the_limit(verdict: str) -> None:
    rows = [claim(), claim("aggregate", verdict=verdict, why="a toy says so")]
    found = judged("no_refuted_claims", True, subject(audits=rows))
    assert (found.status, found.value, found.allowed) == ("broken", verdict, None)
    assert "sum" in found.about


def test_every_limit_is_held_against_every_subject() -> None:
    table = dict.fromkeys((*NUMBER, *EPS, "max_ceiling_auc"), 0.7) | {"no_refuted_claims": True}
    found = outcomes(SystemLimits.parse(table, ""), [subject(), subject(name="other")])
    pairs = product(("toy, perfect clicks", "other"), NAMES)
    assert [(one.subject, one.limit) for one in found] == list(pairs)


def test_only_a_measured_epsilon_has_an_interval_up_to_what_is_proven() -> None:
    told = {name: judged(name, 2.0, subject()).interval for name in EPS}
    assert told == {"max_measured_eps": (0.5, 1.0), "max_exact_eps": None, "max_proven_eps": None}
    nothing = judged("max_measured_eps", 2.0, subject(audits=[claim(proven=math.inf)]))
    assert ": 0.5 [0.5, ∞]; at most 2 allowed; " in line(nothing)


def test_a_loss_that_is_not_shown_to_be_within_its_limit_is_told_with_the_queries_that_would_show_it() -> (
    None
):
    """By the square root of n for the bounds of `lost`: from .15 to .12 takes (5 / 2)^2 times as many."""
    told = judged("max_ndcg_loss", 0.12, subject())
    assert told.status == "broken"
    assert told.interval == pytest.approx((0.05, 0.15))
    count = re.search(r"about ([\d,]+) queries would settle it, instead of 100", line(told))
    assert count is not None
    assert int(count[1].replace(",", "")) == pytest.approx(625, rel=0.02)
    for limit in (0.04, 0.16):
        assert "would settle" not in line(judged("max_ndcg_loss", limit, subject()))


def test_no_zero_is_negative() -> None:
    held = subject(difference=lost(-0.0004, 0.0008))
    assert "toy, perfect clicks: .000 [-.001, .000];" in line(judged("max_ndcg_loss", 0.1, held))


LOOSE = {**NUMBER, **EPS, "max_ceiling_auc": 0.77, "no_refuted_claims": True}
SINGLE = [view for view in VIEWS if not view.startswith("aggregate")]
VOID = {"FA102": SINGLE, "FA103": [view for view in VIEWS if "lists" in view], "FA109": list(VIEWS)}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("code", [code for code in WARNINGS if code < "FA2"])
def test_no_proof_counts_where_declarations_contradict_it(code: str, view: str) -> None:
    warnings = [CodedWarning("FA101", "other"), CodedWarning(code, "toy: no")]
    held = subject(proof=proof(view=view), audits=[claim(view)], warnings=warnings)
    for limit, allowed in LOOSE.items():
        found = judged(limit, allowed, held, view=view, use="value")
        proven = limit in ("max_ceiling_auc", "max_exact_eps", "max_proven_eps", "no_refuted_claims")
        if proven and view in VOID.get(code, ()):
            assert (found.status, found.missing) == ("not judged", f"{code}: toy: no")
            assert found.value is not None
        else:
            assert found.status == "holds"


def test_a_proven_claim_names_the_largest_epsilon_that_is_proven() -> None:
    rows = [claim(proven=2.0), claim(unit="click", proven=500.0), claim("aggregate", proven=900.0)]
    assert judged("no_refuted_claims", True, subject(audits=rows)).value == "proven, epsilon 500"
    rows.append(claim(canary="data:lists", verdict="not refuted", proven=1.0))
    assert judged("no_refuted_claims", True, subject(audits=rows)).value == "not refuted"


def test_texts_of_a_stored_comparison_cannot_steer_a_terminal() -> None:
    rows = [claim(why="from right to left \u202e", verdict="not refuted")]
    found = judged("no_refuted_claims", True, subject(audits=rows, name="red \x1b[31m"))
    assert all(text.isprintable() for text in found if isinstance(text, str))


def test_a_contradiction_is_no_outcome() -> None:
    rows = [claim(), claim("aggregate", verdict="contradiction", why="a toy says so")]
    with pytest.raises(ContradictionError, match="toy, sum, one interaction: contradiction: a toy says so"):
        judged("min_ndcg", 0.1, subject(audits=rows))


# --- files of limits ------------------------------------------------------------------------------


PAGE = Path(__file__).resolve().parents[2] / "docs" / "check.md"


def test_given_limits_in_their_order_and_as_a_table() -> None:
    limits = SystemLimits.from_toml('min_ndcg = 0.3\nmax_proven_eps = 2\nuse = "value"', "")
    assert limits.given == ("max_proven_eps", "min_ndcg")
    assert limits.audited == ("max_proven_eps",)
    shown = {"view": "individual+lists", "use": "value"}
    assert limits.table() == {"max_proven_eps": 2.0, "min_ndcg": 0.3, **shown}
    assert SystemLimits.parse(limits.table(), "") == limits


@given(hide=st.sets(st.sampled_from(sorted(KNOWLEDGE))), named=st.none() | st.sampled_from(sorted(VIEWS)))
def test_the_view_is_the_named_one_or_all_that_a_spec_does_not_hide(
    hide: set[str], named: str | None
) -> None:
    limits = SystemLimits.parse({"max_proven_eps": 2.0} | ({} if named is None else {"view": named}), "")
    blind = "shown" in hide or "query" in hide  # who does not know the query does not know its documents
    seen = "individual" if blind else "individual+lists"
    assert limits.seen_by_server(hide).view == (named or seen)


def test_no_loss_at_all_is_a_limit() -> None:
    limits = SystemLimits.from_toml("max_ndcg_loss = 0", "")
    assert (limits.given, limits.table()["max_ndcg_loss"]) == (("max_ndcg_loss",), 0.0)


def test_the_limits_of_the_documentation_are_limits_all_of_them() -> None:
    shown = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    limits = SystemLimits.from_toml(shown[0], "docs/check.md")
    assert limits.given == NAMES
    assert (limits.view, limits.use) == (SystemLimits.model_fields["view"].default, "interval")
