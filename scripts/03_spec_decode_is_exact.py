"""Does speculative decoding change the law of the text? No: proved by enumeration, then sampled.

Letters are the paper's (Leviathan, Kalman, Matias 2023): p is the target's law, q the draft's, γ
the drafts of a round, α = Σ min(p, q).

How to read it. First a law of eight tokens that does not depend on the text, with three drafts: α,
the first tokens and the tokens per target call, exact and measured. Then small models whose laws do
depend on the text: every branch of every draw of the real loop is taken, so the joint law of γ + 2
tokens comes out exactly, caches, rollback, stop tokens and limits included. "TV" is its total
variation from the target's own law: 0 up to rounding. Then the level of the χ² test; and last six
mistakes that were really made somewhere, with what sees each of them. A test of the first token is
blind to most of them, and no test of the text sees a stale draft cache. --plots DIR draws the
overlap of two laws (needs the extra plot).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from lab import theory
from lab.console import Report, arguments, run, with_error
from lab.decode import Generation, View, speculative_generate
from lab.estimate import alpha_from_rounds, tokens_per_call
from lab.exact import EXACT, Audit, Law, TableLM, audit, plain_law, prefix_law
from lab.lawtest import (
    Run,
    acceptance_test,
    alarms,
    false_alarms,
    fit,
    sample,
    two_sample_alarms,
)
from lab.measure import streams
from lab.mutants import MUTANTS
from lab.mutation import Mutant
from lab.options import PLOTS
from lab.readings import FIX_A
from lab.sampling import Sampling
from lab.stats import binomial_interval, t_quantile

VERIFIER = (0.30, 0.22, 0.15, 0.10, 0.08, 0.07, 0.05, 0.03)
LESSON_ALPHAS = (0.797781, 0.932451, 0.980200)  # of a public lesson's three drafts of this verifier
RED = 1e-4  # p-value below which a test is red: each green claim below is false so often by chance
LEVEL = 0.05  # at which false alarms are counted
NONE = "none"
FAULTS = {
    name: MUTANTS[name]
    for name in (
        "residual from p", "residual row late", "residual row early", "bonus from q",
        "target cache not rolled back", "draft cache not rolled back",
    )
}  # fmt: skip
SUSPECTS: dict[str, Mutant | None] = {NONE: None, **FAULTS}
START = (0, 1)  # prompt of the small models
HORIZON, GAMMA, PROMPT = 4, 2, (0, 1, 1)  # of the faults: γ + 2 tokens
FAULT_RUNS = 600  # what is far off is missed with probability RED or so
FAR = 0.1  # total variation
BATCH = 40  # runs in a batch that counts as one sample


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(__doc__, plots=PLOTS).parse_args(argv)
    fast = args.fast
    report = Report("Speculative decoding does not change the law", args.json)
    if args.plots is not None:
        from lab import plots, plots_overlap  # matplotlib is an extra

        plots.draw(report, args.plots, {"overlap": plots_overlap.overlap(*FIX_A)})
    print_context_free(report, args.seed, runs=300 if fast else 800)
    print_expectation(report, args.seed, runs=8, n_new=120 if fast else 240)
    print_exact_laws(report, args.seed, fast)
    print_settings(report, args.seed)
    print_level(report, args.seed, trials=500 if fast else 2000, batches=10 if fast else 50)
    print_faults(report, args.seed, runs=FAULT_RUNS)
    report.close()


# ---- a law that does not depend on the text ----------------------------------------------------


def perturbed(alpha: float) -> tuple[float, list[float]]:
    """q = (1 - w) p + w reversed(p) with w such that Σ min(p, q) = 1 - w TV(p, reversed(p)) is
    `alpha`; returns w and q."""
    reversed_law = VERIFIER[::-1]
    weight = (1 - alpha) / (1 - float(theory.acceptance(VERIFIER, reversed_law)))
    mixed = [(1 - weight) * p + weight * r for p, r in zip(VERIFIER, reversed_law, strict=True)]
    return weight, mixed


def decoder(
    target: Any, draft: Any, prompt: Sequence[int], n_new: int, gamma: Any, **more: Any
) -> Run:
    """A run as a function of its dice."""

    def run(dice: Any) -> Generation:
        return speculative_generate(target, draft, prompt, n_new, gamma, rng=dice, **more)

    return run


def print_context_free(report: Report, seed: int, runs: int) -> None:
    """γ 1: α and the law of the first three tokens."""
    target = TableLM.of_probs(VERIFIER)
    joint = plain_law(target, [0], 3)
    rows = []
    for i, alpha in enumerate(LESSON_ALPHAS):
        weight, law = perturbed(alpha)
        exact = float(theory.acceptance(VERIFIER, law))
        draft = TableLM.of_probs(law)
        run = decoder(target, draft, [0], 3, 1)
        two = decoder(target, draft, [0], 2, 1)  # the shortest run in which something is drafted
        first = audit(lambda dice, two=two: two(dice).tokens[:1], prefix_law(joint, 1))
        seen = sample(run, streams(runs, seed, 1, i))
        measured = alpha_from_rounds([r for one in seen for r in one.rounds])
        low, high = binomial_interval(round(measured.value * measured.n), measured.n, 1 - RED)
        z = (measured.value - exact) / math.sqrt(exact * (1 - exact) / measured.n)
        of_first, of_joint = fit(seen, prefix_law(joint, 1), 1), fit(seen, joint)
        assert abs(exact - alpha) < EXACT
        assert first.total_variation < EXACT
        assert low <= exact <= high
        assert min(of_first.p_value, of_joint.p_value) > RED
        rows.append(
            [
                f"w = {weight:.4f}",
                f"{exact:.6f}",
                with_error(measured.value, measured.stderr, 4),
                f"{z:+.1f}",
                f"{first.total_variation:.0e}",
                f"{of_first.p_value:.3f}",
                f"{of_joint.p_value:.3f}",
            ]
        )
    report.section(
        "A law of eight tokens, whatever the text",
        f"Verifier {' '.join(f'{p:.2f}'[1:] for p in VERIFIER)}. Drafts q = (1 - w) p + w "
        "reversed(p), so α = 1 - w TV(p, reversed(p)).",
    )
    report.table(
        f"γ 1, {runs} runs of 3 tokens: Σ min(p, q) (theory.acceptance) beside accepted/tested; χ² "
        "against the exact law (lawtest.fit)",
        ("draft", "α", "measured", "z", "TV, token 1", "p, token 1", "p, tokens 1-3"),
        rows,
        key="context-free",
    )
    report.say(
        "The first token has the verifier's law exactly, and the samples do not speak against it: "
        f"a test is called red below p = {RED:g}."
    )


def print_expectation(report: Report, seed: int, runs: int, n_new: int) -> None:
    """γ 5: tokens per target call beside eq. (1) at the α of that very draft."""
    gamma, target, rows = 5, TableLM.of_probs(VERIFIER), []
    for i, alpha in enumerate(LESSON_ALPHAS):
        run = decoder(target, TableLM.of_probs(perturbed(alpha)[1]), [0], n_new, gamma)
        measured = tokens_per_call(sample(run, streams(runs, seed, 2, i)), gamma)
        expected = float(theory.expected_tokens(alpha, gamma))
        t = (measured.value - expected) / measured.stderr
        assert abs(t) < t_quantile(1 - RED / 2, runs - 1)
        rows.append(
            [
                f"{alpha:.6f}",
                measured.n,
                f"{expected:.4f}",
                with_error(measured.value, measured.stderr),
                f"{t:+.1f}",
            ]
        )
    report.table(
        "γ 5: tokens per target call (estimate.tokens_per_call) beside eq. (1) at this draft's α",
        ("α", "rounds", "eq. (1)", "measured", "t"),
        rows,
        key="expectation",
    )


# ---- laws that depend on the text, exactly -----------------------------------------------------


def print_exact_laws(report: Report, seed: int, fast: bool) -> None:
    """The joint law of γ + 2 tokens."""
    rows = []
    for vocab, gamma in ((3, 0), (3, 1), (2 if fast else 3, 2), (2, 3)):
        target = TableLM.random(vocab, seed, 2)
        draft = TableLM.random(vocab, seed + 1, 2)
        rows.append([gamma, *_audited(target, draft, gamma + 2, gamma)])
    report.section(
        "Laws that depend on the text, exactly",
        "Tables of logits by the last two tokens. Every branch of the real loop is taken: a leaf "
        "is one sequence of answers to its questions (draws and coins).",
    )
    report.table(
        "Joint law of γ + 2 tokens: exact.audit beside exact.plain_law",
        ("γ", "V", "tokens", "leaves", "questions", "TV", "first difference", "accepted", "calls"),
        rows,
        key="exact",
    )
    report.say(
        f"Nothing differs: every TV is at most {EXACT:g}. Accepted and calls are exact means."
    )


def print_settings(report: Report, seed: int) -> None:
    """The same with sampling settings, stop tokens, limits and a schedule."""
    target, draft = TableLM.random(3, seed, 2), TableLM.random(3, seed + 1, 2)
    short_target = TableLM(target.table, max_len=len(START) + 3)
    short_draft = TableLM(draft.table, max_len=len(START) + 2)
    two, cool = Sampling(top_k=2), Sampling(temperature=0.7, top_k=2)
    penalty, warm = Sampling(top_k=2, repetition_penalty=1.5), Sampling(temperature=1.5)
    pair = (target, draft, 4, 2)
    cases: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "T = 0": (pair, {"sampling": Sampling(temperature=0)}),
        "T = .7, top-k 2": (pair, {"sampling": cool}),
        "top-p .6": (pair, {"sampling": Sampling(top_p=0.6)}),
        "penalty 1.5, top-k 2": (pair, {"sampling": penalty}),
        "T = .7, top-k 2; draft T = 1.5": (pair, {"sampling": cool, "draft_sampling": warm}),
        "stop token 2, top-k 2": (pair, {"sampling": two, "stop": [2]}),
        "target's context ends after 3": ((short_target, draft, 8, 2), {}),
        "draft's context ends after 2": ((target, short_draft, 4, 2), {"sampling": two}),
        "γ 2, 0, 1 by turns; top-k 2": ((target, draft, 5, by_turns), {"sampling": two}),
    }
    rows = [[name, *_audited(*case, **more)[1:6]] for name, (case, more) in cases.items()]
    report.table(
        "The same with settings, stop tokens and limits (V 3)",
        ("setting", "tokens", "leaves", "questions", "TV", "first difference"),
        rows,
        key="settings",
    )


def by_turns(view: View) -> int:
    """A schedule of γ."""
    return (2, 0, 1)[len(view.rounds) % 3]


def _audited(target: Any, draft: Any, n_new: int, gamma: Any, **more: Any) -> list[str | int]:
    """V, tokens, leaves, questions, TV, first difference, accepted, calls."""
    reference = plain_law(
        target, START, n_new, more.get("sampling", Sampling()), more.get("stop", ())
    )
    found = audit(decoder(target, draft, START, n_new, gamma, **more), reference)
    assert found.total_variation <= EXACT
    assert found.first_difference is None
    return [
        target.vocab,
        max(map(len, reference)),
        found.leaves,
        found.depth,
        f"{found.total_variation:.0e}",
        _prefix(found),
        f"{found.expected['accepted']:.4f}",
        f"{found.expected['target_calls']:.4f}",
    ]


# ---- a χ² that holds its level -----------------------------------------------------------------


def fault_pair() -> tuple[TableLM, TableLM]:
    """Laws of the last three tokens; fixed, as the faults' exact figures are claimed of them."""
    return TableLM.random(2, 4, 3), TableLM.random(2, 109, 3)


