"""What was run, as the columns and words that all documents and tables share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.markup import escape

from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.results import DataRecord, RunRecord, UtilityRecord
from foltr_audit.core.settings.data import is_synthetic_source
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.settings.experiment import flat
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.judge.doubts import describe_few_lists
from foltr_audit.privacy.bounds import RunBound
from foltr_audit.privacy.observer_views import attacker_sees
from foltr_audit.report.documents import Row, Section, nested
from foltr_audit.report.table import (
    Column,
    Table,
    claim_text,
    make_table,
    name_lines,
    percent_column,
    short_column,
)
from foltr_audit.utils.formatting import JsonValue, json_text

# --- settings --------------------------------------------------------------------------------------

SETTING = Section("trained_on eps_claimed:num defense learner pdgd sees:str? ...")
"""The columns that name what was run; more are fields of the Spec in which rows differ."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a row is about.

    Attributes:
        trained_on: how the users of the training clicked.
        eps_claimed: what the chain claims, infinite without a claim.
        defense, learner, pdgd: the chain, the learner, and how it makes pairs and normalises.
        sees: what the observer of its attacks sees; None where nothing was attacked.
        fields: fields of the Spec in which rows differ and that have no column of their own, under their
            dotted names, e.g. `population.clients`.
    """

    trained_on: str
    eps_claimed: float
    defense: str
    learner: str
    pdgd: str
    sees: str | None = None
    fields: Mapping[str, JsonValue] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, fields: Mapping[str, JsonValue]) -> Setting:
        """What was run, and what the observer of its attacks sees."""
        attack, record = run.spec.attack, run.record
        return cls(
            trained_on=record.trained_on,
            eps_claimed=_claimed(record),
            defense="+".join(run.spec.defense),
            learner=record.learner,
            pdgd=record.pdgd,
            sees=None if attack is None else attacker_sees(attack.view, attack.hide),
            fields=fields,
        )

    def columns(self) -> dict[str, Any]:
        """Its columns in a document."""
        named = {name: value for name, value in vars(self).items() if name != "fields"}
        return named | dict(self.fields)

    def value(self, name: str) -> Any:
        """A column by its name; None where there is none."""
        return self.columns().get(name)


def _claimed(record: RunRecord) -> float:
    return math.inf if record.claim is None else record.claim


@dataclass(frozen=True)
class Pool:
    """Runs that differ in repetition and fold only: one row of a document pools them."""

    runs: list[Run]
    setting: Setting


_OWN_COLUMN = ("defense", "train.click_model", "attack.click_models", "attack.methods")


def pools(runs: Sequence[Run]) -> list[Pool]:
    """The runs by everything but repetition and fold, in order."""
    runs_of: dict[str, list[Run]] = {}
    fields: dict[str, dict[str, JsonValue]] = {}
    for run in runs:
        table = flat(run.spec.public.table()) | {"train.learner": run.record.learner}
        for name in ("repetition", "data.fold"):
            table.pop(name, None)
        key = json_text(table)
        runs_of.setdefault(key, []).append(run)
        fields[key] = table
    names = dict.fromkeys(name for table in fields.values() for name in table if name not in _OWN_COLUMN)
    differ = [name for name in names if len({json_text(table.get(name)) for table in fields.values()}) > 1]
    return [
        Pool(same, Setting.of(same[0], {name: fields[key].get(name) for name in differ}))
        for key, same in runs_of.items()
    ]


def each_run(runs: Sequence[Run]) -> Iterator[tuple[Setting, Run]]:
    """Each run with its setting, those of a pool together."""
    for pool in pools(runs):
        yield from ((pool.setting, run) for run in pool.runs)


def differing(settings: Sequence[Setting]) -> list[str]:
    """Columns that settings differ in, in their order, but for epsilon: `learner` before others.

    A chain of defenses only counts where settings of one epsilon differ in it.
    """
    names = dict.fromkeys(["learner", "trained_on", *(name for each in settings for name in each.fields)])
    names.pop("train.learner", None)  # the same as `learner`
    varied = [name for name in names if len({str(each.value(name)) for each in settings}) > 1]
    chains = {(each.eps_claimed, each.defense) for each in settings}
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
        parts.append(claim_words(setting.eps_claimed))
    return ", ".join(parts) or f"{setting.trained_on} clicks, {claim_words(setting.eps_claimed)}"


def setting_title(setting: Setting, settings: Sequence[Setting]) -> str:
    """What a setting is called among others, with its whole chain."""
    vary = len({str(other) for other in settings}) > 1
    label = setting_label(setting, settings) if vary else setting.defense
    return label if setting.defense in label else f"{label}\n{setting.defense}"


def claim_words(eps: float) -> str:
    """A claimed epsilon in a sentence: `eps 1.2`, or `no claim`."""
    return "no claim" if math.isinf(eps) else f"eps {eps:g}"


def _part(setting: Setting, name: str, settings: Sequence[Setting]) -> str:
    text = setting_text(setting, name, settings)
    if name == "trained_on":
        return f"{text} clicks"
    return f"{heading(name)} {text}" if "." in name else text


def chain_label(chain: str) -> str:
    """A chain of defenses without parameters that are at their default.

    >>> chain_label("clip:norm=3,ord=2+none")
    'clip:norm=3+none'
    """
    parts = re.split(r"\+(?=[A-Za-z])", chain)
    known = (make_if_known(Defense, part) for part in parts)
    return "+".join(part if one is None else one.label for part, one in zip(parts, known, strict=True))


def few_lists(counts: Sequence[int]) -> str:
    """A sentence on the numbers of lists that conclusions rest on; empty where each has enough.

    >>> few_lists([14, 11, 90]), few_lists([5]), few_lists([30])
    (' This rests on only 11 to 14 lists.', ' This rests on only 5 lists.', '')
    """
    few = describe_few_lists(counts)
    return f" This rests on {few}." if few else ""


# --- data, warnings and utility --------------------------------------------------------------------

FOLD = Section(
    "fold:int fingerprint train:int? vali:int? test:int? test_without_relevant:int? rows_read:int? "
    "rows_joined:int?"
)
DATASET = Section(
    "source intents:int? intents_from:str? synthetic:bool normalised features:int|null parameters:int?",
    nested("folds", FOLD),
    "queries_too_short:int?",
)
WARNING = Section("defense:str? code warning")
UTILITY = Section(
    SETTING,
    "runs:int ndcg@10:num ndcg@10_undefended:num|null ndcg@10_untrained:num|null ndcg@10_ceiling:num|null "
    "evaluated_on online_sum:num? online_mean:num? maxrr_last_10:num? clipped:num",
)


def dataset_row(facts: Sequence[DataRecord], queries_too_short: int | None = None) -> Row:
    """The facts of some folds, each once; of several intents null says that their source is the data."""
    first = facts[0]
    folds = tuple(FOLD.of(fold) for fold in {fold.fingerprint: fold for fold in facts}.values())
    row = DATASET.of(first, folds=folds, queries_too_short=queries_too_short)
    if first.intents is None or first.intents_from is not None:
        return row
    return Row(row, DATASET.requiring("intents_from"))


def data_title(data: Row) -> str:
    """The data in a title: of which kind, their name, and the fingerprint of files."""
    kind = "synthetic data" if data["synthetic"] else "data"
    files = not is_synthetic_source(data["source"])
    prints = [fold["fingerprint"][:12] for fold in data["folds"] if fold["fingerprint"] and files]
    more = f" and {len(prints) - 1} more" if len(prints) > 1 else ""
    return f"{kind} {data['source']}" + (f" (fingerprint {prints[0]}{more})" if prints else "")


def warning_row(warning: CodedWarning, defense: str | None = None) -> Row:
    """A warning; `defense` is the chain that it is about, if it is about one."""
    return WARNING.row({"defense": defense, "code": warning.code, "warning": warning.text})


def warning_rows(runs: Sequence[Run]) -> tuple[Row, ...]:
    """Each warning about each chain, once."""
    warnings = dict.fromkeys(
        (warning, "+".join(run.spec.defense)) for run in runs for warning in run.record.warnings
    )
    return tuple(warning_row(*each) for each in warnings)


def utility_rows(runs: Sequence[Run]) -> tuple[Row, ...]:
    """How good the trained model of each pool is: means over its runs."""
    return tuple(utility_row([run.utility for run in pool.runs], pool.setting) for pool in pools(runs))


def utility_row(records: Sequence[UtilityRecord], setting: Setting) -> Row:

    def mean(name: str) -> float | None:
        values = [getattr(record, name) for record in records]
        return None if None in values else float(np.mean(values))

    undefended = [record.undefended for record in records if record.undefended is not None]
    return UTILITY.row(
        {
            **setting.columns(),
            "runs": len(records),
            "ndcg@10": mean("ndcg"),
            "ndcg@10_undefended": float(np.mean(undefended)) if undefended else None,
            "ndcg@10_untrained": mean("untrained"),
            "ndcg@10_ceiling": mean("ceiling"),
            "evaluated_on": records[0].evaluated_on,
            **{name: mean(name) for name in ("online_sum", "online_mean")},
            "maxrr_last_10": mean("maxrr_last"),
            "clipped": mean("clipped"),
        },
        setting,
    )


# --- proofs ----------------------------------------------------------------------------------------

RUN_BOUND = Section("unit rounds:int sampled:num eps:num delta:num eps_always:num how")
"""What is proven for all rounds of a run together; an infinite epsilon where nothing is."""


def run_bound_columns(bound: RunBound, prefix: str = "run_") -> dict[str, Any]:
    values = {
        "unit": bound.unit,
        "rounds": bound.rounds,
        "sampled": bound.sampled,
        "eps": bound.upper.epsilon,
        "delta": bound.upper.delta,
        "eps_always": bound.always.epsilon,
        "how": bound.upper.how,
    }
    return {prefix + name: value for name, value in values.items()}


def run_bound_text(row: Row, prefix: str = "run_") -> str:
    """The bound of a run in a column of bounds that are of clients; `(clicks)` where this one is not."""
    eps = row.number(f"{prefix}eps")
    if math.isinf(eps):
        return "∞"
    return f"{eps:.3g}" + ("" if row[f"{prefix}unit"] == "client" else " (clicks)")


def protected_by_run(row: Row, prefix: str = "run_") -> str:
    """Whom or what the bound of a run protects, in words."""
    return "one client" if row[f"{prefix}unit"] == "client" else "all clicks of one client"


def run_caption(rows: Iterable[Row], prefix: str = "run_") -> str:
    """What the numbers in a column `run` assume."""
    bounds = [
        {name: row[prefix + name] for name in ("unit", "rounds", "sampled", "eps", "delta")} for row in rows
    ]
    rounds = " or ".join(str(count) for count in sorted({bound["rounds"] for bound in bounds}))
    deltas = sorted({bound["delta"] for bound in bounds if bound["delta"] and math.isfinite(bound["eps"])})
    delta = f", delta {' or '.join(f'{number:g}' for number in deltas)}" if deltas else ""
    share = sorted({bound["sampled"] for bound in bounds})
    drawn = " or ".join(f"{100 * part:.3g} %" for part in share)
    cohorts = (
        "all clients in each" if share == [1.0] else f"{drawn} of the clients in each, known to the server"
    )
    of_clicks = any(bound["unit"] != "client" and math.isfinite(bound["eps"]) for bound in bounds)
    clicks = "; (clicks): for all clicks of one client" if of_clicks else ""
    return f"run: proven for one client over {rounds} rounds ({cohorts}{delta}){clicks}"


# --- columns and tables ----------------------------------------------------------------------------


def claimed_column() -> Column:
    """The claimed epsilon of a row."""
    return Column("claimed", lambda row: claim_text(row["eps_claimed"]))


def trained_on_column() -> Column:
    """How the users of the training clicked."""
    return Column("trained on", "trained_on", "words")


def defense_columns(rows: Sequence[Row]) -> list[Column]:
    """The chain of a row, if one has a defense, and its claimed epsilon."""
    if not any(row["defense"] not in ("", NO_DEFENSE) for row in rows):
        return [claimed_column()]
    chain = Column(
        "defense", lambda row: chain_label(row["defense"]) or NO_DEFENSE, "fold", narrow=name_lines
    )
    return [chain, claimed_column()]


def setting_columns(rows: Sequence[Row], names: Iterable[str]) -> list[Column]:
    settings = [row.setting for row in rows]

    def of(name: str) -> Column:
        return Column(heading(name), lambda row: setting_text(row.setting, name, settings), "fold")

    return [of(name) for name in names]


def in_method_order(rows: Sequence[Any]) -> list[Any]:
    """The rows with those of each method together, methods in the order in which they first appear."""
    names = list(dict.fromkeys(row["method"] for row in rows))
    return sorted(rows, key=lambda row: names.index(row["method"]))


def by_setting(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows of each setting together, in order."""
    rows_of: dict[str, list[Row]] = {}
    for row in rows:
        rows_of.setdefault(str(row.setting), []).append(row)
    return list(rows_of.values())


