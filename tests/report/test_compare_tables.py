"""The terminal form of a comparison."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from foltr_audit.report.results.compare import CompareReport
from foltr_audit.report.results.compare_rows import ComparedWarningRow
from foltr_audit.report.results.wording import CHOSEN, FIXED, PROMISE, measured
from foltr_audit.report.tables.compare import print_compare, warnings_by_defense
from tests.fixtures.comparisons import Made, against, claim, report, setting, warning, where


def printed(found: CompareReport) -> str:
    """The terminal form in one line."""
    out = io.StringIO()
    print_compare(replace(found, config={"spec": {}}), Console(file=out, width=600))
    return " ".join(out.getvalue().split())


def settings(runs: int) -> list[Made]:
    more: dict[str, Any] = {
        "pdgd": "none",
        "ceiling": 0.9,
        "untrained": 0.2,
        "evaluated_on": "the training split",
        "runs": runs,
    }
    noisy = setting("gaussian", 1.2, **more, **against(-0.1, 0.0321))
    return [setting("none", **more), noisy, setting("b", 2.0, **more, **against(-0.1, 1e-9))]


def test_it_says_what_its_values_are_not() -> None:
    claims = [claim(where("gaussian", 1.2), "proven", delta=1e-5), claim(where("b", 2.0), "refuted")]
    text = printed(report(*settings(1), claims=claims))
    for words in (CHOSEN, FIXED, measured(0.95), "nDCG@10 on the training split"):
        assert words in text
    assert "delta 1e-05" in text
    assert text.count("delta") == 1
    assert "1 run;" in text
    assert "2 runs;" in printed(report(*settings(2)))


def test_what_is_promised_stands_beside_what_is_found() -> None:
    made = [setting("none", ceiling=0.9), setting("laplace", 1.2, auc=0.55, ceiling=0.9, ceiling_auc=0.759)]
    text = printed(report(*made))
    assert " .759 " in text
    assert f"promised: {PROMISE}" in text


def test_its_p_values_are_corrected() -> None:
    text = printed(report(*settings(2)))
    assert "times 2 comparisons" in text
    assert "−.100 .064 " in text  # noqa: RUF001
    assert "−.100 < .001 " in text  # noqa: RUF001


def test_a_warning_is_said_once_with_all_that_it_is_about() -> None:
    def row(alternative: str, eps: float | None, text: str) -> ComparedWarningRow:
        return warning("x", text, eps=eps, alternative=alternative)

    rows = [row("published", 1.2, "w"), row("published", 10.0, "w"), row("published", 10.0, "w")]
    rows += [row("sign", None, "v"), row("b", 2.0, "w")]
    told = [each.text for each in warnings_by_defense(rows)]
    assert told == ["published, eps 1.2, 10; b, eps 2: w", "sign: v"]
