"""Columns, cells, lines and captions that several tables share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from rich.markup import escape

from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.registry import make_if_known
from foltr_audit.core.results import Estimate
from foltr_audit.report.results.base import (
    DatasetFacts,
)
from foltr_audit.report.tables.table import Align, Cell, Column
from foltr_audit.utils.formatting import JsonValue, short

NAME_WIDTH = 19
"""Letters of a narrow column of names: those of the longest usual part, `secure-aggregation,`."""


def eps_text(value: float) -> str:
    """An epsilon with three digits; infinity as its sign.

    >>> eps_text(1.2), eps_text(float("inf"))
    ('1.2', '∞')
    """
    return "∞" if math.isinf(value) else f"{value:.3g}"


R = TypeVar("R")


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


def chain_label(chain: str) -> str:
    """A chain of defenses without parameters that are at their default.

    >>> chain_label("clip:norm=3,ord=2+none")
    'clip:norm=3+none'
    """
    parts = re.split(r"\+(?=[A-Za-z])", chain)
    found = (make_if_known(Defense, part) for part in parts)
    return "+".join(part if one is None else one.label for part, one in zip(parts, found, strict=True))


def estimate_column(
    header: str, number: Callable[[R], Estimate], align: Align = "number", *, beside: bool = False
) -> Column[R]:
    """A number with its interval below it, or `beside` it on a wide terminal."""
    return Column(header, lambda row: estimate_cell(number(row)), align, beside=beside)


def short_column(header: str, number: Callable[[R], float | None], digits: int = 3) -> Column[R]:
    """A number without its leading zero."""
    return Column(header, lambda row: short(number(row), digits))


def estimate_cell(found: Estimate) -> Cell:
    """A number without its leading zero, and below it its interval."""
    if found.ci95 is None:
        return Cell(short(found.value))
    low, high = (short(end, 2).replace("1.00", "1.0") for end in found.ci95)
    return Cell(short(found.value), f"{low} to {high}" if low.startswith("-") else f"{low}-{high}")


def interval_text(found: Estimate, number: Callable[[float], str]) -> str:
    """The interval of a difference, its ends written by `number`."""
    return "-" if found.ci95 is None else " to ".join(map(number, found.ci95))


def percent(value: float | None) -> str:
    """A share as a percentage; `-` where there is none."""
    return "-" if value is None or math.isnan(value) else f"{100 * value:.1f} %"


# --- rows ------------------------------------------------------------------------------------------


_NORMALISED = {"none": "not normalised"}


def systems_of(rows: Sequence[Any]) -> set[tuple[str, str]]:
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
