"""The limits of a check, and what comes of them: each holds, is broken, or cannot be judged on a subject."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from pydantic import ConfigDict, Field, ValidationError, model_validator

from foltr_audit.auditing.verdict import FALSE, refuse_contradiction
from foltr_audit.core.results import Interval
from foltr_audit.core.settings.audit import AuditView
from foltr_audit.core.settings.base import SpecTable
from foltr_audit.core.settings.defaults import VIEW
from foltr_audit.errors import UsageError, first_problem, suggest_name
from foltr_audit.evidence.check.subjects import CheckedAttack, CheckReading, CheckSubject, printable
from foltr_audit.privacy.observer_views import sees, with_article
from foltr_audit.report.results.base import describe_few_lists
from foltr_audit.report.results.compare_rows import ClaimRow
from foltr_audit.report.results.wording import join_names
from foltr_audit.utils.formatting import JsonValue, short
from foltr_audit.utils.reading import toml_table
from foltr_audit.utils.rows import ResultRow

EPS_LIMITS = ("max_measured_eps", "max_exact_eps", "max_proven_eps")
"""Limits on one view of an audit."""

AUDIT_LIMITS = (*EPS_LIMITS, "no_refuted_claims")
"""Limits that need an audit."""

NAMES = ("max_attack_auc", "max_ceiling_auc", *AUDIT_LIMITS, "min_ndcg", "max_ndcg_loss")
"""Every limit, in the order of the report."""


class SystemLimits(SpecTable):
    """Limits of what a system leaks and costs; at least one limit.

    Attributes:
        max_attack_auc: maximum AUC of every attack on clicks; guessing has .5.
        max_ceiling_auc: maximum AUC that the proof of one interaction leaves to any attack on a click.
        max_measured_eps: maximum of the lower bound that the trials of an audit show.
        max_exact_eps: maximum exact loss of the pair that an audit plays.
        max_proven_eps: maximum of the bound that accounting proves for what the audit plays.
        no_refuted_claims: whether every claimed epsilon has to survive its audit, in every audited view.
        min_ndcg: minimum offline nDCG@10.
        max_ndcg_loss: maximum loss of nDCG@10 compared with the same training without a defense.
        view: the view of the three limits on epsilons and of the proof for `max_ceiling_auc`.
        use: whether the worse end of a 95 % interval must hold too, or only the value.
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
    view: AuditView = VIEW
    use: Literal["value", "interval"] = "interval"

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

    @property
    def audited(self) -> tuple[str, ...]:
        """Names of the given limits that need an audit."""
        return tuple(name for name in self.given if name in AUDIT_LIMITS)

    @classmethod
    def parse(cls, table: Mapping[str, object], where: str) -> SystemLimits:
        """The limits of a plain table.

        Raises:
            UsageError: an unknown field, a refused value, or no limit at all.
        """
        for name in table:
            if name not in cls.model_fields:
                raise UsageError(f"{where}: unknown limit {name!r}; {suggest_name(name, cls.model_fields)}")
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            raise UsageError(f"{where}: {first_problem(error)}") from error

    @classmethod
    def from_toml(cls, text: str, where: str) -> SystemLimits:
        """The limits of a TOML text.

        Raises:
            UsageError: it is no TOML, or holds no valid limits.
        """
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


Status = Literal["holds", "broken", "not judged"]


@dataclass(frozen=True, kw_only=True)
class LimitOutcome(ResultRow):
    """The outcome of one limit on one subject.

    Attributes:
        limit: name of the limit.
        subject: name of the subject.
        status: whether the limit holds.
        value: the value of the subject: a number or the verdict on a claim; None if it is unknown.
        interval: the interval of the value; None if it has none.
        allowed: the number in the limit; None for a limit without one.
        about: what the value describes, e.g. the attack.
        attacks: the attacks that ran, for the limit on attacks.
        missing: why the limit cannot be judged.
    """

    limit: str
    subject: str
    status: Status
    value: float | str | None = None
    interval: Interval | None = None
    allowed: float | None = None
    about: str = ""
    attacks: tuple[str, ...] = ()
    missing: str = ""

    @property
    def line(self) -> str:
        """The outcome in one line: limit, subject, value, interval, allowed number, and what it describes."""
        start = f"{self.limit}: {self.subject}"
        if self.status == "not judged":
            return f"{start}: {self.details}"
        value = f"{self.value_text}{self.interval_text(' (', ')')}"
        return f"{start}: {value}; {self.allowed_text} allowed; {self.details}"

    @property
    def details(self) -> str:
        """What the value describes, or why the limit cannot be judged."""
        return self.missing if self.status == "not judged" else self.about

    @property
    def value_text(self) -> str:
        """The value as text."""
        return self.value if isinstance(self.value, str) else self._number(self.value)

    def interval_text(self, before: str = "", after: str = "") -> str:
        """The interval as text between two others; empty if there is none."""
        if self.interval is None:
            return ""
        low, high = (self._number(end) for end in self.interval)
        if self.limit.endswith("_eps"):
            return f"{before}at least {low}{after}"
        return f"{before}{low} to {high}{after}"

    @property
    def allowed_text(self) -> str:
        """The allowed number as text."""
        if self.allowed is None:
            return "none"
        return f"at {'least' if self.limit == 'min_ndcg' else 'most'} {_plain(self.allowed)}"

    def _number(self, value: float | None) -> str:
        if value is None or not self.limit.endswith("_eps"):
            return short(None if value is None else round(value, 3) + 0.0)  # -0.0 + 0.0 is 0.0
        return "inf" if math.isinf(value) else f"{value:.3g}"


