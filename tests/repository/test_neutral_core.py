"""The library knows no plug-in by its name or class: only defaults, presets and plug-ins themselves do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from foltr_audit.core.plugins.registry import GROUPS, names, plugin_class
from tests.fixtures.import_graph import TOP_FOLDERS, inside, modules, tree

ROOT = Path(__file__).parents[2] / "foltr_audit"

MAY_NAME = {
    "core/settings/defaults.py",  # what commands assume
    "core/defense_chain.py",  # the published chain of the default learner
    "core/click_models.py",  # plug-ins
    "simulation/learners",
    "privacy/noise",  # laws, which have names of their own
    "privacy/randomized_response.py",
    "privacy/secure_aggregation",  # a protocol, which has a name of its own
}

WORDS = {
    "aggregate",  # a view, and a stage
    "clip",  # a fact that an observer knows
    "gaussian",  # an estimator
    "linkage",  # a table of reports
    "mixed",  # a baseline
    "none",  # a normalisation, and many other things
    "pdgd",  # a column
    "position-prior",  # an estimate of counts that reads no message
    "relevance-prior",  # another
    "sign",  # a number's
    "uniform",  # a prior on clicks
}
"""Names of plug-ins that are words of the product too."""


def sources() -> Iterator[tuple[str, ast.Module]]:
    for name, path in modules().items():
        if any(inside(name, package) for package in TOP_FOLDERS):
            continue
        place = path.relative_to(ROOT)
        known = any(str(place) == one or str(place).startswith(f"{one}/") for one in MAY_NAME)
        if not known:
            yield str(place), tree(name)


def test_no_room_names_a_plug_in() -> None:
    known = {name for base in GROUPS for name in names(base)} - WORDS
    wrong = []
    for place, module in sources():
        for node in ast.walk(module):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                first = node.value.partition(":")[0]
                sentence = node.value[len(first) + 1 :].startswith(" ")
                if first in known and (node.value == first or not sentence):
                    wrong.append(f"{place}:{node.lineno}: {node.value!r}")
    assert not wrong, "\n".join(wrong)


def test_no_room_imports_the_class_of_a_plug_in() -> None:
    classes = {plugin_class(base, name).__name__ for base in GROUPS for name in names(base)}
    wrong = [
        f"{place}:{node.lineno}: {each.name}"
        for place, module in sources()
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
        if each.name in classes
    ]
    assert not wrong, "\n".join(wrong)
