"""The limits of a check, as a file or a table gives them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from foltr_audit.core.settings.audit import AuditView
from foltr_audit.core.settings.base import SpecTable
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.privacy.observer_views import attacked_view
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.reading import toml_table

AUDIT_LIMITS = ("max_measured_eps", "max_exact_eps", "max_proven_eps", "no_refuted_claims")
"""Limits on what an audit finds."""

CEILING = "max_ceiling_auc"
"""The limit on what a proof leaves to attacks; an audit tests whether links do what the proof rests on."""

PROOF_LIMITS = (CEILING, "max_exact_eps", "max_proven_eps", "no_refuted_claims")
"""Limits on what follows from declarations, and is not only observed."""

PRIVACY_LIMITS = ("max_attack_auc", CEILING, *AUDIT_LIMITS)
"""Limits on what a system leaks."""

NAMES = (*PRIVACY_LIMITS, "min_ndcg", "max_ndcg_loss")
"""Every limit, in the order of the report."""


class SystemLimits(SpecTable):
    """Limits of what a system leaks and costs; at least one limit.

    Attributes:
        max_attack_auc: maximum AUC of every attack on clicks. One that knows what the best guess without a
            message knows is as good as this guess under every defense.
        max_ceiling_auc: maximum AUC that the proof of one interaction leaves to any attack on a click.
        max_measured_eps: maximum of the lower bound that the trials of an audit show.
        max_exact_eps: maximum exact loss of the pair that an audit plays.
        max_proven_eps: maximum of the bound that accounting proves for what the audit plays.
        no_refuted_claims: whether every claimed epsilon has to survive its audit, in every audited view.
        min_ndcg: minimum offline nDCG@10.
        max_ndcg_loss: maximum loss of nDCG@10 compared with the same training without a defense.
        view: whose observations the limits on proofs and on epsilons are about.
        use: whether the worse one-sided 95 % bound must hold too, or only the value.
        allow_not_judged: whether a check passes although a limit cannot be judged.
    """

    model_config = ConfigDict(strict=True)

    max_attack_auc: float | None = Field(None, ge=0.5, lt=1)
    max_ceiling_auc: float | None = Field(None, gt=0.5, lt=1)
    max_measured_eps: float | None = Field(None, gt=0)
    max_exact_eps: float | None = Field(None, gt=0)
    max_proven_eps: float | None = Field(None, gt=0)
    no_refuted_claims: bool = False
    min_ndcg: float | None = Field(None, gt=0, le=1)
    max_ndcg_loss: float | None = Field(None, ge=0, lt=1)
    view: AuditView = "individual+lists"
    use: Literal["value", "interval"] = "interval"
    allow_not_judged: bool = False

    @model_validator(mode="after")
    def _require_a_limit(self) -> SystemLimits:
        if not self.given:
            raise ValueError(f"no limit in it; expected at least one of {', '.join(NAMES)}")
        return self

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the limits that were given."""
        values = {name: getattr(self, name) for name in NAMES}
        return tuple(name for name, value in values.items() if value is not None and value is not False)

    def seen_by_server(self, hide: Iterable[str]) -> SystemLimits:
        """The same limits in the view that they name, else in that of a server that gets single messages.

        Under secure aggregation these are masked. The server sees the shown lists too, unless an attack
        protocol hides them (`hide`).
        """
        named = "view" in self.model_fields_set
        return self if named else self.model_copy(update={"view": attacked_view("individual", hide)})

    @property
    def audited(self) -> tuple[str, ...]:
        """Names of the given limits that need an audit."""
        return tuple(name for name in self.given if name in (CEILING, *AUDIT_LIMITS))

    @classmethod
    def parse(
        cls, table: Mapping[str, object], where: str = "limits", names: Mapping[str, str] | None = None
    ) -> SystemLimits:
        """The limits of a plain table; a `UsageError` if it has none, or another field or value."""
        for name in table:
            if name not in cls.model_fields:
                raise UsageError(f"{where}: unknown limit {name!r}; {suggest_name(name, cls.model_fields)}")
        return super().parse(table, where, names)

    @classmethod
    def from_toml(cls, text: str, where: str) -> SystemLimits:
        """The limits of a TOML text."""
        try:
            return cls.parse(toml_table(text, where, UsageError), where)
        except UsageError as error:
            raise UsageError(f"{error}{_hint(text, str(error))}") from error

    def table(self) -> dict[str, JsonValue]:
        """The given limits as a plain table."""
        table = self.model_dump(exclude_none=True)
        return {name: value for name, value in table.items() if value is not False}


def _hint(text: str, error: str) -> str:
    """A hint for a TOML error at a number that begins with a point; else nothing."""
    place = re.search(r"at line (\d+), column (\d+)", error)
    if place is None:
        return ""
    line, column = map(int, place.groups())
    number = re.match(r"([+-]?)(\.\d+)", text.split("\n")[line - 1][column - 1 :])
    return f"; write {number[1]}0{number[2]}" if number else ""
