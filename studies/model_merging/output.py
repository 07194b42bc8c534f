"""The folder of a study of model merging: `results.json` and two pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from foltr_audit.recorder import atomic_files
from foltr_audit.studies.model_merging.pictures import CATEGORIES, IMPORTANCES, save_pictures
from foltr_audit.studies.model_merging.study import MergeReport

from foltr_audit.errors import UsageError
from foltr_audit.experiments.runs.folder import RESULTS, lock_folder, report_write_errors
from foltr_audit.report.pictures.style import FORMATS

_OURS = {RESULTS, *(f"{name}{ending}" for name in (CATEGORIES, IMPORTANCES) for ending in FORMATS)}


@dataclass(frozen=True)
class MergeFolder:
    """A folder for the files of a study; create it with `claim`.

    Attributes:
        path: the folder.
        ending: the ending of the pictures, one of `FORMATS`.
    """

    path: Path
    ending: str

    @classmethod
    @contextmanager
    def claim(cls, path: Path, ending: str = ".svg", *, overwrite: bool = False) -> Iterator[MergeFolder]:
        """Lock a folder for one study, and create it if it is missing; it is checked before the study runs.

        Raises:
            UsageError: the format is unknown; the path is a file, or a folder that another run has locked or
                that holds other files; or it holds a study and `overwrite` is not given.
            FoltrAuditError: it cannot be created.
        """
        if ending not in FORMATS:
            known = ", ".join(name[1:] for name in FORMATS)
            raise UsageError(f"--picture: {ending[1:]!r}; expected one of {known}")
        with lock_folder(path):
            held = sorted(file.name for file in path.iterdir())
            if held and not overwrite:
                raise UsageError(f"--out: {path} is not empty; give --overwrite to replace the files in it")
            for name in held:
                if not _is_ours(name):
                    raise UsageError(
                        f"--overwrite: {path} holds {name!r}, which is not a file of a merging study"
                    )
            yield cls(path, ending)

    def save(self, study: MergeReport, extra: Mapping[str, object] | None = None) -> None:
        """Write a study, with `extra` fields in its JSON, and replace the files of an earlier one.

        Raises:
            FoltrAuditError: a file cannot be written.
        """
        with report_write_errors(self.path):
            for file in self.path.iterdir():
                if _is_ours(file.name):
                    file.unlink()
        save_pictures(self.path, study, self.ending)
        with report_write_errors(self.path):
            atomic_files.write_text(self.path / RESULTS, study.json(extra) + "\n")


def _is_ours(name: str) -> bool:
    return name in _OURS or atomic_files.is_temporary(name)