def print_level(report: Report, seed: int, trials: int, batches: int) -> None:
    """False alarms of χ², measured: on counts from the exact laws, and on batches of real runs."""
    joint = plain_law(fault_pair()[0], PROMPT, HORIZON)
    laws = {"first token": prefix_law(joint, 1), "joint law": joint}
    size, run = 10_000, fault_run()
    real = [sample(run, streams(BATCH, seed, 3, batch)) for batch in range(batches)]
    rows = []
    for i, (name, law) in enumerate(laws.items()):
        rate = false_alarms(law, size, trials, LEVEL, streams(1, seed, 4, i)[0])
        wrong = two_sample_alarms(law, size, trials, LEVEL, streams(1, seed, 5, i)[0])
        of_runs = alarms(real, law, len(next(iter(law))), LEVEL)
        assert rate.agrees(RED)
        assert of_runs.agrees(RED)
        assert abs(wrong.value - wrong.due) < 0.02 + 4 * wrong.stderr
        assert wrong.due > 2 * LEVEL
        rows.append(
            [
                f"{name}, {len(law)} outcomes",
                f"{LEVEL:.1%}",
                f"{rate.value:.1%} ± {rate.stderr:.1%}",
                f"{of_runs.hits} of {of_runs.trials}",
                f"{wrong.value:.1%} ± {wrong.stderr:.1%}",
                f"{wrong.due:.1%}",
            ]
        )
    report.section("A χ² that holds its level")
    report.table(
        "False alarms of χ²: against the exact law, on the real loop, between two samples",
        ("law", "level", "one sample", "real runs", "two samples", "in the limit"),
        rows,
        key="level",
    )
    report.say(
        f"In {trials} samples of {size} (lawtest.false_alarms), and in batches of {BATCH} runs of "
        "the loop. Against the exact law χ² is wrong as often as it says. Against a second sample "
        "the statistic is twice as large, and a sound decoder is called wrong far more often."
    )


