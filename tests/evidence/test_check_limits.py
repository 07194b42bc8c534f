"""Files of limits: what they may say, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

from foltr_audit.evidence.check.limits import NAMES, SystemLimits

PAGE = Path(__file__).resolve().parents[2] / "docs" / "check.md"


def test_given_limits_in_their_order_and_as_a_table() -> None:
    limits = SystemLimits.from_toml('min_ndcg = 0.3\nmax_proven_eps = 2\nuse = "value"', "")
    assert limits.given == ("max_proven_eps", "min_ndcg")
    assert limits.audited == ("max_proven_eps",)
    assert limits.table() == {"max_proven_eps": 2.0, "min_ndcg": 0.3, "view": "individual", "use": "value"}
    assert SystemLimits.parse(limits.table(), "") == limits


def test_no_loss_at_all_is_a_limit() -> None:
    limits = SystemLimits.from_toml("max_ndcg_loss = 0", "")
    assert (limits.given, limits.table()["max_ndcg_loss"]) == (("max_ndcg_loss",), 0.0)


def test_the_limits_of_the_documentation_are_limits_all_of_them() -> None:
    shown = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    limits = SystemLimits.from_toml(shown[0], "docs/check.md")
    assert limits.given == NAMES
    assert (limits.view, limits.use) == (SystemLimits.model_fields["view"].default, "interval")
