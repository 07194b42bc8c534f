"""What published figures stand beside: the study, how much of it was run, and on which data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foltr_audit.presets import Preset
from foltr_audit.report.base import Row

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How much of a published study was run, and on what.

    Attributes:
        data: source of the data here.
        synthetic: whether those are synthetic.
        scale: what rounds, repeats and repetitions were multiplied by.
    """

    data: str
    synthetic: bool
    scale: float = 1.0

    @property
    def label(self) -> str:
        """What the title of every table has to say; empty of real data at full size."""
        words = ["synthetic data"] if self.synthetic else []
        return ", ".join([*words, f"scale {self.scale:g}"] if self.scale < 1 else words)

    def __str__(self) -> str:
        kind = "synthetic data" if self.synthetic else "data"
        scale = f", scale {self.scale:g}" if self.scale < 1 else ""
        return f"{kind} {self.data}{scale}"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Published figures beside those found; a subclass finds the rows and prints them.

    Attributes:
        preset: the study.
        extent: how much of it was run.
        rows: published and found figures.
    """

    preset: Preset
    extent: Extent
    rows: list[Row]

    @property
    def heading(self) -> str:
        """What was run in one line."""
        return f"{self.preset.name}: {self.preset.published.title}, on {self.extent}"

    def table(self) -> Row:
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
            "rows": self.rows,
        }

    def print(self, console: Console) -> None:
        """The figures as tables."""
        raise NotImplementedError
