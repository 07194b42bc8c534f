"""Where a limit stands in its file, for readers that show outcomes beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from foltr_audit.evidence.check.limits import NAMES


@dataclass(frozen=True)
class LimitsPlace:
    """The file of limits.

    Attributes:
        name: its path from the working folder, which in a build is the checkout; outside of it, its name.
        lines: the line of each limit, from 1.
    """

    name: str
    lines: Mapping[str, int]

    @classmethod
    def of(cls, path: Path, text: str) -> LimitsPlace:
        """The place of a file with this text."""
        whole, here = path.resolve(), Path.cwd()
        name = whole.relative_to(here).as_posix() if whole.is_relative_to(here) else whole.name
        lines: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            found = re.match(r"\s*[\"']?(\w+)[\"']?\s*=", line)
            if found and found[1] in NAMES:
                lines.setdefault(found[1], number)
        return cls(name, lines)

    def line(self, limit: str) -> int:
        """The line of a limit; the first where it cannot be found."""
        return self.lines.get(limit, 1)
