"""Makes the pages of docs/generated: commands, plug-ins, warnings, papers, the Python API; and the notebooks.

`conf.py` calls `write` before Sphinx reads the pages. None of them is stored: each is made of what the
program says of itself. docs/templates holds what stands above the tables.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.results.declarations import read_declarations
from benchmarks.results.files import ResultFolder
from benchmarks.results.papers import read_papers, verdicts_of_items
from foltr_audit.cli.main import command_line
from foltr_audit.cli.pages import default_of, value_word
from foltr_audit.core.click_models import CascadeClickModel
from foltr_audit.core.plugins import Attack, Defense, Plugin, plain
from foltr_audit.core.plugins.registry import GROUPS, names, parameters, plugin_class
from foltr_audit.core.warning_kinds import WARNINGS

DOCS = Path(__file__).resolve().parent
FOLDER = DOCS / "generated"
SCRIPTS = DOCS.parent / "examples" / "notebook"
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def text_of(words: str) -> str:
    """A text whose options are code: `--eps` would be shown with a dash."""
    parts = words.split("`")
    parts[::2] = [re.sub(r"(?<![\w-])(--[a-z][\w-]*)", r"`\1`", part) for part in parts[::2]]
    return "`".join(parts)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown, and the empty line after it."""
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(" ".join(cell.split()).replace("|", r"\|") for cell in row) + " |"
    yield ""


def first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].rstrip(".") + "."


# --- commands -------------------------------------------------------------------------------------


def commands() -> str:
    """Every command with all of its options."""
    sections, rows = [], []
    for name, command in walk("", command_line()):
        if not getattr(command, "commands", None):
            rows.append((f"[`{name}`](#{name.replace(' ', '-')})", text_of(first_sentence(command.help))))
            sections += [f"## {name}", "", text_of(command.help), ""]
            for does, example in command.examples.items():
                sections += [f"{does}:", "", f"    {example}", ""]
            sections += options(command)
    return page("commands.md", [*table(("command", "what it does"), rows), *sections])


def walk(path: str, group: Any) -> Iterator[tuple[str, Any]]:
    """The commands of a group and of the groups in it, each after its name."""
    for name, command in group.commands.items():
        if not command.hidden:
            yield f"{path}{name}", command
            if getattr(command, "commands", None):
                yield from walk(f"{path}{name} ", command)


def options(command: Any) -> Iterator[str]:
    """A table for each panel of a command's options."""
    panels: dict[str, list[tuple[str, str, str]]] = {}
    for parameter in command.params:
        if not getattr(parameter, "hidden", False) and parameter.name != "help_all":
            panel = getattr(parameter, "rich_help_panel", None) or "Options"
            panels.setdefault(panel, []).append(option_row(parameter))
    for panel, rows in panels.items():
        yield f"**{panel}**"
        yield ""
        yield from table(("option", "default", "what it does"), rows)


def option_row(parameter: Any) -> tuple[str, str, str]:
    words, _, default = (getattr(parameter, "help", None) or "").partition(" Default: ")
    flags = [*parameter.opts, *parameter.secondary_opts]
    if parameter.param_type_name == "argument":
        flags = [parameter.metavar or parameter.name.upper()]
    else:
        default = default or default_of(parameter)
        flags[-1] += "" if parameter.is_flag else f" {value_word(parameter)}"
    default = "required" if parameter.required else default.removesuffix(".")
    return ", ".join(f"`{flag}`" for flag in flags), text_of(default), text_of(words)


# --- plug-ins -------------------------------------------------------------------------------------

SOUGHT = {
    "counts": "clicks on each document, in a sum",
    "query": "the query",
    "intent": "the intent",
    "client": "messages of one client",
    "participant": "each client's mean update",
}
"""What attacks look for, in words where one does not say it."""


def plugins() -> str:
    """Every plug-in: a table for each kind, and a section for each plug-in."""
    lines: list[str] = []
    for base, group in GROUPS.items():
        kind = group.partition(".")[2].replace("_", " ")
        classes = {name: plugin_class(base, name) for name in names(base)}
        if classes:
            more = {Attack: ("looks for",), Defense: ("acts on",)}.get(base, ())
            rows = [
                (f"[`{name}`](#{name})", text_of(summary(cls)), *more_of(cls))
                for name, cls in classes.items()
            ]
            lines += [f"## {kind.capitalize()}", "", *table(("name", "what it does", *more), rows)]
            for name, cls in classes.items():
                lines += [f"### {name}", "", *section(cls)]
    return page("plugins.md", lines)


def summary(cls: type[Plugin]) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def more_of(cls: type[Plugin]) -> tuple[str, ...]:
    """What the table says of some kinds in addition."""
    if issubclass(cls, Attack):
        asks = str(getattr(cls.asks, "name", cls.asks))
        return ("a guess: reads no message" if cls.baseline else SOUGHT.get(asks, asks),)
    return (", ".join(cls.possible_stages()) or "nothing",) if issubclass(cls, Defense) else ()


