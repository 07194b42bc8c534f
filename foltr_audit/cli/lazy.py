"""Commands whose options are made when the command is called.

Options that set fields of a Spec come from these fields, whose tables need pydantic and plug-ins: the first
help page must not wait for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache, wraps
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer
from typer.core import DEFAULT_MARKUP_MODE, TyperGroup
from typer.main import get_command
from typer.models import OptionInfo

from foltr_audit.cli.common import CommonOptions
from foltr_audit.cli.options import FieldOption, Table
from foltr_audit.cli.user_code import with_own_plugins

CommandFunction = Callable[..., None]

_WHOLE = 1000  # characters: no summary is cut


class OtherHelp(NamedTuple):
    """The option of a field, with another help than in other commands."""

    field: str
    text: str
    panel: str


def takes(*names: str | OtherHelp) -> Callable[[CommandFunction], CommandFunction]:
    """A command with options of these names in the place of its parameter of the type `CommonOptions`.

    A name is that of a field of `CommonOptions`, or the dotted name of a field, see `options`. Typer
    reads the options of a command from its signature and has no records of options, so the signature is made
    here, and only here; `LazyGroup` asks for it.
    """

    def take(command: CommandFunction) -> CommandFunction:
        @wraps(command)
        def without_options() -> None:
            raise NotImplementedError

        without_options.__annotations__ = {}
        vars(without_options).update(
            __signature__=inspect.Signature(), with_options=lambda: _with_options(command, names)
        )
        return without_options

    return take


def _with_options(command: CommandFunction, names: Sequence[str | OtherHelp]) -> CommandFunction:
    own = dict(inspect.signature(command, eval_str=True).parameters)
    record = next(name for name, field in own.items() if field.annotation is CommonOptions)
    del own[record]
    parameters = [field.replace(kind=inspect.Parameter.KEYWORD_ONLY) for field in own.values()]
    shared, hints = {field.name: field for field in fields(CommonOptions)}, get_type_hints(CommonOptions)
    settings: dict[str, FieldOption] = {}
    for name in names:
        if isinstance(name, str) and name in shared:
            field = shared[name]
            parameters.append(_parameter(name, hints[name], field.metadata["option"], field.default))
            continue
        setting = FieldOption.of(name if isinstance(name, str) else name.field)
        settings[setting.parameter] = setting
        info = setting.option() if isinstance(name, str) else setting.option(name.text, name.panel)
        parameters.append(_parameter(setting.parameter, setting.annotation, info, None))

    @wraps(command)
    def with_options(**given: Any) -> None:
        given = with_own_plugins(given)
        options = {name: given.pop(name) for name in shared if name in names}
        values = {field.name: field.read(given.pop(parameter)) for parameter, field in settings.items()}
        point: Table = {name: value for name, value in values.items() if value is not None}
        command(**given, **{record: CommonOptions(**options, fields=point)})

    vars(with_options)["__signature__"] = inspect.Signature(parameters)
    with_options.__annotations__ = {field.name: field.annotation for field in parameters}
    return with_options


def _parameter(name: str, value: Any, info: OptionInfo, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=Annotated[value, info], default=default)


class LazyGroup(TyperGroup):
    """A group whose commands get their options when they are called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the arguments name, with its options."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, complete(command), rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What the arguments mean; the first help page, where there are none, goes to stdout."""
        if not args and self.rich_markup_mode is None:
            typer.echo(ctx.get_help())
            ctx.exit(2)
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with its whole summary into a plain help page."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        shown = {name: cmd for name, cmd in commands.items() if cmd is not None and not cmd.hidden}
        with formatter.section("Commands"):
            formatter.write_dl([(name, cmd.get_short_help_str(_WHOLE)) for name, cmd in shown.items()])


@cache
def complete(command: Any) -> Any:
    """A command of a `LazyGroup` with its options; they are made once a process."""
    make = vars(command.callback).get("with_options") if command.callback is not None else None
    if make is None:
        command.rich_markup_mode = DEFAULT_MARKUP_MODE  # only the first help page is plain
        return command
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(command.name)(make())
    return get_command(app)
