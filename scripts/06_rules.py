"""Which verification rule? What each is worth in tokens, and what it spoils.

p is the target's law, q the draft's, γ the drafts of a round (Leviathan, Kalman, Matias 2023).
Rules that keep the law of the text: token, the paper's; block, which judges the drafts together
(Sun et al. 2024); match, which keeps a draft that equals the target's own draw. Rules that change
it: lenient(l), which accepts with p / (l q) (appendix A.5), and after a rejection draws from
norm(p - l q), or where its name says so from norm(p - q); typical, which keeps what is likely
enough (Medusa).

How to read it. First the published toy, in fractions. Then small laws that depend on the text,
every branch taken: "bias" is the total variation of what comes out from the target's law, exactly.
Then what lenience buys. Last the target trained on Shakespeare: acceptance and bias at every
position of the held-out play, and the real loop. There the mean of what a rule keeps of given
drafts is known without its coins, so rules are compared on the very same drafts. "Luck" is what a
loop kept beyond that mean; "excess" says whether the text is likelier or less likely than the
target's own, in nats a token, and t is excess in standard errors. ± is one standard error,
clustered by text; without ± nothing is left to chance. Numbers to quote are those of the full run.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from lab import corpus, rule_laws, theory
from lab.console import Report, arguments, run
from lab.interval import in_stderrs
from lab.measure import cut_prompts
from lab.pairs import Pair, text_pair
from lab.paper import BLOCK_GAINS
from lab.rule_laws import PrefixLaw
from lab.rulecost import (
    CANDIDATES,
    Costs,
    RoundCost,
    Trade,
    costs,
    greedy,
    rational_laws,
    round_cost,
    trade,
)
from lab.ruletext import RuleRun, TextCells, measure_rules, run_rule
from lab.sampling import Sampling
from lab.stats import t_quantile
from lab.verify import RULES

THIRD = Fraction(1, 3)
TOY = (np.array([THIRD, 2 * THIRD]), np.array([2 * THIRD, THIRD]))  # p, q of Sun et al. 2024
FIX = tuple(np.array([Fraction(n, 10) for n in law]) for law in ((5, 3, 2), (2, 3, 5)))  # p, q
GAMMAS = (1, 2, 3)
LENIENCIES = tuple(Fraction(n, 10) for n in (10, 9, 7, 5, 3, 1))
DRAFTS = ("trained 2L", "trained 1L", "4-gram")
GAMMA = 4
LENIENT = ("lenient(1/2)", "lenient(3/10)")
OTHER_RESIDUAL = ("lenient(1/2, p - q)", "lenient(3/10, p - q)")  # of the same lenience
TYPICAL = RULES["typical"].name
LOOPED = ("token", "block", "match", *LENIENT, TYPICAL)
RULES_BY_GAMMA = {GAMMA: LOOPED, 8: ("token", "block")}
TEMPERATURES = (1.0, 0.7)
SEEN, READ = 32, 32  # tokens before the first position of a text, and positions of it
ROUNDING = 1e-12
RED = 1e-4  # chance that any comparison of a family is called different though none is


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(__doc__).parse_args(argv)
    fast = args.fast
    report = Report("Verification rules: cost against bias", args.json)
    print_toy(report)
    print_small_laws(report, args.seed, sets=3 if fast else 10)
    print_lenience(report, args.seed, pairs=20 if fast else 200)
    print_text(report, args.seed, prompts=8 if fast else 32, n_new=32 if fast else 64)
    report.close()


# ---- the published toy -------------------------------------------------------------------------


def print_toy(report: Report) -> None:
    target, draft = (lambda prefix, law=law: law for law in TOY)
    alike = CANDIDATES["match"].acceptance(*TOY)
    records = []
    for gamma in range(1, 6):
        forms = {
            "token": rule_laws.token_tokens(target, draft, gamma),
            "block": rule_laws.block_tokens(target, draft, gamma),
            "match": rule_laws.tokens_by_position([alike] * gamma),
        }
        for name, form in forms.items():
            assert form == round_cost(RULES[name], target, draft, gamma).tokens
        forms["circulating"] = rule_laws.circulating_tokens(target, draft, gamma)
        kept = {name: form - 1 for name, form in forms.items()}
        records.append({"gamma": gamma, **kept, "gain": float(kept["block"] / kept["token"] - 1)})
    report.section(
        "The published toy",
        f"Target {_law(TOY[0])}, draft {_law(TOY[1])}, whatever the text (Sun et al. 2024).",
    )
    report.records(
        "Accepted drafts a round: every branch taken (rulecost.round_cost), equal to the closed\n"
        "forms (rule_laws.token_tokens, block_tokens, tokens_by_position)",
        (
            ("γ", "gamma", ""),
            *((name, name, "") for name in ("token", "block", "match")),
            ("Σ min(q(x..), p(x..))", "circulating", ""),
            ("block\nover token", "gain", ".1%"),
        ),
        records,
        key="toy",
    )
    two = {name: str(records[1][name]) for name in ("circulating", "block")}
    report.say(
        "Block verification keeps Σ min over i of q(x_1..x_i) p(x_i+1..x_l): the most that a rule "
        "can keep if the text must have the target's law whatever follows (Theorem 2). The formula "
        f"in the last but one column circulates for it, and is too large: {two['circulating']} at "
        f"γ 2, where every branch gives {two['block']}.",
        **two,
    )


def _law(law: Sequence[Any]) -> str:
    return f"({', '.join(map(str, law))})"


# ---- laws that depend on the text --------------------------------------------------------------


def print_small_laws(report: Report, seed: int, sets: int) -> None:
    """Every rule on random laws, and at temperature 0."""
    found = [costs(target, draft, GAMMAS) for target, draft in _laws(seed, 1, sets)]
    at_0 = [costs(greedy(target), draft, GAMMAS) for target, draft in _laws(seed, 2, sets)]
    assert all(cost == one["token"] for one in at_0 for cost in one.values())
    records = [_mean(name, [one[name] for one in found]) for name in CANDIDATES]
    records.append({**_mean("token", [one["token"] for one in at_0]), "rule": "T = 0, every rule"})
    report.section(
        "Laws that depend on the text, exactly",
        f"V 3, a random law in fractions after every prefix; means over {sets} such sets. Every "
        "branch of a round is taken; where it ends early the target goes on. Bias is total "
        "variation: of the first token (at γ 1 also of both), and of γ + 1 tokens. A bias of 0 is "
        "the fraction 0.",
    )
    report.records(
        "Acceptance of the first draft, expected tokens of a round, bias of the first token and of "
        "γ + 1\n(rulecost.costs)",
        (
            ("rule", "rule", ""),
            ("the law\nof text", "kind", ""),
            ("accepted\nfirst", "accepted", ".3f"),
            *((f"tokens\nγ {gamma}", f"tokens, γ {gamma}", ".4f") for gamma in GAMMAS),
            ("bias\nfirst", "bias, first", ".3f"),
            *((f"bias\nγ {gamma}", f"bias, γ {gamma}", ".3f") for gamma in GAMMAS[1:]),
        ),
        records,
        key="small laws",
    )
    print_block_gain(report, found)


def _laws(seed: int, cell: int, sets: int) -> list[tuple[PrefixLaw, PrefixLaw]]:
    """Targets and drafts."""
    rngs = [np.random.default_rng([seed, cell, number]) for number in range(sets)]
    return [(rational_laws(rng, 3), rational_laws(rng, 3)) for rng in rngs]


def _mean(name: str, sets: Sequence[Sequence[RoundCost]]) -> dict[str, Any]:
    """The record of a rule: means over sets of (costs by γ)."""

    def mean(field: str, i: int) -> float:
        return float(sum(getattr(one[i], field) for one in sets) / len(sets))

    return {
        "rule": name,
        "kind": "lossless" if CANDIDATES[name].rule.lossless else "lossy",
        "accepted": mean("acceptance", 0),
        **{f"tokens, γ {gamma}": mean("tokens", i) for i, gamma in enumerate(GAMMAS)},
        "bias, first": mean("first_bias", 0),
        **{f"bias, γ {gamma}": mean("joint_bias", i) for i, gamma in enumerate(GAMMAS)},
    }


def print_block_gain(report: Report, found: Sequence[Costs]) -> None:
    gains = [
        [float(one["block"][i].tokens / one["token"][i].tokens - 1) for one in found]
        for i in range(len(GAMMAS))
    ]
    above = [sum(gain > 0 for gain in of_gamma) for of_gamma in gains]
    assert min(map(min, gains)) == max(gains[0]) == 0
    parts = [
        f"{n} at γ {gamma} (by {max(of_gamma):.1%} at most)"
        for gamma, n, of_gamma in zip(GAMMAS[1:], above[1:], gains[1:], strict=True)
    ]
    report.say(
        f"Block is never below token: of {len(found)} sets it is above in {' and '.join(parts)}; "
        "it is equal at γ 1 in all. At T = 0 all rules are one rule. The three lossless rules have "
        "no bias at all. Expected tokens, and what the lossy rules spoil of the first token, are "
        "their closed forms (rulecost.round_tokens, Candidate.bias), fraction for fraction.",
        above=above,
        gains=[max(of_gamma) for of_gamma in gains],
    )


# ---- lenience's trade --------------------------------------------------------------------------


def print_lenience(report: Report, seed: int, pairs: int) -> None:
    report.section(
        "What lenience buys",
        "A draft is accepted with min(1, p / (l q)). After a rejection the token comes from "
        "norm(p - l q), as the rule reads, or from norm(p - q). No rule that rejects as often has "
        "less total variation than max(0, TV(p, q) - rejections) (Yin et al. 2024): the bound.",
    )
    heading = f"p = {_law(FIX[0])}, q = {_law(FIX[1])}"
    of_fix = _print_trade(report, heading, [FIX], "lenience, one law")
    rng = np.random.default_rng([seed, 3])
    target, draft = rational_laws(rng, 8), rational_laws(rng, 8)
    laws = [(target((i,)), draft((i,))) for i in range(pairs)]
    heading = f"{pairs} pairs of random laws, V 8: means, and the largest out / p"
    _print_trade(report, heading, laws, "lenience, random laws")
    one, half = (of_fix[LENIENCIES.index(leniency)] for leniency in (1, Fraction(1, 2)))
    report.say(
        f"With l = 1/2 the first pair accepts {half['acceptance']:.2f} instead of "
        f"{one['acceptance']:.2f}. The residual norm(p - q) meets the bound exactly in all "
        f"{len(LENIENCIES) * (pairs + 1)} cells, the other never passes below it "
        f"({half['scaled_bias']:.4f} against {half['plain_bias']:.4f} here). Neither gives any "
        "token more than p / l.",
        scaled_bias=half["scaled_bias"],
        plain_bias=half["plain_bias"],
    )


def _print_trade(
    report: Report, heading: str, laws: Sequence[Any], key: str
) -> list[dict[str, float]]:
    records = [
        _mean_trade(leniency, [trade(p, q, leniency) for p, q in laws]) for leniency in LENIENCIES
    ]
    report.records(
        f"{heading} (rulecost.trade)",
        (
            ("l", "leniency", "g"),
            ("accepted", "acceptance", ".4f"),
            (f"eq. (1),\nγ {GAMMA}", "tokens", ".3f"),
            ("bias,\np - l q", "scaled_bias", ".4f"),
            ("bias,\np - q", "plain_bias", ".4f"),
            ("\nbound", "bound", ".4f"),
            ("out / p,\np - l q", "scaled_largest", ".3f"),
            ("out / p,\np - q", "plain_largest", ".3f"),
            ("\n1 / l", "most", ".3f"),
        ),
        records,
        key=key,
    )
    return records


def _mean_trade(leniency: Fraction, found: Sequence[Trade]) -> dict[str, float]:
    """Means, and the largest out / p, over pairs of laws."""
    for one in found:
        assert one.plain_bias == one.bound <= one.scaled_bias
        assert max(one.scaled_largest, one.plain_largest) <= 1 / leniency
    record = {
        name: float(sum(getattr(one, name) for one in found) / len(found))
        for name in ("acceptance", "scaled_bias", "plain_bias", "bound")
    }
    for name in ("scaled_largest", "plain_largest"):
        record[name] = float(max(getattr(one, name) for one in found))
    tokens = theory.expected_tokens(record["acceptance"], GAMMA)
    return record | {"leniency": float(leniency), "tokens": tokens, "most": float(1 / leniency)}


# ---- the trained model -------------------------------------------------------------------------


def print_text(report: Report, seed: int, prompts: int, n_new: int) -> None:
    """At every position of held-out text, and in the real loop."""
    pair = text_pair(seed, prompts)
    texts = cut_prompts(corpus.held_out_tokens(), prompts, SEEN + READ, seed, 4)
    cells = measure_rules(pair, DRAFTS, texts, SEEN, TEMPERATURES, n_new, RULES_BY_GAMMA, seed, 5)
    report.section(
        "The target trained on Shakespeare",
        f"Held-out play, {prompts} texts of {READ} positions after {SEEN} tokens; the loop on "
        f"{prompts} prompts, {n_new} new tokens each. Block keeps one draft alone as token does.",
    )
    print_positions(report, cells)
    print_loop(report, cells)
    print_gain(report, cells)
    print_text_at_0(report, pair, seed)
    print_summary(report, cells)


def print_positions(report: Report, cells: TextCells) -> None:
    records = []
    for draft in DRAFTS:
        for name in CANDIDATES:
            record: dict[str, Any] = {"draft": draft, "rule": name}
            for temperature in TEMPERATURES:
                at = cells.positions[temperature, draft][name]
                record[f"acceptance, T {temperature:g}"] = at.acceptance
                record[f"bias, T {temperature:g}"] = at.bias
            records.append(record)
    report.records(
        "Acceptance of one draft, and bias of the token that comes out, at every position\n"
        "(ruletext.at_positions)",
        (
            ("draft", "draft", ""),
            ("rule", "rule", ""),
            *(
                (f"T = {temperature:g}\n{header}", f"{name}, T {temperature:g}", ".3f")
                for temperature in TEMPERATURES
                for header, name in (("accepted", "acceptance"), ("bias", "bias"))
            ),
        ),
        records,
        key="positions",
    )


def print_loop(report: Report, cells: TextCells) -> None:
    """Tokens per call, measured and without coins, and what the target thinks of the text."""
    loops = [cells.loops[GAMMA, draft, rule] for draft in DRAFTS for rule in LOOPED]
    records = [_loop(loop, cells.loops[GAMMA, loop.draft, "token"]) for loop in loops]
    report.records(
        f"The real loop, T = 1, γ {GAMMA}: tokens per target call (estimate.tokens_per_call), and "
        "what the rule\nis worth on the token loop's drafts, without its coins (RuleRun.expects)",
        (
            ("draft", "draft", ""),
            ("rule", "rule", ""),
            ("\nmeasured", "measured", ".3f"),
            ("\nluck", "luck", "+.3f"),
            ("token's\ndrafts", "token_drafts", ".3f"),
            ("excess,\nnats a token", "excess", "+.3f"),
            ("\nt", "t", "+.1f"),
        ),
        records,
        key="loop",
    )
    compared = 2 * len(loops)
    critical = t_quantile(1 - RED / 2 / compared, len(loops[0].runs) - 1)
    beyond = [one for one in records if abs(one["t"]) > critical]
    assert all(abs(one["luck_t"]) <= critical for one in records)
    assert not any(CANDIDATES[one["rule"]].rule.lossless for one in beyond)
    names = [f"{one['rule']}, {one['draft']}" for one in beyond]
    report.say(
        "Luck is measured less what the loop's own drafts are worth: coins alone, 0 in the mean. "
        "Excess is the mean of -log p of what was written less the entropy of p: 0 in the mean for "
        "a lossless rule, whatever the text; above 0 the text is less likely than the target's "
        f"own, below 0 too likely. With {compared} comparisons of {len(loops[0].runs)} texts each, "
        f"|t| must exceed {critical:.1f} for a false alarm anywhere to have a chance of {RED:g}; "
        f"beyond it: {'; '.join(names) or 'none'}, and no lossless rule. No alarm proves nothing, "
        "the fractions above do. The other residual keeps as many drafts, so it is not run again.",
        critical=critical,
        beyond=names,
    )


def _loop(loop: RuleRun, token: RuleRun) -> dict[str, Any]:
    """The record of a loop, beside the token rule's."""
    return {
        "draft": loop.draft,
        "rule": loop.rule,
        "measured": (loop.measured.value, loop.measured.stderr),
        "own_drafts": loop.expects(loop.rule),
        "luck": loop.luck,
        "luck_t": in_stderrs(loop.luck),
        "token_drafts": token.expects(loop.rule),
        "excess": loop.surprise,
        "t": in_stderrs(loop.surprise),
    }


