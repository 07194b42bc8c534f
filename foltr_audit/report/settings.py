"""What was run, as the columns and words that all documents and tables share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rich.markup import escape

from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.ranking_metrics import ONLINE_DISCOUNT
from foltr_audit.core.results import UNKNOWN, AttackRecord, DataRecord, UtilityRecord
from foltr_audit.core.settings.data import are_synthetic
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.core.settings.experiment import flat
from foltr_audit.core.warning_kinds import CodedWarning
from foltr_audit.experiments.run import Run, mean_utility
from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.judge.doubts import describe_few_lists
from foltr_audit.judge.scoring import METRICS
from foltr_audit.privacy.bounds import RunBound
from foltr_audit.privacy.noise.parse import parts
from foltr_audit.privacy.observer_views import attacker_sees
from foltr_audit.report.documents import Row, Section, nested, prefixed
from foltr_audit.report.table import (
    Column,
    Table,
    bound_text,
    columns_of,
    make_table,
    name_lines,
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
        pdgd: how the learner makes pairs and normalises.
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
        attack, record = run.spec.attack, run.record
        return cls(
            trained_on=record.trained_on,
            eps_claimed=math.inf if record.claim is None else record.claim,
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


@dataclass(frozen=True)
class Pool:
    """Runs that differ in repetition and fold only: one row of a document pools them."""

    runs: list[Run]
    setting: Setting


_OWN_COLUMN = ("defense", "train.click_model", "attack.click_models", "attack.methods")


def pools(runs: Sequence[Run]) -> list[Pool]:
    """The runs by everything but repetition and fold, in order."""
    same: dict[str, list[Run]] = {}
    tables: dict[str, dict[str, JsonValue]] = {}
    for run in runs:
        table = flat(run.spec.public.table()) | {"train.learner": run.record.learner}
        for name in ("repetition", "data.fold"):
            table.pop(name, None)
        key = json_text(table)
        same.setdefault(key, []).append(run)
        tables[key] = table
    names = dict.fromkeys(name for table in tables.values() for name in table if name not in _OWN_COLUMN)
    differ = [name for name in names if len({json_text(table.get(name)) for table in tables.values()}) > 1]
    return [
        Pool(members, Setting.of(members[0], {name: tables[key].get(name) for name in differ}))
        for key, members in same.items()
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
    if name in ("population.scenario", "learner"):
        return short_scenario(str(value), [str(other.value(name)) for other in settings])
    return f"{value:g}" if isinstance(value, float) else str(value)


def short_scenario(text: str, among: Sequence[str]) -> str:
    """A scenario among others, each that it joins without the parameters that all of its name share.

    >>> short_scenario("a:x=1,y=2+b:z=3", ["a:x=1,y=2+b:z=3", "a:x=1,y=4"])
    'a:y=2+b'
    """
    shorter = without_shared_parameters([part for other in (text, *among) for part in parts(other)])
    return "+".join(shorter[part] for part in parts(text))


def heading(name: str) -> str:
    """What a setting is called: `population.clients` is `clients`."""
    return name.rpartition(".")[2].replace("_", " ")


def setting_label(setting: Setting, settings: Sequence[Setting]) -> str:
    """What a setting is called among others, e.g. `foltr-es, eps 1.2`; by its clicks if it is alone."""
    words = []
    for name in differing(settings):
        text = setting_text(setting, name, settings)
        named = f"{heading(name)} {text}" if "." in name else text
        words.append(f"{text} clicks" if name == "trained_on" else named)
    if len({other.eps_claimed for other in settings}) > 1:
        words.append(claim_words(setting.eps_claimed))
    return ", ".join(words) or f"{setting.trained_on} clicks, {claim_words(setting.eps_claimed)}"


def claim_words(eps: float) -> str:
    """A claimed epsilon in a sentence: `eps 1.2`, or `no claim`."""
    return "no claim" if math.isinf(eps) else f"eps {eps:g}"


def chain_label(chain: str) -> str:
    """A chain of defenses without parameters that are at their default.

    >>> chain_label("clip:norm=3,ord=2+none")
    'clip:norm=3+none'
    """
    links = [(text, make_if_known(Defense, text)) for text in parts(chain)]
    return "+".join(text if link is None else link.label for text, link in links)


def few_lists(counts: Sequence[int]) -> str:
    """The sentence after a conclusion that rests on few lists; empty where it rests on enough."""
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
_NDCGS = {
    "ndcg@10": "ndcg",
    "ndcg@10_undefended": "undefended",
    "ndcg@10_untrained": "untrained",
    "ndcg@10_ceiling": "ceiling",
}


def dataset_row(facts: Sequence[DataRecord], queries_too_short: int | None = None) -> Row:
    """The facts of some folds, each once; of several intents null says that their source is the data."""
    first = facts[0]
    folds = tuple(FOLD.of(fold) for fold in {fold.fingerprint: fold for fold in facts}.values())
    row = DATASET.of(first, folds=folds, queries_too_short=queries_too_short)
    of_data = first.intents is not None and first.intents_from is None
    return Row(row, DATASET.requiring("intents_from")) if of_data else row


def data_title(data: Row) -> str:
    """The data in a title: of which kind, their name, and the fingerprint of files."""
    kind = "synthetic data" if data["synthetic"] else "data"
    files = not are_synthetic(data["source"])
    prints = [fold["fingerprint"][:12] for fold in data["folds"] if fold["fingerprint"] and files]
    more = f" and {len(prints) - 1} more" if len(prints) > 1 else ""
    return f"{kind} {data['source']}" + (f" (fingerprint {prints[0]}{more})" if prints else "")


def warning_row(warning: CodedWarning, defense: str | None = None) -> Row:
    """A warning; `defense` is the chain that it is about, if it is about one."""
    return WARNING.row({"defense": defense, "code": warning.code, "warning": warning.text})


def utility_rows(runs: Sequence[Run]) -> tuple[Row, ...]:
    """How good the trained model of each pool is: means over its runs."""
    return tuple(utility_row([run.utility for run in pool.runs], pool.setting) for pool in pools(runs))


def utility_row(records: Sequence[UtilityRecord], setting: Setting) -> Row:
    mean = partial(mean_utility, records)
    return UTILITY.of(
        records[0],
        setting,
        runs=len(records),
        maxrr_last_10=mean("maxrr_last"),
        **{name: mean(name) for name in ("online_sum", "online_mean", "clipped")},
        **{name: mean(attribute) for name, attribute in _NDCGS.items()},
    )


# --- proofs ----------------------------------------------------------------------------------------

GUESSES = Section("guess:str|null guess_auc:num|null above_guess:est grades_auc:num|null")
"""What stands beside an attack on clicks: the best guess that reads no message and knows no grades, its AUC,
how far that of the attack is above it, and the AUC of the best guess that knows the grades."""

GUESS_NOTES = {
    "guess": "guess: the best AUC without message and grades, by position or at random",
    "above\nguess": "above guess: the attack's AUC less that, which is what messages add",
    "grades": "grades: AUC of a guess that knows the grades of documents",
}
"""What these columns mean in a table, by header."""

GUESS, ABOVE, GRADES = GUESS_COLUMNS = columns_of(
    "guess=guess_auc:3; above\nguess=above_guess; grades=grades_auc:3"
)


def guess_columns(record: AttackRecord | None) -> dict[str, Any]:
    """The columns of `GUESSES`; of a guess itself, or of no attack, they are not known."""
    more = {} if record is None else record.more
    above = UNKNOWN if record is None else record.metric("above_guess")
    return {name: more.get(name) for name in ("guess", "guess_auc", "grades_auc")} | {"above_guess": above}


CLICKS = Section(
    "lists:int skipped:int all_clicked:int queries:int unclicked_documents:int finest_fpr:num|null "
    "clipped:num",
    *(f"{name}:est" for name in METRICS),
    GUESSES,
    "precision_undefined:int unknown:int",
)
"""What an attack on clicks finds."""


def record_values(record: AttackRecord) -> dict[str, Any]:
    """A record by the names of columns."""
    return {
        "method": record.method,
        "baseline": record.baseline,
        **record.counts,
        **record.metrics,
        **record.more,
        **guess_columns(record),
        **prefixed("ceiling_", record.ceiling),
        "group": record.group,
        "place": record.place,
        **{f"{name}_all": value for name, value in record.everybody.items()},
        **{f"{name}_difference": value for name, value in record.differences.items()},
    }


RUN_BOUND = Section("unit rounds:int sampled:num eps:num delta:num eps_always:num how")
"""What is proven for all rounds of a run together; an infinite epsilon where nothing is."""


def run_bound_columns(bound: RunBound, prefix: str = "run_") -> dict[str, Any]:
    upper, always = bound.upper, bound.always.epsilon
    row = RUN_BOUND.of(bound, eps=upper.epsilon, delta=upper.delta, eps_always=always, how=upper.how)
    return prefixed(prefix, row)


def run_bound_text(row: Row) -> str:
    """The bound of a run in a column of bounds that are of clients; `(clicks)` where this one is not."""
    of_clicks = row["run_unit"] != "client" and math.isfinite(row["run_eps"])
    return bound_text(row["run_eps"]) + (" (clicks)" if of_clicks else "")


def protected(unit: str | None) -> str:
    """Whom or what the bound of a run protects, in words, by its unit."""
    return "one client" if unit == "client" else "all clicks of one client"


def run_caption(rows: Iterable[Row]) -> str:
    """What the numbers in a column `run` assume."""
    every = list(rows)
    finite = [row for row in every if math.isfinite(row["run_eps"])]

    def either(values: Iterable[Any], form: Callable[[Any], str] = str) -> str:
        return " or ".join(map(form, sorted(set(values))))

    shares = {row["run_sampled"] for row in every}
    drawn = (
        f"{either(shares, lambda share: f'{100 * share:.3g} %')} of the clients in each, known to the server"
    )
    cohorts = "all clients in each" if shares == {1.0} else drawn
    deltas = either((row["run_delta"] for row in finite if row["run_delta"]), "{:g}".format)
    delta = f", delta {deltas}" if deltas else ""
    of_clicks = any(row["run_unit"] != "client" for row in finite)
    clicks = "; (clicks): for all clicks of one client" if of_clicks else ""
    rounds = either(row["run_rounds"] for row in every)
    return f"run: proven for one client over {rounds} rounds ({cohorts}{delta}){clicks}"


# --- columns and tables ----------------------------------------------------------------------------


def setting_columns(rows: Sequence[Row], *, without: Sequence[str] = ()) -> list[Column]:
    """The columns in which the settings of rows differ."""
    settings = [row.setting for row in rows]

    def of(name: str) -> Column:
        return Column(heading(name), lambda row: setting_text(row.setting, name, settings), "fold")

    return [of(name) for name in differing(settings) if name not in without]


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


def utility_table(rows: Sequence[Row], config: Mapping[str, Any], *, online: bool = False) -> Table:
    """How good the trained models are; and `online`, what their users saw, instead of the undefended ones."""
    part = " or ".join(sorted({row["evaluated_on"] for row in rows}, reverse=True))
    chain = Column(
        "defense", lambda row: chain_label(row["defense"]) or NO_DEFENSE, "fold", narrow=name_lines
    )
    kinds = _values(config, "train", "no_relevant")
    count = " or ".join(words for kind, words in _NO_RELEVANT.items() if kind in kinds)
    of = f"of the trained model ({part.replace('the ', '')}) and of what its users saw (online)"
    return make_table(
        f"nDCG@10 {of if online else f'on {part}'}",
        [
            *columns_of("trained on=trained_on:words"),
            *setting_columns(rows, without=("trained_on", "defense")),
            *([chain] if any(row["defense"] not in ("", NO_DEFENSE) for row in rows) else []),
            *columns_of("claimed=eps_claimed:claim; untrained=ndcg@10_untrained:3; trained=ndcg@10:3"),
            *([] if online else columns_of("undefended=ndcg@10_undefended:3")),
            *columns_of("ideal=ndcg@10_ceiling:3"),
            *(columns_of("online\nmean=online_mean:3; online\nsum=online_sum:2") if online else []),
            *columns_of("clipped:%; runs"),
        ],
        rows,
        caption=f"{_IDEAL} {count}".rstrip() + (f"\n{_ONLINE}" if online else ""),
        spare=("runs", "clipped", "online\nsum", "ideal", "untrained"),
    )


_NO_RELEVANT = {"zero": "count 0", "skip": "are left out"}
_IDEAL = "ideal: what the best possible ranking reaches; queries without relevant documents"
_ONLINE = f"online: mean of the rounds, and sum of the rounds with discount {ONLINE_DISCOUNT}"

# --- the line on the data --------------------------------------------------------------------------


def dataset_line(data: Row, config: Mapping[str, Any], trained: Sequence[Mapping[str, Any]]) -> str:
    """The data, its preparation, the `learner` and `pdgd` of trained models, and the seed.

    A second line says how many rows have intents.
    """
    fold, folds = data["folds"][0], len(data["folds"])
    about = [] if fold["train"] is None else [f"{fold['train']} / {fold['vali']} / {fold['test']} queries"]
    if data["intents"] is not None:
        origin = f" of {data['intents_from']}" if data["intents_from"] else ""
        about.append(f"{data['intents']} intents{origin}")
    known = data["features"] is not None
    about.append(f"{data['features']} features" if known else f"{data['parameters']} parameters")
    about.append("not normalised" if data["normalised"] == "none" else data["normalised"])
    about += [f"first of {folds} folds"] if folds > 1 else []
    files = fold["fingerprint"] and not are_synthetic(data["source"])
    about += [f"fingerprint {fold['fingerprint'][:12]}"] if files else []
    kind = "synthetic data" if data["synthetic"] else "data"
    words = [f"{kind} {data['source'] or 'of an unknown source'} ({', '.join(about)})"]
    words += sorted({row["learner"].partition(":")[0] for row in trained} - {"unknown"})
    pdgd = ", ".join(sorted({row["pdgd"] for row in trained} - {"none", "unknown/unknown"}))
    words += [f"PDGD {pdgd}"] if pdgd else []
    words += _sizes(config)
    chains = {"+".join(spec["defense"]) for spec in _specs(config) if isinstance(spec.get("defense"), list)}
    (chain,) = chains if len(chains) == 1 else ("",)
    words += [] if chain in ("", NO_DEFENSE) else [f"defense {chain_label(chain)}"]
    words.append(f"seed {config.get('seed', 'several')}")
    line, left_out = ", ".join(words), data["queries_too_short"]
    if left_out:
        line += f"; {left_out} attacked queries with too few documents left out"
    if fold["rows_read"] is not None and fold["rows_joined"] is not None:
        joined = f"{fold['rows_joined']:,} of {fold['rows_read']:,}"
        line += f"\n{joined} rows joined with {data['intents_from']} by document id"
    return escape(line)


def _sizes(config: Mapping[str, Any]) -> Iterator[str]:
    """Numbers of clients and rounds, of a plan with several those of all Specs."""
    for table, name in (("population", "clients"), ("train", "rounds")):
        counts = sorted(value for value in _values(config, table, name) if value is not None)
        if counts:
            noun = name.removesuffix("s") if counts == [1] else name
            yield f"{' or '.join(f'{count:,}' for count in counts)} {noun}"


def _values(config: Mapping[str, Any], table: str, name: str) -> set[Any]:
    """The values of a field in all Specs of a configuration."""
    return {spec[table].get(name) for spec in _specs(config) if isinstance(spec.get(table), Mapping)}


def _specs(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    specs = (config, config.get("spec"), *config.get("cells", ()))
    return [spec for spec in specs if isinstance(spec, Mapping)]
