"""The outcome of a check, and the checks that every bundle passes before its results are read."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from foltr_audit.core.settings.experiment import Spec
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
"""Errors that arbitrary values in an untrusted file may raise where they are used."""


@dataclass(frozen=True)
class BundleCheck:
    """The outcome of one check.

    Attributes:
        name: what was checked.
        state: `holds`; `fails`; `not possible`: something that it needs is missing; `skipped`: by request.
        found: the findings, a line each.
    """

    name: str
    state: State
    found: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Replace control characters: findings quote untrusted names, and a terminal would obey them."""
        object.__setattr__(self, "found", tuple(printable(line) for line in self.found))

    @classmethod
    def of(cls, name: str, problems: Iterable[str], otherwise: str = "") -> BundleCheck:
        """A check that fails if there are problems; `otherwise` is its finding if there are none."""
        found = tuple(problems)
        return cls(name, "fails" if found else "holds", found or ((otherwise,) if otherwise else ()))


class CheckUnavailableError(FoltrAuditError):
    """A check needs something that this machine does not have."""


def run_guarded(name: str, check: Callable[[], BundleCheck], *, here: bool = False) -> BundleCheck:
    """Run a check, and turn errors of untrusted values into its outcome.

    With `here`, an error of ours means that this machine cannot do the check, not that the bundle is wrong.
    """
    try:
        with warnings.catch_warnings():
            if not here:
                warnings.simplefilter("ignore")  # caused by values that no cell of ours contains
            return check()
    except (CheckUnavailableError, MemoryError) as error:
        return BundleCheck(name, "not possible", (error_line(error),))
    except FOREIGN as error:
        own = here and isinstance(error, FoltrAuditError)
        return BundleCheck(name, "not possible" if own else "fails", (error_line(error),))


def error_line(error: BaseException) -> str:
    """An error as one line."""
    text = " ".join(str(error).split())
    return text[:400] if isinstance(error, FoltrAuditError) else f"{type(error).__name__}: {text[:400]}"


def printable(line: str) -> str:
    """A line without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def check_files(bundle: BundleFolder) -> BundleCheck:
    """Check that every file is present with its hash, and that there are no others."""
    manifest = bundle.manifest
    size = sum(file.size for file in manifest.files.values())
    return BundleCheck.of(
        "files",
        bundle.problems,
        f"{len(manifest.files)} files, {size:,} bytes: every SHA-256 is right, no file is missing or extra",
    )


def check_specs(bundle: BundleFolder) -> BundleCheck:
    """Check that each Spec is canonical, hashes to the name of its folder, and is in the manifest."""
    manifest = bundle.manifest
    named = {name for name in manifest.files if name.rpartition("/")[2] == SPEC}
    problems = [f"{name}: listed as a Spec, but has another name" for name in manifest.specs.keys() - named]
    for name in sorted(named):
        problems += _spec_problems(bundle.root / name, name, manifest.specs.get(name))
    return BundleCheck.of("Specs", problems, f"{len(named)} Specs, each hashes to its name")


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
        return [error_line(error)]
    return [] if spec.hash == digest else [f"{name}: not in the canonical form of a Spec"]
