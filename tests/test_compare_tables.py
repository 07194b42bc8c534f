"""The terminal form of a comparison."""

from __future__ import annotations

from foltr_audit.report.compare_tables import warnings_by_defense


def test_a_warning_is_said_once_with_all_that_it_is_about() -> None:
    def row(alternative: str, eps: float | None, warning: str) -> dict[str, object]:
        return {"alternative": alternative, "eps": eps, "warning": warning}

    rows = [row("published", 1.2, "w"), row("published", 10.0, "w"), row("published", 10.0, "w")]
    rows += [row("sign", None, "v"), row("b", 2.0, "w")]
    assert warnings_by_defense(rows) == ["published, eps 1.2, 10; b, eps 2: w", "sign: v"]
