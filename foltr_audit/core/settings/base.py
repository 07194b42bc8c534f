"""What the tables of a Spec have in common: their base class, checks, and errors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Literal, NamedTuple, Self, TypeVar, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from foltr_audit.errors import UsageError, first_problem, suggest_name

PARTS = ("train", "vali", "test")
"""Parts of a data set."""


class Flag(NamedTuple):
    """The option that sets a field, where it does not follow from the field: see `cli.options`.

    Attributes:
        name: its name without dashes; empty for the name of the field.
        default: words for the default; empty to show the default of the field, None to show none.
        form: `text`, one value in which commas separate several; `list`, values of several options, which
            `+` joins; empty for the form that the type of the field has.
    """

    name: str = ""
    default: str | None = ""
    form: Literal["", "text", "list"] = ""


class SpecTable(BaseModel):
    """A frozen table of validated fields, without unknown fields or NaN.

    What a field means stands in its description: options of the command line show it, and the docstring of
    a table ends with it.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True, validate_default=True
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        said = {name: field.description for name, field in cls.model_fields.items() if field.description}
        if said:
            lines = [f"    {name}: {text}" for name, text in said.items()]
            head, _heading, rest = (inspect.getdoc(cls) or "").partition("\n\nAttributes:\n")
            cls.__doc__ = "\n".join([head, "", "Attributes:", *lines, rest])
        cls.__signature__ = inspect.Signature([*_parameters(cls)])

    @classmethod
    def parse(
        cls, table: Mapping[str, object], where: str = "spec", names: Mapping[str, str] | None = None
    ) -> Self:
        """The settings of a plain table; an error is one line.

        In errors `where` names the source of the table (`""` for no name), and `names` maps fields to other
        names.

        Raises:
            UsageError: an unknown field (with the nearest known one) or an invalid value.
        """
        with one_error(f"{where}: " if where else "", names):
            refuse_unknown(cls, table)
            return cls.model_validate(dict(table))

    @model_validator(mode="after")
    def _no_text_with_nul(self) -> Self:
        for value in vars(self).values():
            for text in value if isinstance(value, tuple) else (value,):
                if isinstance(text, str) and "\0" in text:
                    raise ValueError(f"{text[:40]!a}: expected text without NUL")
        return self


def _parameters(table: type[SpecTable]) -> Iterator[inspect.Parameter]:
    """The fields of a table as `help` shows them, without the validators of pydantic's own signature."""
    for name, field in table.model_fields.items():
        default = inspect.Parameter.empty if field.is_required() else field.default
        if field.default_factory is not None:
            default = {}  # of a table, which its own defaults fill
        yield inspect.Parameter(field.alias or name, inspect.Parameter.KEYWORD_ONLY, default=default)


def once(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def left_out(default: object) -> AfterValidator:
    """A validator that gives None for the default, so that it is left out of the form of a Spec."""
    return AfterValidator(lambda value: None if value == default else value)


def known_parts(values: tuple[str, ...]) -> tuple[str, ...]:
    """Names of `PARTS`, each once."""
    for value in values:
        if value not in PARTS:
            raise ValueError(f"unknown part {value!r}; {suggest_name(value, PARTS)}")
    return once(values)


V = TypeVar("V")

Several = Annotated[tuple[V, ...], Field(min_length=1), AfterValidator(once)]
"""One value or more, each once."""

Parts = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(known_parts)]


@contextmanager
def one_error(source: str, names: Mapping[str, str] | None = None) -> Iterator[None]:
    """Turn what is raised about a table into a `UsageError` of one line that begins with its source."""
    try:
        yield
    except ValidationError as error:
        raise UsageError(source + first_problem(error, names)) from None  # which has the whole reason
    except UsageError as error:
        raise UsageError(f"{source}{error}") from None


def refuse_unknown(kind: type[BaseModel], table: Mapping[str, object], prefix: str = "") -> None:
    """Raise `UsageError` for a field that a table or one inside it lacks; it names the nearest one."""
    known = {info.alias or name: info.annotation for name, info in kind.model_fields.items()}
    for name, value in table.items():
        if name not in known:
            called = f"{prefix}{name}" if prefix else repr(name)
            raise UsageError(f"unknown field {called}; {suggest_name(str(name), known)}")
        for inner in (known[name], *get_args(known[name])):
            if isinstance(inner, type) and issubclass(inner, SpecTable) and isinstance(value, Mapping):
                refuse_unknown(inner, value, f"{name}.")


def with_default(table: Mapping[str, object], name: str, field: str, value: object) -> Mapping[str, object]:
    """A table in which a field of an inner table has a value if none is given."""
    inner = table.get(name) or {}
    if not isinstance(inner, Mapping) or field in inner:
        return table
    return {**table, name: {**inner, field: value}}


# Plug-ins need NumPy: they are imported when a Spec is made, so that `--help`, which shows fields, is quick.


def canonical(kind: str, default: str | None = None) -> WrapValidator:
    """A validator that turns a plug-in of a kind, e.g. `attack`, or its text into its canonical text.

    The text of a `default` becomes None, which Specs leave out.
    """

    def text(value: object, read: ValidatorFunctionWrapHandler) -> str | None:
        if default is not None and value in (None, default):
            return None
        from foltr_audit.core.plugins.registry import SINGULAR, make, text_of

        base = next(base for base, name in SINGULAR.items() if name == kind)
        return make(base, read(text_of(base, value))).text

    return WrapValidator(text)


def chain_texts(value: object) -> object:
    """What Specs hold for a chain of defenses: texts, objects and lists of them; other values as they are."""
    from foltr_audit.core.plugins import Defense, Plugin
    from foltr_audit.core.plugins.registry import text_of

    if isinstance(value, str | Plugin | type):
        return [text_of(Defense, value)]
    if not isinstance(value, Sequence):
        return value
    inner = [chain_texts(one) if isinstance(one, str | Plugin | type | Sequence) else [one] for one in value]
    return [text for texts in inner for text in cast("Sequence[object]", texts)]


def canonical_chain(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The canonical texts of a chain of defenses."""
    from foltr_audit.core.defense_chain import DefenseChain, parse_chain

    return DefenseChain(parse_chain(texts)).texts
