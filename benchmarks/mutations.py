"""How many small faults the tests notice: `python -m benchmarks.mutations`.

Each fault is one change at a random place of the product: a comparison, an operator, a number, a condition.
The seed and the name of a place say whether it is taken, so that versions of the tree can be compared. Tests
nearest to the fault in the graph of imports run first, until one fails or their time is over. A fault is not
caught by a test that fails without it as well.

It works in a copy of the tree with an environment of its own, and needs setuptools 77 in this one.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.tables import print_lines

ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = {
    "foltr_audit": "foltr_audit",
    **{folder: f"foltr_audit.{folder}" for folder in ("attacks", "defenses", "scenarios", "studies")},
    "recorder/foltr_audit_recorder": "foltr_audit.recorder",
}
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.FloorDiv: ast.Mod,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
Change = tuple[str, ast.expr, ast.expr]
"""The kind of a fault, an expression, and what comes in its place."""
_TEXTS = ("help", "description", "title", "detail", "message", "warn")
_LEFT_OUT = (".git", ".venv", ".venv-torch", "build", "__pycache__", ".*_cache", "*.egg-info", ".hypothesis")
_WALL = 20
"""Seconds on the clock for each second of processor time, since other work may share the machine."""


@dataclass(frozen=True)
class Place:
    """One change at one place of the product: the text of an expression, and what comes instead."""

    file: str
    function: str
    kind: str
    index: int
    line: int
    start: int
    end: int
    before: str
    after: str

    @property
    def key(self) -> str:
        return f"{self.file}|{self.function}|{self.kind}|{self.index}"


@dataclass(frozen=True)
class Verdict:
    """What the tests said of a fault: caught, survived, or out of time."""

    place: Place
    told: str
    by: str
    files: int
    seconds: float


# --- places ---------------------------------------------------------------------------------------


def _changed_values(node: ast.AST) -> Iterator[Change]:
    """Faults of operators and numbers."""
    match node:
        case ast.Compare(left, [operator], others) if type(operator) in _COMPARED:
            yield "comparison", node, ast.Compare(left, [_COMPARED[type(operator)]()], others)
        case ast.BinOp(left, operator, right) if type(operator) in _COMPUTED:
            if not _is_text(left) and not _is_text(right):
                yield "operator", node, ast.BinOp(left, _COMPUTED[type(operator)](), right)
        case ast.BoolOp(operator, values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield "logic", node, ast.BoolOp(other, values)
        case ast.Constant(bool() as value):
            yield "constant", node, ast.Constant(not value)
        case ast.Constant(int() as value):
            yield "constant", node, ast.Constant(value + 1)
        case ast.Constant(float() as value):
            yield "constant", node, ast.Constant(value * 2 or 1.0)


def _changed_flow(node: ast.AST) -> Iterator[Change]:
    """Faults of conditions, of what goes into a function and comes out, and of ends."""
    match node:
        case ast.If(test) | ast.While(test) | ast.IfExp(test):
            yield "condition", test, ast.UnaryOp(ast.Not(), test)
        case ast.Return(ast.Tuple([first, second, *others]) as value):
            yield "return", value, ast.Tuple([second, first, *others], ast.Load())
        case ast.Return(ast.Call(_, [value, *_]) as call) if not isinstance(value, ast.Starred):
            yield "return", call, value
        case ast.Call(called, [first, second, *others], keywords):
            same = ast.unparse(called) in ("max", "min")  # in either order
            if not same and not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred):
                yield "arguments", node, ast.Call(called, [second, first, *others], keywords)
        case ast.Slice(_, ast.expr() as upper):
            yield "off by one", upper, ast.BinOp(upper, ast.Sub(), ast.Constant(1))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """What is inside a node, without annotations, decorators, error messages and other texts."""
    match node:
        case ast.FunctionDef(args=inputs, body=body) | ast.AsyncFunctionDef(args=inputs, body=body):
            yield from (value for value in (*inputs.defaults, *inputs.kw_defaults) if value is not None)
            yield from body
        case ast.ClassDef(body=body):
            yield from body
        case ast.AnnAssign(value=ast.expr() as value):
            yield value
        case ast.If(test, _, other) if "TYPE_CHECKING" in ast.unparse(test):
            yield from other
        case ast.keyword(arg, value) if arg in _TEXTS:
            return
        case ast.Raise() | ast.JoinedStr() | ast.AnnAssign() | ast.Assert():
            return
        case _:
            yield from ast.iter_child_nodes(node)


def _scan(node: ast.AST, function: str) -> Iterator[tuple[str, Change]]:
    yield from ((function, change) for change in (*_changed_values(node), *_changed_flow(node)))
    for inner in _parts(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _scan(inner, f"{function}.{inner.name}".lstrip("."))
        else:
            yield from _scan(inner, function)


def places(tree: Path, file: str) -> Iterator[Place]:
    """Every change that one file of the tree can have, in the order of its lines."""
    text = (tree / file).read_bytes()
    starts = [0]
    for row in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    seen: Counter[tuple[str, str]] = Counter()
    for function, (kind, node, other) in _scan(ast.parse(text), ""):
        if node.end_lineno is None or node.end_col_offset is None:
            continue
        start, end = (
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )
        after = f"({ast.unparse(ast.fix_missing_locations(other))})"
        before = text[start:end].decode()
        yield Place(file, function, kind, seen[function, kind], node.lineno, start, end, before, after)
        seen[function, kind] += 1


def chosen(tree: Path, seed: int, number: int) -> list[Place]:
    """The places whose names have the smallest hashes."""
    files = sorted(
        str(path.relative_to(tree)) for folder in _PACKAGES for path in (tree / folder).rglob("*.py")
    )
    found = (place for file in files for place in places(tree, file))
    return sorted(found, key=lambda place: hashlib.sha256(f"{seed}|{place.key}".encode()).digest())[:number]


# --- tests near a place ---------------------------------------------------------------------------


class Imports:
    """Which module of the product and its tests names which, imports in functions and texts included."""

    def __init__(self, tree: Path) -> None:
        folders = {**_PACKAGES, "tests": "tests"}
        self.files = {
            ".".join((package, *path.relative_to(tree / folder).with_suffix("").parts)).removesuffix(
                ".__init__"
            ): path
            for folder, package in folders.items()
            for path in (tree / folder).rglob("*.py")
        }
        self.names = {str(path.relative_to(tree)): name for name, path in self.files.items()}
        plugins = re.findall(r'= "(foltr_audit[\w.]*):\w+"', (tree / "pyproject.toml").read_text())
        self.targets = {name: set(self._named(name)) for name in self.files}
        for name, path in self.files.items():
            if name.startswith("foltr_audit.") and "entry_points(" in path.read_text():
                self.targets[name].update(plugins)
            if "walk_packages(" in path.read_text():
                self.targets[name].update(other for other in self.files if other.startswith("foltr_audit."))
            if name.startswith("tests."):
                self.targets[name].add("tests.conftest")

    def _named(self, name: str) -> Iterator[str]:
        package = name if self.files[name].name == "__init__.py" else name.rpartition(".")[0]
        for node in ast.walk(ast.parse(self.files[name].read_text())):
            texts: list[str] = []
            match node:
                case ast.Import(names):
                    texts = [alias.name for alias in names]
                case ast.ImportFrom(module, names, level):
                    above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                    base = ".".join((*above, *([module] if module else [])))
                    texts = [base, *(f"{base}.{alias.name}" for alias in names)]
                case ast.Constant(str() as text) if re.fullmatch(r"[\w.]+(:\w+)?", text):
                    texts = [text.partition(":")[0], f"foltr_audit.{text.partition(':')[0]}"]
            yield from (text for text in texts if text in self.files and text != "foltr_audit")

    def users(self, file: str) -> dict[str, int]:
        """Modules that lead to a file, itself included, with the number of steps."""
        steps, queue = {self.names[file]: 0}, deque([self.names[file]])
        while queue:
            module = queue.popleft()
            for other in self._sources[module]:
                if other not in steps:
                    steps[other] = steps[module] + 1
                    queue.append(other)
        return steps

    @cached_property
    def _sources(self) -> dict[str, list[str]]:
        return {name: [other for other in self.files if name in self.targets[other]] for name in self.files}


# --- the copy and its runs ------------------------------------------------------------------------


class Copy:
    """A copy of the product and its tests in which faults are made."""

    def __init__(self, tree: Path, folder: Path, limit: int) -> None:
        self.tree, self.limit = folder / "tree", limit
        shutil.copytree(tree, self.tree, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        venv.create(folder / "venv", with_pip=False)
        self.python = folder / "venv" / "bin" / "python"
        ask = [str(self.python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        site = Path(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip())
        libraries = [path for path in sys.path if path.endswith("site-packages")]
        (site / "libraries.pth").write_text("\n".join(libraries) + "\n")
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet", "--no-deps"]
        pip += ["--no-build-isolation", "--no-compile", "--editable", str(self.tree)]
        subprocess.run(pip, check=True)
        self.imports = Imports(self.tree)
        self.broken: list[str] = []
        """Tests that fail without a fault, which are left out."""

    def pytest(self, seconds: float, *arguments: str) -> tuple[str, str, float]:
        """Run tests: their verdict, the first that failed, and seconds of processor time."""
        options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-rfE"]
        left_out = [f"--deselect={test}" for test in self.broken]
        limit = max(1, int(seconds))
        began = _spent()
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [str(self.python), "-m", "pytest", *options, *arguments, *left_out],
            cwd=self.tree,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **threads, "PYTHONDONTWRITEBYTECODE": "1"},
            preexec_fn=lambda: _limited(limit),
        )
        try:
            out, _ = process.communicate(timeout=limit * _WALL)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        seconds = _spent() - began
        if process.returncode in (0, 5):
            return "passed", "", seconds
        if process.returncode < 0:
            return "out of time", "", seconds
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", out, re.MULTILINE)
        return "failed", failed[0] if failed else "the start of pytest", seconds

    def try_fault(self, place: Place) -> Verdict:
        """Change one place, run the tests that lead to it, nearest first, and change it back."""
        users = self.imports.users(place.file)
        tests: dict[int, list[str]] = {}
        for name, steps in users.items():
            if name.rpartition(".")[2].startswith("test_"):
                tests.setdefault(steps, []).append(str(self.imports.files[name].relative_to(self.tree)))
        room = place.file.split("/")[1 if place.file.startswith("foltr_audit/") else 0]
        path, spent, number = self.tree / place.file, 0.0, 0
        whole = path.read_bytes()
        path.write_bytes(whole[: place.start] + place.after.encode() + whole[place.end :])
        told, failed = "passed", ""
        self._forget(users)
        try:
            for steps in sorted(tests):
                files = sorted(tests[steps], key=lambda file: (file.split("/")[1] != room, file))
                number += len(files)
                told, failed, seconds = self.pytest(self.limit - spent, *files)
                spent += seconds
                if told == "passed" and spent > self.limit - 2:
                    told = "out of time"
                if told != "passed":
                    break
        finally:
            path.write_bytes(whole)
            self._forget(users)
        if told == "failed" and "::" in failed and self.pytest(5 * self.limit, failed)[0] != "passed":
            print(f"fails without a fault: {failed}", file=sys.stderr)
            self.broken.append(failed)
            return self.try_fault(place)
        told = {"failed": "caught", "passed": "survived"}.get(told, told)
        return Verdict(place, told, failed, number, spent)

    def _forget(self, users: dict[str, int]) -> None:
        """Remove the bytecode of modules that may have the fault in them; kernels notice it themselves."""
        for name in users:
            path = self.imports.files[name]
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
                compiled.unlink()


def _limited(seconds: int) -> None:
    """In a new process: end it after so many seconds, and let it be interrupted, also in the background."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _rows(verdicts: Iterator[Verdict], kept: list[Verdict]) -> Iterator[str]:
    yield "| place | kind | change | verdict | CPU s | test files | by |"
    yield "|---|---|---|---|---:|---:|---|"
    for verdict in verdicts:
        kept.append(verdict)
        place = verdict.place
        change = " ".join(f"`{place.before}` -> `{place.after}`".split())
        cells = (
            f"{place.file}:{place.line} {place.function}",
            *(place.kind, change.replace("|", "\\|"), verdict.told, f"{verdict.seconds:.0f}"),
            *(str(verdict.files), verdict.by),
        )
        yield f"| {' | '.join(cells)} |"
    yield f"\nCaught: {sum(verdict.told == 'caught' for verdict in kept)} of {len(kept)}."


def main(given: Sequence[str] | None = None) -> None:
    """Print a table of faults and what the tests said of each, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, default=ROOT, help="Checkout that is copied.")
    parser.add_argument("--places", type=int, default=30, help="Number of faults.")
    parser.add_argument("--seed", type=int, default=1, help="Seed of the places.")
    parser.add_argument("--limit", type=int, default=60, help="Seconds of processor time for each fault.")
    parser.add_argument("--only", metavar="KEY", action="append", help="Places with this text in their key.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="Write verdicts there.")
    options = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(options.tree.resolve(), Path(folder), options.limit)
        found = chosen(copy.tree, options.seed, options.places)
        if options.only:
            found = [place for place in found if any(text in place.key for text in options.only)]
        told, failed, seconds = copy.pytest(1200, "tests/repository/test_digests.py")  # compiles most kernels
        print(f"without a fault: {told} {failed} ({seconds:.0f} s)", file=sys.stderr)
        kept: list[Verdict] = []
        print_lines(_rows(map(copy.try_fault, found), kept), None)
    if options.json:
        rows = [{**asdict(verdict), "key": verdict.place.key} for verdict in kept]
        table = {"tree": str(options.tree), "seed": options.seed, "limit": options.limit, "faults": rows}
        options.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