def _plain(value: float) -> str:
    return f"{value:g}".replace("0.", ".", 1) if 0 < value < 1 else f"{value:g}"


class _LimitValue(NamedTuple):
    """The value of a subject for a limit.

    Attributes:
        value: the value that is shown.
        judged: the number that is compared with the limit; None if it cannot be judged.
        interval: the interval of the value.
        about: what the value describes.
        missing: why it cannot be judged.
    """

    value: float | str | None = None
    judged: float | None = None
    interval: Interval | None = None
    about: str = ""
    missing: str = ""


def outcomes(limits: SystemLimits, subjects: Sequence[CheckSubject]) -> list[LimitOutcome]:
    """Check every given limit on every subject, subject by subject.

    Raises:
        ContradictionError: the proof and the trials of a claim contradict each other.
    """
    for subject in subjects:
        refuse_contradiction(claim.plain() for claim in subject.claims)
    return [_outcome(name, limits, subject) for subject in subjects for name in limits.given]


def _outcome(name: str, limits: SystemLimits, subject: CheckSubject) -> LimitOutcome:
    given = getattr(limits, name)
    allowed = None if name == "no_refuted_claims" else float(given)
    found = _JUDGES[name](limits, subject)
    status: Status = "not judged"
    if found.judged is not None:
        edge = 0.0 if allowed is None else allowed
        fits = found.judged >= edge if name == "min_ndcg" else found.judged <= edge
        status = "holds" if fits else "broken"
    return LimitOutcome(
        limit=name,
        subject=subject.name,
        status=status,
        value=printable(found.value) if isinstance(found.value, str) else found.value,
        interval=found.interval,
        allowed=allowed,
        about=printable(found.about),
        attacks=tuple(row.method for row in subject.attacks) if name == "max_attack_auc" else (),
        missing=printable(found.missing),
    )


def _read(limits: SystemLimits, reading: CheckReading, about: str, *, high_is_bad: bool) -> _LimitValue:
    """The value of a reading; with `use = "interval"` the worse end of its interval is compared too."""
    value, interval = reading.found.value, reading.found.ci95
    if not reading.found.known:
        return _LimitValue(about=about, missing=reading.missing or f"no value is known: {about}")
    if limits.use == "value":
        return _LimitValue(value, value, interval, about)
    if interval is None:
        why = reading.missing or "fewer than two queries have a value"
        return _LimitValue(
            value, None, None, about, f'no interval: {why}; use = "value" judges the value alone'
        )
    judged = max(value, interval[1]) if high_is_bad else min(value, interval[0])
    return _LimitValue(value, judged, interval, about)


def _attack_auc(limits: SystemLimits, subject: CheckSubject) -> _LimitValue:
    refused = "; ".join(f"{name}: {why}" for name, why in subject.refused.items())
    if not subject.attacks:
        return _LimitValue(
            missing=f"no attack on clicks could run: {refused}" if refused else subject.no_attack
        )
    ran = [row.method for row in subject.attacks]
    others = f"the strongest of {join_names(ran)}" if len(ran) > 1 else "the only one that ran"
    found = [_one_attack(limits, row, others) for row in subject.attacks]
    worst = max(found, key=lambda one: -1.0 if one.judged is None else one.judged)
    if worst.judged is not None and worst.judged > (limits.max_attack_auc or 0.0):
        return worst  # broken, whatever the refused attacks would find
    if refused and subject.all_attacks:
        return _LimitValue(missing=f"could not run: {refused}; name the attacks to judge by with --method")
    unknown = next((one for one in found if one.judged is None), None)
    return unknown or worst


def _one_attack(limits: SystemLimits, row: CheckedAttack, others: str) -> _LimitValue:
    missing = "" if row.auc.known else "no attacked list has both clicked and unclicked documents"
    few = describe_few_lists([row.lists])
    about = ", ".join(part for part in (f"attack {row.method}", others, few) if part)
    return _read(limits, CheckReading(row.auc, missing), about, high_is_bad=True)


