"""What every report can do in a notebook: show itself, and become a data frame, a picture or a file."""

from __future__ import annotations

import importlib.util
from abc import abstractmethod
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from foltr_audit.errors import UsageError
from foltr_audit.utils.rows import JsonValue

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.figure import Figure
    from rich.console import Console

    from foltr_audit.report.tables.brief.short_answer import BriefAnswer


def _require(package: str, method: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise UsageError(f"{method}: {package} is not installed; pip install {package}")


class NotebookReport:
    """The result of a call, which shows itself as the last line of a notebook cell.

    Example:
        >>> import foltr_audit as fa
        >>> report = fa.calibrate(1.2, parameters=46, mechanisms=["laplace"])
        >>> print(report.summary().splitlines()[0])
        Of 1 mechanism, 1 has noise that proves epsilon 1.2.
        >>> report.to_frame().columns[:3]
        ['mechanism', 'sum_only', 'defense']
    """

    def __init_subclass__(cls) -> None:
        """Keep the short text: each data class would get one of all its fields."""
        super().__init_subclass__()
        if "__repr__" not in vars(cls):
            cls.__repr__ = NotebookReport.__repr__  # type: ignore[method-assign]

    @abstractmethod
    def json(self) -> str:
        """Everything as one JSON object."""

    @abstractmethod
    def rows(self) -> list[dict[str, JsonValue]]:
        """The main rows with the columns that they have in JSON."""

    def show(self, console: Console) -> None:
        """Print the whole report on a console of rich, as `--full` does."""
        from foltr_audit.report.render.csv import every_column
        from foltr_audit.report.render.terminal import print_table

        print_table(every_column(self.rows()), console)

    def short_answer(self) -> BriefAnswer | None:
        """The conclusion with one table; None for a report that is short as a whole."""
        return None

    def figure(self) -> Figure:
        """The picture of the report, drawn by matplotlib in the style that is set."""
        raise UsageError(f"{type(self).__name__} has no picture; .summary() has its numbers")

    def summary(self, *, full: bool = False) -> str:
        """The report in words and tables of at most 100 columns.

        Args:
            full: everything, as `--full` prints it; else the short answer.
        """
        from foltr_audit.report.render.notebook import plain_text

        answer = None if full else self.short_answer()
        if answer is None:
            return plain_text(self.show)
        return plain_text(partial(answer.print, how=".summary(full=True)"))

    def plot(self) -> Figure:
        """A picture of the main numbers, as a figure of matplotlib.

        Raises:
            UsageError: the report has no picture, or matplotlib is not installed.
        """
        from foltr_audit.report.pictures.style import picture_style

        _require("matplotlib", "plot")
        with picture_style():
            return self.figure()

    def to_frame(self) -> pl.DataFrame:
        """The main rows as a polars data frame."""
        import polars as pl

        return pl.DataFrame(self.rows(), infer_schema_length=None)

    def to_pandas(self) -> pd.DataFrame:
        """The main rows as a pandas data frame; pandas alone is enough, no pyarrow.

        Raises:
            UsageError: pandas is not installed.
        """
        _require("pandas", "to_pandas")
        import pandas as pd

        return pd.DataFrame(self.rows())

    def save(self, path: str | Path) -> None:
        """Write the report to a file.

        Args:
            path: its ending says what is written: `.json` everything; `.csv` the main rows; `.txt` the
                full text; `.html` the short answer; `.svg`, `.png` or `.pdf` the picture.

        Raises:
            UsageError: another ending, or no picture.
            FoltrAuditError: it cannot be written.
        """
        from foltr_audit.report.render.notebook import save

        save(self, Path(path))

    def __repr__(self) -> str:
        """At most ten lines: the conclusion, and what the report holds."""
        from foltr_audit.report.render.notebook import ten_lines

        return ten_lines(self)

    def _repr_html_(self) -> str:
        """The short answer for a notebook; every text is escaped."""
        from foltr_audit.report.render.notebook import fragment

        return fragment(self)
