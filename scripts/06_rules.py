"""Which verification rule? What each is worth in tokens, and what it spoils.

p is the target's law, q the draft's, γ the drafts of a round (Leviathan, Kalman, Matias 2023).
Rules that keep the law of the text: token, the paper's; block, which judges the drafts together
(Sun et al. 2024); match, which keeps a draft that equals the target's own draw. Rules that change
it: lenient, which accepts with p / (l q) (appendix A.5); typical, which keeps what is likely enough
(Medusa).

How to read it. First the published toy, in fractions. Then small laws that depend on the text,
every branch taken: "bias" is the total variation of what comes out from the target's law, exactly.
Then what lenience buys. Last the target trained on Shakespeare: acceptance and bias at every
position of the held-out play, and the real loop. There the mean of what a rule keeps of given
drafts is known without its coins, so rules are compared on the very same drafts. ± is one standard
error, clustered by text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from lab import corpus, rule_laws, theory
from lab.console import Report, arguments, run, with_error
from lab.measure import cut_prompts
from lab.pairs import Pair, text_pair
from lab.rulecost import (
    CANDIDATES,
    RoundCost,
    Trade,
    circulating_tokens,
    expected_tokens,
    greedy,
    rational_laws,
    round_cost,
    trade,
)
from lab.ruletext import AtPositions, TextCells, measure_rules, run_rule
from lab.sampling import Sampling
from lab.stats import ClusteredMean, t_quantile

THIRD = Fraction(1, 3)
TOY = (np.array([THIRD, 2 * THIRD]), np.array([2 * THIRD, THIRD]))  # p, q of Sun et al. 2024
TOY_RULES = ("token", "block", "match")
FIX = tuple(np.array([Fraction(n, 10) for n in law]) for law in ((5, 3, 2), (2, 3, 5)))  # p, q
GAMMAS = (1, 2, 3)
LENIENCIES = tuple(Fraction(n, 10) for n in (10, 9, 7, 5, 3, 1))
DRAFTS = ("trained 2L", "trained 1L", "4-gram")
GAMMA = 4
LOOPED = ("token", "block", "match", "lenient 1/2", "lenient 3/10", "typical")
RULES_BY_GAMMA = {GAMMA: LOOPED, 8: ("token", "block")}
PUBLISHED = {4: (2.89, 2.99), 8: (3.41, 3.70)}  # Sun et al. 2024: tokens per call, token and block
TEMPERATURES = (1.0, 0.7)
SEEN, READ = 32, 32  # tokens before the first position of a text, and positions of it
ROUNDING = 1e-12
RED = 1e-4  # chance that any comparison of a family is called different though none is
LOSSLESS = tuple(name for name, one in CANDIDATES.items() if one.rule.lossless)
LOSSY = tuple(name for name in CANDIDATES if name not in LOSSLESS)


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
    rows, values = [], []
    for gamma in range(1, 6):
        found = {}
        for name in TOY_RULES:
            kept = round_cost(CANDIDATES[name].rule, target, draft, gamma).tokens - 1
            assert kept == expected_tokens(CANDIDATES[name], target, draft, gamma) - 1
            found[name] = kept
        assert found["token"] == rule_laws.token_tokens(target, draft, gamma) - 1
        assert found["block"] == rule_laws.block_tokens(target, draft, gamma) - 1
        found["circulating"] = circulating_tokens(target, draft, gamma) - 1
        assert found["block"] >= found["token"]
        assert (found["circulating"] > found["block"]) == (gamma > 1)
        gain = float(found["block"] / found["token"] - 1)
        rows.append([gamma, *map(str, found.values()), f"{gain:.1%}"])
        values.append({"gamma": gamma, **{name: str(kept) for name, kept in found.items()}})
    report.section(
        "The published toy",
        f"Target {_law(TOY[0])}, draft {_law(TOY[1])}, whatever the text (Sun et al. 2024).",
    )
    report.table(
        "Accepted drafts a round: every branch taken (rulecost.round_cost), equal to the closed\n"
        "forms (rule_laws.token_tokens, block_tokens; rulecost.expected_tokens)",
        ("γ", *TOY_RULES, "Σ min(q(x..), p(x..))", "block\nover token"),
        rows,
        key="toy",
        values=values,
    )
    two = values[1]
    report.say(
        "Block verification keeps Σ min over i of q(x_1..x_i) p(x_i+1..x_l): the most that a rule "
        "can keep if the text must have the target's law whatever follows (Theorem 2). The formula "
        f"in the last but one column circulates for it, and is too large: {two['circulating']} at "
        f"γ 2, where every branch gives {two['block']}.",
        circulating=two["circulating"],
        block=two["block"],
    )


def _law(law: Sequence[Any]) -> str:
    return f"({', '.join(map(str, law))})"


# ---- laws that depend on the text --------------------------------------------------------------


def print_small_laws(report: Report, seed: int, sets: int) -> None:
    """Every rule on random laws, and at temperature 0."""
    costs = [_costs_of(seed, number) for number in range(sets)]
    at_0 = [_costs_at_0(seed, number) for number in range(sets)]
    rows = [_rule_row(name, [one[name] for one in costs]) for name in CANDIDATES]
    zero = [_tokens(np.mean([float(one[i].tokens) for one in at_0])) for i in range(len(GAMMAS))]
    accepted = np.mean([float(one[0].acceptance) for one in at_0])
    rows.append(["T = 0, every rule", "lossless", f"{accepted:.3f}", *zero, *["0"] * len(GAMMAS)])
    report.section(
        "Laws that depend on the text, exactly",
        f"V 3, a random law in fractions after every prefix; means over {sets} such sets. Every "
        "branch of a round is taken; where it ends early the target goes on. Bias is total "
        "variation: of the first token (at γ 1 also of both), and of γ + 1 tokens. A bias of 0 is "
        "the fraction 0.",
    )
    report.table(
        "Acceptance of the first draft, expected tokens of a round, bias of the first token and of "
        'γ + 1\n(rulecost.round_cost); "p - q" is the residual that lenience draws from',
        (
            "rule",
            "the law\nof text",
            "accepted,\nfirst",
            *(f"tokens,\nγ {gamma}" for gamma in GAMMAS),
            "bias,\nfirst",
            *(f"bias,\nγ {gamma}" for gamma in GAMMAS[1:]),
        ),
        rows,
        key="small laws",
    )
    print_block_gain(report, costs)


Costs = Mapping[str, list[RoundCost]]  # by rule, one for each of GAMMAS


def _costs_of(seed: int, number: int) -> Costs:
    """All rules on one set of laws; each is what its closed form says."""
    rng = np.random.default_rng([seed, 1, number])
    target, draft = rational_laws(rng, 3), rational_laws(rng, 3)
    costs: dict[str, list[RoundCost]] = {}
    for name, one in CANDIDATES.items():
        costs[name] = [round_cost(one.rule, target, draft, gamma) for gamma in GAMMAS]
        p, q = target(()), draft(())
        for gamma, cost in zip(GAMMAS, costs[name], strict=True):
            assert cost.tokens == expected_tokens(one, target, draft, gamma)
            assert cost.acceptance == one.acceptance(p, q)
            assert cost.first_bias == one.bias(p, q)
            assert not one.rule.lossless or cost.joint_bias == 0
            assert gamma > 1 or cost.joint_bias == cost.first_bias
    for i, gamma in enumerate(GAMMAS):
        token, block = costs["token"][i].tokens, costs["block"][i].tokens
        assert token == rule_laws.token_tokens(target, draft, gamma)
        assert block == rule_laws.block_tokens(target, draft, gamma)
        assert block == token if gamma == 1 else block >= token
    return costs


def _costs_at_0(seed: int, number: int) -> list[RoundCost]:
    """A target at temperature 0, a draft that is not: every rule does the same."""
    rng = np.random.default_rng([seed, 2, number])
    target, draft = greedy(rational_laws(rng, 3)), rational_laws(rng, 3)
    costs = []
    for gamma in GAMMAS:
        found = {round_cost(one.rule, target, draft, gamma) for one in CANDIDATES.values()}
        (cost,) = found  # one for all rules
        assert cost.joint_bias == 0
        costs.append(cost)
    return costs


def _rule_row(name: str, sets: Sequence[Sequence[RoundCost]]) -> list[str]:
    """Means over sets of (costs by γ)."""
    lossless = name in LOSSLESS
    means = {
        field: np.mean([[float(getattr(cost, field)) for cost in one] for one in sets], axis=0)
        for field in ("tokens", "acceptance", "first_bias", "joint_bias")
    }
    return [
        name,
        "lossless" if lossless else "lossy",
        f"{means['acceptance'][0]:.3f}",
        *map(_tokens, means["tokens"]),
        "0" if lossless else f"{means['first_bias'][0]:.3f}",
        *("0" if lossless else f"{bias:.3f}" for bias in means["joint_bias"][1:]),
    ]


def _tokens(value: Any) -> str:
    return f"{value:.4f}"


def print_block_gain(report: Report, costs: Sequence[Costs]) -> None:
    gains = [
        [float(one["block"][i].tokens / one["token"][i].tokens - 1) for one in costs]
        for i in range(len(GAMMAS))
    ]
    above = [sum(gain > 0 for gain in of_gamma) for of_gamma in gains]
    parts = [
        f"{n} at γ {gamma} (by {max(of_gamma):.1%} at most)"
        for gamma, n, of_gamma in zip(GAMMAS[1:], above[1:], gains[1:], strict=True)
    ]
    report.say(
        f"Block is never below token: of {len(costs)} sets it is above in {' and '.join(parts)}; "
        "it is equal at γ 1 in all. At T = 0 all rules are one rule. The three lossless rules have "
        "no bias at all, and what the lossy ones spoil of the first token is their closed form, "
        "fraction for fraction.",
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
    of_fix = {leniency: [trade(*FIX, leniency)] for leniency in LENIENCIES}
    _print_trade(report, f"p = {_law(FIX[0])}, q = {_law(FIX[1])}", of_fix, "lenience, one law")
    rng = np.random.default_rng([seed, 3])
    target, draft = rational_laws(rng, 8), rational_laws(rng, 8)
    laws = [(target((i,)), draft((i,))) for i in range(pairs)]
    random = {leniency: [trade(p, q, leniency) for p, q in laws] for leniency in LENIENCIES}
    heading = f"{pairs} pairs of random laws, V 8: means, and the largest out / p"
    _print_trade(report, heading, random, "lenience, random laws")
    half = of_fix[Fraction(1, 2)][0]
    report.say(
        f"With l = 1/2 the first pair accepts {float(half.acceptance):.2f} instead of "
        f"{float(of_fix[Fraction(1)][0].acceptance):.2f}. The residual norm(p - q) meets the bound "
        f"exactly in all {len(LENIENCIES) * (pairs + 1)} cells, the other never passes below it "
        f"({float(half.bias):.4f} against {float(half.own_bias):.4f} here). Neither gives any "
        "token more than p / l.",
        bias=float(half.bias),
        own_bias=float(half.own_bias),
    )


def _print_trade(
    report: Report, heading: str, trades: Mapping[Fraction, Sequence[Trade]], key: str
) -> None:
    rows, values = [], []
    for leniency, found in trades.items():
        for one in found:
            assert one.own_bias == one.bound <= one.bias
            assert max(one.largest, one.own_largest) <= 1 / leniency
        mean = {
            name: float(sum(getattr(one, name) for one in found) / len(found))
            for name in ("acceptance", "bias", "own_bias", "bound")
        }
        largest = [float(max(getattr(one, f) for one in found)) for f in ("largest", "own_largest")]
        rows.append(
            [
                f"{float(leniency):g}",
                f"{mean['acceptance']:.4f}",
                f"{theory.expected_tokens(mean['acceptance'], GAMMA):.3f}",
                f"{mean['bias']:.4f}",
                f"{mean['own_bias']:.4f}",
                f"{mean['bound']:.4f}",
                *(f"{value:.3f}" for value in largest),
                f"{float(1 / leniency):.3f}",
            ]
        )
        values.append({"leniency": float(leniency), **mean, "largest": largest})
    report.table(
        f"{heading} (rulecost.trade)",
        (
            "l",
            "accepted",
            f"eq. (1),\nγ {GAMMA}",
            "bias,\np - l q",
            "bias,\np - q",
            "\nbound",
            "out / p,\np - l q",
            "out / p,\np - q",
            "\n1 / l",
        ),
        rows,
        key=key,
        values=values,
    )


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
    for temperature in TEMPERATURES:
        by_draft = {draft: cells.positions[temperature, draft] for draft in DRAFTS}
        rows, values = [], []
        for name in CANDIDATES:
            row, value = [name], {"rule": name}
            for draft, found in by_draft.items():
                at = found[name]
                row += [_pm(at.acceptance), "0" if name in LOSSLESS else _pm(at.bias)]
                value |= {draft: {"acceptance": at.acceptance.mean, "bias": at.bias.mean}}
            rows.append(row)
            values.append(value)
        report.table(
            f"T = {temperature:g}: acceptance of one draft, and bias of the token that comes out, "
            "at every position\n(ruletext.at_positions)",
            ("rule", *(f"{draft}\n{what}" for draft in DRAFTS for what in ("accepted", "bias"))),
            rows,
            key=f"positions, T {temperature:g}",
            values=values,
        )
        for found in by_draft.values():
            _check_positions(found)


def _check_positions(found: Mapping[str, AtPositions]) -> None:
    """The order that holds at every position holds in the mean."""
    names = ("match", "token", "lenient 1/2", "lenient 3/10")
    assert all(
        found[less].acceptance.mean <= found[more].acceptance.mean for less, more in pairwise(names)
    )
    for name in names[2:]:
        scaled, other = found[name], found[f"{name}, p - q"]
        assert other.bias.mean <= scaled.bias.mean
        assert other.acceptance.mean == scaled.acceptance.mean


def _pm(mean: ClusteredMean) -> str:
    return with_error(mean.mean, mean.stderr)


def _signed(mean: ClusteredMean, decimals: int = 3) -> str:
    return f"{mean.mean:+.{decimals}f} ± {mean.stderr:.{decimals}f}"


def _t(mean: ClusteredMean) -> float:
    """A mean in standard errors; a rule without coins has nothing to differ by."""
    return mean.mean / mean.stderr if mean.stderr > 0 else 0.0


def print_loop(report: Report, cells: TextCells) -> None:
    """Tokens per call, measured and without coins, and what the target thinks of the text."""
    loops = [cells.loops[GAMMA, draft, rule] for draft in DRAFTS for rule in LOOPED]
    compared = 2 * len(loops)
    critical = t_quantile(1 - RED / 2 / compared, len(loops[0].runs) - 1)
    rows, values = [], []
    for loop in loops:
        same = cells.loops[GAMMA, loop.draft, "token"].expects(loop.rule)
        t = _t(loop.surprise)
        assert abs(_t(loop.luck)) <= critical
        assert abs(t) <= critical or loop.rule in LOSSY
        rows.append(
            [
                loop.draft if loop.rule == "token" else "",
                loop.rule,
                with_error(loop.measured.value, loop.measured.stderr),
                _signed(loop.luck),
                _pm(same),
                _signed(loop.surprise),
                f"{t:+.1f}",
            ]
        )
        values.append(
            {
                "draft": loop.draft,
                "rule": loop.rule,
                "measured": loop.measured.value,
                "own_drafts": loop.expects(loop.rule).mean,
                "luck": loop.luck.mean,
                "luck_t": _t(loop.luck),
                "token_drafts": same.mean,
                "excess": loop.surprise.mean,
                "t": t,
            }
        )
    report.table(
        f"The real loop, T = 1, γ {GAMMA}: tokens per target call (estimate.tokens_per_call), and "
        "what the rule\nis worth on given drafts without its coins (RuleRun.expects)",
        (
            "draft",
            "rule",
            "\nmeasured",
            "\nluck",
            "the token\nloop's drafts",
            "excess,\nnats a token",
            "\nt",
        ),
        rows,
        key="loop",
        values=values,
    )
    found = [f"{v['rule']}, {v['draft']}" for v in values if abs(v["t"]) > critical]
    report.say(
        "Luck is measured less what the loop's own drafts are worth: coins alone, 0 in the mean. "
        "Excess is the mean of -log p of what was written less the entropy of p: 0 in the mean for "
        "a lossless rule, whatever the text; above 0 the text is less likely than the target's "
        f"own, below 0 too likely. Beyond {critical:.1f} standard errors: "
        f"{'; '.join(found) or 'none'}; no lossless rule. A false alarm anywhere in these "
        f"{compared} comparisons has a chance of {RED:g}; no alarm proves nothing, the fractions "
        "above do. The residual p - q keeps as many drafts as p - l q, so it is not run again.",
        critical=critical,
        beyond=found,
    )


def print_gain(report: Report, cells: TextCells) -> None:
    """Block over token: between two loops, and on the same drafts."""
    rows, values = [], []
    for gamma in RULES_BY_GAMMA:
        for draft in DRAFTS:
            token, block = (cells.loops[gamma, draft, rule] for rule in ("token", "block"))
            pair = ("block", "token")
            loops, same, other = block.less(token), token.gain(*pair), block.gain(*pair)
            relative = same.mean / token.expects("token").mean
            least = min(token.least_gain(*pair), block.least_gain(*pair))
            assert least > -ROUNDING
            assert same.mean > 0
            rows.append(
                [
                    draft,
                    gamma,
                    with_error(token.measured.value, token.measured.stderr),
                    with_error(block.measured.value, block.measured.stderr),
                    _signed(loops),
                    _signed(same, 4),
                    _signed(other, 4),
                    f"{relative:+.1%}",
                ]
            )
            values.append(
                {
                    "draft": draft,
                    "gamma": gamma,
                    "loops": loops.mean,
                    "loops_stderr": loops.stderr,
                    "same": same.mean,
                    "same_stderr": same.stderr,
                    "relative": relative,
                    "least": least,
                    "paths": sum(map(len, token.expected + block.expected)),
                }
            )
    report.table(
        "Block over token, tokens per call: of two loops, paired by prompt (RuleRun.less), and "
        "draft by draft\n(RuleRun.gain) in the rounds of either loop; relative to token",
        (
            "draft",
            "γ",
            "\ntoken",
            "\nblock",
            "of two\nloops",
            "the token\nloop's drafts",
            "the block\nloop's drafts",
            "\ngain",
        ),
        rows,
        key="gain",
        values=values,
    )
    apart = max(
        abs(v["loops"] - v["same"]) / (v["loops_stderr"] + v["same_stderr"]) for v in values
    )
    sharper = min(v["loops_stderr"] / v["same_stderr"] for v in values)
    report.say(
        f"On none of {sum(v['paths'] for v in values)} drafted paths is block worth less than "
        "token. Two loops would need at least "
        f"{sharper**2:.0f} times as many prompts for the errors of the same drafts, from which "
        f"they differ by {apart:.1f} times both errors together at most. The published gains, of "
        f"other models on other texts: {_published()}.",
        apart=apart,
        sharper=sharper,
    )


def _published() -> str:
    gains = ", ".join(
        f"{block / token - 1:+.1%} at γ {gamma}" for gamma, (token, block) in PUBLISHED.items()
    )
    return f"{gains} (PaLM-2, means of eight tasks)"


def print_text_at_0(report: Report, pair: Pair, seed: int) -> None:
    """Nothing to choose between the rules where the target has no choice."""
    prompts, n_new = pair.prompts[:4], 24
    cool = Sampling(temperature=0)
    texts = set()
    for rule in CANDIDATES:
        loop = run_rule(
            pair.target, pair.draft(DRAFTS[0]), prompts, n_new, GAMMA, rule, (), seed, 6,
            sampling=cool,
        )  # fmt: skip
        texts.add(tuple((*run.tokens, *(r.accepted for r in run.rounds)) for run in loop.runs))
        rounds = sum(len(run.rounds) for run in loop.runs)
    assert len(texts) == 1
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
    bias = {name: at[name].bias.mean for name in LOSSY}
    report.section(f"In short: {draft}, T = 1, γ {GAMMA}, on the same drafts")
    pairs = [
        f"{name} gives {worth[name]:+.0%} for a bias of {bias[name]:.3f} at every drafted token, "
        f"{bias[f'{name}, p - q']:.3f} with the residual p - q"
        for name in ("lenient 1/2", "lenient 3/10")
    ]
    report.say(
        f"Token is worth {base:.2f} tokens a call. Without bias, block gives {worth['block']:+.1%} "
        f"and match {worth['match']:+.0%}; {'; '.join(pairs)}; typical gives "
        f"{worth['typical']:+.1%} for {bias['typical']:.3f}{_dominated(worth, bias)}.",
        worth=worth,
        bias=bias,
    )


def _dominated(worth: Mapping[str, float], bias: Mapping[str, float]) -> str:
    """Whether some lenience is better in both."""
    better = [
        name
        for name in worth
        if worth[name] > worth["typical"] and bias.get(name, 1) < bias["typical"]
    ]
    return f": {better[-1]} gives more for less" if better else ""


if __name__ == "__main__":
    run(main)
