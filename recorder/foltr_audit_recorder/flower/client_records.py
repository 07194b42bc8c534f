"""What a consenting client of a laboratory tells: a train function of one line more, and a mod.

The server that records takes it out of the reply before the strategy sees it. Whoever reads the wire reads it
too: this is for laboratories, with clients that agreed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..array_layout import FLOATING, NamedArray, named_arrays
from ..messages import ShownList
from ..packed_lists import pack_arrays, pack_lists
from .payload import model_in

if TYPE_CHECKING:
    from flwr.app import Context, Message, RecordDict
    from flwr.clientapp.mod import LocalDpMod


def local_dp_facts(mod: LocalDpMod) -> dict[str, object]:
    """What `LocalDpMod` does, as facts of a trace, since it lies with the clients and no message says it.

    It clips the update to an L2 ball and adds Gaussian noise of standard deviation
    `sensitivity * sqrt(2 * ln(1.25 / delta)) / epsilon` to every number (Dwork and Roth 2014, theorem A.1).
    The sensitivity is declared apart from the clip; a client's update can change by up to twice the clip.

        RecordingGrid(grid, "trace", facts=local_dp_facts(LocalDpMod(1.0, 1.0, 8.0, 1e-5)))

    Args:
        mod: the mod, as the clients have it.

    Raises:
        ValueError: an epsilon or delta of 0, which makes no finite noise.
    """
    if not mod.epsilon or not mod.delta:
        raise ValueError(f"epsilon {mod.epsilon}, delta {mod.delta}; expected numbers above 0")
    sigma = mod.sensitivity * math.sqrt(2 * math.log(1.25 / mod.delta)) / mod.epsilon
    return {
        "update_clip_norm": float(mod.clipping_norm),
        "local_dp_clip": float(mod.clipping_norm),
        "local_dp_eps": float(mod.epsilon),
        "local_dp_delta": float(mod.delta),
        "claimed_sensitivity": float(mod.sensitivity),
        "noise": f"gaussian:sigma={sigma!r}" if sigma else "none",
    }


KEY = "foltr-audit"
"""Name of the record, and before a dot of the entries of legacy metrics."""

LEGACY_METRICS = "fitres.metrics"
Told = TypeVar("Told")
LOG = logging.getLogger("foltr_audit_recorder")


def record_truth(
    content: RecordDict | MutableMapping[str, object], lists: Sequence[ShownList], *, update: object = None
) -> None:
    """Tell the server that records which lists the user saw and what she clicked.

    The one line in a train function, before its reply is made:

        record_truth(content, [ShownList(features=features, clicks=clicks)])

    Args:
        content: the reply's `RecordDict`; or in a legacy NumPyClient the metrics that `fit` returns, also
            through `secaggplus_mod`. It is changed in place.
        lists: the lists behind the message, in the order of the local steps.
        update: the change of the model before any defense: one array, a mapping or a sequence;
            `recording_mod` adds it by itself.
    """
    told = {"lists": pack_lists(lists)}
    if update is not None:
        told["update"] = pack_arrays({array.place.name: array.numbers for array in named_arrays(update)})
    _tell(content, told)


def recording_mod(
    message: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> Message:
    """A mod that tells the server that records how the client changed the model before any defense.

    Put it last, so that it is next to the train function and sees what other mods get:

        ClientApp(mods=[secaggplus_mod, LocalDpMod(...), recording_mod])

    What comes out of the defenses is what the server receives. The mod never fails: if it cannot tell the
    update, it says so in the log.
    """
    if message.metadata.message_type.partition(".")[0] != "train":
        return call_next(message, context)
    before = _guarded(lambda: model_in(message.content))
    reply = call_next(message, context)
    if before and reply.has_content():
        _guarded(lambda: _tell(reply.content, {"update": _change(before, model_in(reply.content))}))
    return reply


def _guarded(action: Callable[[], Told]) -> Told | None:
    """What an action gives; None where it fails, which is said in the log and stops no client."""
    try:
        return action()
    except Exception as error:
        LOG.warning("recording_mod: the update is not told to the server: %r", error)
        return None


def _change(before: Sequence[NamedArray], after: Sequence[NamedArray]) -> bytes:
    """The change of each floating array, packed."""
    sent = {array.place.name: array for array in before}
    return pack_arrays(
        {
            array.place.name: array.numbers - sent[array.place.name].numbers
            for array in after
            if array.place.dtype in FLOATING
        }
    )


def _tell(content: RecordDict | MutableMapping[str, object], told: Mapping[str, bytes]) -> None:
    from flwr.app import ConfigRecord, RecordDict

    if not isinstance(content, RecordDict):
        content.update({f"{KEY}.{name}": data for name, data in told.items()})
    elif LEGACY_METRICS in content:
        # Legacy mods make the reply anew from what NumPyClient returned, and keep its metrics alone.
        content[LEGACY_METRICS].update({f"{KEY}.{name}": data for name, data in told.items()})
    else:
        content[KEY] = ConfigRecord({**content.get(KEY, {}), **told})


def take_truth(content: RecordDict) -> dict[str, bytes]:
    """Take out of a reply what its client told, packed: `lists`, `update`; empty where nothing is there."""
    told: dict[str, bytes] = {}
    if KEY in content:
        told |= {name: data for name, data in content.pop(KEY).items() if isinstance(data, bytes)}
    if LEGACY_METRICS in content:
        legacy = content[LEGACY_METRICS]
        for name in [name for name in legacy if name.startswith(f"{KEY}.")]:
            told[name.removeprefix(f"{KEY}.")] = legacy[name]
            del legacy[name]
    return told
