"""The settings in which the rows of a report differ, and their values as short text."""

from __future__ import annotations

from collections.abc import Sequence

from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.report.results.base import Row
from foltr_audit.utils.formatting import epsilon


def differing(rows: Sequence[Row]) -> list[str]:
    """Settings that rows differ in, in the order of the rows, but for epsilon: `learner` before others.

    A chain of defenses only counts where rows of one epsilon differ in it.
    """
    names = dict.fromkeys(["learner", "trained_on", *(name for row in rows for name in row if "." in name)])
    names.pop("train.learner", None)  # the same as `learner`
    found = [name for name in names if len({str(row.get(name)) for row in rows}) > 1]
    chains = {(row["eps_claimed"], row["defense"]) for row in rows}
    return [*found, "defense"] if len(chains) > len({eps for eps, _ in chains}) else found


def setting_text(row: Row, name: str, rows: Sequence[Row]) -> str:
    """The value of a setting as short text: a plug-in without the parameters that all of its name share."""
    value = row.get(name)
    if value is None:
        return "-"
    if name == "population.scenario":
        return short_scenario(str(value), [str(other.get(name)) for other in rows])
    if name == "learner":
        texts = dict.fromkeys(str(other.get(name)) for other in rows)
        return without_shared_parameters(list(texts))[str(value)]
    return f"{value:g}" if isinstance(value, float) else str(value)


def short_scenario(text: str, among: Sequence[str]) -> str:
    """A scenario among others, each that it joins without the parameters that all of its name share.

    >>> short_scenario("a:x=1,y=2+b:z=3", ["a:x=1,y=2+b:z=3", "a:x=1,y=4"])
    'a:y=2+b'
    """
    parts = dict.fromkeys(part for other in (text, *among) for part in other.split("+"))
    shorter = without_shared_parameters(list(parts))
    return "+".join(shorter[part] for part in text.split("+"))


def heading(name: str) -> str:
    """What a setting is called: `population.clients` is `clients`."""
    return name.rpartition(".")[2].replace("_", " ")


def setting_label(row: Row, rows: Sequence[Row]) -> str:
    """What a row is called among others, e.g. `foltr-es, eps 1.2`; by its clicks where it is the only one."""
    parts = [_part(row, name, rows) for name in differing(rows)]
    if len({other["eps_claimed"] for other in rows}) > 1:
        parts.append(f"eps {epsilon(row['eps_claimed'])}")
    return ", ".join(parts) or f"{row['trained_on']} clicks, eps {epsilon(row['eps_claimed'])}"


def _part(row: Row, name: str, rows: Sequence[Row]) -> str:
    text = setting_text(row, name, rows)
    if name == "trained_on":
        return f"{text} clicks"
    return f"{heading(name)} {text}" if "." in name else text
