"""docs/results.md from its prose, and from the rows of `results/`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results.cells import lines
from benchmarks.results.declarations import ResultDeclarations, Row, check
from benchmarks.results.files import ResultFolder
from benchmarks.results.verdicts import verdicts
from foltr_audit.experiments.presets import READINGS

PROSE = Path(__file__).parent / "pages" / "results.md"
PLACE = re.compile(r"^\{\{ (claims of )?([\w-]+) \}\}$", re.MULTILINE)


@dataclass(frozen=True)
class ResultsPage:
    """The page.

    Attributes:
        declared: what it may show.
        results: files of results.
    """

    declared: ResultDeclarations
    results: ResultFolder

    def text(self, prose: str) -> str:
        """The page of this prose.

        Raises:
            UsageError: a place that is not declared, or claims of a paper without a place.
        """
        places = PLACE.findall(prose)
        papers = {name: "" for claims, name in places if claims}
        check("claim", [claim.paper for claim in self.declared.claims], papers)
        check(PROSE.name, [name for claims, name in places if not claims], self.declared.excerpts)
        return PLACE.sub(lambda place: self._shown(place[2], claims=bool(place[1])), prose)

    def _shown(self, name: str, *, claims: bool) -> str:
        if claims:
            judged = [claim.table for claim in self.declared.claims if claim.paper == name]
            return "\n".join([*self._claims(name), *self._states(judged)])
        excerpt = self.declared.excerpts[name]
        return "\n".join([*lines(excerpt, self._rows(excerpt.table)), *self._states([excerpt.table])])

    def _states(self, tables: Sequence[str]) -> Iterator[str]:
        """A line that says so where rows were made by different states of the code."""
        states: dict[str, list[str]] = {}
        for table in dict.fromkeys(tables):
            for run, done in self.results.read(self.declared.tables[table]).runs.items():
                if run not in states.setdefault(done.code, []):
                    states[done.code].append(run)
        if len(states) > 1:
            made = "; ".join(
                f"{code[:12] or 'unknown'} of {', '.join(runs)}" for code, runs in states.items()
            )
            yield f"\nThese rows were made by {len(states)} states of the code: {made}."

    def _rows(self, table: str) -> list[Row]:
        return list(self.results.read(self.declared.tables[table]).rows)

    def _claims(self, paper: str) -> Iterator[str]:
        """A line for each claim: its verdict and what was found, or both in a column for each reading."""
        claims = [claim for claim in self.declared.claims if claim.paper == paper]
        judged = [
            verdicts(claim, self.declared.tables[claim.table], self._rows(claim.table)) for claim in claims
        ]
        readings = [READINGS[one.about] for one in judged[0]] if claims[0].by else ["here", "found"]
        yield f"| claim | {' | '.join(readings)} |\n|---|{'---|' * len(readings)}"
        between = "; " if claims[0].by else " | "
        for claim, found in zip(claims, judged, strict=True):
            cells = [f"**{one.verdict}**{between}{one.found}" for one in found]
            yield f"| {claim.published} | {' | '.join(cells)} |"
