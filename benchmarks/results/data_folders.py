"""The real data that runs need: where they are, and how they are laid out for foltr-audit."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.results.files import write_atomically
from foltr_audit.errors import UsageError

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
FOLDS = 5
TRAINING_PARTS = 3


@dataclass(frozen=True)
class RealData:
    """Published data in a folder of its own; they are not part of the repository.

    Attributes:
        name: name in declarations.
        title: name in tables, and in shown commands.
        folder: its folder below `--shared`.
        layout: `as-is`; `folds`: parts S1.txt to S5.txt become LETOR's Fold1 to Fold5; `joined`: all its
            files become one.
        intents: folder below `--shared` with the qrels of its intents; empty without.
    """

    name: str
    title: str
    folder: str
    layout: Literal["as-is", "folds", "joined"] = "as-is"
    intents: str = ""

    def sources(self, shared: Path) -> list[Path]:
        """Its published files, none where they are absent."""
        return sorted(path for path in (shared / self.folder).glob("*") if path.is_file())

    def digest(self, shared: Path) -> str:
        """SHA-256 of its published files."""
        found = hashlib.sha256()
        for path in self.sources(shared):
            found.update(path.name.encode() + b"\0" + path.read_bytes())
        return found.hexdigest()

    def path(self, shared: Path, work: Path) -> Path:
        """Where foltr-audit reads it; folds and joined files are written into `work`."""
        sources, made = self.sources(shared), work / self.digest(shared)[:16]
        if self.layout == "as-is":
            return shared / self.folder
        if self.layout == "joined":
            target = made / f"{self.name}.txt"
            if not target.exists():
                write_atomically(target, _joined(sources))
            return target
        if not made.exists():
            _write_folds(sources, made)
        return made


def _joined(paths: Sequence[Path]) -> bytes:
    return b"".join(path.read_bytes() for path in paths)


def _write_folds(parts: Sequence[Path], folder: Path) -> None:
    """Fold k trains on parts k to k + 2, validates on the next and tests on the last, as in LETOR 4.0."""
    if len(parts) != FOLDS:
        raise UsageError(f"{parts[0].parent}: {len(parts)} parts; expected {FOLDS}")
    begun = folder.with_suffix(".begun")
    for k in range(FOLDS):
        turned = [*parts[k:], *parts[:k]]
        fold = begun / f"Fold{k + 1}"
        fold.mkdir(parents=True, exist_ok=True)
        (fold / "train.txt").write_bytes(_joined(turned[:TRAINING_PARTS]))
        shutil.copyfile(turned[TRAINING_PARTS], fold / "vali.txt")
        shutil.copyfile(turned[TRAINING_PARTS + 1], fold / "test.txt")
    begun.rename(folder)


DATA = {
    data.name: data
    for data in (
        RealData("mq2008", "MQ2008", "mq2008-parts", "folds"),
        RealData("clueweb09", "ClueWeb09", "clueweb09", "joined", "trec-web-intents"),
        RealData("mslr-sample", "MSLR-sample", "mslr-sample"),
        RealData("lightgbm-rank", "LightGBM-rank", "lightgbm-rank"),
    )
}
"""All data that declarations may name."""
