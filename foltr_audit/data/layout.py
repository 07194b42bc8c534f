"""Which files of a folder are which part of ranking data: the layouts that are known, and folds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from foltr_audit.data.search_log import LAYOUT
from foltr_audit.errors import DataError, UsageError

PART_NAMES = ("train", "vali", "test")

_FOLD = re.compile(r"Fold([1-9]\d{0,5})")
_PIECE = re.compile(r"([^.].*?|)(\d{1,6})\.txt(?:\.gz)?")
_LETOR_PIECES = 5  # LETOR's folds are made of five pieces
_SPELLINGS = {"train": ("train",), "vali": ("vali", "valid"), "test": ("test",)}
_ENDS = ("", ".gz")
_LAYOUTS = (
    "train.txt with vali.txt and test.txt (in it or in FoldK), set1.train.txt and so on, "
    f"NAME.train with NAME.train.query, pieces NAME1.txt, NAME2.txt and so on, or {LAYOUT}"
)


@dataclass(frozen=True)
class RankingFile:
    """A file with rows, and where they carry no query ids the file with the sizes of their groups."""

    path: Path
    groups: Path | None = None


Layout = Mapping[str, tuple[RankingFile, ...]]
"""Part name -> its files, for the parts that exist."""


@dataclass(frozen=True)
class SourceFiles:
    """Which files a source is read from.

    Attributes:
        layout: part name -> its files, for the parts that exist.
        fold: the fold they are of; 0 where there are none.
    """

    layout: Layout
    fold: int

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that is read, group files included."""
        pairs = ((file.path, file.groups) for files in self.layout.values() for file in files)
        return tuple(path for pair in pairs for path in pair if path is not None)

    @property
    def split(self) -> tuple[str, ...]:
        """Names of the parts without files, which are split off the training split."""
        return tuple(name for name in PART_NAMES if name not in self.layout)


def folds_of(source: str) -> tuple[int, ...]:
    """Numbers of the folds, ascending: those of the `FoldK` folders, 1 to 5 of five pieces; () without.

    Raises:
        DataError: no such data, a folder that cannot be read, or a fold that lacks a part or has it twice.
    """
    folder = Path(source)
    if not _is_folder(folder):
        return ()
    found = []
    for path in _entries(folder):
        match = _FOLD.fullmatch(path.name)
        if match and path.is_dir():
            missing = [part for part in PART_NAMES if part not in _text_layout(path)]
            if missing:
                raise DataError(
                    f"data: {path}: no {missing[0]} part; expected train.txt, vali.txt and test.txt"
                )
            found.append(int(match[1]))
    if not found and len(_pieces(folder)) == _LETOR_PIECES:
        return tuple(range(1, _LETOR_PIECES + 1))
    return tuple(sorted(found))


def locate(source: str, fold: int = 0) -> SourceFiles:
    """Find the files of a source; `fold` 0 means none, or the only one.

    Raises:
        DataError: no such data, or an unknown layout.
        UsageError: a fold that is missing or must be named.
    """
    path = Path(source)
    if _is_folder(path):
        return _folder(source, fold)
    if fold:
        raise UsageError(f"data: --fold {fold}: {source} is a file, which has no folds")
    return SourceFiles({"train": (RankingFile(path, _group_file(path)),)}, 0)


def _is_folder(path: Path) -> bool:
    try:
        if path.exists():
            return path.is_dir()
    except OSError as error:
        raise DataError(f"data: {path}: cannot be read: {error.strerror or error}") from error
    raise DataError(f"data: {path}: no such file or folder")


def _folder(source: str, fold: int) -> SourceFiles:
    folder = Path(source)
    layout = {} if fold else _layout(folder)
    if layout:
        return SourceFiles(layout, 0)
    folds = folds_of(source)
    pieces = _pieces(folder)
    if pieces and (not fold or fold in folds):
        return SourceFiles(_of_pieces(pieces, fold), fold)
    if not fold and len(folds) == 1:
        fold = folds[0]
    if fold in folds:
        return SourceFiles(_text_layout(folder / f"Fold{fold}"), fold)
    known = ", ".join(map(str, folds))
    if fold:
        raise UsageError(f"data: --fold {fold}: {source} has {f'folds {known}' if known else 'no folds'}")
    if folds:
        raise UsageError(f"data: {source} has folds {known}; pass --fold K or --fold all")
    raise DataError(f"data: {source}: no training split; expected {_LAYOUTS}")


