"""The call `calibrate`, and its document: the least noise with which each mechanism proves a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, ParamSpec

from rich.markup import escape

from foltr_audit.auditing.noise_for_target import NoiseCalibration
from foltr_audit.experiments.calibrated_noise import CalibratedNoise, calibrated_noise
from foltr_audit.privacy.bounds import UpperBound
from foltr_audit.privacy.loss.composition import few_digits
from foltr_audit.privacy.observer_views import sees, with_article
from foltr_audit.report.documents import Document, Row, Section, nested
from foltr_audit.report.figures import noise_figure
from foltr_audit.report.settings import WARNING, warning_row
from foltr_audit.report.table import UNKNOWN_TEXT, Column, Table, counted, delta_text, make_table
from foltr_audit.report.terminal import BriefAnswer, print_table
from foltr_audit.utils.argument_names import names_arguments

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

P = ParamSpec("P")
TARGET = Section(
    "eps:num delta:num unit view sees colluders:int|null rounds:int clients:int cohort:int separation:int "
    "secret_sample:bool arriving:int interactions:int ranked_with parameters:int"
)
MECHANISM = Section(
    "mechanism sum_only:bool defense:[str] eps_upper:num delta:num eps_round:num|null average_sd:num|null "
    "how why_not:str|null"
)
"""The least noise of a mechanism: `eps_upper` is proven for all rounds of the target, `eps_round` for one."""


@dataclass(frozen=True, kw_only=True)
class NoiseCalibrationReport(Document):
    """The target, and in `results` the answer of each mechanism."""

    SCHEMA: ClassVar[str] = "foltr-audit/calibrate/2"
    MAIN: ClassVar[str] = "results"
    NAMED_BY = ("mechanism",)
    FIELDS: ClassVar[Section] = Section(
        nested("target", TARGET, many=False), nested("results", MECHANISM), nested("warnings", WARNING)
    )

    noise: CalibratedNoise

    @property
    def target(self) -> Row:
        there, members = self.noise.situation, self.noise.members
        return TARGET.of(
            there,
            eps=self.noise.target,
            sees=sees(there.view, members.colluders),
            clients=self.noise.clients,
            cohort=members.cohort,
            colluders=members.colluders,
            secret_sample=there.cohorts == "secret",
            arriving=members.messages(),
        )

    @property
    def results(self) -> list[Row]:
        return [
            MECHANISM.of(
                each,
                eps_upper=each.upper.epsilon,
                delta=each.upper.delta,
                eps_round=None if each.once is None else each.once.epsilon,
                how=each.upper.how,
            )
            for each in self.noise.mechanisms
        ]

    @property
    def warnings(self) -> list[Row]:
        return [warning_row(warning) for warning in self.noise.warnings]

    def short_answer(self) -> BriefAnswer:
        """How many mechanisms meet the target, and the least noise of each."""
        answers = self.noise.mechanisms
        met = sum(each.why_not is None for each in answers)
        have = "has" if met == 1 else "have"
        text = f"Of {counted(len(answers), 'mechanism')}, {met} {have} noise that proves epsilon "
        table = _table(self.noise, self.target)
        return BriefAnswer(conclusion=(f"{text}{self.noise.target:g}.",), about="", table=table)

    def figure(self) -> Figure:
        """The noise on one coordinate of the average, for each mechanism that adds any."""
        answers = self.noise.mechanisms
        noise = {each.mechanism: each.average_sd for each in answers if each.average_sd and not each.why_not}
        return noise_figure(noise, f"least noise for epsilon {self.noise.target:g}")

    def show(self, console: Console) -> None:
        """Print the table, why each bound holds or there is none, and commands that check it."""
        print_table(_table(self.noise, self.target), console)
        console.print()
        for each in self.noise.mechanisms:
            said = f"impossible: {each.why_not}" if each.why_not else each.upper.how
            summed = ", with secure aggregation" if each.wired else ""
            console.print(escape(f"{each.mechanism}{summed}: {said}"), highlight=False)
        console.print()
        for command in _commands(self.noise):
            console.print(escape(command), highlight=False, soft_wrap=True)


def _table(noise: CalibratedNoise, target: Row) -> Table:
    several = target["rounds"] > 1
    rounds = f" over {target['rounds']} rounds" if several else " in a round"
    delta = ", ".join(filter(None, (f"{target['eps']:g}", delta_text(target["delta"]))))
    run = Column("run", lambda answer: _epsilon(None if answer.why_not else answer.upper))
    return make_table(
        f"least noise for epsilon {delta} per {target['unit']}{rounds},\n"
        f"where the server sees {with_article(target['sees'])}",
        [
            Column("mechanism", attrgetter("mechanism"), "name"),
            Column("noise in", lambda answer: answer.noise_in or UNKNOWN_TEXT, "name"),
            Column("round" if several else "proven", lambda answer: _epsilon(answer.once)),
            *([run] * several),
            Column("average sd", _average_sd),
        ],
        noise.mechanisms,
        caption=f"{_who_takes_part(target) if several else ''}average sd: standard deviation of the noise on "
        f"one of {target['parameters']} coordinates of the average\n"
        f"over {target['arriving']} of {target['cohort']} clients",
    )


def _who_takes_part(target: Row) -> str:
    """What the number for the run assumes, for the caption."""
    who = "all clients take part in each"
    if target["cohort"] < target["clients"]:
        known = "nobody else knows which" if target["secret_sample"] else "the server knows which"
        who = f"{target['cohort']} of {target['clients']} clients take part in each, and {known}"
        if target["separation"] > 1:
            who += f",\neach {target['separation']} rounds apart at least"
    return f"round, run: proven of one round, and of all {target['rounds']}: {who}\n"


def _average_sd(answer: NoiseCalibration) -> str:
    return UNKNOWN_TEXT if answer.why_not or answer.average_sd is None else f"{answer.average_sd:.4g}"


def _epsilon(bound: UpperBound | None) -> str:
    return UNKNOWN_TEXT if bound is None else f"{bound.epsilon:.4f}"


def _commands(noise: CalibratedNoise) -> Iterator[str]:
    """How to check each answer, by the messages of all rounds, or by one where clients are sampled."""
    there, members = noise.situation, noise.members
    several, drawn = there.touched > 1, members.cohort < noise.clients
    lost = 1 - members.messages() / members.cohort
    system = f"--clients {noise.clients}"
    system += f" --cohort {members.cohort}" if drawn else ""
    system += f" --separation {there.separation}" if there.separation > 1 else ""
    system += f" --unit {there.unit} --view {there.view}"
    system += "" if members.colluders is None else f" --colluders {members.colluders}"
    system += "" if there.unit == "client" else f" --canary-interactions {there.interactions}"
    system += " --rank-with global" if there.ranked_with == "global" else ""
    system += f" --{'rounds' if drawn else 'messages'} {there.rounds}" if several else ""
    system += f" --drop-out {lost:.6g}" if lost else ""
    for answer in noise.mechanisms:
        if answer.once is None:
            continue
        pure, claim = answer.pure, noise.target
        if several and drawn:
            pure, claim = answer.once.delta == 0, few_digits(answer.once.epsilon, math.ceil)
        yield (
            f"foltr-audit audit --defense {'+'.join(answer.defense)} {system} "
            f"--claim {claim:g} --delta {0.0 if pure else there.delta:g}"
        )


def _reported(call: Callable[P, CalibratedNoise]) -> Callable[P, NoiseCalibrationReport]:
    """The same call, which returns a report."""

    @wraps(call)
    def reported(*given: P.args, **named: P.kwargs) -> NoiseCalibrationReport:
        return NoiseCalibrationReport(noise=call(*given, **named))

    returned = signature(call).replace(return_annotation=NoiseCalibrationReport.__name__)
    vars(reported)["__signature__"] = returned
    return reported


calibrate = names_arguments(_reported(calibrated_noise))  # its errors name arguments
