"""Likelihoods of a message under every click pattern of a list, and posteriors of each document's click.

Pattern p of a list of L documents clicks document j where bit j of p is set; there are 2^L of them. An
update is linear in the clicks on each slice of patterns with the same observed documents, so patterns
are visited in Gray code: each differs from the one before in one click, which costs one column instead of k.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from foltr_audit.kernels.density import DensityTable, log_density_at
from foltr_audit.kernels.elementary import exp, log
from foltr_audit.kernels.jit import Floats, Ints, inlined, kernel, read_only
from foltr_audit.kernels.messages import scaled_length
from foltr_audit.kernels.threads import filled, in_parts

# --- posteriors ------------------------------------------------------------------------------------

MOST_DOCUMENTS = 10
"""For longer lists a probability for each pattern takes too much memory."""

_LISTS = 64  # of one part: less work is done before a thread has started


def pattern_probabilities(log_posterior: Floats, lengths: Ints) -> Floats:
    """Unnormalised log posteriors (n, 2^k) as probabilities (n, 2^k): 0 beyond a list's length.

    If no pattern of a list is possible, all patterns count as equally likely.
    """
    given = (read_only(log_posterior), lengths)
    return filled(np.zeros(log_posterior.shape), _LISTS, fill_probabilities, *given)


@kernel
def fill_probabilities(log_posterior: Floats, lengths: Ints, out: Floats, begin: int, end: int) -> None:
    """Fill out[begin:end] of `pattern_probabilities`."""
    for i in range(begin, end):
        patterns = 1 << lengths[i]
        top = -np.inf
        for p in range(patterns):
            top = max(top, log_posterior[i, p])
        total = 0.0
        for p in range(patterns):
            out[i, p] = exp(log_posterior[i, p] - top) if top > -np.inf else 1.0
            total += out[i, p]
        for p in range(patterns):
            out[i, p] /= total


# --- likelihoods -----------------------------------------------------------------------------------

_SMALL, _LARGE = 1e-280, 1e280  # between them sums of squares lost nothing to under- or overflow

MOST_WEIGHED = 14
"""Longer lists have too many patterns to weigh each."""

_MESSAGES = 4  # of one part, if all their patterns are walked through


class ClipRule(NamedTuple):
    """The step stage: models are scaled into a ball of this norm (inf: none), L1 or L2.

    Attributes:
        norm: radius.
        order: 1 or 2.
        always: whether it acts without pairs too.
    """

    norm: float
    order: int
    always: bool


@inlined
def _fill_columns(W: Floats, rows: Floats, i: int, observed: int, columns: Floats) -> None:
    """columns[j] = sum_s L_sj rows[s], L the Laplacian of W restricted to the first `observed` documents."""
    P = rows.shape[2]
    for j in range(observed):
        degree = 0.0
        for s in range(observed):
            degree += W[i, j, s]
        for p in range(P):
            columns[j, p] = degree * rows[i, j, p]
        for s in range(observed):
            if s != j and W[i, s, j] != 0.0:
                for p in range(P):
                    columns[j, p] -= W[i, s, j] * rows[i, s, p]


@inlined
def shrunk(model: Floats, ball: ClipRule, acts: bool) -> float:
    """The factor that the step stage multiplies a model by."""
    if not acts or ball.norm == np.inf:
        return 1.0
    size = 0.0
    if ball.order == 1:
        for p in range(model.size):
            size += abs(model[p])
    else:
        for p in range(model.size):
            size += model[p] * model[p]
        size = math.sqrt(size) if _SMALL < size < _LARGE else scaled_length(model)
    return ball.norm / size if size > ball.norm else 1.0


@inlined
def _fit(received: Floats, i: int, model: Floats, scale: float, table: DensityTable) -> float:
    """Log density of a message less a scaled model."""
    total = 0.0
    for p in range(model.size):
        total += log_density_at(table, received[i, p] - scale * model[p])
    return total


@kernel
def _walk(
    received: Floats,
    i: int,
    model: Floats,
    columns: Floats,
    free: int,
    fixed: int,
    ball: ClipRule,
    table: DensityTable,
    out: Floats,
) -> None:
    """Fill out[i, p] for every pattern p made of `fixed` and any of the first `free` documents.

    `model` holds the prediction of `fixed` alone; it is changed.
    """
    clicked = fixed
    out[i, clicked] = _fit(received, i, model, shrunk(model, ball, True), table)
    for turn in range(1, 1 << free):
        j = 0
        while not (turn >> j) & 1:
            j += 1
        clicked ^= 1 << j
        sign = 1.0 if (clicked >> j) & 1 else -1.0
        for p in range(model.size):
            model[p] += sign * columns[j, p]
        out[i, clicked] = _fit(received, i, model, shrunk(model, ball, True), table)


def pattern_likelihoods(
    received: Floats,
    starts: Floats,
    rows: Floats,
    weights: Floats,
    lengths: Ints,
    only_observed: bool,
    ball: ClipRule,
    table: DensityTable,
) -> Floats:
    """Log likelihood of every click pattern, (n, 2^k); -inf for patterns beyond a list's length.

    Args:
        received: messages as models, (n, P).
        starts: local models before the interaction, (n, P).
        rows: learning rate times the Jacobian rows of the shown documents, (n, k, P).
        weights: PDGD's pair weights, (n, k, k).
        lengths: documents of each list, (n,), at most k.
        only_observed: pairs reach down to one document below the last click only.
        ball: the step stage.
        table: log density of the noise.
    """
    n, k, _ = rows.shape
    given = (received, starts, rows, weights, lengths, only_observed, ball, table)
    return filled(np.full((n, 1 << k), -np.inf), _MESSAGES, fill_pattern_likelihoods, *given)


@kernel
def fill_pattern_likelihoods(
    received: Floats,
    starts: Floats,
    rows: Floats,
    weights: Floats,
    lengths: Ints,
    only_observed: bool,
    ball: ClipRule,
    table: DensityTable,
    out: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill out[begin:end] of `pattern_likelihoods`, which begins as -inf."""
    _, k, P = rows.shape
    for i in range(begin, end):
        L = lengths[i]
        columns = np.zeros((max(k, 1), P))
        model = np.empty(P)
        # One slice if all documents form pairs, else one for each rank of the last click.
        for last in range(0 if only_observed else L, L + 1):
            for p in range(P):
                model[p] = starts[i, p]
            if not only_observed:
                _fill_columns(weights, rows, i, L, columns)
                _walk(received, i, model, columns, L, 0, ball, table, out)
            elif last > 0:
                _fill_columns(weights, rows, i, min(last + 1, L), columns)
                for p in range(P):
                    model[p] += columns[last - 1, p]
                _walk(received, i, model, columns, last - 1, 1 << (last - 1), ball, table, out)
        for p in range(P):
            model[p] = starts[i, p]
        nothing = _fit(received, i, model, shrunk(model, ball, ball.always and L > 0), table)
        out[i, 0] = nothing
        out[i, (1 << L) - 1] = nothing  # all or none clicked: no pairs, the same message


