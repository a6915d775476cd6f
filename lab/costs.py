"""What a round costs in seconds, part by part, and the speed-up that follows.

Theorem 3.8 charges a round γ c + 1: a pass of the target costs the same for any number of rows,
each draft costs the same, nothing else costs anything. `Costs` takes each part from a clock:

    round(γ) = target(γ + 1 rows) + draft(γ) + sample(γ + 1 rows) + per_round(γ)

and plain decoding is round(0), one row and no draft. Numbers give the theorem back, up to its unit;
tables and functions give what was measured. Letters as in `lab.theory`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from lab import domains, theory
from lab.optimum import TIE

Seconds = float | Callable[[int], float]
Tokens = Callable[[int], float]  # tokens per round at a gamma: replayed, measured, or a formula


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds (or any one unit) of the parts of a round, each a number or a function.

    Attributes
    ----------
    target : seconds of a pass of the target over n rows, n >= 1; a number: however many rows. > 0
    draft : seconds of a whole round's drafting, asked for gamma >= 1 (no draft costs nothing); a
        number: of each drafted token. >= 0
    sample : seconds in which n rows of logits become laws, draws and a verdict; a number: of each
        row. >= 0
    per_round : seconds of the loop itself, asked for gamma >= 0; a number: of every round, a token
        of plain decoding included. >= 0
    """

    target: Seconds
    draft: Seconds
    sample: Seconds = 0.0
    per_round: Seconds = 0.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not callable(getattr(self, name)):
                _checked(name, getattr(self, name), above=name == "target")

    def parts(self, gamma: int) -> dict[str, float]:
        """Seconds of each part of a round with gamma >= 0 drafts, by name."""
        gamma = domains.whole("gamma", gamma)
        rows = gamma + 1
        return {
            "target": _asked("target", self.target, rows, 1, above=True),
            "draft": _asked("draft", self.draft, gamma, gamma) if gamma else 0.0,
            "sample": _asked("sample", self.sample, rows, rows),
            "per_round": _asked("per_round", self.per_round, gamma, 1),
        }

    def round(self, gamma: int) -> float:
        """Seconds of a round with gamma >= 0 drafts."""
        return sum(self.parts(gamma).values())

    def plain(self) -> float:
        """Seconds per token of plain decoding."""
        return self.round(0)

    def speedup(self, tokens_per_round: float | Tokens, gamma: int) -> float:
        """Factor by which wall time improves: tokens per round × plain() / round(gamma).

        Parameters
        ----------
        tokens_per_round : in [1, gamma + 1], the target's own token included; or a function that
            gives it for gamma
        gamma : >= 0

        Returns
        -------
        float
            Theorem 3.8 for `Costs(1, c)` and equation (1); 1 at gamma = 0.

        Raises
        ------
        ValueError
            Tokens that no round can have, costs that are negative or not finite.
        """
        gamma = domains.whole("gamma", gamma)
        name, tokens = "tokens_per_round", tokens_per_round
        if callable(tokens):
            name, tokens = f"tokens_per_round({gamma})", tokens(gamma)
        most = (gamma + 1) * (1 + TIE)
        tokens = domains.number(
            name, tokens, f"in [1, gamma + 1 = {gamma + 1}]", lambda x: (x >= 1) & (x <= most)
        )
        return tokens * self.plain() / self.round(gamma)