def print_gain(report: Report, cells: TextCells) -> None:
    """Block over token: between two loops, and on the same drafts."""
    found = [
        _gain(*(cells.loops[gamma, draft, rule] for rule in ("token", "block")))
        for gamma in RULES_BY_GAMMA
        for draft in DRAFTS
    ]
    report.records(
        "Block over token, tokens per call: of two loops, paired by prompt (RuleRun.less), and "
        "draft by draft\n(RuleRun.gain) in the rounds of either loop; relative to token",
        (
            ("draft", "draft", ""),
            ("γ", "gamma", ""),
            ("\ntoken", "token", ".2f"),
            ("\nblock", "block", ".2f"),
            ("of two\nloops", "loops", "+.3f"),
            ("token's\ndrafts", "same", "+.3f"),
            ("block's\ndrafts", "other", "+.3f"),
            ("\ngain", "relative", "+.1%"),
        ),
        found,
        key="gain",
    )
    assert min(one["least"] for one in found) > -ROUNDING
    gaps = [(abs(one["loops"].mean - one["same"].mean), one) for one in found]
    apart = max(gap / (one["loops"].stderr + one["same"].stderr) for gap, one in gaps)
    sharper = min(one["loops"].stderr / one["same"].stderr for one in found)
    published = ", ".join(f"+{cell.printed}% at {cell.row}" for cell in BLOCK_GAINS)
    report.say(
        f"On none of {sum(one['paths'] for one in found)} drafted paths is block worth less than "
        f"token. Two loops would need at least {sharper**2:.0f} times as many prompts for the "
        "errors of the same drafts, from which they differ by "
        f"{apart:.1f} times both errors together at most. The published gains, of other models on "
        f"other texts: {published} ({BLOCK_GAINS[0].table}).",
        apart=apart,
        sharper=sharper,
    )