# ---- planted faults show red -------------------------------------------------------------------


def fault_run(n_new: int = HORIZON) -> Run:
    return decoder(*fault_pair(), PROMPT, n_new, GAMMA)


def code_of(mutant: Mutant | None) -> AbstractContextManager[None]:
    """What runs inside has this fault, or none."""
    return nullcontext() if mutant is None else mutant.patch()


def changes_text(mutant: Mutant | None) -> bool:
    """Whether the law of the text is wrong; if not, only acceptance is."""
    return mutant is not None and mutant.changes.kind == "text"


def print_faults(report: Report, seed: int, runs: int) -> None:
    joint = plain_law(fault_pair()[0], PROMPT, HORIZON)
    exact = {name: _audit_fault(mutant, joint) for name, mutant in SUSPECTS.items()}
    report.section(
        "Planted faults",
        "\n".join(f"{name}: {mutant.description}" for name, mutant in FAULTS.items()),
    )
    report.table(
        f"What is wrong, exactly (exact.audit): V 2, laws of the last three tokens, γ {GAMMA}, "
        f"{HORIZON} tokens",
        ("fault", "TV, token 1", f"TV, tokens 1-{HORIZON}", "first difference", "accepted"),
        [_exact_row(name, *audits) for name, audits in exact.items()],
        key="faults, exact",
    )
    print_sampled_faults(report, joint, exact, runs, seed)


