"""How much noise a claim needs: the call `calibrate`, its report and its tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape

from foltr_audit.auditing.noise_for_target import NoiseCalibration, calibrations
from foltr_audit.auditing.noise_for_target import calibrate as least_noise
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.defaults import CLIENT, DELTA, SECURE_AGGREGATION, UNIT, VIEW
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.core.warning_kinds import CodedWarning, coded
from foltr_audit.errors import UsageError
from foltr_audit.experiments.runner import Runner
from foltr_audit.privacy.accounting import AccountingContext, UpperBound
from foltr_audit.privacy.loss.composition import few_digits
from foltr_audit.privacy.observer_views import sees, with_article, without_lists
from foltr_audit.report.pictures.report_figures import noise_figure
from foltr_audit.report.render.terminal import BriefAnswer, print_table
from foltr_audit.report.results.base import WarningRow
from foltr_audit.report.results.plain_report import NotebookReport, PlainReport
from foltr_audit.report.results.wording import counted, join_names
from foltr_audit.report.tables.table import Column, Table, make_table
from foltr_audit.utils.argument_names import names_arguments
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.rows import ResultRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class CalibrationTarget(ResultRow):
    """What has to be proven, and of which system."""

    eps: float
    delta: float
    unit: str
    view: str
    sees: str
    colluders: int | None
    rounds: int
    clients: int
    cohort: int
    separation: int
    secret_sample: bool
    arriving: int
    interactions: int
    ranked_with: str
    parameters: int


@dataclass(frozen=True, kw_only=True)
class MechanismRow(ResultRow):
    """The least noise of one mechanism; see `NoiseCalibration`.

    Attributes:
        sum_only: whether the bound only holds for sums of messages.
        eps_upper, delta: what is proven for all rounds of the target together.
        eps_round: what is proven for one round, at most at the delta of the target; None where there is none.
        how: why the bound holds; `why_not` where there is none.
    """

    mechanism: str
    sum_only: bool
    defense: tuple[str, ...]
    eps_upper: float
    delta: float
    eps_round: float | None
    average_sd: float | None
    how: str
    why_not: str | None

    @classmethod
    def of(cls, one: NoiseCalibration) -> MechanismRow:
        return cls(
            mechanism=one.mechanism,
            sum_only=_place(one) == _SUM_ONLY,
            defense=tuple(one.defense),
            eps_upper=one.upper.epsilon,
            delta=one.upper.delta,
            eps_round=None if one.once is None else one.once.epsilon,
            average_sd=one.average_sd,
            how=one.upper.how,
            why_not=one.why_not,
        )


@dataclass(frozen=True, kw_only=True)
class CalibrateDocument(PlainReport):
    """The report of `calibrate` as JSON: one row per mechanism; an infinite bound is `"inf"`."""

    SCHEMA: ClassVar[str] = "foltr-audit/calibrate/2"

    target: CalibrationTarget
    results: tuple[MechanismRow, ...]
    warnings: tuple[WarningRow, ...]


@dataclass(frozen=True, kw_only=True)
class NoiseCalibrationReport(NotebookReport):
    """The target, and the answer of each mechanism.

    Attributes:
        target: epsilon of all rounds of the situation.
        situation: the system whose noise is wanted.
        clients: number of clients, of which some take part in a round.
        found: one answer per mechanism.
    """

    target: float
    situation: AccountingContext
    clients: int
    found: Sequence[NoiseCalibration]

    def json(self) -> str:
        """Everything as one JSON object."""
        rows = tuple(map(MechanismRow.of, self.found))
        return CalibrateDocument(
            target=self._target(), results=rows, warnings=tuple(map(WarningRow.of, self.warnings))
        ).json()

    def rows(self) -> list[dict[str, JsonValue]]:
        """One row per mechanism with the columns that it has in JSON."""
        return [MechanismRow.of(one).plain() for one in self.found]

    def short_answer(self) -> BriefAnswer:
        """How many mechanisms meet the target, and the least noise of each."""
        met = sum(one.why_not is None for one in self.found)
        have = "has" if met == 1 else "have"
        return BriefAnswer(
            conclusion=(
                f"Of {counted(len(self.found), 'mechanism')}, {met} {have} noise that proves "
                f"epsilon {self.target:g}.",
            ),
            about="",
            table=self._table(),
            notes=tuple(map(str, self.warnings)),
        )

    def figure(self) -> Figure:
        """The noise on one coordinate of the average, for each mechanism that adds any."""
        noise = {one.mechanism: one.average_sd for one in self.found if one.average_sd and not one.why_not}
        return noise_figure(noise, f"least noise for epsilon {self.target:g}")

    def show(self, console: Console) -> None:
        """The table, why each bound holds or there is none, and commands that check it."""
        print_table(self._table(), console)
        console.print()
        for line in self._lines():
            console.print(escape(line), highlight=False)
        console.print()
        for command in self._commands():
            console.print(escape(command), highlight=False, soft_wrap=True)

    def _target(self) -> CalibrationTarget:
        there = self.situation
        return CalibrationTarget(
            eps=self.target,
            delta=there.delta,
            unit=there.unit,
            view=there.view,
            sees=sees(there.view, there.colluders),
            colluders=there.colluders,
            rounds=there.rounds,
            clients=self.clients,
            cohort=there.shares,
            separation=there.separation,
            secret_sample=there.cohorts == "secret",
            arriving=there.arriving or there.shares,
            interactions=there.interactions,
            ranked_with=there.ranked_with,
            parameters=there.parameters,
        )

    def _table(self) -> Table:
        there = self.situation
        delta = f", delta {there.delta:g}" if there.delta else ""
        rounds = f" over {there.rounds} rounds" if there.rounds > 1 else " in a round"
        return make_table(
            f"least noise for epsilon {self.target:g}{delta} per {there.unit}{rounds},\n"
            f"where the server sees {with_article(sees(there.view, there.colluders))}",
            _RUN_COLUMNS if there.rounds > 1 else _COLUMNS,
            self.found,
            caption=f"{self._assumes()}average sd: standard deviation of the noise on one of "
            f"{there.parameters} coordinates of the average\n"
            f"over {there.arriving or there.shares} of {there.shares} clients",
        )

    def _assumes(self) -> str:
        """What the number for the run assumes, for the caption."""
        there = self.situation
        if there.rounds == 1:
            return ""
        known = "nobody else knows which" if there.cohorts == "secret" else "the server knows which"
        drawn = f"{there.shares} of {self.clients} clients take part in each, and {known}"
        if there.separation > 1:
            drawn += f",\neach {there.separation} rounds apart at least"
        who = drawn if there.shares < self.clients else "all clients take part in each"
        return f"round, run: proven of one round, and of all {there.rounds}: {who}\n"

    def _commands(self) -> Iterator[str]:
        """How to check each answer, by the messages of all rounds, or by one where clients are sampled."""
        there = self.situation
        several, drawn = there.touched > 1, there.shares < self.clients
        rounds = f" --rounds {there.rounds}" if drawn else f" --messages {there.rounds}"
        cohort = f" --cohort {there.shares}" if drawn else ""
        cohort += f" --separation {there.separation}" if there.separation > 1 else ""
        lost = 1 - (there.arriving or there.shares) / there.shares
        drop_out = f" --drop-out {lost:.6g}" if lost else ""
        colluders = "" if there.colluders is None else f" --colluders {there.colluders}"
        behind = "" if there.unit == "client" else f" --canary-interactions {there.interactions}"
        ranks = " --rank-with global" if there.ranked_with == "global" else ""
        for one in self.found:
            if one.once is None:
                continue
            pure, claim = one.pure, self.target
            if several and drawn:
                pure, claim = one.once.delta == 0, few_digits(one.once.epsilon, math.ceil)
            yield (
                f"foltr-audit audit --defense {'+'.join(one.defense)} --clients {self.clients}{cohort} "
                f"--unit {there.unit} --view {there.view}{colluders}{behind}{ranks}"
                f"{rounds if several else ''}{drop_out} "
                f"--claim {claim:g} --delta {0.0 if pure else there.delta:g}"
            )

    def _lines(self) -> Iterator[str]:
        for one in self.found:
            said = f"impossible: {one.why_not}" if one.why_not else one.upper.how
            summed = ", with secure aggregation" if one.wired else ""
            yield f"{one.mechanism}{summed}: {said}"

    @property
    def warnings(self) -> list[CodedWarning]:
        """What a reader of the table should know."""
        shares = [one.mechanism for one in self.found if _place(one) == _SUM_ONLY and not one.why_not]
        if not shares or all(one.wired for one in self.found if one.mechanism in shares):
            return []
        return [
            coded(
                "sum only",
                f"{join_names(shares)}: the bound holds for the sum only; a single message carries "
                f"1/{self.situation.shares} of the noise, and whoever sees messages reads them; "
                "add +secure-aggregation to the chain",
            )
        ]


_SUM_ONLY = "sum only"


def _place(one: NoiseCalibration) -> str:
    """Where the noise is that the bound rests on."""
    if calibrations()[one.mechanism].in_sum and (one.why_not or one.upper.rests_on == "sum"):
        return _SUM_ONLY
    if one.why_not:
        return "-"
    if one.upper.rests_on == "aggregator":
        return "aggregator"
    return "clicks" if one.average_sd is None else "message"


def _average_sd(one: NoiseCalibration) -> str:
    return "-" if one.why_not or one.average_sd is None else f"{one.average_sd:.4g}"


def _epsilon(bound: UpperBound | None) -> str:
    return "-" if bound is None else f"{bound.epsilon:.4f}"


def _columns(*proven: Column[NoiseCalibration]) -> list[Column[NoiseCalibration]]:
    return [
        Column("mechanism", lambda one: one.mechanism, "name"),
        Column("noise in", _place, "name"),
        *proven,
        Column("average sd", _average_sd),
    ]


_COLUMNS = _columns(Column("proven", lambda one: _epsilon(one.once)))
_RUN_COLUMNS = _columns(
    Column("round", lambda one: _epsilon(one.once)),
    Column("run", lambda one: "-" if one.why_not else _epsilon(one.upper)),
)


def calibrate_mechanisms(
    target_eps: float,
    *,
    delta: float = DELTA,
    unit: str | None = None,
    view: str = VIEW,
    colluders: int | None = None,
    rounds: int = 1,
    clients: int = 1000,
    cohort: int | None = None,
    separation: int = 1,
    secret_sample: bool = False,
    arriving: int | None = None,
    interactions: int = 1,
    rank_with: str = "local",
    parameters: int | None = None,
    data: str | Collection | None = None,
    norm: float = 1.5,
    order: int | None = None,
    mechanisms: Sequence[str] | None = None,
) -> NoiseCalibrationReport:
    """The least noise with which each mechanism provably meets a target.

    Mechanisms that share one noise among all clients get secure aggregation, since a single message carries
    almost none of it.

    Args:
        target_eps: epsilon that has to be proven, of all rounds together.
        delta: of that epsilon; 0 for a pure one.
        unit: what neighbouring inputs differ in: click, interaction, query or client. None for interaction,
            and for client with several rounds.
        view: what the server sees: individual, aggregate or colluding, each also with +lists.
        colluders: of view colluding: number of other clients that collude; None for all.
        rounds: number of rounds that the target covers.
        clients: number of clients.
        cohort: number of clients sampled for each round; None for all.
        separation: rounds from one in which a client takes part to its next one, at least.
        secret_sample: whether whoever looks does not know which clients take part in a round.
        arriving: number of messages that arrive; None for all.
        interactions: interactions of a client in a round.
        rank_with: model that ranks a client's lists: local or global.
        parameters: number of coordinates of a message; None for that of the data.
        data: data whose number of features is used, for the linear ranker; None for synthetic:mq2007.
        norm: radius that models are clipped to.
        order: norm of the clip, 1 or 2; None for the one that each noise needs.
        mechanisms: names of the mechanisms; None for all.

    Raises:
        UsageError: a value out of range, or an unknown mechanism.

    Example:
        >>> import foltr_audit as fa
        >>> fa.calibrate(1.2, parameters=46, mechanisms=["laplace"]).found[0].defense
        ('clip:norm=1.5,ord=1', 'laplace:eps=1.2,sensitivity=3')
    """
    if parameters is not None and data is not None:
        raise UsageError("--parameters and --data: give one or the other")
    if rank_with not in ("local", "global"):
        raise UsageError(f"--rank-with: {rank_with!r}; expected local or global")
    if colluders is not None and not view.startswith("colluding"):
        raise UsageError("--colluders: expected --view colluding, or colluding+lists")
    taking_part = _cohort(clients, cohort)
    able = _able(clients, taking_part, separation)
    situation = AccountingContext(
        view=view,
        unit=unit or (UNIT if rounds == 1 else CLIENT),
        parameters=_features(data) if parameters is None else parameters,
        shares=taking_part,
        arriving=arriving,
        colluders=colluders,
        interactions=interactions,
        ranked_with="global" if rank_with == "global" else "local",
        rounds=rounds,
        separation=separation,
        delta=delta,
        sampled=taking_part / able,
        cohorts="secret" if secret_sample else "known",
    )
    chosen = dict.fromkeys(mechanisms or calibrations())
    summed = _secure_sum(situation)
    shared = {name for name, rule in calibrations().items() if rule.in_sum}
    found = [
        least_noise(
            name, target_eps, situation, norm=norm, order=order, wire=summed if name in shared else ()
        )
        for name in chosen
    ]
    return NoiseCalibrationReport(target=target_eps, situation=situation, clients=clients, found=found)


calibrate = names_arguments(calibrate_mechanisms)  # the same, whose errors name arguments


def _cohort(clients: int, cohort: int | None) -> int:
    """The number of clients in a round."""
    if clients < 1:
        raise UsageError(f"--clients: {clients}; expected at least 1")
    if cohort is not None and not 1 <= cohort <= clients:
        raise UsageError(f"--cohort: {cohort} of {clients} clients; expected 1 to {clients}")
    return clients if cohort is None else cohort


def _able(clients: int, cohort: int, separation: int) -> int:
    """The number of clients that may take part in a round."""
    if not 1 <= separation <= clients // cohort:
        raise UsageError(
            f"--separation: {separation} with cohorts of {cohort} out of {clients} clients; "
            f"expected 1 to {clients // cohort}"
        )
    return clients // separation


def _secure_sum(situation: AccountingContext) -> tuple[str, ...]:
    """Secure aggregation for a server that receives messages; its threshold is the number that arrives."""
    if without_lists(situation.view) != VIEW:
        return ()  # a view of sums assumes some secure sum already
    fewest = situation.arriving
    return (SECURE_AGGREGATION if fewest is None else f"{SECURE_AGGREGATION}:threshold={fewest}",)


def _features(source: str | Collection | None) -> int:
    if isinstance(source, Collection):
        return source.n_features
    table = {} if source is None else {"data": {"source": source}}
    spec = Spec.parse(table, "calibrate")
    return Runner().setup(spec).collection.n_features