def _ceiling_auc(limits: SystemLimits, subject: CheckSubject) -> _LimitValue:
    """Judge the AUC that a proof leaves to attacks: 1 where nothing is proven, which no limit allows."""
    found = next((one for one in subject.ceilings if one.view == limits.view), None)
    if found is None:
        return _LimitValue(missing=subject.no_ceiling)
    nothing = "" if found.auc < 1 else "nothing is proven: "
    about = f"{sees(found.view)}, one interaction: {nothing}{found.how}"
    return _LimitValue(found.auc, found.auc, about=about)


def _of_audit(
    judge: Callable[[SystemLimits, list[ClaimRow]], _LimitValue], limits: SystemLimits, subject: CheckSubject
) -> _LimitValue:
    """Judge an epsilon by the audited rows of the view of the limits."""
    if not subject.claims:
        return _LimitValue(missing=subject.no_audit)
    rows = [row for row in subject.claims if row.view == limits.view]
    if not rows:
        seen = "; ".join(dict.fromkeys(row.sees for row in subject.claims))
        return _LimitValue(
            missing=f"no audit where the server sees {with_article(sees(limits.view))}; audited: {seen}"
        )
    return judge(limits, rows)


def _about(row: ClaimRow) -> str:
    delta = f", delta {row.delta:g}" if row.delta else ""
    return f"{row.sees}, one {row.unit}, {row.canary}{delta}"


def _measured_eps(limits: SystemLimits, rows: list[ClaimRow]) -> _LimitValue:
    row = max(rows, key=lambda one: one.eps_lower)
    value, about = row.eps_lower, f"{_about(row)}, {row.trials} trials"
    interval = value, row.eps_upper  # from the measured bound to the proven one
    allowed = limits.max_measured_eps or 0.0
    ceiling = min(one.eps_ceiling for one in rows)
    if value <= allowed and ceiling <= allowed:  # these trials could not break the limit: a vacuous check
        missing = (
            f"{row.trials} trials can show at most {ceiling:.3g}, whatever leaks; expected more --trials"
        )
        return _LimitValue(value, None, interval, about, missing)
    return _LimitValue(value, value, interval, about)


def _exact_eps(limits: SystemLimits, rows: list[ClaimRow]) -> _LimitValue:
    worst, unknown = max(rows, key=_exact), min(rows, key=_exact)
    if _exact(unknown) < 0.0 and _exact(worst) <= (limits.max_exact_eps or 0.0):
        missing = "the exact loss of the pair that was played is not computable for this chain"
        return _LimitValue(about=_about(unknown), missing=f"{missing} ({_about(unknown)})")
    return _LimitValue(worst.eps_exact, worst.eps_exact, about=_about(worst))


def _exact(row: ClaimRow) -> float:
    """The exact loss of a row of claims; an unknown one sorts below all others."""
    value = row.eps_exact
    return -1.0 if value is None or math.isnan(value) else float(value)


def _proven_eps(_limits: SystemLimits, rows: list[ClaimRow]) -> _LimitValue:
    row = max(rows, key=lambda one: one.eps_upper)
    value = row.eps_upper
    return _LimitValue(value, value, about=f"{_about(row)}: {row.upper_how}")


def _claims(_limits: SystemLimits, subject: CheckSubject) -> _LimitValue:
    if not subject.claims:
        return _LimitValue(missing=subject.no_audit)
    claiming = [row for row in subject.claims if not math.isinf(row.eps_claimed)]
    if not claiming:
        return _LimitValue(missing="there is no claim to refute; state one with --claim")
    row = next((one for one in claiming if one.verdict in FALSE), claiming[0])
    about = f"claim {row.eps_claimed:g}, {_about(row)}: {row.why}"
    return _LimitValue(row.verdict, float(row.verdict in FALSE), None, about)


def _ndcg(limits: SystemLimits, subject: CheckSubject) -> _LimitValue:
    return _read(limits, subject.ndcg, "offline nDCG@10", high_is_bad=False)


def _loss(limits: SystemLimits, subject: CheckSubject) -> _LimitValue:
    return _read(limits, subject.loss, "offline nDCG@10 compared with no defense", high_is_bad=True)


_JUDGES: dict[str, Callable[[SystemLimits, CheckSubject], _LimitValue]] = {
    "max_attack_auc": _attack_auc,
    "max_ceiling_auc": _ceiling_auc,
    "max_measured_eps": partial(_of_audit, _measured_eps),
    "max_exact_eps": partial(_of_audit, _exact_eps),
    "max_proven_eps": partial(_of_audit, _proven_eps),
    "no_refuted_claims": _claims,
    "min_ndcg": _ndcg,
    "max_ndcg_loss": _loss,
}
