"""`foltr-audit new`: begin a plug-in package, or a file of limits, from a template that works."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from importlib.resources import files
from keyword import iskeyword
from pathlib import Path
from string import Template

from foltr_audit.cli.options import argument, option, words
from foltr_audit.cli.output import print_line
from foltr_audit.cli.pages import HelpGroup, new_app, page
from foltr_audit.errors import FoltrAuditError, UsageError

app = new_app(
    cls=HelpGroup, help="Begin an attack, a defense or a file of limits from a template that works."
)

_CLASSES = words("Attack Defense Inference View Field PrivacyEvent RoundContext Streams")
"""What the templates import."""
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_MOST_LETTERS = 40
_INTO: Path = option("Folder to put it into. Default: this one.", Path(), metavar="DIR")


@app.command(cls=page("new attack"))
def attack(name: str = argument("Name for --method, e.g. matched-filter."), into: Path = _INTO) -> None:
    """Write a package with an attack, its entry point and its tests into a new folder NAME."""
    _write_package("attack", name, into)


@app.command(cls=page("new defense"))
def defense(name: str = argument("Name for --defense, e.g. number-bound."), into: Path = _INTO) -> None:
    """Write a package with a defense, its entry point and its tests into a new folder NAME."""
    _write_package("defense", name, into)


@app.command(cls=page("new limits"))
def limits(name: str = argument("Name of the file, with or without .toml."), into: Path = _INTO) -> None:
    """Write limits for check, each with its meaning, into a new file NAME.toml."""
    path = into / f"{_checked(name.removesuffix('.toml'))}.toml"
    _refuse_taken(path, into)
    try:
        with path.open("x", encoding="utf-8") as file:  # never over a file that appeared meanwhile
            file.write(_filled("limits", {})["limits.toml"])
    except OSError as error:
        raise FoltrAuditError(f"{path}: cannot be written: {error.strerror or error}") from error
    print_line(f"wrote {path}")
    print_line(f"next: foltr-audit check {path} --config SPEC")


def _write_package(kind: str, name: str, into: Path) -> None:
    from foltr_audit.core.plugins import Attack, Defense
    from foltr_audit.core.plugins.registry import names

    folder, module = into / _checked(name), name.replace("-", "_")
    class_name = "".join(word.capitalize() for word in name.split("-"))
    if name in names(Attack if kind == "attack" else Defense):
        raise UsageError(f"NAME: {name!r} is the name of a registered {kind}; expected another one")
    if iskeyword(module) or module in sys.stdlib_module_names or class_name in _CLASSES:
        raise UsageError(f"NAME: {name!r} is a name of Python or of foltr-audit; expected another one")
    _refuse_taken(folder, into)
    filled = _filled(kind, {"kind": kind, "name": name, "module": module, "class_name": class_name})
    called = {"module.py": f"{module}.py", "test_module.py": f"test_{module}.py"}
    try:
        made = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=into))
        try:
            for file, text in filled.items():
                (made / called.get(file, file)).write_text(text, encoding="utf-8")
            made.chmod(0o755)  # a temporary folder is for its owner alone
            made.rename(folder)  # all of it at once; refused where a folder with files appeared meanwhile
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    except OSError as error:
        raise FoltrAuditError(f"{folder}: cannot be written: {error.strerror or error}") from error
    for file in sorted(path.name for path in folder.iterdir()):
        print_line(f"wrote {folder / file}")
    print_line(f"next: cd {folder}; python -m pip install -e '.[test]'; python -m pytest")


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name) or len(name) > _MOST_LETTERS:
        raise UsageError(
            f"NAME: {name[:_MOST_LETTERS]!r}; expected lower-case letters and digits, with single hyphens, "
            f"e.g. my-idea, at most {_MOST_LETTERS}"
        )
    return name


def _refuse_taken(place: Path, into: Path) -> None:
    if not into.is_dir():
        raise UsageError(f"--into: {into}: no such folder")
    if place.exists():
        raise UsageError(f"{place} exists and is not overwritten; expected another name or folder")


def _filled(kind: str, words: dict[str, str]) -> dict[str, str]:
    """The files of a kind, by name; each template is called after its file, with .txt at the end."""
    folder = files("foltr_audit.cli") / "scaffolds" / kind
    return {
        file.name.removesuffix(".txt"): Template(file.read_text(encoding="utf-8")).substitute(words)
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
    }
