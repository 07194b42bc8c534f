"""The rules of names and of sizes: one test for each, which lists every violation."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from tests.fixtures.import_graph import ROOT, inside, modules, tree

MOST_LINES, FEWEST_LINES = 400, 25

IRREGULAR = {
    *("again", "begun", "brought", "built", "chosen", "done", "drawn", "found", "given", "gone", "heard"),
    *("held", "hidden", "kept", "known", "learnt", "left", "lost", "made", "proven", "ran", "said", "seen"),
    *("sent", "shown", "spent", "taken", "thrown", "told", "withheld", "written"),
}
NOUNS_IN_ED = {"Seed", "Speed", "Feed", "Need"}
ENDINGS = ("s", "es", "ed", "ing", "ings", "er", "ers", "ion", "ions", "ation", "ations", "ment", "d", "r")
SHORTEST_STEM = 4


@cache
def classes() -> tuple[tuple[str, str], ...]:
    """Every class as the path of its file and its name, also of private ones and of benchmarks."""
    trees = {path: tree(name) for name, path in modules().items()}
    trees |= {
        path: ast.parse(path.read_text("utf-8")) for path in sorted((ROOT / "benchmarks").rglob("*.py"))
    }
    return tuple(
        (str(path.relative_to(ROOT)), node.name)
        for path, whole in trees.items()
        for node in ast.walk(whole)
        if isinstance(node, ast.ClassDef)
    )


def test_a_class_is_a_noun() -> None:
    """No class ends in a participle or a past tense: such a name does not say what the class is."""
    wrong = [f"{path}: {name}" for path, name in classes() if is_participle(words(name)[-1])]
    assert not wrong, "\n".join(wrong)


def words(name: str) -> list[str]:
    """The words of a name in CamelCase."""
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)


def is_participle(word: str) -> bool:
    """Whether a word is a participle or a past tense, as far as its form tells."""
    return word.lower() in IRREGULAR or (word.endswith("ed") and word not in NOUNS_IN_ED)


def test_a_class_name_means_one_class() -> None:
    counts = Counter(name for _, name in classes())
    wrong = [f"{path}: {name}" for path, name in classes() if counts[name] > 1]
    assert not wrong, "\n".join(wrong)


def test_no_two_modules_differ_by_an_ending() -> None:
    """Commands are left out: their modules have the names that users type."""
    names = {name.rpartition(".")[2] for name in modules() if modules()[name].name != "__init__.py"}
    names -= {name.rpartition(".")[2] for name in modules() if inside(name, "foltr_audit.cli")}
    stems: dict[str, set[str]] = {}
    for name in names:
        for stem in {name, *(name.removesuffix(ending) for ending in ENDINGS)}:
            if len(stem) >= SHORTEST_STEM:
                stems.setdefault(stem, set()).add(name)
    wrong = {tuple(sorted(alike)) for alike in stems.values() if len(alike) > 1}
    assert not wrong, sorted(wrong)


# --- size -----------------------------------------------------------------------------------------


def sources() -> list[Path]:
    """Every Python file of the repository's own folders."""
    return [*modules().values(), *sorted((ROOT / "tests").rglob("*.py"))]


def test_files_are_neither_long_nor_tiny() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    assert not {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > MOST_LINES}
    tiny = {path for path in modules().values() if lengths[path] < FEWEST_LINES}
    assert not {str(path.relative_to(ROOT)) for path in tiny if path.stem not in ("__init__", "__main__")}


def test_participles_are_seen() -> None:
    assert is_participle("Told")
    assert is_participle("Bounded")
    assert not is_participle("Speed")
    assert not is_participle("Result")
