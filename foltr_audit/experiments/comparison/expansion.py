"""The cells of a grid, with the names of their defenses, and the combinations that cannot be run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from foltr_audit.core.plugins import Learner
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.defaults import NO_DEFENSE, SCENARIO
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.errors import UsageError
from foltr_audit.experiments.comparison.alternatives import (
    DefenseAlternative,
    fill_places,
    published_sensitivity,
)
from foltr_audit.experiments.comparison.grid import ComparisonGrid, Kind
from foltr_audit.experiments.runner import Runner
from foltr_audit.utils.formatting import epsilon
from foltr_audit.utils.rows import ResultRow

Point = tuple[str, str, str, float]
"""Learner, scenario, click model and epsilon that a sensitivity is chosen for."""


class DefenseLabel(NamedTuple):
    """Which defense of the comparison a cell has.

    Attributes:
        alternative: its text in the grid.
        eps: the epsilon that it was made for; None where it does not depend on it.
        sensitivity: the Delta that it was made for; also None.
    """

    alternative: str
    eps: float | None = None
    sensitivity: float | None = None

    @property
    def text(self) -> str:
        """The name of its row, e.g. `published, eps 1.2`; the places of a template are filled."""
        if self.eps is None:
            return self.alternative
        name = fill_places(
            self.alternative, self.eps, math.nan if self.sensitivity is None else self.sensitivity
        )
        return name if "{eps}" in self.alternative else f"{name}, eps {epsilon(self.eps)}"


class CellPlan(NamedTuple):
    """One cell: a Spec, its purpose, and the name of its defense.

    Attributes:
        spec: what is run.
        kind: `attack` trains and attacks; `audit` checks the claim; `select` only trains, to choose a
            sensitivity on the validation split.
        label: its defense.
    """

    spec: Spec
    kind: Kind
    label: DefenseLabel

    @property
    def name(self) -> str:
        """Its defense, clicks and run: `published, eps 1.2, perfect clicks, run 0`."""
        eps = "" if self.label.eps is None else f", eps {self.label.eps:g}"
        return (
            f"{self.label.alternative}{eps}, {self.spec.train.click_model} clicks, run {self.spec.repetition}"
        )


@dataclass(frozen=True, kw_only=True)
class GridExclusion(ResultRow):
    """A combination that cannot be run, and why."""

    learner: str
    defense: str
    why: str


@dataclass(frozen=True, kw_only=True)
class SensitivityTrial(ResultRow):
    """A sensitivity that was tried for one point of the grid.

    Attributes:
        learner, scenario, click_model, eps: the point.
        sensitivity: Delta.
        ndcg: mean nDCG@10 on the validation split over runs.
        chosen: whether it is the best one; of equals the smallest.
    """

    learner: str
    scenario: str
    click_model: str
    eps: float
    sensitivity: float
    ndcg: float
    chosen: bool = False

    @property
    def point(self) -> Point:
        """The point of the grid."""
        return self.learner, self.scenario, self.click_model, self.eps


class GridExpansion:
    """The cells of a grid, and the combinations that cannot be run."""

    def __init__(self, grid: ComparisonGrid, study: Runner, chosen: Mapping[Point, float]) -> None:
        """`study` loads the data, on whose features some noise depends; `chosen` are sensitivities."""
        self.grid = grid
        self.study = study
        self.chosen = chosen
        self.left_out: dict[GridExclusion, None] = {}
        self._chains: dict[tuple[str, str, DefenseLabel], tuple[str, ...]] = {}

    def cells(self) -> list[CellPlan]:
        """Attacked and audited cells, ordered by repetition first; equal Specs once.

        Raises:
            UsageError: no combination can be run.
        """
        found = [*self._attacked(), *self._audited()] if self.grid.audit else list(self._attacked())
        if not found:
            why = "; ".join(dict.fromkeys(one.why for one in self.left_out))
            raise UsageError(f"compare: nothing to run: {why}")
        return self._once(found)

    def _once(self, found: Sequence[CellPlan]) -> list[CellPlan]:
        """Each Spec once, under its first name; another name of the same chain is left out."""
        first: dict[Spec, CellPlan] = {}
        for cell in found:
            kept = first.setdefault(cell.spec, cell)
            if kept.label != cell.label:
                learner, same = make(Learner, cell.spec.train.learner).label, kept.label.text
                self._leave_out(learner, cell.label.text, f"the same chain as {same}")
        return list(first.values())

    def _leave_out(self, learner: str, defense: str, why: str) -> None:
        self.left_out[GridExclusion(learner=learner, defense=defense, why=why)] = None

    def selection(self, deltas: Sequence[float]) -> Iterator[CellPlan]:
        """Trainings of the published chain with each Delta."""
        published = DefenseAlternative("published")
        for run in range(self.grid.runs):
            for learner, scenario, click_model in self._settings():
                if make(Learner, learner).sends != "models":
                    continue
                blank = self.grid.spec_of(learner, scenario, click_model, run, "select")
                for eps, delta in product(self.grid.eps, deltas):
                    label = DefenseLabel(published.text, eps, delta)
                    spec = self._defended(blank, "select", label)
                    if spec is not None:
                        yield CellPlan(spec, "select", label)

    def _sensitivity(self, point: Point) -> float:
        if self.grid.sensitivity is not None:
            return self.grid.sensitivity
        return self.chosen.get(point, published_sensitivity(point[-1]))

    def _settings(self) -> Iterator[tuple[str, str, str]]:
        return product(self.grid.learners, self.grid.scenarios, self.grid.click_models)

    def _attacked(self) -> Iterator[CellPlan]:
        for run in range(self.grid.runs):
            for learner, scenario, click_model in self._settings():
                blank = self._blank(learner, scenario, click_model, run, "attack")
                if blank is not None:
                    yield from self._alternatives(blank, click_model, "attack")

    def _audited(self) -> Iterator[CellPlan]:
        seen = set()
        for learner, scenario, click_model in self._settings():
            blank = self._blank(learner, scenario, self.grid.click_models[0], 0, "audit")
            several = self._alternatives(blank, click_model, "audit") if blank else ()
            for cell in several:
                if (learner, scenario, cell.spec.defense) not in seen:
                    seen.add((learner, scenario, cell.spec.defense))
                    yield cell

    def _blank(self, learner: str, scenario: str, click_model: str, run: int, kind: Kind) -> Spec | None:
        """The Spec of a point without a defense; None, and left out, where there is none."""
        try:
            spec = self.grid.spec_of(learner, scenario, click_model, run, kind)
            if scenario != SCENARIO:
                _ = self.study.setup(spec).clients.population  # refuses a scenario that does not fit the data
            if spec.audit is not None:
                from foltr_audit.auditing.audit import Audit  # slow to import, and not every grid audits

                Audit(self.study.setup(spec), spec.audit)  # refuses what cannot be audited
        except UsageError as error:
            self._leave_out(make(Learner, learner).label, kind, str(error))
            return None
        return spec

    def _alternatives(self, blank: Spec, click_model: str, kind: Kind) -> Iterator[CellPlan]:
        learner, scenario = blank.train.learner, blank.population.scenario
        several = [DefenseAlternative(text) for text in self.grid.defenses]
        if not any(one.text == NO_DEFENSE for one in several):
            several.insert(0, DefenseAlternative(NO_DEFENSE))
        for one in several:
            for eps in self.grid.eps if one.uses_epsilon else (None,):
                delta = None if eps is None else self._sensitivity((learner, scenario, click_model, eps))
                label = DefenseLabel(one.text, eps, delta)
                spec = self._defended(blank, kind, label)
                if spec is not None:
                    yield CellPlan(self._with_claim(spec, label), kind, label)

    def _with_claim(self, spec: Spec, label: DefenseLabel) -> Spec:
        """The audit of the epsilon that a chain is proven for; with a delta where it claims no pure one.

        The claim covers the observers of the promise, and those of the shown lists only where lists reveal
        nothing about clicks.
        """
        if spec.audit is None:
            return spec
        alternative = DefenseAlternative(label.alternative)
        claim: Mapping[str, object] | None = alternative.proven(label.eps, self.grid.delta)
        if claim is None:
            without = math.isinf(self.study.setup(spec).privacy.claim())
            claim = {"delta": self.grid.delta} if without and spec.audit.delta is None else {}
        else:
            claim = {**claim, "claim_on": alternative.promised_views(self.study.setup(spec))}
        return spec.model_copy(update={"audit": spec.audit.model_copy(update=claim)})

    def _defended(self, blank: Spec, kind: Kind, label: DefenseLabel) -> Spec | None:
        """The Spec with a defense; None, and left out, where the two do not fit."""
        learner, scenario = blank.train.learner, blank.population.scenario
        key = (learner, blank.data.source, label)
        try:
            if key not in self._chains:
                setup = self.study.setup(blank)
                self._chains[key] = DefenseAlternative(label.alternative).chain(
                    setup, label.eps or 1.0, label.sensitivity or 1.0, self.grid.delta
                )
            return self.grid.spec_of(
                learner, scenario, blank.train.click_model, blank.repetition, kind, self._chains[key]
            )
        except UsageError as error:
            self._leave_out(make(Learner, learner).label, label.alternative, str(error))
            return None