Reports = tuple[float, float]
"""P(reported as a click) of a document that was not clicked, and of one that was."""

AS_THEY_ARE: Reports = (0.0, 1.0)


@kernel
def _log_prior(click: Floats, stop: Floats, i: int, L: int, pattern: int, reports: Reports) -> float:
    """Log probability of a pattern under a cascade with these probabilities by position."""
    if reports[0] > 0.0 or reports[1] < 1.0:
        return _log_prior_of_reports(click, stop, i, L, pattern, reports)
    below = 1.0  # no click below the last one: the user has stopped, or read on and liked nothing
    j = L - 1
    while j >= 0 and not (pattern >> j) & 1:
        below *= 1.0 - click[i, j]
        j -= 1
    if j < 0:
        return log(below) if below > 0.0 else -np.inf
    chance = click[i, j] * (stop[i, j] + (1.0 - stop[i, j]) * below)
    for above in range(j):
        clicked = click[i, above] * (1.0 - stop[i, above])
        chance *= clicked if (pattern >> above) & 1 else 1.0 - click[i, above]
    return log(chance) if chance > 0.0 else -np.inf


@inlined
def _log_prior_of_reports(
    click: Floats, stop: Floats, i: int, L: int, pattern: int, reports: Reports
) -> float:
    """The same for a pattern of reported clicks: it does not show where the user stopped."""
    reading, stopped = 1.0, 0.0  # with the reports so far
    for j in range(L):
        skipped, clicked = reports
        if not (pattern >> j) & 1:
            skipped, clicked = 1.0 - skipped, 1.0 - clicked
        chosen = reading * click[i, j] * clicked
        stopped = stopped * skipped + chosen * stop[i, j]
        reading = reading * (1.0 - click[i, j]) * skipped + chosen * (1.0 - stop[i, j])
    chance = reading + stopped
    return log(chance) if chance > 0.0 else -np.inf


