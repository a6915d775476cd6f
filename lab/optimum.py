"""The search behind `lab.theory.best_gamma` and `speedup_limit`, on plain checked floats.

S(γ) = E(γ) / (γ c + v(γ)) is Theorem 3.8 with a verify cost v; E(γ) is equation (1). At a constant
v it has one peak, which is bisected. A callable v is tried gamma by gamma, until what a constant
`least`, below which v never falls, would still allow cannot beat the best speed seen.
"""

import math
from bisect import bisect_left
from collections.abc import Callable

TIE = 1e-12  # speeds this close (relative) are equal, and a gain this small is none
SEARCH_LIMIT = 1_000_000  # gammas tried on a callable v before the search says that it gives up


def best(
    alpha: float,
    c: float,
    verify_cost: float | Callable[[int], float],
    least: float,
    cap: int | None,
) -> tuple[int, float]:
    """The smallest gamma <= cap whose speed equals the maximum within TIE, with its speed."""
    if callable(verify_cost):
        rising = _rising(alpha, c, verify_cost, least, cap)
        return next(cell for cell in rising if cell[1] >= rising[-1][1] * (1 - TIE))
    limit = _constant_supremum(alpha, c, verify_cost)
    if cap == 0 or limit <= 1 + TIE:
        return 0, 1.0
    if cap is None and _grows(alpha, c, verify_cost):
        raise ValueError(
            f"alpha={alpha} with c={c} has no best gamma: the speed-up grows without end towards "
            f"{limit:.6g}; give max_gamma, your own cap"
        )
    peak = _peak(alpha, c, verify_cost, cap)
    enough = _speed(alpha, peak, c, verify_cost) * (1 - TIE)
    gamma = 1 + bisect_left(
        range(1, peak), True, key=lambda g: _speed(alpha, g, c, verify_cost) >= enough
    )
    speed = _speed(alpha, gamma, c, verify_cost)
    return (gamma, speed) if speed > 1 + TIE else (0, 1.0)


def supremum(
    alpha: float, c: float, verify_cost: float | Callable[[int], float], least: float
) -> float:
    """Supremum of the speed over gamma >= 0, where S(0) = 1."""
    if callable(verify_cost):
        return _rising(alpha, c, verify_cost, least, None)[-1][1]
    return _constant_supremum(alpha, c, verify_cost)


def _rising(
    alpha: float, c: float, verify_cost: Callable[[int], float], least: float, cap: int | None
) -> list[tuple[int, float]]:
    """Every gamma that beats all before it, with its speed: from (0, 1.0) to the maximum."""
    rising = [(0, 1.0)]
    limit = _constant_supremum(alpha, c, least)
    if limit <= 1 + TIE or cap == 0:
        return rising
    stuck = ValueError(
        f"alpha={alpha} with c={c}: the search for the best gamma cannot stop, as speed-ups up to "
        f"{limit:.6g} are not excluded by least_verify_cost={least}; give max_gamma, your own cap"
    )
    if cap is None and _grows(alpha, c, least):
        raise stuck
    peak = _peak(alpha, c, least, cap)
    gamma = 1
    while cap is None or gamma <= cap:
        allowed = _speed(alpha, max(gamma, peak), c, least)  # to this gamma and to all after it
        if allowed <= rising[-1][1]:
            break
        if cap is None and gamma > SEARCH_LIMIT:
            raise stuck
        verify = verify_cost(gamma)
        if verify < least * (1 - TIE):
            raise ValueError(
                f"least_verify_cost={least} must not be above any verify cost, "
                f"got verify_cost({gamma})={verify}"
            )
        speed = _speed(alpha, gamma, c, verify)
        if speed > rising[-1][1]:
            rising.append((gamma, speed))
        gamma += 1
    return rising


def _constant_supremum(alpha: float, c: float, verify_cost: float) -> float:
    if not _grows(alpha, c, verify_cost):
        return max(1.0, _speed(alpha, _peak(alpha, c, verify_cost, None), c, verify_cost))
    if alpha < 1:
        return max(1.0, 1 / (1 - alpha) / verify_cost)
    return max(1.0, 1 / c) if c else math.inf


def _grows(alpha: float, c: float, verify_cost: float) -> bool:
    """Whether every further draft makes a round faster, at a constant verify cost."""
    return (c == 0 and alpha > 0) or (alpha == 1 and c < verify_cost)


def _peak(alpha: float, c: float, verify_cost: float, cap: int | None) -> int:
    """First gamma >= 1 whose successor is no faster, at a constant verify cost; at most `cap`.

    S(γ+1) > S(γ) holds where α^(γ+1) (γ c + v) > c E(γ). From γ to γ+1 the left side less the
    right changes by -(1-α) α^(γ+1) (γ c + c + v) <= 0: S rises up to one turn and never after
    it, so the turn can be bisected. The two sides compare well even where S itself is flat.
    """

    def falls(gamma: int) -> bool:
        return alpha ** (gamma + 1) * (gamma * c + verify_cost) <= c * _tokens(alpha, gamma)

    high = 1
    while not falls(high) and (cap is None or high < cap):
        high *= 2
    low = max(1, high // 2)
    turn = low + bisect_left(range(low, high), True, key=falls)
    return turn if cap is None else min(turn, cap)


def _speed(alpha: float, gamma: int, c: float, verify_cost: float) -> float:
    """Theorem 3.8 with a verify cost, for gamma >= 1."""
    return _tokens(alpha, gamma) / (gamma * c + verify_cost)


def _tokens(alpha: float, gamma: int) -> float:
    """Equation (1) as `theory.expected_tokens` has it, at a tenth of the time."""
    if alpha in (0.0, 1.0):
        return 1.0 + gamma * alpha
    return -math.expm1((gamma + 1) * math.log(alpha)) / (1 - alpha)
