"""Warnings with their codes: one for each kind, and what `foltr-audit list warnings CODE` says of it.

`FA1..` are about what a system declares, `FA2..` about recorded traces and attacks on them, `FA3..` about
measurements, `FA4..` about what a command left out. A code never changes its meaning. `docs/pitfalls.md`
has examples, and the site a page of all codes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from foltr_audit.errors import UsageError, suggest_name


class WarningKind(NamedTuple):
    """A kind of warnings.

    Attributes:
        code: what never changes, e.g. `FA101`.
        name: what the code calls it; of a check of declarations its name.
        title: what is wrong, in a few words.
        text: what it means, and what to do.
        section: the heading in `docs/pitfalls.md` with an example; empty without one.
    """

    code: str
    name: str
    title: str
    text: str
    section: str = ""

    @property
    def explanation(self) -> str:
        """Title and text, and where an example is."""
        more = f'\n\nExample: docs/pitfalls.md, "{self.section}".' if self.section else ""
        return f"{self.code}: {self.title}\n\n{self.text}{more}"


_CHAIN = "L2 clip, L1 noise"
_WHO = "Who looks"
_ALONE = "An epsilon alone says nothing"
_WEAK = "A weak canary proves nothing"

_KINDS = (
    WarningKind(
        "FA101",
        "sensitivity",
        "The clip allows more than the noise was computed for",
        "Noise hides a change only up to the distance it was computed for. Two clients clipped at norm "
        "R are up to 2R apart, and an L2 ball of P coordinates reaches sqrt(P) times as far in L1, the "
        "norm of Laplace noise. Without a clip before the noise, no distance holds at all. Compute the "
        "noise from the distance that the clip allows, or clip in the norm of the noise.",
        _CHAIN,
    ),
    WarningKind(
        "FA102",
        "noise shares",
        "A message, or a sum, holds only a part of the noise",
        "Noise in n shares protects the sum of all n messages and nothing less. A server that sees "
        "single messages sees 1/n of the noise; a sum in which shares are missing has less than the "
        "claim needs. Use secure aggregation with a threshold, compute the shares for the fewest "
        "clients a sum may contain, or give each message the whole noise.",
        _WHO,
    ),
    WarningKind(
        "FA103",
        "lists",
        "Shown lists reveal the clicks, whatever the noise",
        "A client that learns between two searches ranks the second list with what it learned from the "
        "clicks on the first. Whoever sees both lists can infer those clicks without reading the "
        "message. Use --rank-with global, send one interaction per message, or hide the lists from the "
        "server.",
        "Shown lists reveal what noise hides",
    ),
    WarningKind(
        "FA104",
        "last bits",
        "The last bits of float64 messages reveal what the noise was added to",
        "Which floating-point numbers can come out of adding noise depends on the number without noise. "
        "In float64 this identifies the message although the noise is large. Send float32, or use noise "
        "on a grid.",
        "Floating point reveals clicks",
    ),
    WarningKind(
        "FA105",
        "several noises",
        "Several defenses of a chain add noise",
        "Each claim counts only its own noise, so neither number describes the chain. Add one noise, "
        "computed for the epsilon that you claim.",
    ),
    WarningKind(
        "FA106",
        "sparse messages",
        "Noise fills coordinates that were left out",
        "A defense that sends few coordinates saves nothing if later noise makes the others non-zero. "
        "Put it after the noise.",
    ),
    WarningKind(
        "FA107",
        "sum noise",
        "Noise on sums of messages that nothing bounds, or correlated for too long",
        "Noise that an aggregator adds to sums hides one client only if each message is clipped before "
        "the sum. Noise that is correlated over more rounds than a client waits between two messages "
        "proves less for the run than it could.",
    ),
    WarningKind(
        "FA108",
        "batch",
        "The claim is of one interaction, and a message holds several",
        "The epsilon of one interaction is not that of a message: randomised answers compose. Claim the "
        "epsilon of all interactions behind a message.",
        "Rounds add up",
    ),
    WarningKind(
        "FA109",
        "weights",
        "Clients have different weights in the sum",
        "If the server weights clients by their number of interactions, neither the noise nor the "
        "sensitivity of a sum is that of equal clients, and nothing is proven. Give all clients the "
        "same weight.",
    ),
    WarningKind(
        "FA110",
        "noise scale",
        "The scale of the noise does not give the declared epsilon",
        "A sensitivity, a scale and a law of noise determine epsilon. The declared one is smaller, or "
        "it comes from a formula outside its range, such as the classical Gaussian formula above "
        "epsilon 1. Use the scale that the warning names.",
        "Epsilon 1 is the end of a formula",
    ),
    WarningKind(
        "FA116",
        "restated",
        "Two declarations contradict each other",
        "A number is declared twice, and differently. Declare what the clients run.",
    ),
    WarningKind(
        "FA117",
        "proof",
        "The claim is above what accounting proves",
        "The privacy accountant computes an upper bound from what is declared, and it exceeds the claim.",
        _ALONE,
    ),
    WarningKind(
        "FA118",
        "delta",
        "Delta is so large that it permits publishing one client",
        "With delta of 1/n or more, a system that publishes all data of one client, drawn at random, "
        "satisfies the claim. Take a delta far below 1/n.",
        _ALONE,
    ),
    WarningKind(
        "FA119",
        "statement",
        "The claim leaves out what its epsilon is about",
        "An epsilon means something only together with its privacy unit, its neighbouring relation, and who "
        "looks.",
        _ALONE,
    ),
    WarningKind(
        "FA120",
        "sum only",
        "The calibrated noise protects the sum only",
        "The bound holds for a sum of all shares. Without secure aggregation in the chain the server "
        "sees single messages, each with a small part of the noise. Add +secure-aggregation to the "
        "chain.",
        _WHO,
    ),
    WarningKind(
        "FA201",
        "facts",
        "The declared facts do not explain the messages",
        "Attacks replay what clients compute, from facts such as the learning rate or the pairs of "
        "PDGD. Here the messages do not follow from them, so results are too low. Correct the facts "
        "with --know NAME=VALUE.",
    ),
    WarningKind(
        "FA202",
        "wrong sign",
        "An attack is significantly worse than guessing",
        "An AUC whose interval lies below .5 is not chance: the attack orders the documents the wrong "
        "way round. Check the sign of the update and the other declared facts.",
    ),
    WarningKind(
        "FA203",
        "weaker attack",
        "A weaker attack beats the strongest one",
        "The strongest attack weighs every click pattern by the declared facts. If an attack that needs "
        "fewer facts is clearly right more often on the same lists, the facts are wrong.",
    ),
    WarningKind(
        "FA204",
        "lists of the auditor",
        "Attacks were given lists that the server does not have",
        "The trace says that only the auditor knows the shown lists (fact lists_known). The results are "
        "those of a server that knows more than yours.",
    ),
    WarningKind(
        "FA205",
        "masked messages",
        "Single messages are masked",
        "Under secure aggregation the server reads sums only. Use --view aggregate to attack these.",
    ),
    WarningKind(
        "FA206",
        "unlisted messages",
        "Sums contain messages without a recorded list",
        "What these clients learned counts as noise of an unknown law, so attacks on sums are weaker "
        "than they could be.",
    ),
    WarningKind(
        "FA301",
        "above ceiling",
        "A measurement lies above what is proven possible",
        "One 95 % interval in 40 does by chance. If it does again with another --seed and more "
        "--shadows, the proof or its assumptions are wrong.",
    ),
    WarningKind(
        "FA302",
        "exact unlearning",
        "Exact unlearning seems to leave something",
        "A model that was trained again without the client cannot depend on it; the epsilon is 0. The "
        "audit errs with the probability that its confidence leaves. Repeat it with another --seed.",
    ),
    WarningKind(
        "FA304",
        "few trials",
        "The trials are too few to show a larger epsilon",
        "Each number of trials has a largest lower bound that it can show, however bad the mechanism "
        "is. A claim above it cannot be refuted, and a result at this bound says only that more trials "
        "would show more.",
        _WEAK,
    ),
    WarningKind(
        "FA305",
        "constant outputs",
        "The function's outputs do not vary",
        "Either both inputs always give the same output, and show nothing, or the function adds no "
        "noise. Choose inputs that differ in what the function computes, and check that noise is on.",
        _WEAK,
    ),
    WarningKind(
        "FA306",
        "NaN outputs",
        "Outputs are not numbers",
        "In scores of numbers NaN counts as the median, and how many there are is a score of its own. "
        "Return finite numbers.",
    ),
    WarningKind(
        "FA307",
        "own random numbers",
        "The function draws random numbers of its own",
        "--seed does not fix the result. Draw from the generator that the function is given to repeat "
        "it exactly.",
    ),
    WarningKind(
        "FA401",
        "plug-in",
        "A plug-in cannot be loaded",
        "It is left out, and the others run. The message names the package and the error.",
    ),
    WarningKind(
        "FA402",
        "untried attacks",
        "A limit on attacks is judged without the strongest ones",
        "--method or the configuration names attacks, and not all that would run by default. A limit "
        "that holds against weak attacks says little. Leave out --method.",
        _WEAK,
    ),
    WarningKind(
        "FA403",
        "refused attack",
        "An attack could not run and is not judged",
        "It lacks something that this server does not see or know; the message says what. A limit is "
        "judged by the others.",
    ),
    WarningKind(
        "FA404",
        "left out",
        "A row was left out of the comparison",
        "A defense does not fit the learner; the message says why. No limit is judged by it.",
    ),
    WarningKind(
        "FA405",
        "merging",
        "The study deviates from the paper",
        "The data are too small for a rule of the paper, or a model could not learn anything; the "
        "message says which.",
    ),
)

WARNINGS = {kind.code: kind for kind in _KINDS}
"""Every kind of warnings by its code."""


# --- warnings of one run ---------------------------------------------------------------------------


class CodedWarning(NamedTuple):
    """A warning with its code.

    Attributes:
        code: one of `WARNINGS`.
        text: what is warned of.
    """

    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"

    def about(self, subject: str) -> CodedWarning:
        """The warning after what it is about."""
        return self._replace(text=f"{subject}: {self.text}")

    @classmethod
    def parse(cls, line: str) -> CodedWarning:
        """The warning of a stored line, as `str` writes it.

        >>> CodedWarning.parse("FA104: last bits")
        CodedWarning(code='FA104', text='last bits')

        Raises:
            ValueError: it has no known code.
        """
        code, _, text = line.partition(": ")
        if code not in WARNINGS:
            raise ValueError("expected a warning with its code")
        return cls(code, text)


def warning_lines(warnings: Iterable[CodedWarning], how: str = "--full") -> list[str]:
    """All warnings in one line with their codes, and `how` one reads them; no line without a warning.

    >>> warning_lines([CodedWarning("FA104", "last bits"), CodedWarning("FA101", "too small")])
    ['2 warnings: FA101 FA104 (--full shows them; foltr-audit list warnings FA101 explains one)']
    """
    codes = [warning.code for warning in dict.fromkeys(warnings)]
    if not codes:
        return []
    named = sorted(set(codes))
    return [
        f"{len(codes)} warning{'s' * (len(codes) > 1)}: {' '.join(named)} "
        f"({how} shows them; foltr-audit list warnings {named[0]} explains one)"
    ]


_BY_NAME = {kind.name: kind for kind in WARNINGS.values()}


def warning_code(name: str) -> str:
    return _BY_NAME[name].code


def coded(name: str, text: str) -> CodedWarning:
    """A warning of a kind, by the kind's name."""
    return CodedWarning(warning_code(name), text)


def warning_kind(code: str) -> WarningKind:
    """The kind of warnings of a code, in upper or lower case.

    Raises:
        UsageError: there is no such code.
    """
    found = WARNINGS.get(code.upper())
    if found is None:
        raise UsageError(f"CODE: unknown code {code[:40]!r}; {suggest_name(code.upper(), WARNINGS)}")
    return found
