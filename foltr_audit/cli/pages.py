"""Help pages, and groups that import a command when it is called.

A help page is plain text of at most 80 columns. `-h` shows the options that most people need, in the order of
need, and examples; `--help-all` shows every option.
"""

from __future__ import annotations

import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from foltr_audit.errors import UsageError, nearest_name, suggest_name

HELP_ALL = "--help-all"  # of every command: shows all its options
_WHOLE = f"{__name__}.whole"  # key of `Context.meta`: the whole page was asked for
_OPTIONS = "Options"
_COLUMNS, _WIDEST = 79, 30  # of a page, and of its first column
_ALIKE = 0.6  # how like a name has to be to what was typed, to be meant by it: they are many and short


class HelpCommand(TyperCommand):
    """A command with a short and a whole help page.

    Attributes:
        first: parameters that the short page shows, in its order; the short page is the whole one if empty.
        examples: commands that the page ends with, by what they do.
    """

    first: ClassVar[Sequence[str]] = ()
    examples: ClassVar[Mapping[str, str]] = {}

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params.append(_help_all())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = self.make_parser(ctx).parse_args(args=list(args))[2]
        rest = super().parse_args(ctx, args)
        for field, times in Counter(given).items():
            # The parser would take the last value, and nobody would learn that the others were not used.
            if times > 1 and not field.multiple:
                raise UsageError(f"{field.opts[0]}: given {times} times; expected at most once")
        return rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        fields = _shown(self, ctx)
        _write(formatter, "Arguments", [_record(field) for field in fields if _is_argument(field)])
        options = {str(field.name): field for field in fields if not _is_argument(field)}
        if self.first and not ctx.meta.get(_WHOLE):
            shown = [_record(options[name], short=True) for name in self.first]
            _write(formatter, _OPTIONS, [*shown, (HELP_ALL, f"Show all {len(options)} options.")])
        else:
            _write_panels(formatter, options.values())

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(_record(field)[0] for field in _shown(self, ctx) if _is_argument(field))]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        del ctx
        for paragraph in (self.help or "").split("\n\n"):
            formatter.write(f"\n{_wrapped(' '.join(paragraph.split()), 2)}\n")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        del ctx
        if self.examples:
            lines = [f"  {does}:\n    {command}\n" for does, command in self.examples.items()]
            formatter.write("\nExamples:\n" + "".join(lines))


