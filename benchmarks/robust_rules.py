"""What robust rules of the server keep and what they give away: `python -m benchmarks.robust_rules`.

For each rule, federations train under every poisoning and without any, in several runs. What is lost is
the nDCG@10 of the plain mean without malicious clients less that of the rule, paired by run and fold. The
price in privacy is what every client reads from consecutive global models (`--view client`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.heavy_tails import data_of
from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.plugins.defense import stages_of
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.plan import Plan
from foltr_audit.experiments.runner import Runner, run_plan
from foltr_audit.judge.significance import mean_interval, paired_t_test
from foltr_audit.report.attack import AttackReport
from foltr_audit.simulation.federation import bytes_per_client
from foltr_audit.utils.arrays import Floats

MEAN = "none"
RULES = (
    *(MEAN, "norm-bound:norm=0.5", "median", "trimmed-mean:share=0.3", "krum:malicious=3"),
    *("multi-krum:malicious=3", "bulyan:malicious=1", "fltrust"),
)
POISONINGS = ("reversed-clicks", "gradient-reversal", "lie", "min-max", "min-sum", "fang")
NO_POISONING = "none"
SECURE = "secure-aggregation"

ATTACK = "joint-map"
GUESS = "relevance-prior"
COHORT = 10
ATTACKED_POPULATION = {"clients": 100, "cohort": COHORT}
ATTACKED_RUNS = 2


@dataclass(frozen=True)
class RobustStudy:
    """Who trains, on what, how often.

    Attributes:
        data: a source of data; run i takes fold i of data in folds.
        clients: all of them take part in every round.
        interactions: of a client in a round.
        rounds: of a training.
        poisonings: what malicious clients do.
        shares: of malicious clients.
        runs: trainings of each row.
    """

    data: str
    clients: int = 10
    interactions: int = 5
    rounds: int = 1000
    poisonings: tuple[str, ...] = POISONINGS
    shares: tuple[float, ...] = (0.3,)
    runs: int = 5

    def spec(self, rule: str, run: int, **changes: Mapping[str, object]) -> Spec:
        """The Spec of one training with a rule; runs count from 1."""
        learner = f"fpdgd:interactions={self.interactions},learning_rate=0.1,pairs=all,normaliser=shown"
        table: dict[str, Any] = {
            "repetition": run - 1,
            "defense": [rule],
            "data": data_of(self.data, "zscore", run),
            "population": {"clients": self.clients},
            "train": {
                "learner": learner,
                "click_model": "informational",
                "rounds": self.rounds,
                "evaluate_every": self.rounds,
            },
        }
        for name, values in changes.items():
            table[name] = {**table.get(name, {}), **values}
        return Spec.parse(table)

    def ndcg(self, rule: str, poisoning: str) -> Floats:
        """nDCG@10 of the trained models, one for each run, float64 (runs,)."""
        runs = range(1, self.runs + 1)
        poisoned: dict[str, dict[str, object]] = {
            "population": {"poisoning": poisoning},
            "trace": {"every": 0},
        }
        specs = [self.spec(rule, run, **poisoned) for run in runs]
        return np.array([cell.trained.ndcg for cell in run_plan(Plan(tuple(specs)), None, Runner())])

    @cached_property
    def honest(self) -> Floats:
        """nDCG@10 of the plain mean without malicious clients, float64 (runs,)."""
        return self.ndcg(MEAN, NO_POISONING)

    def utility_rows(self, rule: str) -> Iterator[dict[str, Any]]:
        """Rows of a rule: without malicious clients, then under each poisoning with each share of them."""
        yield self._row(rule, NO_POISONING, 0.0)
        for poisoning in self.poisonings:
            for share in self.shares:
                yield self._row(rule, poisoning, share)

    def _row(self, rule: str, poisoning: str, share: float) -> dict[str, Any]:
        full = f"{poisoning}:share={share:g}" if share else poisoning
        honest = self.honest
        found = honest if (rule, full) == (MEAN, NO_POISONING) else self.ndcg(rule, full)
        lost = paired_t_test(honest, found)
        return {
            "rule": rule,
            "poisoning": poisoning,
            "share": share,
            "runs": self.runs,
            "ndcg@10": float(found.mean()),
            "ndcg@10_ci95": mean_interval(found),
            "lost": lost.difference,
            "lost_ci95": lost.ends,
        }


@dataclass(frozen=True)
class RuleSecrecy:
    """What a rule gives away: cohorts of 10 of 100 clients, one list each, informational users.

    Attributes:
        study: the data.
        rule: the rule.
        rounds: attacked rounds of each of `ATTACKED_RUNS` runs.
    """

    study: RobustStudy
    rule: str
    rounds: int

    def row(self) -> dict[str, Any]:
        """What a client reads, what a client sends, and whether the rule runs on a secure sum."""
        return {"rule": self.rule, "view": "client", **self._read(), **self._costs()}

    def _read(self) -> dict[str, Any]:
        runs = range(1, ATTACKED_RUNS + 1)
        protocol = {
            "methods": [ATTACK],
            "click_models": ["informational"],
            "target": "training",
            "view": "client",
        }
        plan = Plan(tuple(self._spec(run, self.rule, attack=protocol) for run in runs))
        report = AttackReport.of(plan, run_plan(plan, None, Runner(with_undefended=False)))
        rows = {row["method"]: row for row in report.results}
        exact, guess, lists = rows[ATTACK]["exact"], rows[GUESS]["exact"], rows[ATTACK]["lists"]
        (changes,) = report.published
        rounds = changes["rounds"] + changes["unchanged"]
        return {
            "lists": lists,
            "exact": exact.value,
            "exact_ci95": exact.ci95,
            "known": guess.value,
            "known_ci95": guess.ci95,
            "read_a_round": exact.value * lists / rounds,
            "rounds": rounds,
            "named": changes["singled_out"],
            "right": changes["right"],
        }

    def _costs(self) -> dict[str, Any]:
        on_sums = all(
            link.works_on_sums for link in parse_chain([self.rule]) if "aggregate" in stages_of(link)
        )
        return {
            "secure_aggregation": on_sums,
            "bytes": self._bytes(self.rule),
            "secure_bytes": self._bytes(SECURE if self.rule == MEAN else f"{self.rule}+{SECURE}")
            if on_sums
            else None,
        }

    def _bytes(self, defense: str) -> float | None:
        spec = self._spec(1, defense, train={"rounds": 1})
        runner = Runner()
        setup, cell = runner.setup(spec), runner.run(spec)
        return bytes_per_client(
            setup.learner, setup.chain, setup.ranker.n_parameters, spec.trace, cell.trained.rounds
        )

    def _spec(self, run: int, rule: str, **changes: Mapping[str, object]) -> Spec:
        small = RobustStudy(self.study.data, interactions=1, rounds=self.rounds)
        return small.spec(rule, run, population=ATTACKED_POPULATION, **changes)


def main(given: Sequence[str] | None = None) -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="synthetic:mq2007:100", help="Data set.")
    parser.add_argument("--rule", action="append", help="Rule of the server; repeatable. Default: all.")
    parser.add_argument("--clients", type=int, default=10, help="Clients of a round.")
    parser.add_argument("--interactions", type=int, default=5, help="Interactions of a client in a round.")
    parser.add_argument("--rounds", type=int, default=1000, help="Rounds of a training.")
    parser.add_argument("--poisoning", action="append", help="Repeatable. Default: all but promotion.")
    parser.add_argument("--share", type=float, action="append", help="Malicious clients; repeatable.")
    parser.add_argument("--runs", type=int, default=5, help="Trainings of each row.")
    parser.add_argument("--attacked", type=int, default=10, help="Attacked rounds of a run; 0: no attack.")
    options = parser.parse_args(given)
    study = RobustStudy(
        data=options.data,
        clients=options.clients,
        interactions=options.interactions,
        rounds=options.rounds,
        poisonings=tuple(options.poisoning or POISONINGS),
        shares=tuple(options.share or [0.3]),
        runs=options.runs,
    )
    rows: list[dict[str, Any]] = []
    for rule in options.rule or RULES:
        rows += study.utility_rows(rule)
        if options.attacked:
            rows.append(RuleSecrecy(study, rule, options.attacked).row())
    report = {
        "schema": "foltr-audit/robust-rules/1",
        "config": {"seed": 1, "cells": [{"repetition": i} for i in range(study.runs)]},
        "rows": rows,
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