def utility_table(rows: Sequence[Row], words: str) -> Table:
    """How good the trained models are; `words` say how queries without relevant documents count."""
    apart = [
        name for name in differing([row.setting for row in rows]) if name not in ("trained_on", "defense")
    ]
    parts = sorted({row["evaluated_on"] for row in rows}, reverse=True)
    return make_table(
        f"nDCG@10 on {' or '.join(parts)}",
        [
            trained_on_column(),
            *setting_columns(rows, apart),
            *defense_columns(rows),
            short_column("untrained", "ndcg@10_untrained"),
            short_column("trained", "ndcg@10"),
            short_column("undefended", "ndcg@10_undefended"),
            short_column("ideal", "ndcg@10_ceiling"),
            percent_column("clipped", "clipped"),
            Column("runs", "runs"),
        ],
        rows,
        caption="ideal: what the best possible ranking reaches; queries without relevant documents "
        f"{words}".rstrip(),
        spare=("runs", "clipped", "ideal", "untrained"),
    )


# --- the line on the data --------------------------------------------------------------------------

_NORMALISED = {"none": "not normalised"}


def systems_of(rows: Sequence[Row]) -> set[tuple[str, str]]:
    """The learners of some rows, each with its PDGD setting."""
    return {(row["learner"], row["pdgd"]) for row in rows}


