"""The real loop on real text, and replay along the very texts that it wrote.

Given the text a loop wrote, its acceptances are independent coins of known probability, so rounds
counted in the loop are rounds expected along its text and the noise of these coins; what kind of
text it is plays no part. At temperature 0 the coins have one side, and the two are identical.
Shapes: G texts, rounds (G, γ + 1) as in `lab.acceptance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from lab.acceptance import jackknife, rounds_seen, tokens_of
from lab.domains import Bools, Floats
from lab.engine import generate_many
from lab.estimate import rounds_allowed
from lab.measure import streams, texts_of
from lab.realtext import (
    DRAFTS,
    LOOKUP,
    cell_of,
    draft,
    draft_along,
    mean_of,
    prompts_of,
    target,
    target_laws_along,
)
from lab.replay import rounds_along
from lab.sampling import Sampling
from lab.stats import ClusteredMean, clustered_ratio
from lab.sweep import sweep
from lab.theory import expected_tokens

Key = tuple[str, str, float, int]  # kind of text, draft, temperature, γ


@dataclass(frozen=True)
class LoopCell:
    """One draft in the real loop on one kind of text.

    Attributes
    ----------
    alpha : mean β along the texts it wrote; of prompt lookup accepted / tested of its rounds
    positions : of these texts, or tested drafts
    loop : rounds of the loop that were allowed γ drafts
    replay : whole rounds expected along the same texts
    """

    kind: str
    draft: str
    temperature: float
    gamma: int
    alpha: ClusteredMean
    positions: int
    loop: Floats
    replay: Floats

    @property
    def eq1(self) -> float | None:
        """Equation (1) at alpha; None for prompt lookup, which often proposes less than γ."""
        if self.draft == LOOKUP:
            return None
        return float(expected_tokens(min(self.alpha.mean, 1.0), self.gamma))

    @cached_property
    def loop_tokens(self) -> ClusteredMean:
        """Tokens per call of the target."""
        return jackknife(lambda kept: tokens_of(self.loop[kept]), len(self.loop))

    @cached_property
    def replay_tokens(self) -> ClusteredMean:
        return jackknife(lambda kept: tokens_of(self.replay[kept]), len(self.loop))

    @cached_property
    def gap(self) -> ClusteredMean:
        """Loop over replay, less 1, with the error of the coins."""

        def over(kept: Bools) -> float:
            return tokens_of(self.loop[kept]) / tokens_of(self.replay[kept]) - 1

        return jackknife(over, len(self.loop))

    @property
    def identical(self) -> int:
        """Texts whose rounds are those of replay, one by one."""
        return int((self.loop == self.replay).all(axis=1).sum())


def loop_cells(
    keys: Sequence[Key], counts: dict[float, int], n_new: int, seed: int
) -> dict[Key, LoopCell]:
    """Every key's cell, on all cores; counts : prompts, by temperature."""
    jobs = [partial(loop_cell, *key, counts[key[2]], n_new, seed) for key in keys]
    return dict(zip(keys, sweep(jobs), strict=True))


def loop_cell(
    kind: str, name: str, temperature: float, gamma: int, count: int, n_new: int, seed: int
) -> LoopCell:
    """A draft in the loop on `count` prompts of a kind, in lockstep."""
    sampling = Sampling(temperature=temperature)
    prompts = prompts_of(kind, count, seed)
    cell = cell_of(kind, temperature, 3, DRAFTS.index(name), gamma)
    runs = generate_many(
        target(), draft(name), prompts, n_new, gamma, sampling=sampling,
        rngs=streams(count, seed, *cell),
    )  # fmt: skip
    texts = texts_of(prompts, runs)
    laws = target_laws_along(texts, sampling)
    along = draft_along(name, texts, laws, sampling, gamma)
    loop = rounds_seen(runs, gamma)
    if along.betas:
        alpha, positions = mean_of(along.betas), count * n_new
    else:
        tested = [sum(r.tested for r in rounds) for rounds in rounds_allowed(runs, gamma)]
        alpha, positions = clustered_ratio(loop[:, 1:].sum(axis=1), tested), sum(tested)
    replayed = rounds_along(along.accept, gamma)
    return LoopCell(kind, name, temperature, gamma, alpha, positions, loop, replayed)