def _gain(token: RuleRun, block: RuleRun) -> dict[str, Any]:
    """The record of two loops with one draft and one γ."""
    pair = ("block", "token")
    same = token.gain(*pair)
    return {
        "draft": token.draft,
        "gamma": token.gamma,
        "token": (token.measured.value, token.measured.stderr),
        "block": (block.measured.value, block.measured.stderr),
        "loops": block.less(token),
        "same": same,
        "other": block.gain(*pair),
        "relative": same.mean / token.expects("token").mean,
        "least": min(token.least_gain(*pair), block.least_gain(*pair)),
        "paths": sum(map(len, token.expected + block.expected)),
    }


def print_text_at_0(report: Report, pair: Pair, seed: int) -> None:
    """Nothing to choose between the rules where the target has no choice."""
    prompts, n_new = pair.prompts[:4], 24
    texts = set()
    for rule in CANDIDATES:
        loop = run_rule(
            pair.target, pair.draft(DRAFTS[0]), prompts, n_new, GAMMA, rule, (), seed, 6,
            sampling=Sampling(temperature=0),
        )  # fmt: skip
        texts.add(tuple((*run.tokens, *(r.accepted for r in run.rounds)) for run in loop.runs))
    assert len(texts) == 1
    rounds = sum(len(run.rounds) for run in loop.runs)
    report.say(
        f"At T = 0 all {len(CANDIDATES)} rules write the same text, with the same drafts kept in "
        f"the same {rounds} rounds ({len(prompts)} prompts, {n_new} tokens, {DRAFTS[0]}).",
        rounds=rounds,
    )


