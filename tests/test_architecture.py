"""The directions between rooms, kept by looking at every import statement, lazy ones included."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PLUGIN_FOLDERS = ("attacks", "defenses", "scenarios")
MOST_LINES = 400

LAYERS: tuple[tuple[str, ...], ...] = (
    ("kernels",),
    ("errors", "atomic", "progress", "defaults"),
    ("reading",),
    (
        *("rng", "letor_lines", "report.plain", "spec_table", "gaussian_dp", "metric_response"),
        *("optimisers", "extras"),
    ),
    ("rankers", "bootstrap", "noise_laws", "secure_aggregation", "metric_sums"),
    ("records", "letor_features", "evidence"),
    ("plugins", "replay", "click_rates", "auditing.estimators", "audit_spec", "named_queries"),
    ("decoding", "rank_changes", "systems", "origin"),
    ("identifiable", "relaxed", "counting", "pattern_answers"),
    ("list_evidence",),
    ("list_decoding",),
    ("joint_search",),
    ("intent_likelihoods",),
    ("registry", "metrics", "qrels", "synthetic_intents", "intents", "synthetic_columns"),
    (
        *("chain", "clicks", "learners", "trace", "letor_write", "data_entry", "data_origin"),
        *("label_columns", "scenario_texts", "intent_metrics", "synthetic_topics"),
    ),
    ("attack_spec",),
    ("spec", "letor", "normalise", "lint", "pairings", "accounting", "click_mixture"),
    ("world", "plan", "sources", "synthetic", "run_folder", "data_cache"),
    ("client", "clientele"),
    ("load", "presets", "setup", "views", "played", "beliefs", "stored_runs", "online"),
    (
        *("write_behind", "observer", "evaluation", "training", "compared_systems", "run_diff"),
        "population_facts",
        "message_size",
    ),
    ("federation", "recording", "significance", "fact_check"),
    ("side_by_side",),
    ("fresh", "shuffled"),
    ("judge",),
    (
        "operating_points",
        "calibration",
        "information",
        "judge_queries",
        "judge_counts",
        "judge_intents",
        "auditing",
    ),
    ("judge_links",),
    ("inquiry",),
    ("scoring", "any_click", "experiment"),
    ("study", "group_scores"),
    ("comparing",),
    ("recommending",),
    ("report",),
    ("recorded", "merging", "bundling"),
    ("checking",),
    ("api",),
    ("cli",),
    ("__main__",),
)
"""Rooms from the ground up. A room imports from the floors below it, and from its own inside only.

`errors, rng, rankers, records, noise_laws, kernels <- plugins <- registry, chain, clicks, learners, spec
<- setup, client, views <- federation, fresh <- judge, scoring <- study, report <- cli`, in more detail.
"""

PLUGINS_MAY_IMPORT = {
    "foltr_audit.plugins",
    "foltr_audit.counting",
    "foltr_audit.decoding",
    "foltr_audit.errors",
    "foltr_audit.intent_likelihoods",
    "foltr_audit.joint_search",
    "foltr_audit.list_decoding",
    "foltr_audit.list_evidence",
    "foltr_audit.metric_response",
    "foltr_audit.metric_sums",
    "foltr_audit.kernels",
    "foltr_audit.noise_laws",
    "foltr_audit.pattern_answers",
    "foltr_audit.rank_changes",
    "foltr_audit.reading",
    "foltr_audit.records",
    "foltr_audit.relaxed",
    "foltr_audit.replay",
    "foltr_audit.rng",
    "foltr_audit.secure_aggregation",
    "foltr_audit.systems",
    "numpy",
    "pydantic",
    "statsmodels",
}
HEAVY = {
    "numba",
    "polars",
    "scipy",
    "sklearn",
    "statsmodels",
    "pandas",
    "matplotlib",
    "cryptography",
    "dp_accounting",
    "lightgbm",
    "optuna",
    "joblib",
    "distributed",
    "ray",
    "jinja2",
}
RUNS_WHAT_IT_READS = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "joblib",
    "marshal",
    "shelve",
    "subprocess",
    "multiprocessing",
    "pty",
    "runpy",
    "code",
    "ctypes",
}
STARTS_PROCESSES = {"foltr_audit.comparing.workers": {"joblib"}, "foltr_audit.comparing.pools": {"joblib"}}
"""Who may hand work to processes of its own; what these send back is not read from disk."""

FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "os.system",
    "os.popen",
    "yaml.load",
    "yaml.unsafe_load",
    "np.fromfile",
    "np.genfromtxt",
}


# --- reading the sources --------------------------------------------------------------------------


@cache
def modules() -> dict[str, Path]:
    """Every module of the packages by its dotted name."""
    package = ROOT / "foltr_audit"
    folders = (package, *(package / folder for folder in PLUGIN_FOLDERS))  # rglob does not follow links
    found = {}
    for path in sorted({path for folder in folders for path in folder.rglob("*.py")}):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


@cache
def tree(name: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


def package_of(name: str, level: int) -> str:
    """The package that a relative import of some level starts from."""
    parts = name.split(".")
    if modules()[name].name != "__init__.py":
        parts = parts[:-1]
    return ".".join(parts[: len(parts) - level + 1])


def targets(name: str, node: ast.stmt) -> Iterator[str]:
    """Dotted names of what an import statement imports: modules where they are ours, else as written."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        start = package_of(name, node.level) if node.level else ""
        base = ".".join(part for part in (start, node.module) if part)
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            yield inner if inner in modules() else base


