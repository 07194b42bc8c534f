"""Signatures say their types: no function, field or alias of the library mentions `Any`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.fixtures.import_graph import TOP_FOLDERS, inside, modules, tree

MAY_SAY_ANY = {
    "foltr_audit.experiments.comparison.cells": "an array of a file has the type that its name says",
    "foltr_audit.report.pictures.style": "settings of matplotlib, each of its own type",
}
"""Modules at the edge of the library, with the reason."""


def library() -> dict[str, Path]:
    """The modules of the library without the command line and the plug-ins."""
    left_out = ("foltr_audit.cli", *TOP_FOLDERS)
    return {name: path for name, path in modules().items() if not any(inside(name, top) for top in left_out)}


def says_any(annotation: ast.AST | None) -> bool:
    """Whether an annotation mentions `Any`, also inside of a text."""
    for node in ast.walk(annotation) if annotation is not None else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                quoted = ast.parse(node.value, mode="eval")
            except SyntaxError:
                continue
            if any(isinstance(inner, ast.Name) and inner.id == "Any" for inner in ast.walk(quoted)):
                return True
        if (isinstance(node, ast.Name) and node.id == "Any") or (
            isinstance(node, ast.Attribute) and node.attr == "Any"
        ):
            return True
    return False


def is_alias(statement: ast.stmt) -> TypeGuard[ast.Assign | ast.AnnAssign]:
    """Whether annotations may use what is assigned: a name for a type, or a type variable with its bound."""
    if isinstance(statement, ast.AnnAssign):
        return ast.unparse(statement.annotation).endswith("TypeAlias")
    return isinstance(statement, ast.Assign)


def findings(tree: ast.Module) -> Iterator[str]:
    """The signatures, fields and aliases of a module that mention `Any`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            annotations = [node.returns, *(each.annotation for each in every if each is not None)]
            if any(map(says_any, annotations)):
                yield f"line {node.lineno}: {node.name}"
        elif isinstance(node, ast.ClassDef):
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            yield from (
                f"line {each.lineno}: {node.name}.{ast.unparse(each.target)}"
                for each in fields
                if says_any(each.annotation)
            )
            yield from (f"line {node.lineno}: base of {node.name}" for base in node.bases if says_any(base))
    for each in tree.body:
        if is_alias(each) and says_any(each.value):
            yield f"line {each.lineno}: an alias"


@cache
def found() -> dict[str, list[str]]:
    """What every module of the library says, without those that say nothing."""
    every = {name: list(findings(tree(name))) for name in library()}
    return {name: lines for name, lines in every.items() if lines}


def test_no_signature_says_any() -> None:
    wrong = {name: lines for name, lines in found().items() if name not in MAY_SAY_ANY}
    assert not wrong, "\n".join(f"{name}: {', '.join(lines)}" for name, lines in wrong.items())


def test_only_modules_that_say_any_are_left_out() -> None:
    assert MAY_SAY_ANY.keys() <= found().keys()


@pytest.mark.parametrize(
    "source",
    [
        "def f(a: Any): ...",
        "def f(*a: list[Any]): ...",
        "def f(**a: 'dict[str, Any]'): ...",
        "async def f() -> typing.Any: ...",
        "def f(a: int) -> Callable[..., Any]: ...",
        "class A:\n    b: dict[str, Any] = {}",
        "class A:\n    def f(self, *, a: Any = 0) -> None: ...",
        "class A(Generic[Any]): ...",
        "Row = dict[str, Any]",
        "Row: TypeAlias = dict[str, Any]",
        "F = TypeVar('F', bound=Callable[..., Any])",
    ],
)
def test_each_place_of_any_is_found(source: str) -> None:
    assert list(findings(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ["def f(a: object) -> AnyArray: ...", "def f() -> None:\n    b: Any = 1", "ANY = 'Any of these'"],
)
def test_other_places_and_names_are_free(source: str) -> None:
    assert not list(findings(ast.parse(source)))