def print_summary(report: Report, cells: TextCells) -> None:
    """What each rule is worth with the best draft, on the same drafts, and what it spoils."""
    draft = DRAFTS[0]
    token, at = cells.loops[GAMMA, draft, "token"], cells.positions[1.0, draft]
    base = token.expects("token").mean
    worth = {name: token.expects(name).mean / base - 1 for name in LOOPED}
    bias = {name: at[name].bias.mean for name in (*LENIENT, *OTHER_RESIDUAL, TYPICAL)}
    report.section(f"In short: {draft}, T = 1, γ {GAMMA}, on the same drafts")
    trades = [
        f"{name} gives {worth[name]:+.0%} for a bias of {bias[name]:.3f} at every drafted token, "
        f"{bias[other]:.3f} with the residual norm(p - q)"
        for name, other in zip(LENIENT, OTHER_RESIDUAL, strict=True)
    ]
    report.say(
        f"Token is worth {base:.2f} tokens a call. Without bias, block gives {worth['block']:+.1%} "
        f"and match {worth['match']:+.0%}; {'; '.join(trades)}; {TYPICAL} gives "
        f"{worth[TYPICAL]:+.1%} for {bias[TYPICAL]:.3f}.",
        worth=worth,
        bias=bias,
    )


if __name__ == "__main__":
    run(main)
