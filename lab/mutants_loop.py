"""Mutants of the loop around the rule: dice, caches, ends, counters, lockstep, estimators.

See `lab.mutants`.
"""

from __future__ import annotations

from lab.drafting import Drafting, ModelDraft
from lab.engine import Pool
from lab.equation1 import eq1_gap
from lab.estimate import (
    accepted_per_drafted,
    alpha_from_rounds,
    rounds_allowed,
    tokens_and_calls,
    tokens_per_call,
)
from lab.mutation import Change, Edit, Mutant, text
from lab.replay import _acceptances
from lab.sampling import RandomDice
from lab.text import Text
from lab.theory import acceptance
from lab.verify import RULES

TOKEN_CHAIN = RULES["token"].verify  # the closure that chain_rule made for it
UNIFORM = "self.rng.random()"
LENGTH = 'truncate("target", self.cache, self.length - 1)'
# The lab's own assertions see some faults at once, which others do not have: they are taken out.
GUARD = "assert self.cache.length > found"
PREFIX_GUARD = "assert (self.fed[self.known : held] == tokens[self.known : held]).all()"
ROUND = "Round(self.allowed, drafted, verdict.tested, accepted, len(emitted), end)"

UNIFORMS = {
    "coin's uniform drawn with again": Mutant(
        "the draw after a coin takes the coin's own uniform",
        "uniforms",
        Change("dice", "uniforms", "total variation", 0.0, 0.5),
        Edit(
            RandomDice.accept,
            f"return bool({UNIFORM} < probability)",
            f"self.coin = {UNIFORM}\n    return bool(self.coin < probability)",
        ),
        Edit(RandomDice.choose, UNIFORM, f'(vars(self).pop("coin", None) or {UNIFORM})'),
    ),
    "draft's uniform is its coin": Mutant(
        "a coin takes the uniform of the draw before it",
        "uniforms",
        Change("dice", "uniforms", "total variation", 0.0, 0.25),
        Edit(
            RandomDice.choose,
            f"token = cumulative.searchsorted({UNIFORM}",
            f"self.drawn = {UNIFORM}\n    token = cumulative.searchsorted(self.drawn",
        ),
        Edit(RandomDice.accept, UNIFORM, f'(vars(self).pop("drawn", None) or {UNIFORM})'),
    ),
    "coin of two uniforms": Mutant(
        "a coin draws twice and compares the larger number",
        "uniforms",
        Change("dice", "uniforms", "uniforms a question", 1.0, 1.255),
        Edit(RandomDice.accept, UNIFORM, f"max({UNIFORM}, {UNIFORM})"),
    ),
    "last token never drawn": Mutant(
        "the uniform is scaled to the sum without the last token",
        "uniforms",
        Change("dice", "uniforms", "total variation", 0.0, 0.4375),
        Edit(RandomDice.choose, f"{UNIFORM} * total", f"{UNIFORM} * cumulative[-2]"),
    ),
    "impossible draft accepted at 0": Mutant(
        "u <= p in place of u < p: a coin of probability 0 says yes at u = 0",
        "uniforms",
        Change("dice", "uniforms", "wrong answers", 0.0, 4.0),
        Edit(RandomDice.accept, "< probability", "<= probability"),
    ),
    "impossible token drawn at 0": Mutant(
        "the cumulative sum is searched from the left: u = 0 gives the first token, always",
        "uniforms",
        Change("dice", "uniforms", "wrong answers", 0.0, 14.0),
        Edit(RandomDice.choose, 'side="right"', 'side="left"'),
    ),
    "cumulative sums in float32": Mutant(
        "a draw adds up its law in single precision",
        "uniforms",
        Change("dice", "uniforms", "wrong answers", 0.0, 12.0),
        Edit(RandomDice.choose, "np.float64", "np.float32"),
    ),
}

