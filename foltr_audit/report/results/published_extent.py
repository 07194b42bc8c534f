"""Comparisons with published figures: the study, how much of it was run, and on which data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from foltr_audit.experiments.presets import Preset
from foltr_audit.utils.rows import JsonValue, ResultRow

if TYPE_CHECKING:
    from rich.console import Console


class ParameterOverride(NamedTuple):
    """A parameter of a published study that was given another value.

    Attributes:
        option: the option that did it, or the field of the Spec.
        value: its values now, as text.
        published: those of the study.
    """

    option: str
    value: str
    published: str


@dataclass(frozen=True, kw_only=True)
class StudyExtent:
    """How much of a published study was run, and on what.

    Attributes:
        data: source of the data here.
        synthetic: whether those are synthetic.
        scale: what rounds, repeats and repetitions were multiplied by.
        overridden: what else of it was given another value.
    """

    data: str
    synthetic: bool
    scale: float = 1.0
    overridden: tuple[ParameterOverride, ...] = ()

    @property
    def label(self) -> str:
        """A note for the title of every table; empty for the unchanged study on real data."""
        return ", ".join([*(["synthetic data"] if self.synthetic else []), *self._changes()])

    def __str__(self) -> str:
        kind = "synthetic data" if self.synthetic else "data"
        return ", ".join([f"{kind} {self.data}", *self._changes()])

    def _changes(self) -> Iterator[str]:
        if self.scale < 1:
            yield f"scale {self.scale:g}"
        if self.overridden:
            given = ", ".join(f"{one.option} {one.value}" for one in self.overridden)
            yield f"with {given} instead of {' and '.join(one.published for one in self.overridden)}"


@dataclass(frozen=True, kw_only=True)
class PresetComparison:
    """Published figures and those found; a subclass finds the rows and prints them.

    Attributes:
        preset: the study.
        extent: how much of it was run.
        rows: published and found figures.
    """

    preset: Preset
    extent: StudyExtent
    rows: Sequence[ResultRow]

    @property
    def heading(self) -> str:
        """What was run in one line."""
        return f"{self.preset.name}: {self.preset.published.title}, on {self.extent}"

    def table(self) -> dict[str, JsonValue]:
        """Everything as one plain table."""
        published = self.preset.published
        return {
            "preset": self.preset.name,
            "source": self.preset.source,
            "title": published.title,
            "published_data": published.data,
            "shows": published.shows,
            "data": self.extent.data,
            "synthetic": self.extent.synthetic,
            "scale": self.extent.scale,
            "overridden": [one._asdict() for one in self.extent.overridden],
            "rows": [row.plain() for row in self.rows],
        }

    def print(self, console: Console) -> None:
        """The figures as tables."""
        raise NotImplementedError