def _audit_fault(mutant: Mutant | None, joint: Law) -> tuple[Audit, Audit]:
    """The law of the first token, and the joint law."""
    one_round = fault_run(GAMMA + 1)  # the first token needs no more
    with code_of(mutant):
        first = audit(lambda dice: one_round(dice).tokens[:1], prefix_law(joint, 1))
        whole = audit(fault_run(), joint)
    assert (whole.total_variation > EXACT) == changes_text(mutant)
    return first, whole


def _exact_row(name: str, first: Audit, whole: Audit) -> list[str]:
    return [
        name,
        f"{first.total_variation:.4f}",
        f"{whole.total_variation:.4f}",
        _prefix(whole),
        f"{whole.expected['accepted']:.4f}",
    ]


def _prefix(found: Audit) -> str:
    """The shortest text whose probability is wrong."""
    return "none" if found.first_difference is None else " ".join(map(str, found.first_difference))


def print_sampled_faults(
    report: Report, joint: Law, exact: Mapping[str, tuple[Audit, Audit]], runs: int, seed: int
) -> None:
    """The three tests that need nothing but runs, on the sound loop and on every fault."""
    due = exact[NONE][1].expected["accepted"]
    rows, sees = [], {}
    for i, (name, mutant) in enumerate(SUSPECTS.items()):
        with code_of(mutant):
            seen = sample(fault_run(), streams(runs, seed, 6, i))
        accepted = acceptance_test(seen, due)
        p_values = {
            "first token": fit(seen, prefix_law(joint, 1), 1).p_value,
            "joint law": fit(seen, joint).p_value,
            "acceptance": accepted.p_value,
        }
        sees[name] = [test for test, p_value in p_values.items() if p_value < RED]
        _check_seen(mutant, *exact[name], sees[name])
        rows.append(
            [
                name,
                *(f"{p_values[test]:.1g}" for test in ("first token", "joint law")),
                with_error(accepted.mean, accepted.stderr),
                f"{accepted.z:+.1f}",
                ", ".join(sees[name]) or "nothing",
            ]
        )
        if name == NONE:
            print_ends(report, seen)
    report.table(
        f"What {runs} runs show: χ² (lawtest.fit), accepted drafts a run beside {due:.4f}; red "
        f"below p = {RED:g}",
        ("fault", "p, token 1", f"p, tokens 1-{HORIZON}", "accepted", "z", "seen by"),
        rows,
        key="faults, sampled",
    )
    blind = [name for name in FAULTS if exact[name][0].total_variation <= EXACT]
    assert len(blind) > len(FAULTS) / 2
    (hidden,) = [name for name in FAULTS if not changes_text(FAULTS[name])]
    assert exact[hidden][1].expected["accepted"] < due
    report.say(
        f"All {len(FAULTS)} faults are seen, the sound loop by nothing. The first token "
        f"has the right law in {len(blind)} of them ({', '.join(blind)}). The whole text, however "
        f"long, has the right law in one: {hidden}. Only its acceptance falls.",
        blind=blind,
        sees=sees,
    )


def _check_seen(mutant: Mutant | None, first: Audit, whole: Audit, sees: Sequence[str]) -> None:
    """What is right is not called wrong; what is far off is seen (a little off may be missed)."""
    if first.total_variation <= EXACT:
        assert "first token" not in sees
    elif first.total_variation > FAR:
        assert "first token" in sees
    assert ("joint law" in sees) == changes_text(mutant) == (whole.total_variation > FAR)
    assert bool(sees) == (mutant is not None)


def print_ends(report: Report, runs: Sequence[Generation]) -> None:
    """A test in which nothing is rejected proves nothing."""
    rounds = [r for run in runs for r in run.rounds if r.drafted == GAMMA]
    ends = {
        "rejected at once": sum(r.accepted == 0 for r in rounds),
        "accepted in part": sum(0 < r.accepted < r.drafted for r in rounds),
        "accepted in full": sum(r.accepted == r.drafted for r in rounds),
    }
    assert all(ends.values())
    listed = ", ".join(f"{count} {name}" for name, count in ends.items())
    report.say(f"Rounds with {GAMMA} drafts in the sound loop's runs: {listed}.", **ends)


if __name__ == "__main__":
    run(main)
