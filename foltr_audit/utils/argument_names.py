"""Errors that name arguments of Python where the command line has options."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from foltr_audit.errors import FoltrAuditError
from foltr_audit.utils.plugin_failures import names_plugins

P = ParamSpec("P")
R = TypeVar("R")

_OPTION = re.compile(r"--(?!plugin\b)([a-z][a-z-]*)")
_RENAMED = {"method": "methods", "mechanism": "mechanisms", "ord": "order", "click-model": "click_models"}


def as_arguments(text: str) -> str:
    """A message in which options are called as the arguments of functions are.

    >>> as_arguments("--max-eps: 0; expected more, or no --method")
    'max_eps: 0; expected more, or no methods'
    """
    return _OPTION.sub(lambda found: _RENAMED.get(found[1], found[1].replace("-", "_")), text)


def names_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, whose errors name its arguments instead of options, and plug-ins that failed."""

    @wraps(function)
    def named(*given: P.args, **words: P.kwargs) -> R:
        try:
            return function(*given, **words)
        except FoltrAuditError as error:
            text = as_arguments(str(error))
            if text == str(error):
                raise
            raise type(error)(text) from error.__cause__  # the same error in other words

    return names_plugins(named)
