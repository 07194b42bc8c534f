"""The folder of a study of model merging: `results.json` and two pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from foltr_audit.errors import UsageError
from foltr_audit.experiments.runs.folder import RESULTS, locked, writing
from foltr_audit.report.pictures.style import FORMATS
from foltr_audit.studies.model_merging.pictures import CATEGORIES, IMPORTANCES, save_pictures
from foltr_audit.studies.model_merging.study import MergeReport, Row
from foltr_audit.utils import atomic_files

_OURS = {RESULTS, *(f"{name}{ending}" for name in (CATEGORIES, IMPORTANCES) for ending in FORMATS)}


@dataclass(frozen=True)
class MergeFolder:
    """A folder that a study may go to; `claimed` makes it.

    Attributes:
        path: the folder.
        ending: of the pictures, one of `FORMATS`.
    """

    path: Path
    ending: str

    @classmethod
    @contextmanager
    def claimed(cls, path: Path, ending: str = ".svg", *, overwrite: bool = False) -> Iterator[MergeFolder]:
        """Hold a folder, made if missing, for one study; what may not be is refused before the study runs.

        Raises:
            UsageError: another format, a file, a folder that another run holds or with something else than
                a study in it, or a study without `overwrite`.
            FoltrAuditError: it cannot be made.
        """
        if ending not in FORMATS:
            known = ", ".join(name[1:] for name in FORMATS)
            raise UsageError(f"--picture: {ending[1:]!r}; expected one of {known}")
        with locked(path):
            held = sorted(file.name for file in path.iterdir())
            if held and not overwrite:
                raise UsageError(f"--out: {path} is not empty; give --overwrite to replace the files in it")
            for name in held:
                if not _is_ours(name):
                    raise UsageError(
                        f"--overwrite: {path} holds {name!r}, which is no part of a merging study"
                    )
            yield cls(path, ending)

    def save(self, study: MergeReport, beside: Row | None = None) -> None:
        """Write a study, with more fields `beside` it in JSON, in the place of what is there.

        Raises:
            FoltrAuditError: a file cannot be written.
        """
        with writing(self.path):
            for file in self.path.iterdir():
                if _is_ours(file.name):
                    file.unlink()
        save_pictures(self.path, study, self.ending)
        with writing(self.path):
            atomic_files.write_text(self.path / RESULTS, study.json(beside) + "\n")


def _is_ours(name: str) -> bool:
    return name in _OURS or atomic_files.is_temporary(name)
