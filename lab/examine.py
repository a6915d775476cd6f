"""Cases on which a user's rule is examined: its exact law, and what it emits, in each of them.

First one round by itself: laws that depend on the whole prefix, completed by the target. Then the
real loop. Each beside the shipped rules `token` and `block`. V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import domains
from lab.exact import EXACT, Audit, Difference, Law, audit_loop, round_difference, round_law
from lab.ngram import PromptLookup
from lab.rule_laws import PrefixLaw, block_tokens, token_tokens
from lab.small import TableLM, random_laws
from lab.userrule import Trouble
from lab.verify import Verify
from lab.watch import Watch

Array = npt.NDArray[Any]
Tokens = tuple[float, float, float]  # expected per round: of the rule, of `token`, of `block`
Measure = Callable[[Verify], tuple[Difference, Tokens]]

MAX_TEXTS = 1_500  # V^(gamma + 1) texts of a round
RANDOM_SETS, OTHER_SETS = 24, 2  # sets of laws for a case at gamma 1; the worst one is told
PROMPT = (0, 1, 2, 0)  # of the loop, modulo V; its end is found again by prompt lookup


@dataclass(frozen=True)
class Finding:
    """A rule in one case.

    difference : from the law that should come out; of several sets of laws, the largest
    tokens, token_tokens, block_tokens : expected tokens per round of the rule, of `token` and of
        `block`: E tokens / E rounds
    """

    case: str
    gamma: int
    vocab: int
    difference: Difference
    tokens: float
    token_tokens: float
    block_tokens: float

    @property
    def exact(self) -> bool:
        return self.difference.total_variation <= EXACT


def examine(watch: Watch, gammas: Sequence[int], vocab: int = 3, seed: int = 0) -> list[Finding]:
    """All cases for every gamma.

    Raises
    ------
    Trouble
        The rule cannot be examined: what it does is no function of its arguments and of the dice,
        or not what a rule may do.
    """
    vocab, seed = domains.whole("vocab", vocab, 2), domains.whole("seed", seed)
    texts = vocab ** (max(gammas) + 1)
    if texts > MAX_TEXTS:
        raise ValueError(
            f"vocab={vocab} and gamma={max(gammas)} make {texts} texts of a round, more than "
            f"{MAX_TEXTS}: take a smaller vocab or gamma"
        )
    found = []
    for gamma in gammas:
        for case, measure in (_rounds(gamma, vocab, seed) | _loops(gamma, vocab, seed)).items():
            watch.where = f"{case}, γ {gamma}"
            difference, tokens = measure(watch.rule)
            found.append(Finding(case, gamma, vocab, difference, *tokens))
    if not watch.asked:
        raise Trouble(
            f"{watch.user.name} draws nothing: it never asked the dice, so what it emits cannot "
            "have the target's law; call dice.accept(probability) and dice.choose(law)."
        )
    return found


# ---- One round --------------------------------------------------------------------------------


def _rounds(gamma: int, vocab: int, seed: int) -> dict[str, Measure]:
    """Laws of a target and of its draft: alike, apart, certain."""

    def laws(change: Callable[[Array, int], Array], *key: int) -> PrefixLaw:
        drawn = random_laws(vocab, seed, vocab, *key)
        return cache(lambda prefix: change(drawn(prefix), sum(prefix) + len(prefix)))

    def pairs(target: Any, draft: Any, sets: int) -> list[tuple[PrefixLaw, PrefixLaw]]:
        return [(laws(target, 0, i), laws(draft, 1, i)) for i in range(sets)]

    cases = {
        "random laws": pairs(_as_is, _as_is, RANDOM_SETS // gamma or 1),
        "draft = target": [(laws(_as_is, 0, i),) * 2 for i in range(OTHER_SETS)],
        "laws far apart": pairs(_without(0), _without(1), OTHER_SETS),
        "target at T = 0": pairs(_sharp, _as_is, OTHER_SETS),
        "certain drafts": pairs(_as_is, _sharp, OTHER_SETS),
    }
    return {case: partial(_round, sets, gamma) for case, sets in cases.items()}


def _round(
    sets: Sequence[tuple[PrefixLaw, PrefixLaw]], gamma: int, rule: Verify
) -> tuple[Difference, Tokens]:
    differences, tokens = [], []
    for target, draft in sets:
        emitted = round_law(rule, target, draft, gamma)
        differences.append(round_difference(emitted, target, gamma))
        others = (tokens_of(target, draft, gamma) for tokens_of in (token_tokens, block_tokens))
        tokens.append((_mean_length(emitted), *others))
    own, of_token, of_block = np.mean(tokens, axis=0).tolist()
    return max(differences, key=lambda found: found.total_variation), (own, of_token, of_block)


def _mean_length(law: Law) -> float:
    return float(sum(p * len(tokens) for tokens, p in law.items()))


def _as_is(law: Array, number: int) -> Array:
    return law


def _sharp(law: Array, number: int) -> Array:
    """Certainty of the likeliest token."""
    certain = np.zeros_like(law)
    certain[law.argmax()] = 1
    return certain


def _without(shift: int) -> Callable[[Array, int], Array]:
    """A law with one token left out; with another shift, another one."""

    def change(law: Array, number: int) -> Array:
        left = law.copy()
        left[(number + shift) % len(law)] = 0
        scaled: Array = left / left.sum()
        return scaled

    return change


# ---- The loop ---------------------------------------------------------------------------------


def _loops(gamma: int, vocab: int, seed: int) -> dict[str, Measure]:
    """Runs of gamma + 2 tokens of the loop that decodes everywhere else."""
    prompt = [token % vocab for token in PROMPT]
    laws = _tables(np.random.default_rng([seed, vocab, gamma]), vocab, gamma)
    target, draft = map(TableLM.of_probs, laws)
    short = TableLM.of_probs(laws[0], max_len=len(prompt) + gamma + 1)
    loop = partial(audit_loop, prompt=prompt, n_new=gamma + 2, gamma=gamma)
    cases = {
        "loop": partial(loop, target, draft),
        "loop, stop token": partial(loop, target, draft, stop=(1,)),
        "loop, context end": partial(loop, short, draft),
        "loop, lookup": partial(loop, target, PromptLookup(vocab)),
    }
    return {case: partial(_loop, audited) for case, audited in cases.items()}


def _loop(audited: Callable[..., Audit], rule: Verify) -> tuple[Difference, Tokens]:
    found = [audited(rule=one) for one in (rule, "token", "block")]
    own, of_token, of_block = (
        one.expected["emitted"] / one.expected["target_calls"] for one in found
    )
    return found[0].difference, (own, of_token, of_block)


def _tables(rng: np.random.Generator, vocab: int, gamma: int) -> Array:
    """Laws (2, V, V) of target and draft by the last token. The longer the round, the fewer tokens
    are possible in them, so that every branch can be taken."""
    possible = {1: (3,), 2: (2,)}.get(gamma, (2, 1))
    tables: Array = rng.dirichlet(np.ones(vocab), size=(2, vocab))
    for token in range(vocab):
        tables[:, token, rng.permutation(vocab)[possible[token % len(possible)] :]] = 0
    tables /= tables.sum(axis=-1, keepdims=True)
    return tables
