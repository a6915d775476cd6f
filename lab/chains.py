"""Acceptance that is correlated along the text: a hidden chain of states, easy and hard.

Equation (1) takes the acceptances of a round to be independent. Here each position has a hidden
state s in which a draft is accepted with probability b_s, and states follow a Markov chain P from
position to position, whatever is accepted. With D = diag(b) two questions have two answers:

* one round that starts at a random position of the text: 1 + π Σ_k (D P)^(k-1) D 1, which positive
  correlation makes larger than equation (1) at the mean of b;
* the rounds of a long run, tokens per call of the target. A round starts behind a rejection or a
  bonus token, so more often where the text is hard: the chain K of the states at which rounds
  start, K = Σ_(k < γ) (D P)^k (I - D) P + (D P)^γ P, has another stationary law, and positive
  correlation makes the mean under it smaller than equation (1).

Shapes: S = states, G = gamma, n positions of a text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lab import domains
from lab.domains import Bools, Floats, whole
from lab.interval import Estimate, estimate
from lab.stats import clustered_ratio
from lab.theory import expected_tokens

ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """States of a text with their acceptances.

    Attributes
    ----------
    betas : (S,) in [0, 1], acceptance in each state
    moves : (S, S), row s is the law of the next position's state
    stationary : (S,), the share of positions in each state, π

    Raises
    ------
    ValueError
        Shapes that do not fit, rows that are no laws, more than one stationary law.
    """

    betas: Floats
    moves: Floats
    stationary: Floats = field(init=False)

    def __post_init__(self) -> None:
        betas = domains.numbers("betas", self.betas, "in [0, 1]", domains.in_unit)
        moves = domains.law("moves", self.moves)
        if betas.ndim != 1 or moves.shape != (len(betas), len(betas)):
            raise ValueError(
                f"betas must be (S,) and moves (S, S), got {betas.shape} and {moves.shape}"
            )
        moves = moves / moves.sum(axis=-1, keepdims=True)
        values = {"betas": betas, "moves": moves, "stationary": _stationary("moves", moves)}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def mean(self) -> float:
        """α: mean acceptance over the positions of a text."""
        mean = self.stationary @ self.betas
        return float(np.clip(mean, self.betas.min(), self.betas.max()))  # sums round


def sticky_chain(betas: ArrayLike, correlation: float, weights: ArrayLike | None = None) -> Chain:
    """The chain that keeps its state with probability ρ and else draws a new one from `weights`.

    The correlation of b between positions k apart is ρ^k. Every chain of two states is one of
    these; without weights it is the symmetric one.

    Parameters
    ----------
    betas : (S,) in [0, 1]
    correlation : ρ below 1; negative down to where a probability would be negative, -1 for two
        equally likely states. What ρ → 1 leads to is `clustered_limits`.
    weights : (S,), share of each state; None: equal shares
    """
    values, shares = _states(betas, weights)
    certain = shares == 1
    with np.errstate(divide="ignore"):
        least = -np.where(certain, np.inf, shares / (1 - shares)).min()
    allowed = f"in [{least:.6g}, 1)"
    rho = domains.number(
        "correlation", correlation, allowed, lambda x: (x >= least - ROUNDING) & (x < 1)
    )
    moves = rho * np.eye(len(values)) + (1 - rho) * shares
    return Chain(values, np.maximum(moves, 0.0))


# ---- Tokens per round ------------------------------------------------------------------------


def tokens_from(chain: Chain, gamma: int) -> Floats:
    """(S,): expected tokens of a round of gamma drafts whose first draft is in state s."""
    tokens = np.ones(len(chain.betas))
    for _ in range(whole("gamma", gamma)):
        tokens = 1 + chain.betas * (chain.moves @ tokens)
    return tokens


def stationary_start(chain: Chain, gamma: int) -> float:
    """Expected tokens of a round that starts at a random position of the text."""
    return float(chain.stationary @ tokens_from(chain, gamma))


def round_starts(chain: Chain, gamma: int) -> Floats:
    """(S,): share of the rounds of a long run whose first draft is in state s, the stationary law
    of K."""
    return _stationary(f"rounds of gamma={gamma}", _between_rounds(chain, gamma))


def long_run(chain: Chain, gamma: float) -> float:
    """Tokens per call of the target in a long run; 1 / (1 - mean of b) at gamma = inf.

    At gamma = inf a round ends in a rejection only, and these are 1 - α of all positions however
    they cluster: correlation costs nothing then.
    """
    if gamma == np.inf:
        return float(expected_tokens(chain.mean, np.inf))
    length = whole("gamma", gamma)
    tokens = float(round_starts(chain, length) @ tokens_from(chain, length))
    return min(tokens, length + 1.0)  # sums round


def examined_acceptance(chain: Chain, gamma: int) -> float:
    """Accepted / examined drafts of a long run, those behind a rejection not examined; gamma >= 1.

    Not the α of the text, `Chain.mean`: rounds begin, and so test, where it is hard.
    """
    starts = round_starts(chain, whole("gamma", gamma, 1))
    examined = starts @ tokens_from(chain, gamma - 1)  # draft k + 1 where k were accepted
    return float((starts @ tokens_from(chain, gamma) - 1) / examined)


def hazards(chain: Chain, gamma: int, starts: ArrayLike | None = None) -> Floats:
    """(G,): acceptance at position 1 .. G of a round given that it was reached; NaN where never.

    starts : (S,), law of the first draft's state: None for a long run's, `chain.stationary` for a
        random position
    """
    if starts is None:
        law = round_starts(chain, gamma)
    else:
        law = _shares("starts", starts, len(chain.betas))
    rates = np.full(whole("gamma", gamma), np.nan)
    for i in range(len(rates)):
        accepted = law * chain.betas
        if law.sum() > 0:
            rates[i] = accepted.sum() / law.sum()
        law = accepted @ chain.moves
    return rates


class Limits(NamedTuple):
    """Tokens per round where states last for ever."""

    long_run: float
    stationary_start: float


def clustered_limits(betas: ArrayLike, gamma: int, weights: ArrayLike | None = None) -> Limits:
    """The limits ρ → 1 of `long_run` and `stationary_start`: the harmonic and the arithmetic mean
    of equation (1) over the states, weighted by their shares (S,) of the text.

    Long easy and hard stretches: each text has its own tokens per call E(b_s), and calls, not
    tokens, add up to the whole. 1 / E is convex in the acceptance, so the harmonic mean is below
    equation (1) at the mean acceptance, E convex, so the arithmetic mean is above.
    """
    values, shares = _states(betas, weights)
    tokens = expected_tokens(values, whole("gamma", gamma))
    return Limits(float(1 / (shares @ (1 / tokens))), float(shares @ tokens))


# ---- The same by throwing coins --------------------------------------------------------------


class Simulated(NamedTuple):
    """Rounds along simulated texts.

    tokens : tokens per call of the target, clustered by text
    examined, accepted : (G,) how many drafts at each position of a round were tested, and accepted
    """

    tokens: Estimate
    examined: Floats
    accepted: Floats


def simulate(
    chain: Chain,
    gamma: int,
    rng: np.random.Generator,
    *,
    texts: int = 1000,
    rounds: int = 100,
    skipped: int = 30,
    ahead: int = 0,
) -> Simulated:
    """Walk along independent texts round after round, coin by coin, without a formula.

    Parameters
    ----------
    texts : >= 2, each with its own states
    rounds : of each text that are counted, >= 1
    skipped : rounds before them, so that they start where those of a long run do
    ahead : positions that pass before the first round: with rounds=1, skipped=0 and enough of
        them, a round from a stationary start
    """
    gamma, texts, rounds = (
        whole("gamma", gamma),
        whole("texts", texts, 2),
        whole("rounds", rounds, 1),
    )
    skipped, ahead = whole("skipped", skipped), whole("ahead", ahead)
    edges = np.cumsum(chain.moves, axis=1)[:, :-1]
    states = rng.integers(len(chain.betas), size=texts)
    everywhere = np.ones(texts, np.bool_)

    def pass_position(where: Bools) -> None:
        drawn = (rng.random((texts, 1)) >= edges[states]).sum(axis=1)
        np.copyto(states, drawn, where=where)

    for _ in range(ahead):
        pass_position(everywhere)
    tokens, examined, accepted = np.zeros(texts), np.zeros(gamma), np.zeros(gamma)
    for i in range(skipped + rounds):
        counted = i >= skipped
        drafting = everywhere
        for position in range(gamma):
            passed = drafting & (rng.random(texts) < chain.betas[states])
            examined[position] += counted * drafting.sum()
            accepted[position] += counted * passed.sum()
            tokens += counted * passed
            pass_position(drafting)  # an accepted draft, or the correction
            drafting = passed
        pass_position(drafting)  # the bonus token
        tokens += counted
    mean = clustered_ratio(tokens, np.full(texts, rounds))
    name = f"tokens per call, simulated, γ = {gamma}"
    return Simulated(estimate(name, mean, texts * rounds, 1.0, gamma + 1.0), examined, accepted)


# ---- Behind them -----------------------------------------------------------------------------


def _states(betas: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    """Acceptances and shares, (S,) each."""
    values = domains.numbers("betas", betas, "in [0, 1]", domains.in_unit)
    if values.ndim != 1 or not values.size:
        raise ValueError(f"betas must be one row (S,), got shape {values.shape}")
    if weights is None:
        return values, np.full(len(values), 1 / len(values))
    return values, _shares("weights", weights, len(values))


def _shares(name: str, value: ArrayLike, states: int) -> Floats:
    shares = domains.law(name, value)
    if shares.shape != (states,):
        raise ValueError(f"{name} must be ({states},) as betas, got {shares.shape}")
    return shares


def _between_rounds(chain: Chain, gamma: int) -> Floats:
    """K (S, S): from the state at which a round starts to that of the next round's start."""
    passed = chain.betas[:, None] * chain.moves
    rejected = chain.moves - passed
    between = chain.moves
    for _ in range(whole("gamma", gamma)):
        between = rejected + passed @ between
    return between


def _stationary(name: str, moves: Floats) -> Floats:
    """The law (S,) with π P = π, if there is only one."""
    balance = np.eye(len(moves)) - moves
    if np.linalg.matrix_rank(balance) < len(moves) - 1:
        raise ValueError(f"{name} must have one stationary law, got {moves.tolist()}")
    try:
        solved = np.linalg.solve((balance + 1).T, np.ones(len(moves)))  # π (1 - P) = 0, Σ π = 1
    except np.linalg.LinAlgError:  # states that are left once in 10^16 positions
        raise ValueError(f"{name} must have one stationary law, got {moves.tolist()}") from None
    law: Floats = np.maximum(solved, 0.0)
    law /= law.sum()
    return law
