"""What recorded coins show: one row per trace and view."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from foltr_audit.auditing.coin_audit import UNIT, CoinAudit, CoinFinding
from foltr_audit.auditing.coin_bounds import ONE_RUN
from foltr_audit.auditing.verdict import FALSE, Verdict
from foltr_audit.core.settings.audit import AuditSpec
from foltr_audit.core.warning_codes import CodedWarning
from foltr_audit.experiments.recorded_attack import TraceAttack
from foltr_audit.judge.observer import Observer
from foltr_audit.privacy.observer_views import sees
from foltr_audit.report.results.audit import EstimateRow
from foltr_audit.report.results.base import WarningRow
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.trace.known_facts import plain_facts
from foltr_audit.utils.rows import JsonValue, ResultRow

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class CoinAuditRow(ResultRow):
    """What the coins of one trace show in one view; see `CoinFinding` and `LowerBound`.

    Attributes:
        click_model: how the recorded users click.
        eps_claimed: infinite without a claim.
        coins: how many were tossed; a quarter of them chooses score and number of guesses.
        outputs: messages or sums that show them.
        guesses, right: guessed coins, and right guesses.
        trials: coins that were evaluated.
    """

    click_model: str
    view: str
    sees: str
    unit: str
    eps_claimed: float
    delta: float
    eps_lower: float
    eps_ceiling: float
    confidence: float
    coins: int
    outputs: int
    guesses: int
    right: int
    trials: int
    verdict: Verdict
    why: str
    estimator: str
    assumes: str
    score: str
    estimates: tuple[EstimateRow, ...]

    @classmethod
    def of(cls, finding: CoinFinding, click_model: str) -> CoinAuditRow:
        """The columns of a finding."""
        lower, guesses = finding.lower, finding.guesses
        return cls(
            click_model=click_model,
            view=finding.view,
            sees=sees(finding.view),
            unit=UNIT,
            eps_claimed=finding.eps_claimed,
            delta=lower.delta,
            eps_lower=lower.epsilon,
            eps_ceiling=lower.ceiling,
            confidence=lower.confidence,
            coins=finding.coins,
            outputs=finding.outputs,
            guesses=guesses.guesses,
            right=guesses.right,
            trials=lower.trials,
            verdict=finding.verdict,
            why=finding.why,
            estimator=lower.estimator,
            assumes=lower.assumes,
            score=guesses.score,
            estimates=tuple(map(EstimateRow.of, guesses.bounds)),
        )


@dataclass(frozen=True, kw_only=True)
class CoinAuditReport(PlainReport):
    """The result of `audit --trace`.

    Attributes:
        config: the trace and the settings; `known` holds facts that were given by hand.
        warnings: what a reader should know apart from the verdicts.
        results: one row per trace and view.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/audit-trace/2"

    config: Mapping[str, JsonValue]
    warnings: tuple[WarningRow, ...]
    results: tuple[CoinAuditRow, ...]

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich."""
        from foltr_audit.report.tables.coin_audit import print_coin_audit

        print_coin_audit(self, console)

    @classmethod
    def of(cls, recorded: TraceAttack, protocol: AuditSpec) -> CoinAuditReport:
        """Audit each trace in each view.

        Of the protocol only views, claim, delta, confidence and estimator are read. Without views, these are
        single messages, or sums where messages are masked; without a claim, it is the fact `eps_claimed`.

        Raises:
            UsageError: a trace without coins, a fact that is missing, or a bad value.
        """
        rows, notes = [], list[CodedWarning]()
        for name, trace in recorded.traces.items():
            stated = trace.header.knowledge.get("eps_claimed", math.inf)
            audit = CoinAudit(
                claimed=protocol.claim or (float(stated) if isinstance(stated, int | float) else math.inf),
                delta=protocol.delta or 0.0,
                confidence=protocol.confidence,
                estimator=ONE_RUN if protocol.estimator == "auto" else protocol.estimator,
                streams=recorded.streams,
            )
            observer = Observer(trace.header, recorded.collection, client_step=recorded.client_step)
            usual = ("aggregate" if trace.header.kind == "masked" else "individual",)
            for view in protocol.views if "views" in protocol.model_fields_set else usual:
                with recorded.advising():
                    finding = audit.finding(trace, observer, view)
                rows.append(CoinAuditRow.of(finding, name))
                notes += finding.notes
        config: dict[str, JsonValue] = {"trace": str(recorded.path), "seed": recorded.used_seed}
        if recorded.known:
            config["known"] = plain_facts(recorded.known)
        return cls(
            config=config,
            warnings=tuple(map(WarningRow.of, dict.fromkeys((*recorded.notes(), *notes)))),
            results=tuple(rows),
        )

    @property
    def holds(self) -> bool:
        """Whether no claim is refuted."""
        return all(row.verdict not in FALSE for row in self.results)
