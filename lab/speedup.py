"""Cells of the speed-up tables: the real loop beside eq. (1), its ledger beside Thm 3.11."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lab import theory
from lab.engine import generate_many
from lab.equation1 import Gap, eq1_gap
from lab.estimate import Estimate, alpha_from_betas, tokens_per_call
from lab.intensity import one_token
from lab.ledger import MATMUL_OPS
from lab.measure import (
    Draft,
    LedgerRun,
    betas_along,
    count_plain,
    count_speculative,
    streams,
    texts_of,
)
from lab.pairs import Pair, random_pair
from lab.stats import GoodnessOfFit, goodness_of_fit
from lab.sweep import sweep
from lab.text import Generation

Array = npt.NDArray[Any]
Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LoopCell:
    """Runs of one draft at one γ, and β along what they wrote."""

    draft: str
    gamma: int
    runs: tuple[Generation, ...]
    betas: tuple[Array, ...]  # per prompt, at the positions of its own continuation

    @cached_property
    def alpha(self) -> Estimate:
        """Mean Σ min of these texts, clustered by prompt."""
        return alpha_from_betas(self.betas)

    @cached_property
    def tokens_per_call(self) -> Estimate:
        return tokens_per_call(self.runs, self.gamma)

    def gap(self, level: float, comparisons: int) -> Gap:
        """Measured tokens per call against eq. (1), as one of a family of comparisons."""
        return eq1_gap(self.runs, self.betas, self.gamma, level=level, comparisons=comparisons)

    @property
    def lag_correlation(self) -> float:
        """Correlation of β from one position to the next, pooled over the prompts."""
        mean = self.alpha.value
        pairs = [(beta[:-1] - mean, beta[1:] - mean) for beta in self.betas]
        together = sum(float(a @ b) for a, b in pairs)
        alone = sum(float(a @ a + b @ b) for a, b in pairs) / 2
        return together / alone if alone else 0.0


def loop_cells(
    target: Any,
    draft: Draft,
    prompts: Sequence[Tokens],
    n_new: int,
    gammas: Sequence[int],
    *cell: int,
) -> list[LoopCell]:
    """One draft at every γ on every prompt, T = 1, all in one lockstep."""
    all_prompts = [prompt for _ in gammas for prompt in prompts]
    runs = generate_many(
        target,
        draft.model,
        all_prompts,
        n_new,
        [gamma for gamma in gammas for _ in prompts],
        rngs=streams(len(all_prompts), *cell),
    )
    texts = texts_of(all_prompts, runs)
    betas = betas_along(target, draft.model, texts, [len(prompt) for prompt in all_prompts])
    cells = []
    for i, gamma in enumerate(gammas):
        own = slice(i * len(prompts), (i + 1) * len(prompts))
        cells.append(LoopCell(draft.name, gamma, tuple(runs[own]), tuple(betas[own])))
    return cells


def precise_cell(seed: int, prompts: int = 2048, gamma: int = 4) -> LoopCell:
    """The random model's bigram in a run that resolves about half a per cent; all cores."""
    pair = random_pair(seed, prompts)
    bigram, parts = pair.draft("bigram"), 4
    jobs = [
        partial(loop_cells, pair.target, bigram, pair.prompts[i::parts], 96, (gamma,), seed, 40, i)
        for i in range(parts)
    ]
    cells = [cell for found in sweep(jobs) for cell in found]
    runs = tuple(run for cell in cells for run in cell.runs)
    betas = tuple(beta for cell in cells for beta in cell.betas)
    return LoopCell(bigram.name, gamma, runs, betas)


@dataclass(frozen=True)
class AcceptedFit:
    """Accepted drafts per full-length round beside the truncated geometric law."""

    alpha: float  # accepted / tested of these rounds: the likelihood estimate
    counts: tuple[int, ...]  # rounds with 0..γ accepted
    law: Array  # (γ + 1,)
    test: GoodnessOfFit


def accepted_fit(cell: LoopCell) -> AcceptedFit:
    """χ² of the rounds that were allowed γ drafts; α is fitted, which costs a degree of freedom."""
    rounds = [r for run in cell.runs for r in run.rounds if r.allowed == cell.gamma]
    counts = np.bincount([r.accepted for r in rounds], minlength=cell.gamma + 1)
    alpha = sum(r.accepted for r in rounds) / sum(r.tested for r in rounds)
    law = theory.accepted_law(alpha, cell.gamma)
    return AcceptedFit(alpha, tuple(counts.tolist()), law, goodness_of_fit(counts, law, fitted=1))


