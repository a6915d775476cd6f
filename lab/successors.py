"""Formulas of the paper's appendix and of the papers that followed it, by source.

p = target, q = draft, gamma = drafts per round, as in `lab.theory`, which hands these on: floats or
arrays that broadcast, a float for floats. What a single round of verification keeps and spoils is
in `lab.rule_laws` and `lab.rulecost` (block verification, lenience), correlated acceptance in
`lab.chains`, measured costs in `lab.costs`. Shapes: V = vocabulary.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lab import domains
from lab.domains import Bools, FloatOrArray, Floats, plain

# ---- The paper's appendix (Leviathan, Kalman, Matias 2023) -----------------------------------


def one_shot_acceptance(target_probs: ArrayLike, draft_probs: ArrayLike) -> FloatOrArray:
    """What plain rejection sampling would accept: 1 / M with M = max p / q, that is, min q / p
    over the tokens with p > 0; (..., V) -> (...) (appendix A.2).

    It draws from q until a draft passes with p / (M q), so its tokens have the law p too; but it is
    never above Σ min(p, q), `acceptance`, and 0 as soon as the draft cannot say something that the
    target can.
    """
    target, draft = domains.laws(target_probs, draft_probs)
    small = np.minimum(target, draft)  # the least q / p is at most 1: no overflow where p is tiny
    ratios = np.divide(small, target, out=np.ones_like(target), where=target > 0)
    return plain(ratios.min(axis=-1))


def beam_rows(width: int, draft_width: int, gamma: int) -> int:
    """Rows that the target scores to check gamma steps of a draft's beam search: w + u gamma
    (appendix A.4).

    The draft searches with width u >= w >= 1; a step is kept as long as the target's w best are all
    among the draft's u, and the result is the target's own beam search. w = u = 1 is the gamma + 1
    rows of a round.
    """
    width = domains.whole("width", width, 1)
    return width + domains.whole("draft_width", draft_width, width) * domains.whole("gamma", gamma)


def lenient_at_zero(target_probs: ArrayLike, leniency: ArrayLike) -> Bools:
    """The tokens that lenience accepts at temperature 0: those with p(x) >= l max p (appendix A.5).

    p is the law before the temperature made it one-hot. The paper prints p(x) <= l max p, which
    would accept everything at l = 1, where only the most likely token (or its equals) may pass:
    the sign is a misprint. Lenience at other temperatures is `rulecost.lenience`.

    Parameters
    ----------
    target_probs : (..., V)
    leniency : l, above 0 and at most 1, for all rows, or (...)

    Returns
    -------
    (..., V) of bool
    """
    target = domains.law("target_probs", target_probs)
    least = domains.numbers(
        "leniency", leniency, "above 0 and at most 1", lambda x: (x > 0) & (x <= 1)
    )
    accepted: Bools = target >= least[..., None] * target.max(axis=-1, keepdims=True)
    return accepted


# ---- What a draft costs ----------------------------------------------------------------------


def t5_step_weights(
    d_model: int, d_ff: int, n_layers: int, n_heads: int, *, head_dim: int = 64, vocab: int = 32128
) -> int:
    """Weights that one decoding step of a T5 v1.1 reads: the decoder's and the head's.

    A layer has four matrices of self-attention, two of cross-attention (the encoder's keys and
    values are computed once a text), and three of a gated MLP.
    """
    sizes = {"d_model": d_model, "d_ff": d_ff, "n_layers": n_layers, "n_heads": n_heads}
    for name, size in (sizes | {"head_dim": head_dim, "vocab": vocab}).items():
        domains.whole(name, size, 1)
    layer = 6 * d_model * n_heads * head_dim + 3 * d_model * d_ff
    return n_layers * layer + vocab * d_model


def c_from_bytes(byte_ratio: ArrayLike, layer_ratio: ArrayLike, layer_time: ArrayLike) -> Any:
    """c = (r + x l) / (1 + x): a step reads its weights and pays a fixed time per layer.

    Parameters
    ----------
    byte_ratio : r, weight bytes of a draft's step over those of the target's, >= 0
    layer_ratio : l, the draft's layers over the target's, >= 0
    layer_time : x, all of the target's fixed times over the time in which its weights are read,
        >= 0; the one number that has to be fitted. At 0 c is the byte ratio.
    """
    read, layers = (
        domains.costs("byte_ratio", byte_ratio),
        domains.costs("layer_ratio", layer_ratio),
    )
    fixed = domains.costs("layer_time", layer_time)
    return plain((read + fixed * layers) / (1 + fixed))


def speedup_from_times(
    tokens: ArrayLike,
    gamma: ArrayLike,
    draft_time: ArrayLike,
    verify_time: ArrayLike,
    target_time: ArrayLike,
) -> FloatOrArray:
    """Ω T_T / (γ T_D + T_V): the speed-up from times of steps of whole batches (MagicDec, Chen et
    al. 2024, arXiv 2408.11049, equation 2).

    Parameters
    ----------
    tokens : Ω, tokens per round and sequence, the target's own included, in [1, gamma + 1]
    gamma : integers >= 0
    draft_time : T_D, of one draft step, >= 0
    verify_time : T_V, of the target's pass over gamma + 1 tokens a sequence, > 0
    target_time : T_T, of the target's plain step, > 0; all in one unit
    """
    gammas = domains.gammas(gamma, endless=False)
    omega = domains.numbers("tokens", tokens, "at least 1", lambda x: x >= 1)
    if (omega > gammas + 1).any():
        raise ValueError(f"tokens={tokens!r} must be at most gamma + 1, gamma={gamma!r}")
    drafting = gammas * domains.costs("draft_time", draft_time)
    round_time = drafting + domains.positives("verify_time", verify_time)
    return plain(omega * domains.positives("target_time", target_time) / round_time)


# ---- How far to draft ------------------------------------------------------------------------


def stop_threshold(draft_cost: ArrayLike, target_cost: ArrayLike, delta: ArrayLike = 0.0) -> Any:
    """Draft on until P(some candidate so far is rejected) reaches (c2 + Δ) / (c1 + c2 + Δ)
    (SpecDec++, Huang et al. 2024, arXiv 2405.19715, Theorem 3.1).

    One more draft is wasted, c1, where a candidate is already wrong; to stop is a target call too
    many, c2 and the loss Δ of what would have followed, where none is. Here the two weigh the same.

    Parameters
    ----------
    draft_cost : c1, seconds (or any unit) of one draft, > 0; not the ratio c
    target_cost : c2, of one target call, > 0
    delta : Δ >= 0
    """
    wasted = domains.positives("draft_cost", draft_cost)
    missed = domains.positives("target_cost", target_cost) + domains.costs("delta", delta)
    return plain(missed / (wasted + missed))


def next_gamma(gamma: int, accepted: int) -> int:
    """Hugging Face's schedule "heuristic": two drafts more after all were accepted, else one less,
    never below 1 (transformers, candidate_generator.py)."""
    gamma = domains.whole("gamma", gamma, 1)
    accepted = domains.whole("accepted", accepted, 0, gamma)
    return gamma + 2 if accepted == gamma else max(1, gamma - 1)


# ---- A draft that has a draft (cascades; Chen et al. 2023, arXiv 2312.11462) -------------------


def cascade_phi(alpha: ArrayLike, inner_alpha: ArrayLike, inner_gamma: int) -> FloatOrArray:
    """φ(a) = E[a^N], N the tokens of one inner round: 1 - (1 - a)(1 - (a b)^(k+1)) / (1 - a b).

    The draft is itself sped up: its own draft proposes k = inner_gamma tokens, each accepted with
    b = inner_alpha, and N is distributed as behind equation (1).
    """
    alphas, inner, length = _cascade(alpha, inner_alpha, inner_gamma)
    return plain(1 - (1 - alphas) * _powers(alphas * inner, length))


def cascade_tokens(
    alpha: ArrayLike, inner_alpha: ArrayLike, inner_gamma: int, inner_rounds: int
) -> FloatOrArray:
    """Tokens per call of the target after n inner rounds: (1 - a φ(a)^n) / (1 - a).

    Equation (1) with a gamma that is random, the sum of n inner rounds; right at a = 1, too. k = 0
    (no inner draft) is equation (1) at gamma = n.

    Parameters
    ----------
    alpha : a in [0, 1], the target's acceptance of the draft
    inner_alpha : b in [0, 1], the draft's acceptance of its own draft
    inner_gamma, inner_rounds : k, n >= 0
    """
    alphas, inner, length = _cascade(alpha, inner_alpha, inner_gamma)
    rounds = domains.whole("inner_rounds", inner_rounds)
    if rounds == 0:
        return plain(np.ones_like(alphas))
    added = _powers(alphas * inner, length)  # (1 - φ) / (1 - a)
    return plain(1 + alphas * added * _powers(1 - (1 - alphas) * added, rounds - 1))


def cascade_speedup(
    alpha: ArrayLike,
    inner_alpha: ArrayLike,
    inner_gamma: int,
    inner_rounds: int,
    c: ArrayLike,
    inner_c: ArrayLike,
) -> FloatOrArray:
    """The expected walltime improvement factor: `cascade_tokens` / (1 + n c1 + n k c2).

    c, inner_c : c1, c2 >= 0, time of a run of the draft, and of its draft, over one of the target.
    Checking k tokens costs the draft one run, as the paper has it.
    """
    tokens = cascade_tokens(alpha, inner_alpha, inner_gamma, inner_rounds)
    inner = domains.costs("c", c) + inner_gamma * domains.costs("inner_c", inner_c)
    return plain(tokens / (1 + inner_rounds * inner))


def _cascade(a: ArrayLike, b: ArrayLike, k: int) -> tuple[Floats, Floats, int]:
    inner = domains.numbers("inner_alpha", b, "in [0, 1]", domains.in_unit)
    alphas, inner = np.broadcast_arrays(domains.alphas(a), inner)
    return alphas, inner, domains.whole("inner_gamma", k)


def _powers(x: Floats, last: int) -> Floats:
    """1 + x + x² + … + x^last."""
    total = np.ones_like(x)
    for _ in range(last):
        total = 1 + x * total
    return total


# ---- Trees of drafts (Sequoia, Chen et al. 2024, arXiv 2402.12374) ------------------------------


def tree_value(positional: Sequence[Any], nodes: int, depth: int | None = None) -> Any:
    """Tokens per call that the best tree of at most `nodes` nodes yields, its root included.

    F(T) = Σ over nodes of the product of the acceptances along the path (Proposition 3.4), at its
    largest by dynamic programming: a root with one child more is worth what it was and P[b] times
    the best subtree below that child. The root is the token that is certain: F(1) = 1.

    Parameters
    ----------
    positional : P[0] >= P[1] >= ..: probability that the first, second, .. child is the one that is
        accepted; floats or fractions, of sum at most 1. One child alone is a chain: equation (1) at
        gamma = nodes - 1.
    nodes : >= 1
    depth : most nodes on a path, the root included, >= 1; None: no limit
    """
    rates, nodes, levels = _tree(positional, nodes, depth)
    below: list[Any] = [0] * (nodes + 1)  # the best value of at most m nodes, m = 0..nodes
    for _ in range(levels):
        row: list[Any] = [0] + [1] * nodes
        for rate in rates:  # m nodes for one child more
            row = [0] + [
                max(row[n - m] + rate * below[m] for m in range(n)) for n in range(1, nodes + 1)
            ]
        if row == below:
            break
        below = row
    return below[nodes]


def greedy_tree_value(positional: Sequence[Any], nodes: int, depth: int | None = None) -> Any:
    """`tree_value` without dynamic programming: the sum of the largest path products.

    A node is worth no more than its parent or its elder sibling, so the best nodes are a tree.
    """
    rates, nodes, levels = _tree(positional, nodes, depth)
    total: Any = 0
    waiting: list[Any] = [(-1, 1, len(rates), 0)]  # -value, level, rank, -value of the parent
    for _ in range(nodes):
        if not waiting:
            break
        value, level, rank, parent = heapq.heappop(waiting)
        total -= value
        if rank + 1 < len(rates):
            heapq.heappush(waiting, (parent * rates[rank + 1], level, rank + 1, parent))
        if rates and level < levels:
            heapq.heappush(waiting, (value * rates[0], level + 1, 0, value))
    return total


def _tree(rates: Sequence[Any], nodes: int, depth: int | None) -> tuple[list[Any], int, int]:
    checked = domains.numbers("positional", list(rates), "in [0, 1]", domains.in_unit)
    if checked.ndim != 1 or (np.diff(checked) > 0).any() or checked.sum() > 1 + domains.LAW_SUM:
        raise ValueError(f"positional={rates!r} must be one row, never rising, of sum at most 1")
    nodes = domains.whole("nodes", nodes, 1)
    levels = nodes if depth is None else min(nodes, domains.whole("depth", depth, 1))
    return list(rates), nodes, levels