CACHES = {
    "target cache one too long": Mutant(
        "after a rejection the target keeps one rejected draft",
        "cache lengths",
        text("T .7, top-k 2", 0.3187),
        Edit(
            Text.round,
            LENGTH,
            LENGTH.replace("self.length - 1", "min(self.length, self.cache.length)"),
        ),
    ),
    "target cache one too short": Mutant(
        "the target's cache is cut to one position less than the text allows",
        "cache lengths",
        text("T .7, top-k 2", 0.2161),
        Edit(Text.round, LENGTH, LENGTH.replace("- 1", "- 2")),
        Edit(Text.round, GUARD, "assert True"),
    ),
    "target cache not rolled back": Mutant(
        "the target keeps all rejected drafts",
        "cache lengths",
        text("T .7, top-k 2", 0.2975),
        Edit(Text.round, LENGTH, "pass"),
    ),
    "target cache zeroed": Mutant(
        "after every round the target's cache is emptied, and not read again",
        "cache lengths",
        text("T .7, top-k 2", 0.2049),
        Edit(Text.round, LENGTH, LENGTH.replace("self.length - 1", "0")),
        Edit(Text.round, GUARD, "assert True"),
    ),
    "draft cache not rolled back": Mutant(
        "the draft keeps all rejected drafts",
        "cache lengths",
        Change("acceptance", "T .7, top-k 2", "accepted", 1.72, 1.646),
        Edit(ModelDraft.settle, 'truncate("draft", self.cache, held)', "pass"),
        Edit(
            ModelDraft.propose,
            "start = self.cache.length",
            "start = min(self.cache.length, end - 1)",
        ),
        Edit(ModelDraft.settle, PREFIX_GUARD, "assert True"),
    ),
}

LOCKSTEP = {
    "lockstep keeps the wrong rows": Mutant(
        "when a sequence leaves a batch, the first rows stay, not those still running",
        "lockstep",
        text("lockstep", 0.02682),
        Edit(Pool._settle, "select(staying)", "select(range(len(staying)))"),
    ),
    "lockstep answers the neighbour": Mutant(
        "two sequences in a batch are given each other's rows",
        "lockstep",
        text("lockstep", 0.7106),
        Edit(Pool.answer, "np.repeat(rows *", "np.repeat(rows[::-1] *"),
    ),
}

CATCH_UP = {
    "draft catch-up missing": Mutant(
        "after a full acceptance the draft never reads its own last token",
        "catch-up",
        Change("acceptance", "γ 1", "accepted", 1.753, 1.558),
        Edit(ModelDraft.propose, "start = self.cache.length", "start = end - 1"),
    ),
    "draft catch-up doubled": Mutant(
        "the draft reads the last token of its cache once more",
        "catch-up",
        Change("acceptance", "γ 1", "accepted", 1.753, 1.817),
        Edit(
            ModelDraft.propose,
            "start = self.cache.length",
            "start = max(self.cache.length - 1, 0)",
        ),
    ),
    "prompt's last token read twice": Mutant(
        "the target's prefill takes the whole prompt, and scoring its last token again",
        "catch-up",
        text("T .7, top-k 2", 0.2161),
        Edit(Text.prefill, "self.tokens[:-1]", "self.tokens"),
        Edit(Text.round, GUARD, "assert True"),
    ),
}

ENDS = {
    "stop seen at block ends only": Mutant(
        "a stop token inside a block is missed",
        "stop and length",
        text("stop", 0.4222),
        Edit(
            Text.commit,
            "if token in self.stop)",
            "if token in self.stop and i + 1 == len(emitted))",
        ),
    ),
    "stop seen only in drafts": Mutant(
        "the target's own token of a round is not compared with the stop tokens",
        "stop and length",
        text("stop", 0.5593),
        Edit(Text.commit, "enumerate(emitted)", "enumerate(emitted[:-1])"),
    ),
    "stop token not returned": Mutant(
        "the stop token is cut away with what follows it",
        "stop and length",
        text("stop", 0.9979),
        Edit(
            Text.generation,
            "self.tokens[self.start :]",
            'self.tokens[self.start : self.length - (self.finish == "stop")]',
        ),
    ),
    "limit before stop": Mutant(
        'a text that ends with a stop token at its limit is said to have ended by "length"',
        "stop and length",
        Change("counters", "stop", "stopped", 0.9979, 0.9814),
        Edit(Text.commit, "if self.finish is None and self.length", "if self.length"),
    ),
    "limit not looked at": Mutant(
        "a last block is drafted and kept whole, beyond what was asked for",
        "stop and length",
        text("γ 1", 0.3332),
        Edit(Drafting.allowed, "gamma, text.limit - text.length - 1", "gamma"),
        Edit(Text.__init__, "np.zeros(self.limit,", "np.zeros(self.limit + 99,"),
        Edit(Text.commit, "assert self.length + len(emitted) <= self.limit", "assert True"),
        Edit(Text.commit, "self.length == self.limit", "self.length >= self.limit"),
    ),
    "context ends one early": Mutant(
        "the last position of the target's context is never used",
        "stop and length",
        text("contexts end", 1.0),
        Edit(
            Text.__init__,
            "min(self.start + n_new, max_len)",
            "min(self.start + n_new, max_len - 1)",
        ),
    ),
}

