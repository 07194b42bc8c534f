"""Presets: published studies as plans, with the figures that were published.

A preset is a TOML file of the package `scenarios`. Beside its header (`about`, `source`, `data`) it has the
form of a plan: `[shared]` with the Spec fields of all cells, and one `[[cells]]` table per cell with its
`name` and, under `spec`, the fields that are its own. `[published]` holds the figures to compare with.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from foltr_audit.errors import UsageError, did_you_mean
from foltr_audit.plan import Plan, Table, changed
from foltr_audit.plugins import Attack, ClickModel
from foltr_audit.registry import first_problem, make
from foltr_audit.spec import flat

RANDOM = "random:k="
"""What the name of random guessing starts with; the number of named documents follows."""

_PACKAGE, _FOLDER, _ENDING = "scenarios", "presets", ".toml"

Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(min_length=1)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _known_method(text: str) -> str:
    if text.startswith(RANDOM):
        if not text.removeprefix(RANDOM).isdecimal():
            raise ValueError(f"{text!r}; expected {RANDOM} and the number of documents")
        return text
    return make(Attack, text).name


def _known_click_model(text: str) -> str:
    return make(ClickModel, text).text


class PresetCell(_Table):
    """One way to run the study.

    Attributes:
        name: what the cell is called in reports.
        spec: Spec fields of its own.
    """

    name: Text
    spec: dict[str, Any] = {}


class Figures(_Table):
    """What was published on one method under one click model.

    Attributes:
        method: name of an attack, or `random:k=K`.
        click_model: how the attacked users clicked.
        accuracy, precision, recall: means over lists, 0 to 1.
    """

    method: Annotated[str, AfterValidator(_known_method)]
    click_model: Annotated[str, AfterValidator(_known_click_model)]
    accuracy: Share
    precision: Share
    recall: Share


class Published(_Table):
    """Published figures.

    Attributes:
        title: where they stand, e.g. `Pham 2022, table 4`.
        data: the data that they are of.
        figures: the figures.
    """

    title: Text
    data: Text
    figures: Annotated[tuple[Figures, ...], Field(min_length=1)]

    def of(self, method: str, click_model: str) -> Figures | None:
        """The figures of an attack, whatever its parameters, or of random guessing; None without any."""
        names = (method, method.partition(":")[0])
        found = (one for one in self.figures if one.method in names and one.click_model == click_model)
        return next(found, None)


class Preset(_Table):
    """A published study.

    Attributes:
        name: what `--preset` calls it.
        about: what it repeats, in one sentence.
        source: author, year and section.
        data: which data it needs, and where to get them.
        shared: Spec fields of all cells.
        cells: the ways to run it.
        published: the figures to compare with.
    """

    name: Text
    about: Text
    source: Text
    data: Text
    shared: dict[str, Any]
    cells: Annotated[tuple[PresetCell, ...], Field(min_length=1)]
    published: Published

    @model_validator(mode="after")
    def _names_differ(self) -> Preset:
        names = [cell.name for cell in self.cells]
        if len(set(names)) < len(names):
            raise ValueError(f"cells: expected different names, not {', '.join(names)}")
        return self

    def tables(self) -> dict[str, Table]:
        """The Spec table of each cell by its name; they may be changed."""
        return {cell.name: changed(self.shared, flat(cell.spec)) for cell in self.cells}


def preset_names() -> tuple[str, ...]:
    """Names of all presets, sorted."""
    return tuple(sorted(_files()))


def load_preset(name: str) -> Preset:
    """The preset of a name.

    Raises:
        UsageError: an unknown name (with the nearest known one), or a file that is no preset.
    """
    known = _files()
    if name not in known:
        raise UsageError(f"--preset: unknown preset {name!r}; {did_you_mean(name, known)}")
    return read_preset(known[name].read_text(encoding="utf-8"), name)


def read_preset(text: str, name: str) -> Preset:
    """The preset of a TOML text.

    Raises:
        UsageError: the text is no TOML, a field is unknown or refused, or a cell is no valid Spec.
    """
    where = f"preset {name}"
    try:
        preset = Preset.model_validate({**tomllib.loads(text), "name": name})
    except ValidationError as error:
        raise UsageError(f"{where}: {first_problem(error)}") from error
    except UsageError as error:  # an unknown plug-in
        raise UsageError(f"{where}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not TOML: {error}") from error
    Plan.of(list(preset.tables().values()), where)
    return preset


def _files() -> dict[str, Traversable]:
    folder = resources.files(_PACKAGE) / _FOLDER
    if not folder.is_dir():
        return {}
    return {
        entry.name.removesuffix(_ENDING): entry for entry in folder.iterdir() if entry.name.endswith(_ENDING)
    }
