"""The report of `attack`: one row per method, click model, claimed epsilon and view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runner import RunResult
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.protocol import TaskEvidence
from foltr_audit.judge.scoring import METRICS, AttackScorer, AttackScores
from foltr_audit.report.results import attack_rows as details
from foltr_audit.report.results.base import (
    Report,
    Row,
    RunGroup,
    dataset_table,
    groups,
    utility_rows,
    warning_rows,
)
from foltr_audit.report.results.doubts import doubt_rows
from foltr_audit.report.results.group_success import group_rows
from foltr_audit.report.results.group_utility import utility_group_rows
from foltr_audit.report.results.inquiries import inquiry_rows
from foltr_audit.rng import Streams
from foltr_audit.utils.rows import column

KINDS = (
    "any_click",
    "calibration",
    "groups",
    "identifiability",
    "information",
    "places",
    "queries",
    "refused",
    "results",
)
"""The kinds of rows that come from evidence."""

INQUIRIES = ("counts", "intent_inference", "linkage", "query_identification", "tasks")
"""The kinds of rows of attacks on something other than clicks."""


@dataclass(frozen=True, kw_only=True)
class AttackReport(Report):
    """The result of `attack`. Every row names its click model, training, claimed epsilon and view.

    Attributes:
        any_click: one row per attack on whether a list has any click, over all lists.
        calibration: one row per attack whose scores are probabilities.
        counts: one row per attack on sums over clients, estimates without a message first.
        facts: of a recorded trace, whether its declared facts explain its messages; one row per trace.
        groups: one row per guesser and group of clients, hit hardest first; left out where clients do not
            differ.
        identifiability: one row per setting: what its messages can reveal to any attack.
        intent_inference: one row per attack on the intents of clients.
        places: one row per guesser and place of a list in its message, followed by other lists or the last
            one; left out where a message has one list.
        linkage: one row per attack that links a client's messages, simple ones first.
        information: one row per attack that weighs click patterns: bits of a list's clicks in its message.
        queries: one row per attack and attacked list of the named queries.
        query_identification: one row per attack that identifies queries.
        refused: one row per attack that could not run, and why.
        tasks: one row per attack with a task of another package, which `task` names; left out without any.
        results: one row per method, click model, claimed epsilon and view; baselines first.
    """

    SCHEMA: ClassVar[str] = "foltr-audit/attack/1"

    any_click: list[Row]
    calibration: list[Row]
    counts: list[Row] = field(default_factory=list)
    facts: list[Row] = column(optional=True, default=())
    groups: list[Row] = column(optional=True, default=())
    identifiability: list[Row]
    information: list[Row] = field(default_factory=list)
    intent_inference: list[Row] = field(default_factory=list)
    linkage: list[Row] = field(default_factory=list)
    places: list[Row] = column(optional=True, default=())
    queries: list[Row]
    query_identification: list[Row] = field(default_factory=list)
    refused: list[Row]
    tasks: list[Row] = column(optional=True, default=())
    results: list[Row]

    @classmethod
    def of(cls, plan: Plan, cells: Sequence[RunResult]) -> AttackReport:
        """The report on the cells of a plan. Repetitions of one setting are pooled."""
        pieces = [rows for group in groups(cells) for rows in _rows(group)]
        rows = joined(pieces)
        return cls(
            config=plan.table(),
            dataset=dataset_table([cell.data.plain() for cell in cells])
            | {"queries_too_short": max(cell.attacks.too_short for cell in cells)},
            utility=utility_rows(cells),
            utility_groups=utility_group_rows(cells),
            warnings=warning_rows(cells) + doubt_rows(rows["results"]),
            **rows,
            **joined(pieces, INQUIRIES),
        )


def _rows(group: RunGroup) -> Iterator[dict[str, list[Row]]]:
    spec = group.cells[0].spec
    queries = spec.attack.queries if spec.attack is not None else ()
    for click_model in group.cells[0].attacks.found:
        found = TaskEvidence.combined([cell.attacks.found[click_model] for cell in group.cells])
        yield rows_of(found, click_model, group.setting, Streams(spec.seed), queries)


def joined(pieces: Iterable[dict[str, list[Row]]], kinds: Sequence[str] = KINDS) -> dict[str, list[Row]]:
    """The rows of several settings, by kind."""
    several = list(pieces)
    return {kind: [row for rows in several for row in rows[kind]] for kind in kinds}


def rows_of(
    found: TaskEvidence,
    click_model: str,
    setting: Row,
    streams: Streams,
    queries: Sequence[str] = (),
) -> dict[str, list[Row]]:
    """Rows of every kind, by the names of `KINDS` and `INQUIRIES`; arguments as for `attack_rows`."""
    rows: dict[str, list[Row]] = {kind: [] for kind in KINDS}
    if found.clicks is not None:
        rows = attack_rows(found.clicks, click_model, setting, streams, queries)
    return rows | inquiry_rows(found, click_model, setting, streams)


def attack_rows(
    evidence: ClickEvidence, click_model: str, setting: Row, streams: Streams, queries: Sequence[str] = ()
) -> dict[str, list[Row]]:
    """Rows of every kind for the individual view of judged lists, by the names of `KINDS`.

    Args:
        evidence: all judged lists of one setting.
        click_model: how the attacked users click.
        setting: columns that name what was run.
        streams: named random streams, of which the bootstrap is one.
        queries: names of queries whose attacked lists get a row each.
    """
    where, resamples = _where(click_model, setting), QueryBootstrap(evidence.query, streams)
    return {
        "any_click": list(details.any_click_rows(evidence, where, resamples)),
        "calibration": list(details.calibration_rows(evidence, where, resamples)),
        "groups": list(group_rows(evidence, where, streams)),
        "identifiability": [details.identifiability_row(evidence, where)],
        "information": list(details.information_rows(evidence, where, resamples)),
        "places": list(group_rows(evidence.by_followers(), where, streams)),
        "queries": list(details.query_rows(evidence, where, queries)),
        "refused": list(details.refused_rows(evidence, where)),
        "results": list(result_rows(evidence, click_model, setting, streams)),
    }


def _where(click_model: str, setting: Row) -> Row:
    return {"click_model": click_model, **setting, "view": "individual"}


def result_rows(evidence: ClickEvidence, click_model: str, setting: Row, streams: Streams) -> Iterator[Row]:
    """One row per guesser for the individual view of judged lists, baselines first.

    `lists` have a click and `skipped` have none. A FPR among their `unclicked_documents` moves in steps of
    `finest_fpr`.
    """
    scorer = AttackScorer(evidence, streams)
    judged = scorer.evidence
    lists = {
        "lists": int(judged.query.size),
        "skipped": int(evidence.query.size - judged.query.size),
        "all_clicked": int(judged.ties.sum()),
        "queries": int(np.unique(judged.query).size),
        "unclicked_documents": scorer.unclicked,
        "finest_fpr": 1 / scorer.unclicked if scorer.unclicked else None,
        "clipped": evidence.clipped / evidence.steps if evidence.steps else float("nan"),
    }
    for scored in scorer.scores():
        yield {
            "method": scored.method,
            "baseline": scored.method.startswith("random:") or scored.method in evidence.baselines,
            **_where(click_model, setting),
            **lists,
            **_metric_columns(scored),
        }


def _metric_columns(scored: AttackScores) -> Row:
    found = {name: scored.metrics[name] for name in METRICS if name in scored.metrics}
    row: Row = {name: found[name].value if name in found else None for name in METRICS}
    row["precision_undefined"] = scored.precision_undefined
    for name in METRICS:
        interval = found[name].ci95 if name in found else None
        row[f"{name}_ci95"] = None if interval is None else list(interval)
    return row