@dataclass(frozen=True)
class SavingsCell:
    """Operations and bytes per token of one draft at one γ, over plain decoding; decode phase."""

    draft: str
    gamma: int
    alpha: float  # mean Σ min of these texts
    c_hat: float  # operations of the draft per token, over the target's (weight matrices)
    plain: LedgerRun
    run: LedgerRun

    @property
    def target_flops(self) -> float:
        """Of the target's weight matrices, per token, over plain decoding."""
        return self._over_plain("flops", MATMUL_OPS, draft=False)

    @property
    def target_reads(self) -> float:
        """Bytes of the target's weight matrices, per token, over plain decoding."""
        return self._over_plain("weight_bytes", MATMUL_OPS, draft=False)

    @property
    def flops(self) -> float:
        """All operations, the draft's too."""
        return self._over_plain("flops")

    @property
    def weight_bytes(self) -> float:
        return self._over_plain("weight_bytes")

    @property
    def kv_bytes(self) -> float:
        return self._over_plain("kv_read_bytes", more="kv_write_bytes")

    @property
    def bytes_per_token(self) -> float:
        return _bytes(self.run) / self.run.tokens

    @property
    def all_bytes(self) -> float:
        return self.bytes_per_token / (_bytes(self.plain) / self.plain.tokens)

    @property
    def rows_per_call(self) -> Fraction:
        """Mean rows per target call: the pending token and the drafts."""
        rounds = [r for run in self.run.runs for r in run.rounds]
        return Fraction(sum(r.drafted + 1 for r in rounds), len(rounds))

    @property
    def ops_over_reads(self) -> Fraction:
        """Operations ratio / read ratio of the target's matrices; exactly `rows_per_call`."""
        ratios = []
        for name in ("flops", "weight_bytes"):
            spent = Fraction(self.run.target.total(name, MATMUL_OPS, "decode"))
            ratios.append(spent / Fraction(self.plain.target.total(name, MATMUL_OPS, "decode")))
        return ratios[0] / ratios[1]

    def _over_plain(
        self, name: str, ops: Any = None, draft: bool = True, more: str | None = None
    ) -> float:
        spent = plain = 0.0
        for field in (name,) if more is None else (name, more):
            plain += float(self.plain.target.total(field, ops, "decode"))
            spent += float(self.run.target.total(field, ops, "decode"))
            if draft:
                spent += float(self.run.draft.total(field, ops, "decode"))
        return spent / self.run.tokens / (plain / self.plain.tokens)


@dataclass(frozen=True)
class PairCells:
    """All that script 04 measures on one pair."""

    loop: list[LoopCell]
    savings: list[SavingsCell]


def measure_pair(
    pair: Pair,
    n_new: int,
    gammas: Sequence[int],
    counted: Sequence[str],
    counted_gammas: Sequence[int],
    counted_prompts: int,
    seed: int,
) -> PairCells:
    """Every draft in the real loop, and the drafts named in `counted` in the ledger; all cores."""
    target, few = pair.target, pair.prompts[:counted_prompts]
    cells = [(pair.draft(name), gamma) for name in counted for gamma in counted_gammas]
    loops = [
        partial(loop_cells, target, draft, pair.prompts, n_new, gammas, seed, 10, i)
        for i, draft in enumerate(pair.drafts)
    ]
    runs = [
        partial(count_speculative, target, draft.model, few, n_new, gamma, seed, 30, i)
        for i, (draft, gamma) in enumerate(cells)
    ]
    plain_run = partial(count_plain, target, few, n_new, seed, 31)
    results = sweep([*loops, *runs, plain_run])
    plain = results.pop()
    whole = one_token(target, ops=MATMUL_OPS)
    loop = [cell for found in results[: len(loops)] for cell in found]
    savings = []
    for (draft, gamma), run in zip(cells, results[len(loops) :], strict=True):
        starts = [len(prompt) for prompt in few]
        betas = betas_along(target, draft.model, texts_of(few, run.runs), starts)
        c_hat = one_token(draft.model, ops=MATMUL_OPS).flops / whole.flops
        alpha = alpha_from_betas(betas).value
        savings.append(SavingsCell(draft.name, gamma, alpha, c_hat, plain, run))
    return PairCells(loop, savings)


def _bytes(run: LedgerRun) -> float:
    fields = ("weight_bytes", "kv_read_bytes", "kv_write_bytes")
    return float(
        sum(ledger.total(f, phase="decode") for ledger in (run.target, run.draft) for f in fields)
    )