def dataset_line(data: Row, config: Mapping[str, JsonValue], systems: Iterable[tuple[str, str]]) -> str:
    """The data, its preparation, learners, and the seed; a second line says how many rows have intents."""
    kind = "synthetic data" if data["synthetic"] else "data"
    fold = data["folds"][0]
    sizes = "" if fold["train"] is None else f"{fold['train']} / {fold['vali']} / {fold['test']} queries, "
    origin = f" of {data['intents_from']}" if data["intents_from"] else ""
    intents = "" if data["intents"] is None else f"{data['intents']} intents{origin}, "
    folds = f", first of {len(data['folds'])} folds" if len(data["folds"]) > 1 else ""
    run = list(systems)
    learners = "".join(sorted({f", {learner.partition(':')[0]}" for learner, _ in run} - {", unknown"}))
    settings = ", ".join(sorted({pdgd for _, pdgd in run} - {"none", "unknown/unknown"}))
    pdgd = f", PDGD {settings}" if settings else ""
    known = data["features"] is not None
    width = f"{data['features']} features" if known else f"{data['parameters']} parameters"
    fingerprint = f", fingerprint {fold['fingerprint'][:12]}" if fold["fingerprint"] else ""
    short_ones = data["queries_too_short"]
    left_out = f"; {short_ones} attacked queries with too few documents left out" if short_ones else ""
    joined = ""
    if fold["rows_read"] is not None and fold["rows_joined"] is not None:
        rows = f"{fold['rows_joined']:,} of {fold['rows_read']:,}"
        joined = f"\n{rows} rows joined with {data['intents_from']} by document id"
    return escape(
        f"{kind} {data['source'] or 'of an unknown source'} ({sizes}{intents}{width}, "
        f"{_NORMALISED.get(data['normalised'], data['normalised'])}{folds}{fingerprint}){learners}{pdgd}"
        f"{_sizes(config)}{_chain(config)}, seed {config.get('seed', 'several')}{left_out}{joined}"
    )


