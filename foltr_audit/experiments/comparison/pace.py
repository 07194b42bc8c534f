"""How long the remaining cells will take, from what cells of their sort took."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import fmean

from foltr_audit.core.plugins.base import name_in
from foltr_audit.core.spec.experiment import Spec

Sort = tuple[object, ...]


def sort_of(spec: Spec) -> Sort:
    """What cells of about the same cost have in common.

    Plug-ins count and their numbers do not: another epsilon changes the noise, not the work.
    """
    chain = tuple(name_in(text) for text in spec.defense)
    protocols = (spec.attack is None, spec.audit is None)
    return (*protocols, name_in(spec.train.learner), spec.population.scenario, chain)


def first_of_each_sort(specs: Sequence[Spec]) -> list[int]:
    """An order of the cells that begins with one of each sort, so that all costs are soon known.

    Audits follow: they take longest, and with one of them at the end all other workers would wait.
    """
    first: dict[Sort, int] = {}
    for number, spec in enumerate(specs):
        first.setdefault(sort_of(spec), number)
    later = sorted(set(range(len(specs))) - set(first.values()))
    return [*first.values(), *sorted(later, key=lambda number: specs[number].audit is None)]


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

        >>> from foltr_audit.core.spec.experiment import Spec
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
