"""Attacks that answer one view after another, and why some of them cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from foltr_audit.core.plugins import Attack, View
from foltr_audit.core.plugins.answers import one_of
from foltr_audit.core.records.view import Inference
from foltr_audit.errors import PluginError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from foltr_audit.utils.blas_threads import one_blas_thread


@dataclass(eq=False)
class AttackSession:
    """Attacks that answer views, and why some of them cannot.

    Attributes:
        attacks: the attacks, with different labels.
        streams: named random streams for attacks that draw.
        refused: why an attack could not run on some view, by label.
    """

    attacks: Sequence[Attack]
    streams: Streams
    refused: dict[str, str] = field(default_factory=dict)
    _rows: dict[str, list[Floats]] = field(default_factory=dict)

    def answers(self, view: View, round_: int, place: str) -> Iterator[tuple[Attack, Inference]]:
        """The answer of each attack that can run on a view; the reasons of the others go to `refused`.

        Each attack draws from a random stream of its own at this place. BLAS is limited to one thread, so
        that answers do not depend on the number of threads.
        """
        with one_blas_thread():
            for attack in self.attacks:
                reason = attack.why_not(view)
                if reason is not None:
                    self.refused[attack.label] = reason
                    continue
                try:
                    rng = self.streams.generator(f"attack/{attack.text}/{place}")
                    answer = checked_answer(attack, view, rng)
                except np.linalg.LinAlgError as error:  # of messages near the end of the range
                    why = f"its equations cannot be solved in round {round_}: {error}"
                    self.refused[attack.label] = why
                    continue
                yield attack, answer

    def refuse_all(self, reason: str) -> None:
        """No attack can run, for the same reason."""
        self.refused |= {attack.label: reason for attack in self.attacks}

    def keep(self, attack: Attack, rows: Floats) -> None:
        """Store what an attack says about the messages of one view, a row for each."""
        self._rows.setdefault(attack.label, []).append(rows)

    def collect(self) -> dict[str, Floats]:
        """Take what each attack said since the last call, by label, without the refused ones."""
        rows, self._rows = self._rows, {}
        return {label: np.concatenate(said) for label, said in rows.items() if label not in self.refused}


def checked_answer(attack: Attack, view: View, rng: np.random.Generator) -> Inference:
    """An attack's answer, in which every shown document has a score.

    Raises:
        PluginError: arrays of another shape, or a score that is no number.
    """
    with np.errstate(all="ignore"):  # an untrusted trace may hold numbers near the end of the range
        answer = one_of(f"attack {attack.name}: infer", attack.infer(view, rng), Inference)
    lists = view.shown.shape
    for name, shape in {"scores": lists, "guess": lists, "any_click": lists[:2]}.items():
        given = getattr(answer, name)
        if given is not None and given.shape != shape:
            raise PluginError(f"attack {attack.name}: {name} of shape {given.shape}; expected {shape}")
    if np.isnan(answer.scores[view.is_document]).any():
        raise PluginError(f"attack {attack.name}: it gave a shown document the score NaN; expected a number")
    return answer
