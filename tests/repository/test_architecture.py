"""The rules of the rooms, kept by looking at every import statement, lazy ones included.

Each rule is one test, which lists every violation.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from string import Template

from foltr_audit.core import plugins
from tests.fixtures.doc_examples import PAGES, blocks
from tests.fixtures.import_graph import (
    OURS,
    ROOMS,
    ROOT,
    THEIRS,
    imports,
    inside,
    modules,
    package_of,
    room_of,
    tree,
)

RECORDER_PACKAGE = "foltr_audit.recorder"
STUDIES = "foltr_audit.studies"
"""Programs for one question, which only the command line imports."""

PLUGINS_MAY_IMPORT = {
    "foltr_audit.plugins", "foltr_audit.privacy", "foltr_audit.core.ranking_metrics",
    "foltr_audit.core.records", "foltr_audit.errors", "foltr_audit.inference", "foltr_audit.kernels",
    "foltr_audit.utils.arrays", "foltr_audit.utils.reading", "foltr_audit.rng", "numpy", "pydantic",
    "scipy", "statsmodels",
}  # fmt: skip
HEAVY = {
    "numba", "polars", "scipy", "sklearn", "statsmodels", "pandas", "matplotlib", "cryptography",
    "dp_accounting", "lightgbm", "optuna", "joblib", "torch", "distributed", "jinja2",
}  # fmt: skip
RUNS_WHAT_IT_READS = {
    "pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "subprocess",
    "multiprocessing", "pty", "runpy", "code", "ctypes",
}  # fmt: skip
MAY_RUN = {
    "foltr_audit.experiments.comparison.workers": {"joblib"},
    "foltr_audit.kernels.jit": {"pickle"},
}
"""The first hands work to processes of its own; what these send back is not read from disk. The second loads
machine code that it compiled before, from files of the user."""

REPLAYS_GENERATORS = "foltr_audit.utils.seed_generators"
"""It replays what other programs drew from seeds that they sent; nothing of foltr-audit is drawn there."""

FORBIDDEN_CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load",
    "np.fromfile", "np.genfromtxt",
}  # fmt: skip

TEMPLATES = [
    Template(path.read_text()).safe_substitute(module="own", class_name="Own", kind="defense")
    for path in sorted((ROOT / "foltr_audit" / "cli" / "scaffolds").rglob("*.py.txt"))
]
"""The modules that `foltr-audit new` writes."""


# --- directions -----------------------------------------------------------------------------------


def offending(names: Iterable[str], is_wrong: Callable[[str, str], bool]) -> str:
    """Every import of these modules that is wrong, one a line."""
    pairs = ((name, target) for name in names for target in sorted(imports(name)))
    return "\n".join(f"{name} imports {target}" for name, target in pairs if is_wrong(name, target))


def test_a_room_imports_only_from_rooms_before_it() -> None:
    def later(name: str, target: str) -> bool:
        room, other = room_of(name), room_of(target)
        return bool(room and other and ROOMS.index(other) > ROOMS.index(room))

    assert not offending(OURS, later)


def test_errors_and_streams_lie_below_every_room() -> None:
    allowed = {"foltr_audit.errors": (), "foltr_audit.rng": ("foltr_audit.errors", "foltr_audit.kernels")}

    def above(name: str, target: str) -> bool:
        return inside(target, "foltr_audit") and not any(inside(target, room) for room in allowed[name])

    assert not offending(allowed, above)


def test_nobody_imports_what_lies_on_top() -> None:
    """The package itself, the Python API and the facade are for users; studies for the command line alone."""

    def on_top(name: str, target: str) -> bool:
        if inside(target, "foltr_audit.cli"):
            return not inside(name, "foltr_audit.cli") and "__main__" not in name
        if inside(target, "foltr_audit.testing"):
            return not inside(name, "foltr_audit.testing")
        return target in ("foltr_audit", "foltr_audit.api", "foltr_audit.__main__")

    assert not offending(OURS, on_top)


def test_the_library_imports_no_plugin_and_no_study() -> None:
    def of_others(name: str, target: str) -> bool:
        own = room_of(name) == "cli" or inside(name, STUDIES)
        return target in THEIRS or (inside(target, STUDIES) and not own)

    assert not offending(OURS, of_others)


def test_kernels_know_arrays_only() -> None:
    known = {
        "__future__", "collections", "concurrent", "contextlib", "functools", "llvmlite", "math", "numba",
        "numpy", "os", "threading", "typing",
    }  # fmt: skip
    stores = {"hashlib", "pathlib", "pickle", "platformdirs", "sys", "tempfile"}
    kernels = [name for name in OURS if inside(name, "foltr_audit.kernels")]

    def more(name: str, target: str) -> bool:
        allowed = known | stores if name == "foltr_audit.kernels.jit" else known
        return not inside(target, "foltr_audit.kernels") and target.partition(".")[0] not in allowed

    assert not offending(kernels, more)


def test_the_recorder_needs_numpy_and_no_room() -> None:
    """It installs beside any server, and its modules are installed under another name as well."""
    recorder = [name for name in modules() if inside(name, RECORDER_PACKAGE)]
    known = sys.stdlib_module_names | {"numpy", "flwr"}
    assert not offending(
        recorder,
        lambda _, target: not inside(target, RECORDER_PACKAGE) and target.partition(".")[0] not in known,
    )
    for name in recorder:
        absolute = [
            node for node in ast.walk(tree(name)) if isinstance(node, ast.ImportFrom) and not node.level
        ]
        assert not [node.module for node in absolute if (node.module or "").startswith("foltr")], name


def test_plugins_import_the_api_and_no_one_else() -> None:
    def unknown(_: str, target: str) -> bool:
        if target.partition(".")[0] in sys.stdlib_module_names or target in THEIRS:
            return False
        return not any(inside(target, room) for room in PLUGINS_MAY_IMPORT)

    assert not offending(THEIRS, unknown)


def ours_in(text: str) -> dict[str, set[str]]:
    """The names that a program takes from foltr_audit, by the module that it names."""
    taken: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and inside(node.module or "", "foltr_audit"):
            taken.setdefault(node.module or "", set()).update(alias.name for alias in node.names)
    return taken


def test_authors_find_names_of_plugins_in_one_module() -> None:
    pages = [block.text for page in PAGES for block in blocks(page) if block.is_program]
    examples = [path.read_text() for path in sorted((ROOT / "examples").rglob("*.py"))]
    wrong = [
        f"{module}: {sorted(names & {*plugins.__all__})}"
        for text in (*(modules()[name].read_text() for name in THEIRS), *TEMPLATES, *pages, *examples)
        for module, names in ours_in(text).items()
        if module != "foltr_audit.plugins" and names & {*plugins.__all__}
    ]
    assert not wrong, "\n".join(wrong)


def test_templates_for_authors_import_nothing_deeper() -> None:
    assert TEMPLATES
    for text in TEMPLATES:
        assert ours_in(text).keys() <= {"foltr_audit.plugins", "foltr_audit.rng", "foltr_audit.testing"}


def test_nothing_is_imported_in_a_circle() -> None:
    """Imports in functions count; those for type checkers alone and packages' `__init__` do not."""
    found = circles(runtime_graph())
    assert not found, "\n".join(", ".join(sorted(circle)) for circle in found)


