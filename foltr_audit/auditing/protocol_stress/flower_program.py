"""A program for an environment with Flower: a server that cheats at the clients of its SecAgg+.

    python flower_program.py CLIENTS PARAMETERS SEED

It imports Flower and NumPy only, plays rounds with Flower's own `secaggplus_mod` as each client, and prints
what the server could compute as one line of JSON: a list of attempts. The server follows the protocol except
for what an attempt says. All randomness of Flower is its own and differs between runs; outcomes do not.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
from flower_round import CLIP, LEVELS, MODULUS, FlowerRound
from flwr.common.secure_aggregation.crypto.shamir import combine_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt, encrypt, generate_shared_key
from flwr.common.secure_aggregation.quantization import dequantize
from flwr.common.secure_aggregation.secaggplus_constants import Key
from flwr.common.secure_aggregation.secaggplus_utils import (
    share_keys_plaintext_concat,
    share_keys_plaintext_separate,
)
from flwr.supercore.primitives.asymmetric import (
    bytes_to_public_key,
    generate_key_pairs,
    public_key_to_bytes,
)
from flwr.supercore.task_identity import TaskIdentity

SEARCHED_BITS = 14
"""Bits of a seed that are searched; the time for all follows from it."""


def told(played: FlowerRound, node: int, found: Sequence[np.ndarray] | None) -> str:
    """What the server computed."""
    if found is None:
        return "nothing: the client refused"
    if played.reveals(node, found):
        return f"the weighted message of node {node}, with an error of {played.off(node, found):.2g}"
    return f"noise, up to {played.off(node, found):.2g} from the message"


def row(name: str, does: str, sent: str, learnt: str, *, broken: bool, answer: str) -> dict[str, object]:
    """An attempt as a plain table."""
    return {
        "name": name,
        "does": does,
        "sent": sent,
        "learnt": learnt,
        "outcome": "broken" if broken else "held",
        "answer": answer,
    }


def finding(
    of: tuple[FlowerRound, int, Sequence[np.ndarray] | None], name: str, does: str, sent: str, *, answer: str
) -> dict[str, object]:
    """An attempt to find the words of a client, which found these or was refused."""
    played, node, found = of
    broken = played.reveals(node, found)
    return row(name, does, sent, told(played, node, found), broken=broken, answer=answer)


def look(played: FlowerRound, node: int) -> dict[str, object]:
    """The server follows the protocol and decodes a masked message."""
    found = played.masked[node]
    return finding(
        (played, node, found),
        "look at a message",
        "decodes the masked message of one client",
        f"{len(played.ids)} masked messages",
        answer="",
    )


def counts(played: FlowerRound, node: int) -> dict[str, object]:
    """The server looks for the count of a client outside of the masked words."""
    count = int(played.counts[node - 1])
    found = [name for name, value in played.beside[node].items() if value == count]
    return row(
        "counts in clear",
        "looks for the number of examples beside a masked message",
        f"{len(played.beside[node])} values beside the masked arrays",
        f"the count of every client, as {found[0]}" if found else "nothing",
        broken=bool(found),
        answer="drop it: the weight is one of the masked words" if found else "",
    )


def both_shares(played: FlowerRound, node: int) -> dict[str, object]:
    """One client is in both lists of the same request."""
    given = [played.shares(each, played.ids, [node]) for each in played.ids]
    seed = combine_shares([each[played.ids.index(node)] for each in given[: played.threshold]])
    key = combine_shares([each[-1] for each in given[: played.threshold]])
    found = played.bare(node, seed, played.pairs(node, key))
    return finding(
        (played, node, found),
        "both shares",
        "names one client both alive and dropped out in the same request",
        f"{len(given)} shares of its seed and {len(given)} of its key",
        answer="refuse a request that names a client twice",
    )


def replay(played: FlowerRound, node: int) -> dict[str, object]:
    """The stage of shares is asked for again."""
    others = [each for each in played.ids if each != node]
    refused = 0
    for each in others:
        try:
            played.shares(each, others, [node])
        except ValueError:
            refused += 1
    return row(
        "replayed round",
        "asks for shares a second time, as if one client had dropped out",
        f"{len(others) - refused} of {len(others)} clients answer",
        "nothing: the stage is over" if refused == len(others) else "shares of its key",
        broken=refused < len(others),
        answer="",
    )


def two_lists(played: FlowerRound, node: int) -> dict[str, object]:
    """A client is alive to some and dropped out to others; the server has set a low threshold."""
    half = len(played.ids) // 2
    others = [each for each in played.ids if each != node]
    seeds = [played.shares(each, played.ids, []) for each in others[:half]]
    keys = [played.shares(each, others, [node]) for each in others[half:]]
    need = played.threshold
    enough = len(seeds) >= need and len(keys) >= need
    found = None
    if enough:
        seed = combine_shares([each[played.ids.index(node)] for each in seeds[:need]])
        key = combine_shares([each[-1] for each in keys[:need]])
        found = played.bare(node, seed, played.pairs(node, key))
    return finding(
        (played, node, found),
        "two lists, threshold of the server",
        "sets a threshold below half, and tells half of the clients that one is alive and the others that it "
        "dropped out",
        f"{len(seeds)} shares of its seed and {len(keys)} of its key ({need} needed of each)",
        answer="clients that refuse a threshold of half or below, or sign the list of survivors",
    )


def impersonated(values: np.ndarray, weights: np.ndarray, threshold: int, node: int) -> dict[str, object]:
    """A client is told keys of the server as those of all others."""
    played = FlowerRound(values, weights, threshold)
    fakes = {each: (generate_key_pairs(), generate_key_pairs()) for each in played.ids if each != node}

    def forge(client: int, public: dict[str, list[bytes]]) -> dict[str, list[bytes]]:
        if client != node:
            return public
        forged = {
            str(each): [public_key_to_bytes(pair[1]) for pair in pairs] for each, pairs in fakes.items()
        }
        return {name: forged.get(name, keys) for name, keys in public.items()}

    played.open(forge)
    own = played.keys[node]
    shares, texts = [], []
    for to, text in zip(
        played.shared[node][Key.DESTINATION_LIST], played.shared[node][Key.CIPHERTEXT_LIST], strict=True
    ):
        shared = generate_shared_key(fakes[to][1][0], bytes_to_public_key(own[Key.PUBLIC_KEY_2]))
        shares.append(share_keys_plaintext_separate(decrypt(shared, text))[2])
        texts.append((to, shared))
    sources = [to for to, _ in texts]
    played.collect(
        node,
        sources,
        [
            encrypt(shared, share_keys_plaintext_concat(to, node, b"0" * 20, b"0" * 20))
            for to, shared in texts
        ],
    )
    pairs = {
        each: generate_shared_key(pair[0][0], bytes_to_public_key(own[Key.PUBLIC_KEY_1]))
        for each, pair in fakes.items()
    }
    found = played.bare(node, combine_shares(shares[:threshold]), pairs)
    return finding(
        (played, node, found),
        "impersonated keys",
        "gives a client keys of its own as those of all other clients",
        f"1 masked message and {len(shares)} shares of its seed, all readable",
        answer="signatures of the clients on their keys",
    )


def inconsistent(values: np.ndarray, weights: np.ndarray, threshold: int, node: int) -> dict[str, object]:
    """All clients but one send zero."""
    alone = np.zeros_like(values)
    alone[node - 1] = values[node - 1]
    played = FlowerRound(alone, weights, threshold)
    played.open()
    given = [played.shares(each, played.ids, []) for each in played.ids]
    total = [sum(words) for words in zip(*played.masked.values(), strict=True)]
    for place, _ in enumerate(played.ids):
        seed = combine_shares([each[place] for each in given[:threshold]])
        total = [a - b for a, b in zip(total, played.mask(seed), strict=True)]
    # All others sent the code of 0: half of the levels.
    zero = (len(played.ids) - 1) * (LEVELS // 2)
    found = [total[0] % MODULUS, (total[1] - zero) % MODULUS]
    return row(
        "inconsistent models",
        "gives all clients but one a model on which their update is zero, and reads the sum",
        f"the sum of {len(played.ids)} messages",
        told(played, node, found),
        broken=played.off(node, found) <= len(played.ids) * 2 * CLIP / LEVELS,
        answer="pair seeds that depend on a hash of the model",
    )


def seed_reuse(values: np.ndarray, weights: np.ndarray, threshold: int, node: int) -> dict[str, object]:
    """Two rounds of the same clients, the second with zero."""
    played = FlowerRound(values, weights, threshold)
    played.open()
    first = played.masked[node]
    for each in played.ids:
        played.shares(each, played.ids, [])
    played.values = np.zeros_like(values)
    played.open()
    left = [(a - b) % MODULUS for a, b in zip(first, played.masked[node], strict=True)]
    found = [left[0], (left[1] + LEVELS // 2) % MODULUS]
    shown = bool(np.abs(dequantize([found[1].astype(np.float64)], CLIP, LEVELS)[0]).max() < CLIP)
    return row(
        "seed reuse",
        "subtracts the masked messages of a client in two rounds",
        "2 masked messages of the client",
        "the difference of both messages" if shown else "noise: keys and seeds are drawn anew",
        broken=shown,
        answer="",
    )


def short_seed(played: FlowerRound, node: int) -> tuple[dict[str, object], float]:
    """Search the mask of a client's own seed, when its pair masks are known; here over 14 bits."""
    state = played.contexts[node].state.config_records
    (own,) = (record for record in state.values() if "rd_seed" in record)
    full, private = bytes(own["rd_seed"]), bytes(own["sk1"])
    folded = 0
    for first in range(0, len(full), 4):
        folded ^= int.from_bytes(full[first : first + 4], "little")
    begin = folded & ~((1 << SEARCHED_BITS) - 1)
    left = played.bare(node, full, played.pairs(node, private))
    masked = [a + b for a, b in zip(left, played.mask(full), strict=True)]
    start, found, tries = time.perf_counter(), None, 0
    for number in range(begin, begin + (1 << SEARCHED_BITS)):
        tries += 1
        mask = played.mask(number.to_bytes(4, "little"))
        words = [(a - b) % MODULUS for a, b in zip(masked, mask, strict=True)]
        if words[1].max() < LEVELS:
            found = words
            break
    rate = tries / (time.perf_counter() - start)
    line = row(
        "seeds of 32 bits",
        "tries every seed for the last mask of a message, once its key is known; a mask depends on 32 bits "
        f"of its seed, of which {SEARCHED_BITS} are searched here",
        "1 masked message, and enough shares of its key",
        f"{told(played, node, found)}; 2^32 tries take {2.0**32 / rate / 3600:.2g} h on this core",
        broken=played.reveals(node, found),
        answer="masks from a stream cipher keyed with the whole seed",
    )
    return line, rate


def main() -> None:
    """Run every attempt and print the rows."""
    logging.disable(logging.CRITICAL)
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1  # who sends messages
    clients, parameters, seed = (int(text) for text in sys.argv[1:4])
    drawn = np.random.Generator(np.random.Philox(key=seed))
    values = drawn.uniform(-1.0, 1.0, size=(clients, parameters))
    weights = drawn.integers(200, 1000, size=clients, endpoint=True)
    node, threshold = int(drawn.integers(clients)) + 1, clients // 2 + 1
    first = FlowerRound(values, weights, threshold)
    first.open()
    rows = [look(first, node), counts(first, node)]
    searched, rate = short_seed(first, node)
    rows += [both_shares(first, node), replay(first, node)]
    halved = FlowerRound(values, weights, max(2, (clients - 1) // 2))
    halved.open()
    rows.append(two_lists(halved, node))
    rows += [
        attempt(values, weights, threshold, node) for attempt in (impersonated, inconsistent, seed_reuse)
    ]
    rows.append(searched)
    said = {"version": version("flwr"), "threshold": threshold, "rate": rate, "rows": rows}
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
