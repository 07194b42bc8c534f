"""What the repository's documents hold: commands, blocks that can be run, and links."""

from __future__ import annotations

import doctest
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command

from foltr_audit.cli.main import app
from tests.command import run

ROOT = Path(__file__).resolve().parents[1]
PAGES = tuple(sorted((ROOT / "docs").glob("*.md")))
README = ROOT / "README.md"
DOCUMENTS = (README, ROOT / "CONTRIBUTING.md", *PAGES)

CONSOLE = re.compile(r"^\$ (?P<command>.*)\n(?P<printed>(?:(?!\$ ).*\n)*)", re.MULTILINE)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
"""A line `...` stands for any number of lines, and lines may be broken elsewhere."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a document.

    Attributes:
        kind: what stands behind its fence, e.g. `python`.
        text: its lines.
        line: number of its first line.
    """

    kind: str
    text: str
    line: int

    @property
    def is_program(self) -> bool:
        """Whether it is Python that runs by itself; examples with `>>>` are for doctest."""
        return self.kind == "python" and ">>>" not in self.text

    @property
    def is_long(self) -> bool:
        """Whether only the long tests run it: `console long`."""
        return self.kind.endswith(" long")

    @property
    def module(self) -> str | None:
        """The module that its first line says it is: `trimmed` of `# trimmed.py`."""
        named = re.match(r"# (\w+)\.py\n", self.text)
        return named[1] if named else None

    @property
    def commands(self) -> list[tuple[str, str]]:
        """Commands of a console block, each with what it prints."""
        if self.kind.partition(" ")[0] != "console":
            return []
        return [(found["command"], found["printed"]) for found in CONSOLE.finditer(joined(self.text))]

    def executed(self, where: str) -> dict[str, object]:
        """The names that a program leaves when it has run."""
        names: dict[str, object] = {"__name__": "__main__"}
        exec(compile(self.text, f"{where}:{self.line}", "exec"), names)  # noqa: S102  our own text
        return names


def joined(text: str) -> str:
    r"""A text whose lines that end in `\` go on in the same line."""
    return re.sub(r"\\\n\s*", "", text)


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a document, in order."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\S[^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(each[1], each[2], text.count("\n", 0, each.start()) + 2) for each in found]


def commands(path: Path) -> list[str]:
    """Every `foltr-audit` command of a document, each once: indented, on a console, or in a sentence."""
    text = joined(path.read_text(encoding="utf-8"))
    found = re.findall(r"^(?: {4}|\$ )(foltr-audit .*)$|`(foltr-audit [^`]+)`", text, re.MULTILINE)
    return sorted({(line or inline).strip() for line, inline in found})


def unknown_options(command: str) -> set[str]:
    """The options of a command that it does not have; a word that should be a command and is none.

    `COMMAND` stands for any command.
    """
    words, at = shlex.split(command)[1:], application()
    while getattr(at, "commands", None) and words and not words[0].startswith("-"):
        if words[0] not in at.commands:
            return {words[0]} - {"COMMAND"}
        at = at.commands[words.pop(0)]
    shown = [parameter for parameter in at.params if not getattr(parameter, "hidden", False)]
    known = {option for parameter in shown for option in (*parameter.opts, *parameter.secondary_opts)}
    return {word.partition("=")[0] for word in words if word.startswith("--")} - known - {"--help"}


@cache
def application() -> Any:
    """The command line with its commands and their parameters."""
    return get_command(app)


def difference(block: Block, command: str, printed: str) -> str:
    """How what a command prints differs from what its block shows; empty where it does not."""
    done = run(*shlex.split(command)[1:])
    got = done.out or done.err
    checker, example = doctest.OutputChecker(), doctest.Example(command, printed)
    if checker.check_output(printed, got, SAME):
        return ""
    return f"line {block.line}: {command}\n{checker.output_difference(example, got, SAME)}"


def anchors(path: Path) -> set[str]:
    """Anchors of a document's headings, and of what it includes, as web pages of repositories make them."""
    included = [path.parent / block.kind.split()[1] for block in blocks(path) if "{include}" in block.kind]
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    own = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return own.union(*map(anchors, included))


def broken_links(path: Path) -> list[str]:
    """Links to files that are not there, or to headings that a file does not have."""
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        other = (path.parent / name).resolve() if name else path
        if not other.exists() or (anchor and anchor not in anchors(other)):
            found.append(target)
    return found
