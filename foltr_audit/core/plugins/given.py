"""Plug-ins as functions of the Python API take them: one or several texts, objects or classes."""

from __future__ import annotations

from collections.abc import Sequence

from foltr_audit.core.plugins.attack import Attack
from foltr_audit.core.plugins.defense import Defense
from foltr_audit.core.plugins.scenario import ClickModel

Attacks = str | Attack | type[Attack] | Sequence[str | Attack | type[Attack]]
Clicks = str | ClickModel | type[ClickModel] | Sequence[str | ClickModel | type[ClickModel]]
Chain = str | Defense | Sequence[str | Defense]