def runtime_graph() -> dict[str, set[str]]:
    """Which module imports which when it runs, without the `__init__` of packages."""
    leaves = {name for name, path in modules().items() if path.name != "__init__.py"}
    return {
        name: {target for target in imports(name, typing=False) if target in leaves - {name}}
        for name in leaves
    }


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules of which each imports, over others, each other."""
    reached = {name: reachable(graph, name) for name in graph}
    together = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return [set(names) for names in together if len(names) > 1]


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Every module that a module imports, also over others."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for target in graph[waiting.pop()] - seen:
            seen.add(target)
            waiting.append(target)
    return seen


def test_slow_imports_wait_until_they_are_used() -> None:
    wrong = []
    for name in modules():
        if inside(name, "foltr_audit.kernels"):
            continue
        early = {target.partition(".")[0] for target in imports(name, lazy=False)}
        if inside(name, "foltr_audit.trace"):
            early -= {"polars"}  # nothing reads a trace without it, and the command line imports it late
        wrong += [f"{name} imports {library} at its top" for library in sorted(early & HEAVY)]
    assert not wrong, "\n".join(wrong)


# --- nothing from disk is executed ----------------------------------------------------------------


def test_nothing_runs_what_it_reads() -> None:
    wrong = []
    for name in modules():
        refused = RUNS_WHAT_IT_READS - MAY_RUN.get(name, set())
        found = {target.partition(".")[0] for target in imports(name)} & refused
        wrong += [f"{name} imports {library}" for library in sorted(found)]
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.Call):
                wrong += [f"{place(name, node)}: {problem}" for problem in call_problems(node)]
    assert not wrong, "\n".join(wrong)


def call_problems(node: ast.Call) -> Iterator[str]:
    """What is wrong with a call, if it may run what it reads."""
    called = ast.unparse(node.func)
    given = {word.arg: ast.unparse(word.value) for word in node.keywords}
    if called in FORBIDDEN_CALLS:
        yield called
    if given.get("allow_pickle", "False") != "False" or given.get("shell", "False") != "False":
        yield f"{called} with pickles or a shell"
    if called.startswith("np.savez"):
        yield f"{called}, which stores its option allow_pickle as an array before NumPy 2.2"
    if called in ("np.load", "np.save", "numpy.load") and "allow_pickle" not in given:
        yield f"{called} without allow_pickle=False"


def place(name: str, node: ast.AST) -> str:
    """File and line of a node."""
    return f"{modules()[name].relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def test_no_global_randomness_and_no_assert() -> None:
    wrong = [f"{name} imports random" for name in modules() if "random" in imports(name)]
    for name in modules():
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.Assert):
                wrong.append(f"{place(name, node)}: assert; input is checked with errors of errors.py")
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("np.random."):
                drawn = ast.unparse(node.func).removeprefix("np.random.")
                if drawn not in ("Generator", "Philox") and name != REPLAYS_GENERATORS:
                    wrong.append(f"{place(name, node)}: np.random.{drawn}")
    assert not wrong, "\n".join(wrong)


# --- the tests above can fail ---------------------------------------------------------------------


def test_lazy_and_relative_imports_are_seen() -> None:
    assert "foltr_audit.kernels.metrics" in imports("foltr_audit.judge.scoring")
    assert "foltr_audit.kernels.metrics" not in imports("foltr_audit.judge.scoring", lazy=False)
    assert "foltr_audit.kernels.jit" in imports("foltr_audit.kernels.metrics", lazy=False)
    assert "foltr_audit.core.records.dataset" in imports("foltr_audit.core.plugins.learner")
    assert "foltr_audit.core.records.dataset" not in imports("foltr_audit.core.plugins.learner", lazy=False)
    assert "foltr_audit.recorder.atomic_files" in imports("foltr_audit.experiments.runner")
    for module in ("foltr_audit.trace", "foltr_audit.trace.reader"):
        assert package_of(module, 1) == "foltr_audit.trace"
    lazy = "def law():\n    from foltr_audit.privacy.noise import GammaShare\n"
    assert ours_in(lazy) == {"foltr_audit.privacy.noise": {"GammaShare"}}


def test_a_circle_is_seen() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str]()}
    assert circles(graph) == [{"b", "c"}]
