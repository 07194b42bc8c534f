"""Writes docs/commands.md from the command line itself: `python -m tests.commands_page`.

What stands above the first command is written by hand. Then comes each command with what it does, its
arguments and its options: the value that each takes, its default and its help.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from foltr_audit.cli.main import command_line
from tests.fixtures.import_graph import ROOT

PAGE = ROOT / "docs" / "commands.md"


def words_of(kind: Any) -> str:
    """A type in words; None says that the option takes no value."""
    if get_origin(kind) is list:
        return f"{words_of(get_args(kind)[0])}, repeated"
    if get_origin(kind) is types.UnionType:
        return words_of(get_args(kind)[0])
    names = {str: "text", int: "whole number", float: "number", Path: "path", bool: "yes or no"}
    return names[kind] if kind in names else " or ".join(map(str, get_args(kind) or list(kind)))


def row(parameter: Any) -> str:
    """An option or argument as a row of a table."""
    text, _, default = (parameter.help or "").partition(" Default: ")
    if not default and parameter.default not in (None, False):
        default = str(parameter.default)
    if parameter.param_type_name == "argument":
        name, kind = parameter.metavar or parameter.name.upper(), parameter.type_descriptor.annotation
    else:
        name, kind = (
            "`, `".join((*parameter.opts, *parameter.secondary_opts)),
            parameter.type_descriptor.annotation,
        )
    value = "no value" if kind is bool else words_of(kind)
    cells = (f"`{name}`", value, "required" if parameter.required else default.removesuffix("."), text)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def section(name: str, command: Any) -> Iterator[str]:
    """The section of a command, and those of the commands of a group."""
    yield f"## {name}"
    yield ""
    yield " ".join(command.help.split())
    yield ""
    shown = [one for one in command.params if not one.hidden and one.name != "help"]
    if shown:
        yield "| option | takes | default | what it does |"
        yield "|---|---|---|---|"
        yield from map(row, shown)
        yield ""
    for inner, one in getattr(command, "commands", {}).items():
        yield from section(f"{name} {inner}", one)


def render() -> str:
    lines = [PAGE.read_text(encoding="utf-8").partition("\n## ")[0].rstrip(), ""]
    for name, command in command_line().commands.items():
        lines += [] if command.hidden else section(name, command)
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
