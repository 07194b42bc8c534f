"""Files of limits: what they may say, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from foltr_audit.errors import UsageError
from foltr_audit.evidence.check.limits import AUDIT_LIMITS, NAMES, SystemLimits

PAGE = Path(__file__).resolve().parents[2] / "docs" / "check.md"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no limit in it"),
        ('view = "aggregate"', "no limit in it"),
        ("no_refuted_claims = false", "no limit in it"),
        ("max_atack_auc = 0.6", "did you mean 'max_attack_auc'"),
        ("max_attack_auc = 0.4", "greater than or equal to 0.5"),
        ("max_attack_auc = 1", "less than 1"),
        ("max_attack_auc = nan", "max_attack_auc"),
        ("max_ceiling_auc = 0.5", "greater than 0.5"),
        ("max_ceiling_auc = 1", "less than 1"),
        ("max_proven_eps = inf", "finite"),
        ("max_proven_eps = 0", "greater than 0"),
        ("max_measured_eps = -1", "greater than 0"),
        ('max_measured_eps = "1"', "valid number"),
        ("max_measured_eps = true", "valid number"),
        ("no_refuted_claims = 1", "valid boolean"),
        ("min_ndcg = 1.1", "less than or equal to 1"),
        ("max_ndcg_loss = -0.1", "greater than or equal to 0"),
        ('min_ndcg = 0.3\nview = "server"', "view=server"),
        ('min_ndcg = 0.3\nuse = "median"', "use=median"),
        ("min_ndcg = [0.3]", "valid number"),
        ("min_ndcg = ", "not TOML"),
        ("[limits]\nmin_ndcg = 0.3", "unknown limit 'limits'"),
        (f"min_ndcg = {'9' * 5000}", "not TOML"),
    ],
)
def test_what_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)) as refused:
        SystemLimits.from_toml(text, "limits.toml")
    assert str(refused.value).startswith("limits.toml: ")


def test_given_limits_in_their_order_and_as_a_table() -> None:
    limits = SystemLimits.from_toml('min_ndcg = 0.3\nmax_proven_eps = 2\nuse = "value"', "")
    assert limits.given == ("max_proven_eps", "min_ndcg")
    assert limits.audited == ("max_proven_eps",)
    assert limits.table() == {"max_proven_eps": 2.0, "min_ndcg": 0.3, "view": "individual", "use": "value"}
    assert SystemLimits.parse(limits.table(), "") == limits


def test_no_loss_at_all_is_a_limit() -> None:
    limits = SystemLimits.from_toml("max_ndcg_loss = 0", "")
    assert limits.given == ("max_ndcg_loss",)
    assert limits.table()["max_ndcg_loss"] == 0.0


def test_every_field_is_a_limit_or_says_how_limits_are_meant() -> None:
    assert set(SystemLimits.model_fields) == {*NAMES, "view", "use"}
    assert set(AUDIT_LIMITS) < set(NAMES)


def test_the_limits_of_the_documentation_are_limits_all_of_them() -> None:
    shown = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    limits = SystemLimits.from_toml(shown[0], "docs/check.md")
    assert limits.given == NAMES
    assert (limits.view, limits.use) == (SystemLimits.model_fields["view"].default, "interval")
