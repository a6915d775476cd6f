"""The one loop: exact speculative decoding (Leviathan et al. 2023, Algorithm 1).

`speculate` is a generator. It asks for forward passes and is sent the laws of their rows, so the
same loop runs alone (`drive`) and in lockstep with others (`lab.engine`), and under every dice.
p = target, q = draft. Shapes: V = vocabulary, k = drafts of a round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy.typing as npt

from lab.drafting import Drafting, Gamma
from lab.forward import Forward, Loop, drive
from lab.ledger import Ledger
from lab.sampling import Dice, Sampling, as_dice
from lab.text import Generation, Round, Text, View
from lab.verify import Proposal, Verdict, Verify, as_rule, as_verdict

__all__ = [
    "Forward",
    "Generation",
    "Proposal",
    "Round",
    "Verdict",
    "View",
    "autoregressive_generate",
    "speculate",
    "speculative_generate",
]

Array = npt.NDArray[Any]


def autoregressive_generate(
    target: Any,
    prompt: Sequence[int] | Array,
    n_new: int,
    *,
    sampling: Sampling = Sampling(),
    rng: Any,
    stop: Iterable[int] = (),
    ledger: Ledger | None = None,
    on_token: Callable[[int], object] | None = None,
) -> Generation:
    """Plain decoding: one token per target forward. Arguments as `speculative_generate`."""
    return drive(
        speculate(
            target, None, prompt, n_new, 0, sampling=sampling, rng=rng, stop=stop,
            target_ledger=ledger, on_token=on_token,
        )
    )  # fmt: skip


def speculative_generate(
    target: Any,
    draft: Any,
    prompt: Sequence[int] | Array,
    n_new: int,
    gamma: Gamma,
    *,
    sampling: Sampling = Sampling(),
    draft_sampling: Sampling | None = None,
    rng: Any,
    stop: Iterable[int] = (),
    rule: Any = "token",
    target_ledger: Ledger | None = None,
    draft_ledger: Ledger | None = None,
    on_token: Callable[[int], object] | None = None,
) -> Generation:
    """Speculative decoding: the law of plain decoding, in fewer target forwards.

    Parameters
    ----------
    target : a language model: `vocab`, `new_cache()`, `forward(tokens, cache) -> (T, V)`
    draft : a language model of the same vocabulary, or a `lab.drafting.Drafter`
    prompt : at least one token
    n_new : new tokens at most; fewer after a stop token, or where a context ends
    gamma : drafts per round, or a function of the `View` that gives them
    sampling, draft_sampling : settings of the target, and of the draft where they differ
    rng : a `numpy.random.Generator`, or any dice
    stop : tokens that end the text; the first one is kept
    rule : name, object or function; see `lab.verify`
    on_token : called with every emitted token, in order

    Raises
    ------
    ValueError
        Names the argument, its value and what is allowed, before any forward.
    """
    return drive(
        speculate(
            target, draft, prompt, n_new, gamma, sampling=sampling, draft_sampling=draft_sampling,
            rng=rng, stop=stop, rule=rule, target_ledger=target_ledger, draft_ledger=draft_ledger,
            on_token=on_token,
        )
    )  # fmt: skip


def speculate(
    target: Any,
    draft: Any,
    prompt: Sequence[int] | Array,
    n_new: int,
    gamma: Gamma,
    *,
    sampling: Sampling = Sampling(),
    draft_sampling: Sampling | None = None,
    rng: Any,
    stop: Iterable[int] = (),
    rule: Any = "token",
    target_ledger: Ledger | None = None,
    draft_ledger: Ledger | None = None,
    on_token: Callable[[int], object] | None = None,
) -> Loop[Generation]:
    """The loop; arguments as `speculative_generate`. Draft None is plain decoding."""
    dice, decide = as_dice(rng), as_rule(rule)
    _check_sampling(sampling=sampling, draft_sampling=draft_sampling)
    _check_ledgers(target_ledger=target_ledger, draft_ledger=draft_ledger)
    text = Text(target, prompt, n_new, sampling, stop, target_ledger, on_token)
    drafting = Drafting(draft, draft_sampling or sampling, text, gamma, draft_ledger)
    yield from text.prefill()
    while text.finish is None:
        with text.round(drafting.allowed(), drafting.cache):
            proposal = yield from drafting.propose(dice)  # k tokens, (k, V)
            target_probs = yield from text.score(proposal)  # (k + 1, V), one target pass
            verdict = verify(decide, target_probs, proposal, dice)  # arrays only
            text.commit(proposal, verdict)  # appends, cuts after a stop token
            drafting.settle()  # the draft forgets what was rejected; the target's cache follows
    return text.generation(drafting.calls)


def verify(decide: Verify, target_probs: Array, proposal: Proposal, dice: Dice) -> Verdict:
    """Ask the rule; without drafts there is nothing to ask, the one row is drawn from."""
    if not len(proposal):
        return Verdict((), dice.choose(target_probs[0]), 0)
    try:
        answer = decide(target_probs, proposal, dice)
    except TypeError as error:
        if "argument" in str(error):
            error.add_note("a rule takes (target_probs, proposal, dice); see lab.verify.chain_rule")
        raise
    return as_verdict(answer, len(proposal), target_probs.shape[1])


def _check_sampling(**settings: Sampling | None) -> None:
    for name, value in settings.items():
        if not (isinstance(value, Sampling) or (value is None and name == "draft_sampling")):
            raise ValueError(f"{name}={value!r} must be a lab.sampling.Sampling")


def _check_ledgers(**ledgers: Ledger | None) -> None:
    for name, value in ledgers.items():
        if value is not None and not (hasattr(value, "add") and hasattr(value, "phase")):
            raise ValueError(f"{name}={value!r} must be a lab.ledger.Ledger, or None")
