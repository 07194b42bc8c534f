"""Columns, cells, lines and captions that several tables share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from rich.markup import escape

from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.results import Estimate
from foltr_audit.privacy.observer_views import attacker, with_article
from foltr_audit.report.results.attack_rows import OfAttack
from foltr_audit.report.results.base import (
    DatasetFacts,
    Setting,
    UtilityRow,
    differing,
    heading,
    setting_text,
)
from foltr_audit.report.tables.table import Align, Cell, Column, Table, make_table
from foltr_audit.utils.formatting import JsonValue, epsilon, short

NAME_WIDTH = 19
"""Letters of a narrow column of names: those of the longest usual part, `secure-aggregation,`."""


def eps_text(value: float) -> str:
    """An epsilon with three digits; infinity as its sign.

    >>> eps_text(1.2), eps_text(float("inf"))
    ('1.2', '∞')
    """
    return "∞" if math.isinf(value) else f"{value:.3g}"


class OfMethod(Protocol):
    """What names a line of a table about methods."""

    @property
    def method(self) -> str:
        """Name of the method."""

    @property
    def eps_claimed(self) -> float | None:
        """The claimed epsilon; None where the line is of every epsilon."""


class OfSetting(Protocol):
    """What names a line of a table about settings."""

    @property
    def setting(self) -> Setting:
        """What was run."""


@dataclass(frozen=True, kw_only=True)
class MetricLine:
    """A line of a table that also has lines of guesses without a message.

    Attributes:
        method: what the line is of.
        eps_claimed: the claimed epsilon; None where the line is of every epsilon.
        baseline: whether no message is read.
        values: the metrics in the order of the columns.
    """

    method: str
    eps_claimed: float | None = None
    baseline: bool = True
    values: tuple[Estimate, ...]

    @classmethod
    def of(cls, row: OfMethod, *values: Estimate, baseline: bool = False) -> MetricLine:
        return cls(method=row.method, eps_claimed=row.eps_claimed, baseline=baseline, values=values)


R = TypeVar("R")
Method = TypeVar("Method", bound=OfMethod)
Place = TypeVar("Place", bound=OfAttack)
Where = TypeVar("Where", bound=OfSetting)


def name_lines(name: str) -> str:
    r"""The name of a defense in lines that end after its parts.

    >>> name_lines("proven-skellam+secure-aggregation, eps 1.2")
    'proven-skellam +\nsecure-aggregation,\neps 1.2'
    """
    lines = [""]
    for part in re.findall(r".+?(?:[+,:] |$)", re.sub(r"\+(?=[A-Za-z])", " + ", name)):
        pieces = [part] if len(part.rstrip()) <= NAME_WIDTH else re.findall(r"[^,]+,* ?", part)
        for piece in pieces:
            if len((lines[-1] + piece).rstrip()) > NAME_WIDTH:
                lines.append("")
            lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines if line)


def method_lines(name: str) -> str:
    r"""The name of a method in lines that end after its parameters.

    >>> method_lines("higher-distance:compare=positions,more_than=4")
    'higher-distance:\ncompare=positions,\nmore_than=4'
    """
    return name if len(name) <= NAME_WIDTH else "\n".join(re.findall(r".+?(?:[:,]|$)", name))


def method_columns() -> tuple[Column[OfMethod], Column[OfMethod]]:
    """The method and its claimed epsilon."""
    method = Column[OfMethod]("method", lambda row: row.method, "fold", narrow=method_lines)
    return method, Column("claimed", lambda row: _epsilon(row.eps_claimed))


def _epsilon(eps: float | None) -> str:
    return "" if eps is None else epsilon(eps)


def claimed_column() -> Column[OfSetting]:
    """The claimed epsilon of a setting."""
    return Column("claimed", lambda row: epsilon(row.setting.eps_claimed))


def defense_columns(rows: Sequence[OfSetting]) -> list[Column[OfSetting]]:
    """The chain of a setting, if one has a defense, and its claimed epsilon."""
    if not any(row.setting.defense not in ("", "none") for row in rows):
        return [claimed_column()]
    chain = Column[OfSetting](
        "defense", lambda row: chain_label(row.setting.defense) or "none", "fold", narrow=name_lines
    )
    return [chain, claimed_column()]


def chain_label(chain: str) -> str:
    """A chain of defenses without parameters that are at their default.

    >>> chain_label("clip:norm=3,ord=2+none")
    'clip:norm=3+none'
    """
    parts = re.split(r"\+(?=[A-Za-z])", chain)
    found = (make_if_known(Defense, part) for part in parts)
    return "+".join(part if one is None else one.label for part, one in zip(parts, found, strict=True))


def trained_on_column() -> Column[OfSetting]:
    """How the users of the training clicked."""
    return Column("trained on", lambda row: row.setting.trained_on, "words")


def setting_columns(rows: Sequence[OfSetting], names: Iterable[str]) -> list[Column[OfSetting]]:
    settings = [row.setting for row in rows]

    def of(name: str) -> Column[OfSetting]:
        return Column(heading(name), lambda row: setting_text(row.setting, name, settings), "fold")

    return [of(name) for name in names]


def estimate_column(
    header: str, number: Callable[[R], Estimate], align: Align = "number", *, beside: bool = False
) -> Column[R]:
    """A number with its interval below it, or `beside` it on a wide terminal."""
    return Column(header, lambda row: estimate_cell(number(row)), align, beside=beside)


def metric_columns(headers: Sequence[str]) -> list[Column[MetricLine]]:
    """The metrics of lines, with the intervals beside them."""

    def of(place: int, header: str) -> Column[MetricLine]:
        return estimate_column(header, lambda line: line.values[place], "name", beside=True)

    return [of(place, header) for place, header in enumerate(headers)]


def short_column(header: str, number: Callable[[R], float | None], digits: int = 3) -> Column[R]:
    """A number without its leading zero."""
    return Column(header, lambda row: short(number(row), digits))


def percent_column(header: str, share: Callable[[R], float | None]) -> Column[R]:
    return Column(header, lambda row: percent(share(row)))


def estimate_cell(found: Estimate) -> Cell:
    """A number without its leading zero, and below it its interval."""
    if found.ci95 is None:
        return Cell(short(found.value))
    low, high = (short(end, 2).replace("1.00", "1.0") for end in found.ci95)
    return Cell(short(found.value), f"{low} to {high}" if low.startswith("-") else f"{low}-{high}")


def estimate_text(found: Estimate) -> str:
    """A number and its interval in one line."""
    cell = estimate_cell(found)
    return f"{cell.text} {cell.below}".rstrip()


def interval_text(found: Estimate, number: Callable[[float], str]) -> str:
    """The interval of a difference, its ends written by `number`."""
    return "-" if found.ci95 is None else " to ".join(map(number, found.ci95))


def percent(value: float | None) -> str:
    """A share as a percentage; `-` where there is none."""
    return "-" if value is None or math.isnan(value) else f"{100 * value:.1f} %"


# --- rows ------------------------------------------------------------------------------------------


def in_method_order(rows: Sequence[Method]) -> list[Method]:
    """The rows with those of each method together, methods in the order in which they first appear."""
    names = list(dict.fromkeys(row.method for row in rows))
    return sorted(rows, key=lambda row: names.index(row.method))


def first_of_settings(rows: Iterable[Where]) -> list[Where]:
    """The first row of each setting, in order."""
    found: dict[str, Where] = {}
    for row in rows:
        found.setdefault(row.setting.defense + str(row.setting.fields), row)
    return list(found.values())


def describe_world(row: OfAttack) -> str:
    """What the rows of a table share: click model, observer, and Spec fields without a column."""
    more = [f", {name}={value}" for name, value in row.setting.fields.items()]
    who = attacker(row.where.view)
    return f"{row.where.click_model} clicks, the {who} sees {with_article(row.sees)}{''.join(more)}"


def group_by_world(rows: Iterable[Place]) -> dict[str, list[Place]]:
    """The rows of each world, by its description."""
    found: dict[str, list[Place]] = {}
    for row in rows:
        found.setdefault(describe_world(row), []).append(row)
    return found


_NORMALISED = {"none": "not normalised"}


def systems_of(rows: Sequence[OfSetting]) -> set[tuple[str, str]]:
    """The learners of some rows, each with its PDGD setting."""
    return {(row.setting.learner, row.setting.pdgd) for row in rows}


def dataset_line(
    data: DatasetFacts, config: Mapping[str, JsonValue], systems: Iterable[tuple[str, str]]
) -> str:
    """The data, its preparation, learners, and the seed; a second line says how many rows have intents."""
    kind = "synthetic data" if data.synthetic else "data"
    fold = data.folds[0]
    sizes = "" if fold.train is None else f"{fold.train} / {fold.vali} / {fold.test} queries, "
    origin = f" of {data.intents_from}" if data.intents_from else ""
    intents = "" if data.intents is None else f"{data.intents} intents{origin}, "
    folds = f", first of {len(data.folds)} folds" if len(data.folds) > 1 else ""
    run = list(systems)
    learners = "".join(sorted({f", {learner.partition(':')[0]}" for learner, _ in run} - {", unknown"}))
    settings = ", ".join(sorted({pdgd for _, pdgd in run} - {"none", "unknown/unknown"}))
    pdgd = f", PDGD {settings}" if settings else ""
    width = f"{data.parameters} parameters" if data.features is None else f"{data.features} features"
    fingerprint = f", fingerprint {fold.fingerprint[:12]}" if fold.fingerprint else ""
    short_ones = data.queries_too_short
    left_out = f"; {short_ones} attacked queries with too few documents left out" if short_ones else ""
    return escape(
        f"{kind} {data.source or 'of an unknown source'} ({sizes}{intents}{width}, "
        f"{_NORMALISED.get(data.normalised, data.normalised)}{folds}{fingerprint}){learners}{pdgd}"
        f"{_sizes(config)}{_chain(config)}, seed {config.get('seed', 'several')}{left_out}{_joined(data)}"
    )


def _sizes(config: Mapping[str, JsonValue]) -> str:
    """Numbers of clients and rounds, of a plan with several those of all Specs."""
    found: dict[str, list[int]] = {"clients": [], "rounds": []}
    for spec in _specs(config):
        for (name, values), table in zip(found.items(), ("population", "train"), strict=True):
            held = spec.get(table)
            value = held.get(name) if isinstance(held, Mapping) else None
            if isinstance(value, int) and value not in values:
                values.append(value)
    return "".join(
        f", {' or '.join(f'{value:,}' for value in sorted(values))} "
        f"{name.removesuffix('s') if values == [1] else name}"
        for name, values in found.items()
        if values
    )


def _chain(config: Mapping[str, JsonValue]) -> str:
    """The chain of defenses, if all Specs have the same."""
    chains = [spec["defense"] for spec in _specs(config) if isinstance(spec.get("defense"), list)]
    found = {"+".join(map(str, chain)) for chain in chains if isinstance(chain, list)}
    (only,) = found if len(found) == 1 else ("",)
    return f", defense {chain_label(only)}" if only not in ("", "none") else ""


def _specs(config: Mapping[str, JsonValue]) -> Iterator[Mapping[str, JsonValue]]:
    cells = config.get("cells", [])
    for spec in (config, config.get("spec"), *(cells if isinstance(cells, list) else [])):
        if isinstance(spec, Mapping):
            yield spec


def _joined(data: DatasetFacts) -> str:
    """The line of intents that are joined by document id; empty where none are."""
    fold = data.folds[0]
    if fold.rows_read is None or fold.rows_joined is None:
        return ""
    return f"\n{fold.rows_joined:,} of {fold.rows_read:,} rows joined with {data.intents_from} by document id"


def no_relevant(config: Mapping[str, JsonValue]) -> str:
    """How queries without relevant documents count, in words."""
    tables = [spec.get("train") for spec in _specs(config)]
    found = [table.get("no_relevant") for table in tables if isinstance(table, Mapping)]
    words = {"zero": "count 0", "skip": "are left out"}
    return " or ".join(text for name, text in words.items() if name in found)


def utility_table(rows: Sequence[UtilityRow], words: str) -> Table:
    """How good the trained models are; `words` say how queries without relevant documents count."""
    settings = [row.setting for row in rows]
    apart = [name for name in differing(settings) if name not in ("trained_on", "defense")]
    columns: list[Column[UtilityRow]] = [
        trained_on_column(),
        *setting_columns(rows, apart),
        *defense_columns(rows),
        short_column("untrained", lambda row: row.untrained),
        short_column("trained", lambda row: row.ndcg),
        short_column("undefended", lambda row: row.undefended),
        short_column("ideal", lambda row: row.ceiling),
        percent_column("clipped", lambda row: row.clipped),
        Column("runs", lambda row: str(row.runs)),
    ]
    return make_table(
        f"nDCG@10 on {' or '.join(sorted({row.evaluated_on for row in rows}, reverse=True))}",
        columns,
        rows,
        caption="ideal: what the best possible ranking reaches; queries without relevant documents "
        f"{words}".rstrip(),
        spare=("runs", "clipped", "ideal", "untrained"),
    )