def best_gamma(
    tokens: float | Tokens, costs: Costs, max_gamma: int | None = None
) -> tuple[int, float]:
    """The integer gamma with the largest speed-up under these costs, and that speed-up.

    As `theory.best_gamma`: speed-ups equal within 1e-12 (relative) go to the smaller gamma, and
    what does not gain more than that is not worth drafting: (0, 1.0).

    Parameters
    ----------
    tokens : alpha in [0, 1], for equation (1); or a function from gamma to tokens per round, such
        as what was replayed or measured
    costs : of a round
    max_gamma : the largest gamma tried, >= 0. It can be left out only where alpha and all costs are
        numbers; then the optimum is the true one. Nothing bounds the search in a function.

    Raises
    ------
    ValueError
        No max_gamma where it is needed, or where the speed-up grows without end.
    """
    cap = None if max_gamma is None else domains.whole("max_gamma", max_gamma)
    if not callable(tokens):
        alpha = domains.number("alpha", tokens, "in [0, 1]", domains.in_unit)
        ratio = _draft_ratio(costs)
        if ratio is not None:
            gamma, speed = theory.best_gamma(alpha, ratio, max_gamma=cap)
            return int(gamma), float(speed)
        tokens = partial(theory.expected_tokens, alpha)
    if cap is None:
        raise ValueError(
            "max_gamma=None must be a number where tokens or a cost is a function: nothing else "
            "tells how far they go"
        )
    speeds = [1.0, *(costs.speedup(tokens, gamma) for gamma in range(1, cap + 1))]
    enough = max(speeds) * (1 - TIE)
    return next((gamma, speed) for gamma, speed in enumerate(speeds) if speed >= enough)


# ---- Costs that are no numbers ---------------------------------------------------------------


def measured(seconds: Mapping[int, float], what: str = "n") -> Callable[[int], float]:
    """Costs from a table of what was measured, without guesses in between: a ValueError names what
    is missing. `what` is the letter of the keys in it, such as "rows" or "gamma"."""
    table = {domains.whole(what, key): _checked(f"seconds[{key}]", seconds[key]) for key in seconds}

    def cost(n: int) -> float:
        if n not in table:
            raise ValueError(f"{what}={n} must be one of those measured, {sorted(table)}")
        return table[n]

    return cost


def one_pass(seconds: float) -> Callable[[int], float]:
    """A drafter that makes all drafts of a round in one pass, whatever gamma is: `Costs.draft` of
    parallel heads and masked drafts, and with 0 of prompt lookup."""
    seconds = _checked("seconds", seconds)
    return lambda gamma: seconds


def catching_up(
    draft_pass: Callable[[int], float], full_acceptance: float | Callable[[int], float]
) -> Callable[[int], float]:
    """`Costs.draft` of a model that drafts one token a pass, its catch-up row included.

    After a round whose drafts were all accepted, the model has not yet read the last of them: its
    next first pass has two rows. So a round costs gamma passes, one of them over 1 + f rows.

    Parameters
    ----------
    draft_pass : seconds of a pass of the draft over 1 or 2 rows
    full_acceptance : f, the share of rounds whose drafts are all accepted: a function of gamma; or
        alpha, for alpha^gamma
    """
    share = full_acceptance
    if not callable(share):
        alpha = domains.number("full_acceptance", share, "in [0, 1]", domains.in_unit)
        share = partial(pow, alpha)

    def cost(gamma: int) -> float:
        name = f"full_acceptance({gamma})"
        full = domains.number(name, share(gamma), "in [0, 1]", domains.in_unit)
        one, two = (_checked(f"draft_pass({n})", draft_pass(n)) for n in (1, 2))
        return (gamma - full) * one + full * two

    return cost


# ---- Behind them -----------------------------------------------------------------------------


def _draft_ratio(costs: Costs) -> float | None:
    """The c of Theorem 3.8, if all costs are numbers: what a draft adds to a round over plain()."""
    parts = (costs.target, costs.draft, costs.sample, costs.per_round)
    numbers = [float(part) for part in parts if not callable(part)]
    if len(numbers) < len(parts):
        return None
    target, draft, sample, per_round = numbers
    return (draft + sample) / (target + sample + per_round)


def _asked(name: str, cost: Seconds, n: int, times: int, above: bool = False) -> float:
    """A function's value at n, or `times` a number."""
    if callable(cost):
        return _checked(f"{name}({n})", cost(n), above)
    return float(cost) * times


def _checked(name: str, seconds: float, above: bool = False) -> float:
    if above:
        return domains.positive(name, seconds)
    return domains.cost(name, seconds)