def cascade_log_priors(click: Floats, stop: Floats, lengths: Ints, reports: Reports = AS_THEY_ARE) -> Floats:
    """Log probability of every click pattern of lists under a cascade, (n, 2^k); -inf beyond the length.

    `click` and `stop` (n, k) hold P(click | examined) and P(stop | clicked) of each document. With other
    `reports` these are patterns of reported clicks, by the forward recursion (Rabiner 1989, "A tutorial on
    hidden Markov models", section III).
    """
    n, k = click.shape
    return filled(np.full((n, 1 << k), -np.inf), _LISTS, fill_log_priors, click, stop, lengths, reports)


@kernel
def fill_log_priors(
    click: Floats, stop: Floats, lengths: Ints, reports: Reports, out: Floats, begin: int, end: int
) -> None:
    """Fill out[begin:end] of `cascade_log_priors`."""
    for i in range(begin, end):
        for pattern in range(1 << lengths[i]):
            out[i, pattern] = _log_prior(click, stop, i, lengths[i], pattern, reports)


@kernel
def cascade_log_prior(
    click: Floats, stop: Floats, lengths: Ints, patterns: Ints, reports: Reports = AS_THEY_ARE
) -> Floats:
    """Log probability of one click pattern each, (n,); as `cascade_log_priors`."""
    out = np.empty(patterns.size)
    for i in range(patterns.size):
        out[i] = _log_prior(click, stop, i, lengths[i], patterns[i], reports)
    return out


_SURE = 1e-12  # a report that a law rules out has this probability, so that no message is impossible


def before_reports(log_likelihood: Floats, lengths: Ints, reports: Reports) -> Floats:
    """Log likelihood of every pattern of true clicks (n, 2^k), from that of every pattern of reported ones.

    The sum over all patterns of reports, each with its probability given the true clicks. It factors into
    one step for each document.
    """
    law = np.array([[1.0 - p, p] for p in np.clip(reports, _SURE, 1.0 - _SURE)])
    return filled(log_likelihood.copy(), _LISTS, fill_before_reports, lengths, law)


@kernel
def fill_before_reports(lengths: Ints, law: Floats, out: Floats, begin: int, end: int) -> None:
    """Fill out[begin:end] of `before_reports`, which begins as the likelihoods of reported patterns.

    `law` (2, 2) is P(reported | true), a row for each truth.
    """
    for i in range(begin, end):
        patterns = 1 << lengths[i]
        top = out[i, :patterns].max()
        if top == -np.inf:
            continue
        for p in range(patterns):
            out[i, p] = exp(out[i, p] - top)
        for j in range(lengths[i]):
            for p in range(patterns):
                if (p >> j) & 1:
                    skipped, clicked = out[i, p ^ (1 << j)], out[i, p]
                    out[i, p ^ (1 << j)] = law[0, 0] * skipped + law[0, 1] * clicked
                    out[i, p] = law[1, 0] * skipped + law[1, 1] * clicked
        for p in range(patterns):
            out[i, p] = top + log(out[i, p])