def _sizes(config: Mapping[str, JsonValue]) -> str:
    """Numbers of clients and rounds, of a plan with several those of all Specs."""
    counts: dict[str, list[int]] = {"clients": [], "rounds": []}
    for spec in _specs(config):
        for (name, values), table in zip(counts.items(), ("population", "train"), strict=True):
            held = spec.get(table)
            value = held.get(name) if isinstance(held, Mapping) else None
            if isinstance(value, int) and value not in values:
                values.append(value)
    return "".join(
        f", {' or '.join(f'{value:,}' for value in sorted(values))} "
        f"{name.removesuffix('s') if values == [1] else name}"
        for name, values in counts.items()
        if values
    )


def _chain(config: Mapping[str, JsonValue]) -> str:
    """The chain of defenses, if all Specs have the same."""
    chains = [spec["defense"] for spec in _specs(config) if isinstance(spec.get("defense"), list)]
    joined = {"+".join(map(str, chain)) for chain in chains if isinstance(chain, list)}
    (only,) = joined if len(joined) == 1 else ("",)
    return f", defense {chain_label(only)}" if only not in ("", NO_DEFENSE) else ""


def _specs(config: Mapping[str, JsonValue]) -> Iterator[Mapping[str, JsonValue]]:
    cells = config.get("cells", [])
    for spec in (config, config.get("spec"), *(cells if isinstance(cells, list) else [])):
        if isinstance(spec, Mapping):
            yield spec


def no_relevant(config: Mapping[str, JsonValue]) -> str:
    """How queries without relevant documents count, in words."""
    tables = [spec.get("train") for spec in _specs(config)]
    kinds = [table.get("no_relevant") for table in tables if isinstance(table, Mapping)]
    words = {"zero": "count 0", "skip": "are left out"}
    return " or ".join(text for name, text in words.items() if name in kinds)
