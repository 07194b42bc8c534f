"""One check of a bundle, and those that every bundle goes through before its results are looked at."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from foltr_audit.core.spec.experiment import Spec
from foltr_audit.errors import FoltrAuditError, UsageError
from foltr_audit.evidence.bundle.unpack import BundleFolder
from foltr_audit.experiments.runs.folder import SPEC

State = Literal["holds", "fails", "not possible", "skipped"]

MOST_SPEC_BYTES = 2**20
"""A longer Spec is not read."""

FOREIGN = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError),
    FoltrAuditError,
)
"""What values of any kind in a foreign file may raise where they are used."""


@dataclass(frozen=True)
class BundleCheck:
    """What came of one check.

    Attributes:
        name: what was checked.
        state: `holds`; `fails`; `not possible`: something that it needs is not here; `skipped`: as asked for.
        found: what there is to say, a line each.
    """

    name: str
    state: State
    found: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Foreign names and texts reach a terminal in printable characters only."""
        object.__setattr__(self, "found", tuple(printable(line) for line in self.found))

    @classmethod
    def of(cls, name: str, problems: Iterable[str], otherwise: str = "") -> BundleCheck:
        """A check that holds unless there are problems; `otherwise` says what holds."""
        found = tuple(problems)
        return cls(name, "fails" if found else "holds", found or ((otherwise,) if otherwise else ()))


class CheckUnavailableError(FoltrAuditError):
    """A check needs something that is not here."""


def guarded(name: str, check: Callable[[], BundleCheck], *, here: bool = False) -> BundleCheck:
    """The check, or what foreign values made of it; `here`: what goes wrong is for want of this machine."""
    try:
        with warnings.catch_warnings():
            if not here:
                warnings.simplefilter("ignore")  # of numbers that no cell of ours has
            return check()
    except (CheckUnavailableError, MemoryError) as error:
        return BundleCheck(name, "not possible", (said(error),))
    except FOREIGN as error:
        own = here and isinstance(error, FoltrAuditError)
        return BundleCheck(name, "not possible" if own else "fails", (said(error),))


def said(error: BaseException) -> str:
    """An error on foreign values as one line."""
    text = " ".join(str(error).split())
    return text[:400] if isinstance(error, FoltrAuditError) else f"{type(error).__name__}: {text[:400]}"


def printable(line: str) -> str:
    """A line without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def check_files(bundle: BundleFolder) -> BundleCheck:
    """Whether every file is there with its hash, and none beside them."""
    manifest = bundle.manifest
    size = sum(file.size for file in manifest.files.values())
    return BundleCheck.of(
        "files",
        bundle.problems,
        f"{len(manifest.files)} files, {size:,} bytes: every SHA-256 is right, none is missing or extra",
    )


def check_specs(bundle: BundleFolder) -> BundleCheck:
    """Whether each Spec is canonical, hashes to the name of its folder, and is the one of the manifest."""
    manifest = bundle.manifest
    named = {name for name in manifest.files if name.rpartition("/")[2] == SPEC}
    problems = [f"{name}: named as a Spec, and is none" for name in manifest.specs.keys() - named]
    for name in sorted(named):
        problems += _spec_problems(bundle.root / name, name, manifest.specs.get(name))
    return BundleCheck.of("Specs", problems, f"{len(named)}, each hashes to its name")


def _spec_problems(path: Path, name: str, digest: str | None) -> list[str]:
    if path.stat().st_size > MOST_SPEC_BYTES:
        return [f"{name}: {path.stat().st_size} bytes; expected at most {MOST_SPEC_BYTES}"]
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        return [f"{name}: does not have the hash {str(digest)[:12]} that the manifest gives its Spec"]
    folder = name.rpartition("/")[0].rpartition("/")[2]
    if folder and folder != digest[:12]:
        return [f"{name}: the Spec hashes to {digest[:12]}, not to the name of its folder"]
    try:
        spec = Spec.from_toml(content.decode("utf-8"), name)
    except (UsageError, UnicodeDecodeError) as error:
        return [said(error)]
    return [] if spec.hash == digest else [f"{name}: not in the canonical form of a Spec"]