def _layout(folder: Path) -> Layout:
    """The parts of a folder without folds; empty if it has no training split."""
    text = _text_layout(folder)
    return text if "train" in text else _group_layout(folder)


def _text_layout(folder: Path) -> Layout:
    names = {path.name for path in _entries(folder)} if folder.is_dir() else set()
    prefixes = ("", "set1.")
    found = _parts(folder, [f"{prefix}{{part}}.txt{end}" for prefix in prefixes for end in _ENDS], names)
    return {part: (RankingFile(path),) for part, path in found.items()}


def _pieces(folder: Path) -> tuple[Path, ...]:
    """The files NAME1.txt, NAME2.txt and so on, by number from 0 or 1; () without, or with parts or folds.

    Other files and folders are passed over, so that a description may lie next to the data.

    Raises:
        DataError: pieces of several names, or a number that is twice or not there.
    """
    names = [path.name for path in _entries(folder)]
    if _text_layout(folder) or _group_layout(folder) or any(_FOLD.fullmatch(name) for name in names):
        return ()
    every = sorted((match[1], int(match[2]), name) for name in names if (match := _PIECE.fullmatch(name)))
    stems = {stem: number for stem, number, _ in every if number < 2}
    if len(stems) > 1:
        several = ", ".join(f"{stem}{number}.txt" for stem, number in stems.items())
        raise DataError(f"data: {folder}: pieces of several names: {several}; expected one NAME")
    found = [piece for piece in every if piece[0] in stems]
    for (stem, last, before), (_, number, name) in pairwise(found):
        if number == last:
            raise DataError(f"data: {folder}: {before} and {name}; expected one of them")
        if number > last + 1:
            raise DataError(f"data: {folder}: {name}, but no {stem}{last + 1}.txt; expected every piece")
    return tuple(folder / name for _, _, name in found)


def _of_pieces(pieces: Sequence[Path], fold: int) -> Layout:
    """All pieces as the training split; of a fold K the three from piece K on, then one for each other part.

    Source: Qin & Liu 2013, "Introducing LETOR 4.0 datasets", on five-fold cross validation: fold 1 is trained
    on S1, S2 and S3, validated on S4 and tested on S5, and the other folds rotate them.
    """
    files = tuple(RankingFile(piece) for piece in pieces)
    if not fold:
        return {"train": files}
    *train, vali, test = files[fold - 1 :] + files[: fold - 1]
    return {"train": tuple(train), "vali": (vali,), "test": (test,)}


def _group_layout(folder: Path) -> Layout:
    names = {path.name for path in _entries(folder)}
    stems = sorted({match[1] for name in names if (match := re.fullmatch(r"(.+)\.train(\.gz)?", name))})
    if not stems:
        return {}
    if len(stems) > 1:
        raise DataError(f"data: {folder}: several data sets: {', '.join(stems)}; expected one NAME.train")
    found = _parts(folder, [f"{stems[0]}.{{part}}{end}" for end in _ENDS], names)
    return {part: (RankingFile(path, _group_file(path)),) for part, path in found.items()}


def _parts(folder: Path, forms: list[str], names: set[str]) -> dict[str, Path]:
    """The file of each part whose name has one of some forms."""
    layout = {}
    for part, spellings in _SPELLINGS.items():
        tried = [form.replace("{part}", spelling) for spelling in spellings for form in forms]
        found = [name for name in tried if name in names]
        if len(found) > 1:
            raise DataError(f"data: {folder}: the {part} split exists twice: {' and '.join(found)}")
        if found:
            layout[part] = folder / found[0]
    return layout


def _group_file(path: Path) -> Path | None:
    groups = path.with_name(f"{path.name.removesuffix('.gz')}.query")
    return groups if groups.exists() else None


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"data: {folder}: cannot be read: {error.strerror or error}") from error
