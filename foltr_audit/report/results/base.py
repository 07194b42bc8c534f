"""What every report of a plan holds: configuration, data, utility; and how its settings are named."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from foltr_audit.core.results import DataRecord, Estimate
from foltr_audit.core.settings.data import is_synthetic_source
from foltr_audit.core.settings.experiment import flat
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.privacy.observer_views import attacker_sees
from foltr_audit.report.results.plain_report import PlainReport
from foltr_audit.simulation.intent_metrics import evaluated_on
from foltr_audit.utils.formatting import JsonValue, epsilon, json_text
from foltr_audit.utils.rows import ResultRow, column


@dataclass(frozen=True, kw_only=True)
class Setting(ResultRow):
    """The columns that name what was run.

    Attributes:
        trained_on: how the users of the training clicked.
        eps_claimed: what the chain claims, infinite without a claim.
        defense: the chain.
        learner: the learner.
        pdgd: how it makes pairs and normalises.
        sees: what the observer of its attacks sees; None where nothing was attacked.
        fields: fields of the Spec in which rows differ and that have no column of their own, under their
            dotted names, e.g. `population.clients`.
    """

    trained_on: str
    eps_claimed: float
    defense: str
    learner: str
    pdgd: str
    sees: str | None = column(optional=True)
    fields: Mapping[str, JsonValue] = column(embedded=True, default={})

    @classmethod
    def of(cls, cell: Run, fields: Mapping[str, JsonValue]) -> Setting:
        """What was run in a cell, and what the observer of its attacks sees."""
        attack = cell.spec.attack
        return cls(
            trained_on=cell.record.trained_on,
            eps_claimed=math.inf if cell.record.claim is None else cell.record.claim,
            defense="+".join(cell.spec.defense),
            learner=cell.record.learner,
            pdgd=cell.record.pdgd,
            sees=None if attack is None else attacker_sees(attack.view, attack.hide),
            fields=fields,
        )

    def value(self, name: str) -> JsonValue:
        """A column by its name; None where there is none."""
        value: JsonValue = self.fields[name] if name in self.fields else getattr(self, name, None)
        return value


@dataclass(frozen=True, kw_only=True)
class FoldFacts(ResultRow):
    """One fold of the data; a trace without its data only has the first two columns, see `DataRecord`."""

    fold: int
    fingerprint: str
    train: int | None = column(optional=True)
    vali: int | None = column(optional=True)
    test: int | None = column(optional=True)
    test_without_relevant: int | None = column(optional=True)
    rows_read: int | None = column(optional=True)
    rows_joined: int | None = column(optional=True)


@dataclass(frozen=True, kw_only=True)
class DatasetFacts(ResultRow):
    """What several folds have in common, and in `folds` the rest of each; see `DataRecord`.

    Attributes:
        parameters: number of parameters of the model, of a trace without its data.
        queries_too_short: attacked queries that were left out for having too few documents.
    """

    source: str
    intents: int | None = column(optional=True)
    intents_from: str | None = column(optional=True)
    synthetic: bool
    normalised: str
    features: int | None
    parameters: int | None = column(optional=True)
    folds: tuple[FoldFacts, ...]
    queries_too_short: int | None = column(optional=True)

    @property
    def title(self) -> str:
        """The data in a title: of which kind, their name, and the fingerprint of files."""
        kind = "synthetic data" if self.synthetic else "data"
        files = not is_synthetic_source(self.source)
        prints = [fold.fingerprint[:12] for fold in self.folds if fold.fingerprint and files]
        more = f" and {len(prints) - 1} more" if len(prints) > 1 else ""
        known = f" (fingerprint {prints[0]}{more})" if prints else ""
        return f"{kind} {self.source}{known}"

    @classmethod
    def of(cls, facts: Sequence[DataRecord], queries_too_short: int | None = None) -> DatasetFacts:
        """The facts of some folds, each once."""
        first = facts[0]
        names = [field.name for field in fields(FoldFacts)]
        folds = [
            FoldFacts(**{name: getattr(fold, name) for name in names})
            for fold in {fold.fingerprint: fold for fold in facts}.values()
        ]
        return cls(
            source=first.source,
            intents=first.intents,
            intents_from=first.intents_from,
            synthetic=first.synthetic,
            normalised=first.normalised,
            features=first.features,
            folds=tuple(folds),
            queries_too_short=queries_too_short,
        )

    def plain(self) -> dict[str, JsonValue]:
        """As of every row; of several intents it also says that their source is the data, by null."""
        first: dict[str, JsonValue] = {"source": self.source, "intents": self.intents}
        more = {} if self.intents is None else first | {"intents_from": self.intents_from}
        return {**more, **super().plain()}


@dataclass(frozen=True, kw_only=True)
class UtilityRow(ResultRow):
    """How good the trained model of a setting is: means over its runs.

    Attributes:
        setting: what was run.
        runs: number of runs.
        ndcg: offline nDCG@10 of the trained model.
        undefended: the same of a training without a defense; None without one.
        untrained: the same of the first model.
        ceiling: the same of a perfect ranker.
        evaluated_on: which queries these are of.
        online_sum, online_mean: of the lists that users were shown; None of a recorded Run.
        maxrr_last: online MaxRR of the last ten rounds; None of a recorded Run.
        clipped: share of the local steps that were clipped.
    """

    setting: Setting = column(embedded=True)
    runs: int
    ndcg: float = column("ndcg@10")
    undefended: float | None = column("ndcg@10_undefended")
    untrained: float | None = column("ndcg@10_untrained")
    ceiling: float | None = column("ndcg@10_ceiling")
    evaluated_on: str
    online_sum: float | None = column(optional=True)
    online_mean: float | None = column(optional=True)
    maxrr_last: float | None = column("maxrr_last_10", optional=True)
    clipped: float


@dataclass(frozen=True, kw_only=True)
class GroupMetric(ResultRow):
    """A metric of one group of clients.

    Attributes:
        own: of the group.
        everybody: of all groups together; None where it is not defined.
        difference: the group's less that of all.
    """

    own: Estimate = column("")
    everybody: float | None = column("_all")
    difference: Estimate = column("_difference")


@dataclass(frozen=True, kw_only=True)
class WarningRow(ResultRow):
    """A warning.

    Attributes:
        defense: the chain that it is about; None if it is about something else.
        code: its code, see `foltr-audit list warnings`.
        warning: the text.
    """

    defense: str | None = column(optional=True)
    code: str
    warning: str

    @classmethod
    def of(cls, warning: CodedWarning, defense: str | None = None) -> WarningRow:
        return cls(defense=defense, code=warning.code, warning=warning.text)

    @property
    def coded(self) -> CodedWarning:
        return CodedWarning(self.code, self.warning)


@dataclass(frozen=True, kw_only=True)
class UtilityGroupRow(ResultRow):
    """How well a training serves one group of clients: means over its runs.

    Attributes:
        setting: what was run.
        runs: number of runs.
        last_rounds: how many rounds count as the last ones.
        group: name of the group.
        place: its place, the worst served being 1.
        online_mean: online nDCG@10 of the rounds in which the group played.
        online_last: the same of the last rounds.
        ndcg: offline nDCG@10 of the trained model under the group's own intent.
    """

    setting: Setting = column(embedded=True)
    runs: int
    last_rounds: int
    group: str
    place: int
    online_mean: GroupMetric = column("online_mean", embedded=True)
    online_last: GroupMetric = column("online_last", embedded=True)
    ndcg: GroupMetric = column("ndcg@10", embedded=True)


@dataclass(frozen=True, kw_only=True)
class Report(PlainReport):
    """The result of a command that runs a plan; a subclass adds its own rows as the last field.

    Attributes:
        config: the plan as a plain table.
        dataset: source, fingerprints and sizes of the data.
        utility: one row per trained-on click model, claimed epsilon and chain.
        utility_groups: one row per setting and group of clients, worst served first; left out where clients
            do not differ.
        warnings: incompatible defenses in the chains that were run, one row per chain and warning.
    """

    config: Mapping[str, JsonValue]
    dataset: DatasetFacts
    utility: tuple[UtilityRow, ...]
    utility_groups: tuple[UtilityGroupRow, ...] = column(optional=True, default=())
    warnings: tuple[WarningRow, ...] = ()


@dataclass(frozen=True)
class RunGroup:
    """Cells that differ in repetition and fold only: one row of a report pools them.

    Attributes:
        cells: the cells.
        setting: what was run.
    """

    cells: list[Run]
    setting: Setting


_OWN_COLUMN = ("defense", "train.click_model", "attack.click_models", "attack.methods")


def groups(cells: Sequence[Run]) -> list[RunGroup]:
    """The cells by everything but repetition and fold, in order."""
    cells_of: dict[str, list[Run]] = {}
    fields: dict[str, dict[str, JsonValue]] = {}
    for cell in cells:
        table = flat(cell.spec.public.table()) | {"train.learner": cell.record.learner}
        for name in ("repetition", "data.fold"):
            table.pop(name, None)
        key = json_text(table)
        cells_of.setdefault(key, []).append(cell)
        fields[key] = table
    names = dict.fromkeys(name for table in fields.values() for name in table if name not in _OWN_COLUMN)
    differ = [name for name in names if len({json_text(table.get(name)) for table in fields.values()}) > 1]
    return [
        RunGroup(cells, Setting.of(cells[0], {name: fields[key].get(name) for name in differ}))
        for key, cells in cells_of.items()
    ]


def warning_rows(cells: Sequence[Run]) -> tuple[WarningRow, ...]:
    """Each warning about each chain, once."""
    warnings = dict.fromkeys(
        WarningRow.of(warning, "+".join(cell.spec.defense))
        for cell in cells
        for warning in cell.record.warnings
    )
    return tuple(warnings)


def utility_rows(cells: Sequence[Run]) -> tuple[UtilityRow, ...]:
    """One row per group."""
    return tuple(_utility(group) for group in groups(cells))


def _utility(group: RunGroup) -> UtilityRow:
    trained = [cell.trained for cell in group.cells]
    undefended = [cell.utility.undefended for cell in group.cells if cell.utility.undefended is not None]
    return UtilityRow(
        setting=group.setting,
        runs=len(group.cells),
        ndcg=_mean([run.ndcg for run in trained]),
        undefended=_mean(undefended) if undefended else None,
        untrained=_mean([run.untrained for run in trained]),
        ceiling=_mean([run.ceiling for run in trained]),
        evaluated_on=evaluated_on(trained[0].rounds),
        online_sum=_mean([run.online_sum for run in trained]),
        online_mean=_mean([run.online_mean for run in trained]),
        maxrr_last=_mean([run.maxrr_last for run in trained]),
        clipped=_mean([run.clipped for run in trained]),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def differing(settings: Sequence[Setting]) -> list[str]:
    """Columns that settings differ in, in their order, but for epsilon: `learner` before others.

    A chain of defenses only counts where settings of one epsilon differ in it.
    """
    names = dict.fromkeys(["learner", "trained_on", *(name for tried in settings for name in tried.fields)])
    names.pop("train.learner", None)  # the same as `learner`
    varied = [name for name in names if len({str(tried.value(name)) for tried in settings}) > 1]
    chains = {(tried.eps_claimed, tried.defense) for tried in settings}
    return [*varied, "defense"] if len(chains) > len({eps for eps, _ in chains}) else varied


def setting_text(setting: Setting, name: str, settings: Sequence[Setting]) -> str:
    """The value of a column as short text: a plug-in without the parameters that all of its name share."""
    value = setting.value(name)
    if value is None:
        return "-"
    if name == "population.scenario":
        return short_scenario(str(value), [str(other.value(name)) for other in settings])
    if name == "learner":
        texts = dict.fromkeys(other.learner for other in settings)
        return without_shared_parameters(list(texts))[setting.learner]
    return f"{value:g}" if isinstance(value, float) else str(value)


def short_scenario(text: str, among: Sequence[str]) -> str:
    """A scenario among others, each that it joins without the parameters that all of its name share.

    >>> short_scenario("a:x=1,y=2+b:z=3", ["a:x=1,y=2+b:z=3", "a:x=1,y=4"])
    'a:y=2+b'
    """
    parts = dict.fromkeys(part for other in (text, *among) for part in other.split("+"))
    shorter = without_shared_parameters(list(parts))
    return "+".join(shorter[part] for part in text.split("+"))


def heading(name: str) -> str:
    """What a setting is called: `population.clients` is `clients`."""
    return name.rpartition(".")[2].replace("_", " ")


def setting_label(setting: Setting, settings: Sequence[Setting]) -> str:
    """What a setting is called among others, e.g. `foltr-es, eps 1.2`; by its clicks if it is alone."""
    parts = [_part(setting, name, settings) for name in differing(settings)]
    if len({other.eps_claimed for other in settings}) > 1:
        parts.append(f"eps {epsilon(setting.eps_claimed)}")
    return ", ".join(parts) or f"{setting.trained_on} clicks, eps {epsilon(setting.eps_claimed)}"


def _part(setting: Setting, name: str, settings: Sequence[Setting]) -> str:
    text = setting_text(setting, name, settings)
    if name == "trained_on":
        return f"{text} clicks"
    return f"{heading(name)} {text}" if "." in name else text


FEW_LISTS = 30
"""With fewer lists than this a sentence says how many there are."""


def few_lists(counts: Sequence[int]) -> str:
    """A sentence on the numbers of lists that conclusions rest on; empty where each has enough.

    >>> few_lists([14, 11, 90]), few_lists([5]), few_lists([30])
    (' This rests on only 11 to 14 lists.', ' This rests on only 5 lists.', '')
    """
    few = describe_few_lists(counts)
    return f" This rests on {few}." if few else ""


def describe_few_lists(counts: Sequence[int]) -> str:
    """As `few_lists`, in words that follow a name: `only 14 lists`."""
    few = sorted(count for count in counts if count < FEW_LISTS)
    if not few:
        return ""
    counts_of_lists = str(few[0]) if few[0] == few[-1] else f"{few[0]} to {few[-1]}"
    return f"only {counts_of_lists} {'list' if few[-1] == 1 else 'lists'}"