COUNTERS = {
    "tested counts all drafts": Mutant(
        "drafts behind a rejection are counted as tested",
        "counters",
        Change("counters", "plain", "tested", 2.0, 2.237),
        Edit(TOKEN_CHAIN, "min(accepted + 1, len(drafts))", "len(drafts)"),
    ),
    "accepted counts the bonus": Mutant(
        "the target's own token is counted as an accepted draft",
        "counters",
        Change("counters", "plain", "accepted", 1.453, 3.0),
        Edit(Text.commit, ROUND, ROUND.replace("accepted", "accepted + 1")),
    ),
    "emitted counts what was cut": Mutant(
        "tokens behind a stop token are counted as emitted",
        "counters",
        Change("counters", "stop", "emitted", 1.895, 2.372),
        Edit(Text.commit, ROUND, ROUND.replace("len(emitted)", "accepted + 1")),
    ),
    "drafted counts the allowed": Mutant(
        "a draft that proposes fewer than γ tokens is counted as γ",
        "counters",
        Change("counters", "lookup", "drafted", 3.119, 3.718),
        Edit(Text.commit, ROUND, ROUND.replace("drafted", "self.allowed")),
    ),
    "calls count the prefill": Mutant(
        "the prompt's own forward is counted as a call",
        "counters",
        Change("counters", "plain", "target_calls", 1.547, 2.547),
        Edit(Text.generation, "len(self.rounds)", "len(self.rounds) + 1"),
    ),
    "corrections called bonuses": Mutant(
        "the origin of the target's own tokens is the wrong way round",
        "counters",
        Change("counters", "plain", "origin bonus", 1.0, 0.5467),
        Edit(Text.commit, '"bonus" if accepted == drafted', '"bonus" if accepted < drafted'),
    ),
}

ESTIMATORS = {
    "α as accepted / drafted": Mutant(
        "drafts behind a rejection, which nobody tested, are taken for rejected",
        "estimators",
        Change("estimator", "estimators", "alpha_from_rounds", 0.75, 0.6648),
        Edit(
            alpha_from_rounds, "= accepted / tested", "= accepted / sum(r.drafted for r in rounds)"
        ),
    ),
    "α as Σ p q": Mutant(
        "α is taken for the chance that a draw of either law is the same token",
        "estimators",
        Change("estimator", "estimators", "alpha_from_probs", 0.65, 0.27),
        Edit(acceptance, "np.minimum(target, draft)", "np.multiply(target, draft)"),
    ),
    "share with the bonus": Mutant(
        "(accepted + 1) / (drafted + 1)",
        "estimators",
        Change("estimator", "estimators", "accepted_per_drafted", 0.6648, 0.7831),
        Edit(
            accepted_per_drafted,
            "[r.accepted for r in rounds], drafted)",
            "[r.accepted + 1 for r in rounds], [d + 1 for d in drafted])",
        ),
    ),
    "mean of per-run means": Mutant(
        "tokens per call is averaged over runs, however many calls each had",
        "estimators",
        Change("estimator", "estimators", "tokens_per_call", 2.312, 2.477),
        Edit(
            tokens_per_call,
            "tokens[calls > 0], calls[calls > 0]",
            "tokens[calls > 0] / calls[calls > 0], np.ones(sum(calls > 0))",
        ),
    ),
    "tokens per call less the bonus": Mutant(
        "the target's own token of a round is left out",
        "estimators",
        Change("estimator", "estimators", "tokens_per_call", 2.312, 1.312),
        Edit(tokens_and_calls, "+ calls, calls", ", calls"),
    ),
    "short rounds averaged in": Mutant(
        "rounds that were allowed fewer than γ drafts count as rounds of γ",
        "estimators",
        Change("estimator", "estimators", "tokens_per_call", 2.312, 1.842),
        Edit(rounds_allowed, "r.allowed == gamma", "r.allowed <= gamma"),
    ),
    "replay with p / q": Mutant(
        "given the text, a draft is taken as accepted with min(1, p / q)",
        "estimators",
        Change("estimator", "estimators", "replay", 2.312, 2.641),
        Edit(_acceptances, "np.minimum(p, q) / p", "np.minimum(p, q) / q"),
    ),
    "equation (1) with γ for γ + 1": Mutant(
        "the expectation beside a measurement is that of one draft fewer",
        "estimators",
        Change("estimator", "estimators", "eq. (1)", 2.312, 1.75),
        Edit(eq1_gap, "expected_tokens(alpha, gamma)", "expected_tokens(alpha, gamma - 1)"),
    ),
}