def statements(body: list[ast.stmt], *, lazy: bool) -> Iterator[ast.stmt]:
    """Import statements: those that run on import, or with `lazy` every one."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif lazy:
            yield from (inner for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom))
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from statements(node.body + node.orelse, lazy=False)
        elif isinstance(node, ast.Try):
            yield from statements(node.body + node.orelse + node.finalbody, lazy=False)


@cache
def imports(name: str, *, lazy: bool = True) -> frozenset[str]:
    """What a module imports; `lazy` includes imports in functions and those for type checkers."""
    found = statements(tree(name).body, lazy=lazy)
    return frozenset(target for node in found for target in targets(name, node))


def inside(name: str, room: str) -> bool:
    """Whether a module is a room or in it."""
    return name == room or name.startswith(f"{room}.")


def room_and_floor(name: str) -> tuple[str, int]:
    """The most precise room of a module of foltr_audit, and how high it stands."""
    short = name.removeprefix("foltr_audit.")
    fitting = [(room, floor) for floor, rooms in enumerate(LAYERS) for room in rooms if inside(short, room)]
    assert fitting, f"{name} stands in no room: give it a place in LAYERS of tests/test_architecture.py"
    return max(fitting, key=lambda pair: len(pair[0]))


THEIRS = [name for name in modules() if any(inside(name, f"foltr_audit.{room}") for room in PLUGIN_FOLDERS)]
OURS = [name for name in modules() if name != "foltr_audit" and name not in THEIRS]


# --- directions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OURS)
def test_a_room_imports_only_from_below(name: str) -> None:
    room, floor = room_and_floor(name)
    for target in sorted(imports(name)):
        if not inside(target, "foltr_audit"):
            continue
        if target == "foltr_audit":
            pytest.fail(f"{name} imports the package itself; name the room instead")
        other, below = room_and_floor(target)
        assert other == room or below < floor, f"{name} must not import {target}"


def test_every_room_exists() -> None:
    rooms = [room for floor in LAYERS for room in floor]
    assert len(set(rooms)) == len(rooms)
    gone = [room for room in rooms if f"foltr_audit.{room}" not in modules()]
    assert not gone, "rooms of LAYERS that are no more"


def test_the_directions_of_the_architecture() -> None:
    order = [
        ("errors", "rng", "rankers", "records", "noise_laws", "kernels"),
        ("plugins",),
        ("registry", "chain", "clicks", "learners", "spec"),
        ("setup", "views"),
        ("federation", "fresh"),
        ("judge", "scoring"),
        ("study", "report"),
        ("cli",),
    ]
    for lower, higher in pairwise(order):
        top = max(room_and_floor(f"foltr_audit.{room}")[1] for room in lower)
        bottom = min(room_and_floor(f"foltr_audit.{room}")[1] for room in higher)
        assert top < bottom, f"{lower} must stand below {higher}"


@pytest.mark.parametrize("name", OURS)
def test_the_engine_imports_no_plugin(name: str) -> None:
    assert not set(THEIRS) & imports(name)


@pytest.mark.parametrize("name", [name for name in OURS if inside(name, "foltr_audit.kernels")])
def test_kernels_know_arrays_only(name: str) -> None:
    assert {
        target.partition(".")[0] for target in imports(name) if not inside(target, "foltr_audit.kernels")
    } <= {
        "__future__",
        "collections",
        "llvmlite",
        "math",
        "numba",
        "numpy",
        "typing",
    }


@pytest.mark.parametrize("name", THEIRS)
def test_plugins_import_the_api_and_no_one_else(name: str) -> None:
    for target in sorted(imports(name)):
        allowed = target.partition(".")[0] in sys.stdlib_module_names
        allowed |= target in THEIRS or any(inside(target, room) for room in PLUGINS_MAY_IMPORT)
        assert allowed, f"{name} must not import {target}"


def test_nothing_is_imported_in_a_circle() -> None:
    graph = {
        name: sorted(target for target in imports(name, lazy=False) if target in modules() and target != name)
        for name in modules()
    }
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path[path.index(name) :], name))
        if name not in done:
            for target in graph[name]:
                visit(target, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("name", sorted(modules()))
def test_slow_imports_wait_until_they_are_used(name: str) -> None:
    if inside(name, "foltr_audit.kernels"):
        return
    early = {target.partition(".")[0] for target in imports(name, lazy=False)}
    if inside(name, "foltr_audit.trace"):
        early -= {"polars"}  # nothing reads a trace without it, and the command line imports it late
    assert not early & HEAVY, f"{name} imports {sorted(early & HEAVY)} at its top"


# --- nothing from disk is executed ----------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(modules()))
def test_nothing_that_runs_what_it_reads(name: str) -> None:
    refused = RUNS_WHAT_IT_READS - STARTS_PROCESSES.get(name, set())
    assert not {target.partition(".")[0] for target in imports(name)} & refused
    for node in ast.walk(tree(name)):
        if not isinstance(node, ast.Call):
            continue
        where = f"{modules()[name].relative_to(ROOT)}:{node.lineno}"
        called = ast.unparse(node.func)
        assert called not in FORBIDDEN_CALLS, f"{where}: {called}"
        given = {word.arg: ast.unparse(word.value) for word in node.keywords}
        assert given.get("allow_pickle", "False") == "False", where
        assert given.get("shell", "False") == "False", where
        if called in ("np.load", "np.save", "np.savez", "numpy.load"):
            assert "allow_pickle" in given, f"{where}: {called} without allow_pickle=False"


@pytest.mark.parametrize("name", sorted(modules()))
def test_no_global_randomness_and_no_assert(name: str) -> None:
    for node in ast.walk(tree(name)):
        where = f"{modules()[name].relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        assert not isinstance(node, ast.Assert), f"{where}: input is checked with errors of errors.py"
        assert "random" not in {target.partition(".")[0] for target in imports(name)}, where
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("np.random."):
            drawn = ast.unparse(node.func).removeprefix("np.random.")
            assert drawn in ("Generator", "Philox"), f"{where}: np.random.{drawn}"


# --- size -----------------------------------------------------------------------------------------


def sources() -> list[Path]:
    """Every Python file of the repository's own folders."""
    return [*modules().values(), *sorted((ROOT / "tests").rglob("*.py"))]


def test_files_stay_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    assert not {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > MOST_LINES}


# --- the tests above can fail ---------------------------------------------------------------------


def test_lazy_and_relative_imports_are_seen() -> None:
    assert "foltr_audit.kernels.auc" in imports("foltr_audit.operating_points")
    assert "foltr_audit.kernels.auc" not in imports("foltr_audit.operating_points", lazy=False)
    assert "foltr_audit.kernels.jit" in imports("foltr_audit.kernels.auc", lazy=False)
    assert "foltr_audit.records.dataset" in imports("foltr_audit.plugins.learners")
    assert "foltr_audit.records.dataset" not in imports("foltr_audit.plugins.learners", lazy=False)
    assert "foltr_audit.atomic" in imports("foltr_audit.study")
    assert (
        package_of("foltr_audit.trace", 1) == package_of("foltr_audit.trace.reader", 1) == "foltr_audit.trace"
    )