def _show_all(ctx: typer.Context, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.meta[_WHOLE] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


@cache
def _help_all() -> Any:
    """The option itself, as typer makes it of a parameter."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def command(
        help_all: bool = typer.Option(
            False, HELP_ALL, is_eager=True, expose_value=False, callback=_show_all, hidden=True
        ),
    ) -> None: ...

    return get_command(app).params[0]


@cache
def _described() -> dict[str, dict[str, Any]]:
    """What `commands.toml` says of each command, by its name with that of its group."""
    text = (Path(__file__).parent / "commands.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def page(name: str) -> type[HelpCommand]:
    """The class of a command with its help page, see `HelpCommand`."""
    command = _described()[name]
    told = {"first": command.get("first", "").split(), "examples": command["examples"]}
    return type("Page", (HelpCommand,), told)


def _write(formatter: Any, title: str, records: list[tuple[str, str]]) -> None:
    """Write records in two columns; a long first one has a line of its own."""
    if not records:
        return
    width = min(max(len(name) for name, _ in records), _WIDEST)
    formatter.write(f"\n{title}:\n")
    for name, text in records:
        lines = _wrapped(text, width + 4)
        if len(name) > width:
            formatter.write(f"  {name}\n{lines}\n")
        else:
            formatter.write(f"  {name:{width}}{lines[width + 2 :]}\n")


def _wrapped(text: str, indent: int) -> str:
    """A text in lines of at most 80 columns; the names of commands and options are not broken."""
    margin = " " * indent
    return textwrap.fill(
        text, _COLUMNS, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False
    )


def _write_panels(formatter: Any, options: Iterable[Any]) -> None:
    """Write each panel of some options; those without one come first."""
    panels: dict[str, list[tuple[str, str]]] = {_OPTIONS: []}
    for field in options:
        panels.setdefault(getattr(field, "rich_help_panel", None) or _OPTIONS, []).append(_record(field))
    for title, records in panels.items():
        _write(formatter, title, records)


def _shown(command: Any, ctx: Any) -> list[Any]:
    return [field for field in command.get_params(ctx) if not getattr(field, "hidden", False)]


def _is_argument(field: Any) -> bool:
    return bool(field.param_type_name == "argument")


def _record(field: Any, *, short: bool = False) -> tuple[str, str]:
    """The names of a parameter with the word for its value, and its help; `short` leaves other names out."""
    text = field.help or ""
    if _is_argument(field):
        name = field.metavar or str(field.name).upper()
        return (name if field.required else f"[{name}]"), text
    names = field.opts[0] if short else ", ".join(sorted(field.opts, key=len))
    if field.secondary_opts:
        names += f" / {field.secondary_opts[0]}"
    word = "" if field.is_flag else f" {value_word(field)}"
    if field.required:
        text += " Required."
    elif default := default_of(field):
        text += f" Default: {default}."
    return f"{names}{word}", text


def default_of(field: Any) -> str:
    """The default of an option, where its help does not name it; empty if there is none to show."""
    default = field.default
    if field.is_flag or not isinstance(default, int | float | str) or "Default:" in (field.help or ""):
        return ""
    return f"{default:g}".replace("e-0", "e-") if isinstance(default, float) else str(default)


def value_word(field: Any) -> str:
    """The word for the value of an option on help pages: TEXT, NUMBER, FILE, or the values to choose from."""
    if field.metavar:
        return str(field.metavar)
    kind = field.type_descriptor.annotation
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(member.value for member in kind)
    return {int: "NUMBER", float: "NUMBER", Path: "FILE"}.get(kind, "TEXT")


class HelpGroup(TyperGroup):
    """A group whose help page shows the whole summary of each command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            raise UsageError(f"unknown command {args[0]!r}; {suggest_name(args[0], self.commands, _ALIKE)}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        _write_panels(formatter, _shown(self, ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        summaries = [
            (name, cmd.get_short_help_str(1000)) for name, cmd in commands.items() if cmd is not None
        ]
        _write(formatter, "Commands", summaries)


class Entry(NamedTuple):
    """A command that is imported when it is called; its module in `cli` declares it on its `app`."""

    section: str
    name: str
    summary: str
    module: str

    def imported(self) -> Any:
        command: Any = get_command(import_module(f"foltr_audit.cli.{self.module}").app)
        command = getattr(command, "commands", {}).get(self.name, command)
        command.name = self.name
        return command


class _Commands(dict[str, Any]):
    """Commands by name, each imported when it is asked for; `items` imports all."""

    def __getitem__(self, name: str) -> Any:
        command = super().__getitem__(name)
        if isinstance(command, Entry):
            self[name] = command = command.imported()
        return command

    def items(self) -> Any:
        return {name: self[name] for name in self}.items()


class LazyGroup(HelpGroup):
    """A group of commands in sections, each of which is imported when it is called.

    The help page needs no command, since their options come from tables that take longer to import than the
    page to print.
    """

    entries: ClassVar[tuple[Entry, ...]] = ()

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands({entry.name: entry for entry in self.entries})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        del ctx
        known = cmd_name in self.commands
        return self.commands[cmd_name] if known else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        del ctx
        width = max(len(entry.name) for entry in self.entries)
        for section in dict.fromkeys(entry.section for entry in self.entries):
            entries = [entry for entry in self.entries if entry.section == section]
            _write(formatter, section, [(entry.name.ljust(width), entry.summary) for entry in entries])


def entries_of(group: str) -> tuple[Entry, ...]:
    """The commands of a group, whose name begins theirs."""
    return tuple(
        Entry(told["section"], name.removeprefix(group), told["summary"], told["module"])
        for name, told in _described().items()
        if "section" in told and name.startswith(group) and (group or " " not in name)
    )


def lazy_group(entries: Sequence[Entry]) -> type[LazyGroup]:
    return type("Group", (LazyGroup,), {"entries": tuple(entries)})


_PLAINLY = {
    "Value error, ": "",
    "Input should be a valid number, unable to parse string as a number": "expected a number",
    "Input should be a valid integer, unable to parse string as an integer": "expected a whole number",
}
"""Words for those of the library that reads the values of options."""


def refusal(error: Any) -> str:
    """What the library that reads commands refused, as our own errors would say it."""
    message, field = error.format_message(), getattr(error, "param", None)
    if hasattr(error, "possibilities"):
        known = [name.lstrip("-") for option in error.ctx.command.params for name in option.opts]
        near = nearest_name(error.option_name.lstrip("-"), known, _ALIKE)
        hint = f"{error.ctx.command_path} -h shows the options" if near is None else f"did you mean --{near}?"
        return f"unknown option {error.option_name}; {hint}"
    if field is None:
        return str(message)
    name = _record(field)[0] if _is_argument(field) else field.opts[0]
    if message.startswith("Missing "):
        return f"{name} is missing, as in: {next(iter(error.ctx.command.examples.values()))}"
    message = error.message
    for theirs, ours in _PLAINLY.items():
        message = message.replace(theirs, ours)
    return f"{name}: {message}"


def new_app(**settings: Any) -> typer.Typer:
    """A typer app with plain help pages: rich takes longer to import than a page to print."""
    return typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,
    )
