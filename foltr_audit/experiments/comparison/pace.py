"""How long the remaining cells will take, from what cells of their sort took."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import fmean

from foltr_audit.core.plugins.base import name_in
from foltr_audit.core.settings.experiment import Spec

Sort = tuple[object, ...]


def sort_of(spec: Spec) -> Sort:
    """What cells of about the same cost have in common.

    Plug-ins count and their numbers do not: another epsilon changes the noise, not the work.
    """
    chain = tuple(name_in(text) for text in spec.defense)
    protocols = (spec.attack is None, spec.audit is None)
    return (*protocols, name_in(spec.train.learner), spec.population.scenario, chain)


def first_of_each_sort(specs: Sequence[Spec]) -> list[int]:
    """An order of the cells that begins with one of each sort of short cells: their costs are soon known.

    All audits follow: they take longest, and with one of them at the end all other workers would wait. They
    stay together, since neighbours draw the same noise.
    """
    audits = [number for number, spec in enumerate(specs) if spec.audit is not None]
    others = [number for number, spec in enumerate(specs) if spec.audit is None]
    first: dict[Sort, int] = {}
    for number in others:
        first.setdefault(sort_of(specs[number]), number)
    return [*first.values(), *audits, *sorted(set(others) - set(first.values()))]


class PaceEstimator:
    """Seconds that cells took, by sort; a sort of which none was run counts as the mean of the others."""

    def __init__(self, specs: Sequence[Spec]) -> None:
        """No cell is done yet."""
        self._left = Counter(sort_of(spec) for spec in specs)
        self._seconds: defaultdict[Sort, list[float]] = defaultdict(list)

    def skip(self, spec: Spec) -> None:
        """A cell need not be run, which says nothing about the speed."""
        self._left[sort_of(spec)] -= 1

    def ran(self, spec: Spec, seconds: float) -> None:
        """A cell took one worker this many seconds."""
        self._left[sort_of(spec)] -= 1
        self._seconds[sort_of(spec)].append(seconds)

    def left(self, busy: int) -> float:
        """Seconds until `busy` workers have done all; infinite before a cell has been run.

        >>> from foltr_audit.core.settings.experiment import Spec
        >>> cells = [Spec.parse({"repetition": run}, "") for run in range(5)]
        >>> pace = PaceEstimator(cells)
        >>> pace.skip(cells[0]); pace.ran(cells[1], 6.0)
        >>> pace.left(busy=2)
        9.0
        """
        means = {sort: fmean(values) for sort, values in self._seconds.items()}
        if not means:
            return math.inf
        usual = fmean(means.values())
        return sum(count * means.get(sort, usual) for sort, count in self._left.items()) / max(1, busy)
