"""The two published settings of Pairwise Differentiable Gradient Descent (PDGD).

Source: Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank", section 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from foltr_audit.errors import UsageError, suggest_name

if TYPE_CHECKING:
    from foltr_audit.utils.arrays import Bools

Pairs = Literal["all", "last-click+1"]
Normaliser = Literal["shown", "candidates"]


class PDGDSetting(NamedTuple):
    """Which unclicked documents form pairs, and which documents the Plackett-Luce normaliser sums over."""

    pairs: Pairs
    normaliser: Normaliser


PDGD_SETTINGS = {
    "oosterhuis-2018": PDGDSetting("last-click+1", "candidates"),
    "pham-2022": PDGDSetting("all", "shown"),
}
_EVERY = {
    f"{pairs}/{normaliser}": PDGDSetting(pairs, normaliser)
    for pairs in ("all", "last-click+1")
    for normaliser in ("shown", "candidates")
}


def setting_text(pairs: str, normaliser: str) -> str:
    """The published name of a setting, or `pairs/normaliser`.

    >>> setting_text("all", "shown"), setting_text("all", "candidates")
    ('pham-2022', 'all/candidates')
    """
    for name, setting in PDGD_SETTINGS.items():
        if setting == (pairs, normaliser):
            return name
    return f"{pairs}/{normaliser}"


def pdgd_setting(text: str) -> PDGDSetting:
    """The setting with this published name, or with the text `pairs/normaliser`.

    >>> pdgd_setting("pham-2022")
    PDGDSetting(pairs='all', normaliser='shown')

    Raises:
        UsageError: an unknown name.
    """
    known = PDGD_SETTINGS | _EVERY
    if text not in known:
        raise UsageError(f"--pdgd: unknown setting {text!r}; {suggest_name(text, known)}")
    return known[text]


def observed_documents(clicks: Bools, is_document: Bools, *, only_observed: bool) -> Bools:
    """Documents that may form pairs, bool (L, k), in lists with clicks (L, k).

    With `only_observed`, those up to one place after the last click; else all. A list in which all of these
    documents or none of them are clicked has no pairs.
    """
    import numpy as np  # Specs know the settings without it

    position = np.arange(clicks.shape[1])
    # -2, not -1, where nothing was clicked: `last + 1` is then before every position, and no document counts
    # as observed.
    last = np.where(clicks, position, -2).max(axis=1, initial=-2)
    seen = is_document & ((position <= last[:, np.newaxis] + 1) | (not only_observed))
    pairs = clicks.any(axis=1) & (seen & ~clicks).any(axis=1)
    return np.asarray(seen & pairs[:, np.newaxis])
