"""The settings in which the rows of a report differ, and their values as short text."""

from __future__ import annotations

from collections.abc import Sequence

from foltr_audit.experiments.runs.systems import without_shared_parameters
from foltr_audit.report.results.base import Setting
from foltr_audit.utils.formatting import epsilon


def differing(settings: Sequence[Setting]) -> list[str]:
    """Columns that settings differ in, in their order, but for epsilon: `learner` before others.

    A chain of defenses only counts where settings of one epsilon differ in it.
    """
    names = dict.fromkeys(["learner", "trained_on", *(name for one in settings for name in one.fields)])
    names.pop("train.learner", None)  # the same as `learner`
    found = [name for name in names if len({str(one.value(name)) for one in settings}) > 1]
    chains = {(one.eps_claimed, one.defense) for one in settings}
    return [*found, "defense"] if len(chains) > len({eps for eps, _ in chains}) else found


def setting_text(setting: Setting, name: str, settings: Sequence[Setting]) -> str:
    """The value of a column as short text: a plug-in without the parameters that all of its name share."""
    value = setting.value(name)
    if value is None:
        return "-"
    if name == "population.scenario":
        return short_scenario(str(value), [str(other.value(name)) for other in settings])
    if name == "learner":
        texts = dict.fromkeys(other.learner for other in settings)
        return without_shared_parameters(list(texts))[setting.learner]
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


def setting_label(setting: Setting, settings: Sequence[Setting]) -> str:
    """What a setting is called among others, e.g. `foltr-es, eps 1.2`; by its clicks if it is alone."""
    parts = [_part(setting, name, settings) for name in differing(settings)]
    if len({other.eps_claimed for other in settings}) > 1:
        parts.append(f"eps {epsilon(setting.eps_claimed)}")
    return ", ".join(parts) or f"{setting.trained_on} clicks, eps {epsilon(setting.eps_claimed)}"


def _part(setting: Setting, name: str, settings: Sequence[Setting]) -> str:
    text = setting_text(setting, name, settings)
    if name == "trained_on":
        return f"{text} clicks"
    return f"{heading(name)} {text}" if "." in name else text