def section(cls: type[Plugin]) -> Iterator[str]:
    """The docstring of a plug-in, what it must know, and its parameters."""
    written = re.sub(r"^Example:\n(?: +.*\n?|\n)*", "", inspect.getdoc(cls) or "", flags=re.MULTILINE)
    written = re.sub(r"^(Sees|Guarantees|Source):", r"**\1:**", written.strip(), flags=re.MULTILINE)
    yield f"{text_of(written)}\n"
    if cls.status != "stable":
        yield f"**Status:** {cls.status}.\n"
    if issubclass(cls, Attack) and cls.needs:
        yield f"**Must know:** {', '.join(f'`{piece}`' for piece in sorted(cls.needs))}.\n"
    if issubclass(cls, CascadeClickModel):
        pairs = zip(cls.click_given_grade, cls.stop_given_grade, strict=True)
        rows = [
            (f"0 to {len(click) - 1}", *(", ".join(map(plain, each)) for each in (click, stop)))
            for click, stop in pairs
        ]
        yield from table(("labels", "probability of a click", "of stopping after it"), rows)
    found = parameters(cls)
    if found:
        rows = [(f"`{one['name']}`", shown_default(one), text_of(str(one["description"]))) for one in found]
        yield from table(("parameter", "default", "what it is"), rows)


def shown_default(parameter: dict[str, object]) -> str:
    if parameter["required"]:
        return "required"
    default = parameter["default"]
    return "" if default is None else f"`{plain(default)}`"


# --- papers ---------------------------------------------------------------------------------------


def papers() -> str:
    """Every table and figure of the papers, with its command and the verdicts on its claims."""
    judged = verdicts_of_items(read_declarations(), ResultFolder(DOCS.parent / "results"))
    lines: list[str] = []
    for paper in read_papers():
        rows = [
            (
                f"{item.name}: {item.what}",
                "<br>".join(f"`foltr-audit {command}`" for command in item.commands),
                "<br>".join(judged[f"{paper.name} {item.name}"]) or item.verdict,
                item.missing,
            )
            for item in paper.items
        ]
        header = ("what", "command", "verdict", "cannot be had")
        lines += [f"## {paper.title}", "", text_of(paper.about), "", *table(header, rows)]
    return page("papers.md", lines)


# --- warnings, notebooks --------------------------------------------------------------------------


def warnings() -> str:
    """Every warning by its code."""
    lines: list[str] = []
    for kind in WARNINGS.values():
        anchor = re.sub(r"[^\w\- ]", "", kind.section.lower()).replace(" ", "-")
        more = f" [Example](../pitfalls.md#{anchor})." if kind.section else ""
        lines += [f"## {kind.code}", "", f"**{kind.title}.** {text_of(kind.text)}{more}", ""]
    return page("warnings.md", lines)


def page(name: str, lines: Iterable[str]) -> str:
    """A page: its template, and what is made."""
    head = (DOCS / "templates" / name).read_text(encoding="utf-8")
    return "\n".join([head, *lines]).rstrip() + "\n"


@cache
def pages() -> dict[str, str]:
    """The text of each generated page, by its file below docs/generated."""
    return {
        "api.md": page("api.md", ()),
        "commands.md": commands(),
        "papers.md": papers(),
        "plugins.md": plugins(),
        "warnings.md": warnings(),
    }


def public_names() -> set[str]:
    """The full names that the page of the API lists; autosummary writes a page of each, and removes none."""
    modules = re.findall(r"currentmodule:: (\S+)\n((?:(?!\.\. currentmodule).*\n)*)", pages()["api.md"])
    return {f"{module}.{name}" for module, text in modules for name in re.findall(r"^   (\w+)$", text, re.M)}


def scripts() -> dict[str, Path]:
    """The script that each notebook is made of."""
    return {f"notebooks/{script.stem}.ipynb": script for script in sorted(SCRIPTS.glob("*.py"))}


def notebooks() -> dict[str, str]:
    """The scripts of examples/notebook as Jupyter notebooks, by their file below docs/generated."""
    import jupytext

    books = {}
    for name, script in scripts().items():
        book = jupytext.read(script)
        for number, cell in enumerate(book.cells):
            cell["id"] = f"cell-{number}"  # by default drawn at random
        book.metadata["kernelspec"] = KERNEL
        books[name] = jupytext.writes(book, fmt="ipynb")
    return books


def write() -> None:
    """Write what has changed, and remove what is made no more."""
    texts = {**pages(), **notebooks()}
    public = public_names()
    for path in FOLDER.rglob("*.*"):
        made = path.stem in public if path.suffix == ".rst" else str(path.relative_to(FOLDER)) in texts
        if not made:
            path.unlink()
    for name, text in texts.items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
