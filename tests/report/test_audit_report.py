"""The answer of an audit: its sentences quote numbers of its table, and say each claim once."""

from __future__ import annotations

import math
from typing import Any

import pytest

from foltr_audit.core.results import AuditRecord, DataRecord, LowerBound
from foltr_audit.errors import ContradictionError
from foltr_audit.privacy.bounds import RunBound, UpperBound
from foltr_audit.report.audit import AuditReport, conclusions, finding_row
from foltr_audit.report.documents import Row
from foltr_audit.report.settings import Setting, dataset_row

DATA = DataRecord(
    source="synthetic:mq2007", synthetic=True, normalised="zscore", features=46, fold=0, fingerprint=""
)


def lower(epsilon: float) -> LowerBound:
    return LowerBound(
        estimator="one-run", epsilon=epsilon, ceiling=5.0, confidence=0.95, delta=0.0, trials=300
    )


def finding(
    verdict: str,
    view: str = "individual",
    *,
    shown: float = 1.0,
    exact: float | None = None,
    claim: float | None = 1.2,
    **more: Any,
) -> Row:
    upper = UpperBound(epsilon=math.inf, delta=0.0, how="nothing randomises")
    run = RunBound(unit="client", rounds=2, sampled=1.0, upper=upper, always=upper)
    values: dict[str, Any] = {
        "unit": "interaction", "canary": "data:worst", "colluders": None, "pair": "two lists",
        "model": "first", "interactions": 4, "messages": 1, "upper": upper, "whole_run": run,
        "delta": 0.0, "score": "likelihood", "why": "because", "declared": "as declared", "declared_why": "",
    }  # fmt: skip
    bound = lower(shown)
    found = {"verdict": verdict, "view": view, "exact": exact, "claim": claim, "lower": bound}
    record = AuditRecord(**{**values, **found, "estimates": (bound,), **more})
    setting = Setting(
        trained_on="perfect", eps_claimed=1.2, defense="published", learner="fpdgd", pdgd="pham-2022"
    )
    return finding_row(record, setting, 0)


def report(*rows: Row) -> AuditReport:
    return AuditReport(config={"seed": 1}, dataset=dataset_row([DATA]), utility=(), results=rows)


def test_one_sentence_on_a_claim_quotes_the_table() -> None:
    rows = [
        finding("refuted", shown=4.7, exact=math.inf),
        finding("refuted", "aggregate", shown=1.74, exact=7.27),
        finding("refuted", "aggregate+lists", shown=3.456),
        finding("not refuted", "colluding"),
        finding("proven", "colluding+lists"),
    ]
    answer = report(*rows).short_answer()
    assert answer.conclusion == (
        "The claim of 1.2 for one interaction is false where the server sees the message (no finite epsilon "
        "holds, by the exact loss); false where the server sees the sum (at least 7.27 is lost, by the exact "
        "loss); false where the server sees the sum and lists (at least 3.46 is lost, by the lower bound); "
        "neither proven nor refuted where the server sees the messages of all other clients; proven where "
        "the server sees the lists and the messages of all other clients.",
    )
    table = answer.table
    assert table is not None
    assert table.title == "epsilon of one message of 4 interactions, for one interaction"
    cells = [[cell.text for cell in line.cells] for line in table.lines]
    assert cells[:3] == [
        ["message", "1.2", "∞", "∞", "4.7", "refuted"],
        ["sum", "1.2", "∞", "7.27", "1.74", "refuted"],
        ["sum and lists", "1.2", "∞", "-", "3.46", "refuted"],
    ]
    assert "refuted: the lower bound is above the claim" in table.caption
    assert "false by exact loss" not in table.caption


def test_the_worst_canary_of_an_observer_counts() -> None:
    rows = [
        finding("not refuted", canary="data:typical"),
        finding("false by exact loss", exact=2.5),
        finding("refuted", shown=1.9, unit="client", claim=1.5),
    ]
    assert conclusions(rows) == [
        "The claim of 1.2 for one interaction is false where the server sees the message (at least 2.5 is "
        "lost, by the exact loss).",
        "The claim of 1.5 for one client is false where the server sees the message (at least 1.9 is lost, "
        "by the lower bound).",
    ]


def test_what_is_not_claimed_and_what_is_broken() -> None:
    nothing = finding("not refuted", claim=None)
    broken = finding("declared law broken", "aggregate", why="no proof holds")
    assert conclusions([nothing, broken]) == [
        "Not proven where the server sees the sum: no proof holds.",
        "Nothing is claimed where the server sees the message; --claim E (and --delta D) states a "
        "claim to check.",
    ]
    table = report(nothing).short_answer().table
    assert table is not None
    assert [cell.text for cell in table.lines[0].cells] == ["message", "-", "∞", "-", "1", "no claim"]


@pytest.mark.parametrize("whole", [False, True])
def test_claims_that_differ_have_columns(whole: bool) -> None:
    found = report(finding("refuted"), finding("refuted", unit="client", canary="message"))
    text = found.summary(full=whole)
    assert "unit" in text
    assert "canary" in text
    assert "repetition" not in text


def test_whether_claims_hold() -> None:
    assert report(finding("not refuted")).holds()
    assert not report(finding("not refuted")).holds(require_proof=True)
    assert not report(finding("refuted")).holds()
    with pytest.raises(ContradictionError, match="published, message, one interaction: contradiction"):
        report(finding("contradiction")).holds()