def marginals(log_posterior: Floats, lengths: Ints, k: int) -> tuple[Floats, Ints, Floats, Floats]:
    """Summaries of unnormalised log posteriors (n, 2^k) of patterns.

    Returns:
        P(document clicked) (n, k), the most probable pattern (n,), of equal ones the lowest,
        P(any click) (n,), and the log of the sum over all patterns (n,). If no pattern
        of a list is possible, all patterns count as equally likely.
    """
    n = log_posterior.shape[0]
    clicked, best = np.zeros((n, k)), np.zeros(n, dtype=np.int64)
    anything, evidence = np.zeros(n), np.empty(n)
    given = (read_only(log_posterior), lengths, clicked, best, anything, evidence)
    in_parts(lambda begin, end: fill_marginals(*given, begin, end), n, _LISTS)
    return clicked, best, anything, evidence


@kernel
def fill_marginals(
    log_posterior: Floats,
    lengths: Ints,
    clicked: Floats,
    best: Ints,
    anything: Floats,
    evidence: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill rows begin .. end - 1 of the summaries of `marginals`, which begin as 0."""
    for i in range(begin, end):
        patterns = 1 << lengths[i]
        top = -np.inf
        for p in range(patterns):
            if log_posterior[i, p] > top:
                top, best[i] = log_posterior[i, p], p
        total = 0.0
        for p in range(patterns):
            # Relative to the best: log posteriors of whole messages are often far outside the range of exp.
            mass = exp(log_posterior[i, p] - top) if top > -np.inf else 1.0
            total += mass
            if p > 0:
                anything[i] += mass
            for j in range(lengths[i]):
                if (p >> j) & 1:
                    clicked[i, j] += mass
        for j in range(lengths[i]):
            clicked[i, j] /= total
        anything[i] /= total
        evidence[i] = top + log(total)


def log_likelihoods(residuals: Floats, table: DensityTable) -> Floats:
    """Log density of each row of residuals (H, P) under independent noise, (H,)."""
    return filled(np.empty(residuals.shape[0]), _LISTS, fill_log_likelihoods, residuals, table)


@kernel
def fill_log_likelihoods(residuals: Floats, table: DensityTable, out: Floats, begin: int, end: int) -> None:
    """Fill out[begin:end] of `log_likelihoods`."""
    for i in range(begin, end):
        total = 0.0
        for p in range(residuals.shape[1]):
            total += log_density_at(table, residuals[i, p])
        out[i] = total


def best_patterns(log_posterior: Floats, most: int) -> Ints:
    """The `most` patterns of the largest values of each row (n, 2^k), best first: int64 (n, most).

    Of equal ones the lower pattern comes first.
    """
    out = np.zeros((log_posterior.shape[0], most), dtype=np.int64)
    return filled(out, _LISTS, fill_best_patterns, log_posterior)


@kernel
def fill_best_patterns(log_posterior: Floats, out: Ints, begin: int, end: int) -> None:
    """Fill out[begin:end] of `best_patterns`, which begins as 0."""
    most, patterns = out.shape[1], log_posterior.shape[1]
    for i in range(begin, end):
        values = np.full(most, -np.inf)
        kept = 0
        for p in range(patterns):
            value = log_posterior[i, p]
            # Insertion into a short list instead of a sort: most patterns fail the first comparison.
            if kept == most and not value > values[most - 1]:
                continue
            slot = min(kept, most - 1)
            while slot > 0 and value > values[slot - 1]:
                values[slot] = values[slot - 1]
                out[i, slot] = out[i, slot - 1]
                slot -= 1
            values[slot] = value
            out[i, slot] = p
            kept = min(kept + 1, most)


# --- local models of patterns ----------------------------------------------------------------------


@kernel
def _coefficients(W: Floats, i: int, pattern: int, observed: int, out: Floats) -> bool:
    """How much each document's gradient counts under a pattern; whether there is any pair."""
    pairs = False
    for j in range(out.size):
        out[j] = 0.0
    for j in range(observed):
        for s in range(j):
            if (pattern >> j) & 1 != (pattern >> s) & 1:
                weight = W[i, j, s] if (pattern >> j) & 1 else -W[i, j, s]
                out[j] += weight
                out[s] -= weight
                pairs = True
    return pairs


def pattern_models(
    starts: Floats, rows: Floats, weights: Floats, lengths: Ints, only_observed: bool, ball: ClipRule
) -> Floats:
    """Local models after one interaction, for every click pattern, (n, 2^k, P).

    Patterns beyond a list's length lead where none clicked does. Arguments as for `pattern_likelihoods`.
    """
    n, k, P = rows.shape
    given = (starts, rows, weights, lengths, only_observed, ball)
    return filled(np.empty((n, 1 << k, P)), 1, fill_pattern_models, *given)


@kernel
def fill_pattern_models(
    starts: Floats,
    rows: Floats,
    weights: Floats,
    lengths: Ints,
    only_observed: bool,
    ball: ClipRule,
    out: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill out[begin:end] of `pattern_models`."""
    _, k, P = rows.shape
    for i in range(begin, end):
        L, counts = lengths[i], np.zeros(k)
        for pattern in range(1 << k):
            clicked = pattern if pattern < 1 << L else 0
            last = L - 1
            while last >= 0 and not (clicked >> last) & 1:
                last -= 1
            observed = min(last + 2, L) if only_observed else L
            pairs = _coefficients(weights, i, clicked, observed if last >= 0 else 0, counts)
            model = out[i, pattern]
            for p in range(P):
                model[p] = starts[i, p]
            for j in range(L):
                if counts[j] != 0.0:
                    for p in range(P):
                        model[p] += counts[j] * rows[i, j, p]
            scale = shrunk(model, ball, L > 0 and (pairs or ball.always))
            for p in range(P):
                model[p] *= scale


# --- messages of patterns as coefficients ----------------------------------------------------------


def pattern_terms(
    weights: Floats,
    rows: Floats,
    starts: Floats,
    lengths: Ints,
    rate: float,
    only_observed: bool,
    ball: ClipRule,
) -> Floats:
    """Steps and clicks of one client for every pattern, (n, 2^k, 2 k + 1); 0 beyond a list's patterns.

    A client's update is `rows^T (s v) + (s - 1) start`, v the coefficients of PDGD and s the scale of
    the step stage. First come the k numbers s v, then s - 1, then the k clicks.

    Args:
        weights: PDGD's pair weights, (n, k, k).
        rows: Jacobian rows of the shown documents, (n, k, P).
        starts: the global model of each sum, (n, P).
        lengths: documents of each list, (n,), at most k.
        rate: the learning rate.
        only_observed: pairs reach down to one document below the last click only.
        ball: the step stage.
    """
    n, k, _ = rows.shape
    given = (weights, rows, starts, lengths, rate, only_observed, ball)
    return filled(np.zeros((n, 1 << k, 2 * k + 1)), 1, fill_pattern_terms, *given)


@kernel
def fill_pattern_terms(
    weights: Floats,
    rows: Floats,
    starts: Floats,
    lengths: Ints,
    rate: float,
    only_observed: bool,
    ball: ClipRule,
    terms: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill terms[begin:end] of `pattern_terms`, which begin as 0."""
    _, k, P = rows.shape
    for i in range(begin, end):
        L = lengths[i]
        steps, model = np.zeros(k), np.empty(P)
        last = -1  # rank of the last click: patterns rise, so it only ever moves down the list
        for pattern in range(1 << L):
            if pattern >> (last + 1):
                last += 1
            observed = min(last + 2, L) if only_observed else L
            _coefficients(weights, i, pattern, observed, steps)
            model[:] = starts[i]
            for j in range(L):
                steps[j] *= rate
                for p in range(P):
                    model[p] += steps[j] * rows[i, j, p]
            pairs = 0 < pattern < (1 << L) - 1
            kept = shrunk(model, ball, pairs or (ball.always and L > 0))
            for j in range(L):
                terms[i, pattern, j] = kept * steps[j]
                terms[i, pattern, k + 1 + j] = (pattern >> j) & 1
            terms[i, pattern, k] = kept - 1.0
