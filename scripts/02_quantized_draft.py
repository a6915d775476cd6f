"""A draft made out of the target itself: quantise it, or skip its last layers. Which is worth it?

Both need no training. Quantisation keeps every layer and rounds the weights (INT8, INT4, INT3, one
float16 scale to a group); layer skipping keeps the first layers as they are. Each is tried on three
targets: a random model (d 64), a random model of the trained model's shape, and the model trained
on Shakespeare.

How to read it. "bits" is per weight, scales included; "bytes" is one read of all matrices as they
would be stored, modelled; bytes and FLOPs are for one token, over the target's, matrices only (the
embedding is looked up, at full width). "weights" and "logits" are errors: rms difference over rms.
α is the mean of Σ min(p, q) (Leviathan et al. 2023, Cor 3.6), teacher-forced on the target's own
continuations, ± one standard error clustered by prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab import bench, measure
from lab.checkpoint import load_trained
from lab.console import Report, arguments, quantity, run, with_error
from lab.corpus import held_out_tokens
from lab.decode import Round
from lab.engine import generate_many
from lab.estimate import alpha_from_rounds
from lab.fidelity import Copy, Difference, alpha_difference, compare, copies_of
from lab.linear import row_product
from lab.sampling import Sampling
from lab.stats import family_wise, t_quantile
from lab.transformer import ModelConfig, Transformer

FALSE_ALARM = 1e-4  # chance that any difference below is claimed though there is none
GROUP_BITS = 4 + 16 / 32  # INT4 in groups of 32
SKIPPED, ROUNDED, FINE = "first 3 layers", "INT3, groups of 32", "INT4, groups of 32"
TIMED = ("INT8, groups of 32", FINE, ROUNDED, SKIPPED, "first layer")
GREEDY = Sampling(temperature=0)


@dataclass(frozen=True)
class Subject:
    """A target, its copies as drafts, and what was found of them."""

    name: str
    target: Transformer
    drafts: tuple[measure.Draft, ...]
    prompts: tuple[measure.Tokens, ...]
    entropy: float
    copies: dict[str, Copy]

    @property
    def timed(self) -> list[measure.Draft]:
        """The copies that are run, not only compared."""
        return [draft for draft in self.drafts if draft.name in TIMED]

    @property
    def ranks(self) -> list[str]:
        """Names of the copies, the highest α first."""
        return sorted(self.copies, key=lambda name: -self.copies[name].alpha.value)


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(__doc__).parse_args(argv)
    report = Report("Drafts made of the target: quantised, or cut short", args.json)
    subjects = study_all(args.seed, prompts=10 if args.fast else 16, n_new=32 if args.fast else 64)
    for subject in subjects:
        print_copies(report, subject)
    print_groups(report, subjects)
    print_random_flatters(report, subjects)
    print_greedy(report, subjects[-1], args.seed)
    print_times(report, subjects[-1], repeats=15 if args.fast else 40)
    report.close()


# ---- measuring --------------------------------------------------------------------------------


def study_all(seed: int, prompts: int, n_new: int) -> list[Subject]:
    """The small random model, a random one of the trained model's shape, and the trained one."""
    trained = load_trained()
    targets = {
        "random, d 64": Transformer.init(ModelConfig(), seed),
        f"random, d {trained.config.d_model}": Transformer.init(trained.config, seed),
        "trained on Shakespeare": trained,
    }
    subjects = []
    for i, (name, target) in enumerate(targets.items()):
        if target is trained:
            starts = measure.cut_prompts(held_out_tokens(), prompts, 32, seed, 2, i)
        else:
            starts = measure.random_prompts(target.vocab, prompts, 16, seed, 2, i)
        subjects.append(study(name, target, starts, n_new, seed, 3, i))
    return subjects


def study(
    name: str, target: Transformer, prompts: Sequence[measure.Tokens], n_new: int, *cell: int
) -> Subject:
    """α of every copy on the target's own continuations of the prompts."""
    texts = measure.continuations(target, prompts, n_new, *cell)
    lengths = [len(prompt) for prompt in prompts]
    laws = measure.laws_along(target, texts, measure.PLAIN)
    drafts = copies_of(target)
    copies = compare(target, drafts, texts, lengths)
    return Subject(
        name,
        target,
        drafts,
        tuple(prompts),
        measure.mean_entropy([law[n - 1 :] for law, n in zip(laws, lengths, strict=True)]),
        {copy.name: copy for copy in copies},
    )


# ---- what copies save and what they lose ------------------------------------------------------


def print_copies(report: Report, subject: Subject) -> None:
    config = subject.target.config
    first = next(iter(subject.copies.values()))
    report.section(
        f"Target: {subject.name}",
        f"{config.n_layers} layers, d {config.d_model}, V {config.vocab}, "
        f"{quantity(subject.target.matmul_parameters)} weights in matrices; mean entropy "
        f"{subject.entropy:.2f} nats; {len(first.betas)} prompts x {len(first.betas[0])} tokens.",
    )
    report.table(
        "What the copies save and what they lose (quant.quantize, fidelity.compare)",
        ("draft", "bits", "bytes", "bytes/target's", "FLOPs/target's", "weights", "logits", "α"),
        [_copy_row(copy) for copy in subject.copies.values()],
        key=f"copies, {subject.name}",
    )
    int4 = subject.copies[FINE]
    assert abs(int4.bytes_ratio - int4.bits / 16) < 1e-12
    whole_groups = all(matrix.d_in % 32 == 0 for matrix in subject.target.matrices)
    assert int4.bits == GROUP_BITS if whole_groups else GROUP_BITS < int4.bits < GROUP_BITS + 0.05
    for copy in subject.copies.values():
        quantised = copy.name.startswith("INT")
        assert copy.flops_ratio == 1 if quantised else copy.flops_ratio == copy.bytes_ratio
    report.say(
        f"INT4 in groups of 32 is {int4.bits:.4g} bits a weight{_remark(whole_groups)}: "
        f"{int4.bytes_ratio:.3f} of the bytes, "
        f"{int4.flops_ratio:.1f} of the FLOPs. A skipped layer saves both alike. Here the codes "
        f"and scales are {quantity(int4.weight_bytes, 'B')}, but NumPy multiplies dequantised "
        f"float32 weights: {quantity(int4.held_bytes, 'B')} are held.",
        bits=int4.bits,
        bytes_ratio=int4.bytes_ratio,
        flops_ratio=int4.flops_ratio,
    )


def _remark(whole_groups: bool) -> str:
    return "" if whole_groups else " (columns end in a short group, with a scale of its own)"


def _copy_row(copy: Copy) -> list[str]:
    return [
        copy.name,
        f"{copy.bits:.3f}",
        quantity(copy.weight_bytes, "B"),
        f"{copy.bytes_ratio:.3f}",
        f"{copy.flops_ratio:.3f}",
        f"{copy.weight_error:.4f}",
        f"{copy.logits_error:.4f}",
        with_error(copy.alpha.value, copy.alpha.stderr, 4),
    ]


def print_groups(report: Report, subjects: Sequence[Subject]) -> None:
    """INT4 with fewer scales."""
    rows, gaps = [], []
    for subject in subjects:
        fine = subject.copies[FINE]
        for name in ("INT4, groups of 64", "INT4, whole columns"):
            coarse = subject.copies[name]
            assert coarse.bits < fine.bits
            assert coarse.weight_error > fine.weight_error
            gaps.append(alpha_difference(fine, coarse))
            rows.append(
                [
                    subject.name,
                    name,
                    f"{fine.bits - coarse.bits:+.3f}",
                    f"{fine.weight_error / coarse.weight_error:.3f}",
                    with_error(gaps[-1].value, gaps[-1].stderr, 4),
                    f"{gaps[-1].t:+.1f}",
                ]
            )
    report.section("What groups buy")
    report.table(
        "INT4 in groups of 32 beside INT4 with fewer scales, on the same texts "
        "(fidelity.alpha_difference)",
        ("target", "instead of", "bits more", "weight error over its", "α gained", "t"),
        rows,
        key="groups",
    )
    seen = sum(gap.t > _critical(gap, len(gaps)) for gap in gaps)
    report.say(
        f"More scales make the weight error smaller in all {len(rows)} cases; the gain in α is "
        f"beyond chance in {seen} of them (at a {FALSE_ALARM:g} chance of any false alarm), "
        f"{min(gap.value for gap in gaps):.4f} to {max(gap.value for gap in gaps):.4f}.",
        seen=seen,
    )


def _critical(gap: Difference, comparisons: int) -> float:
    """t above it is a difference, one-sided, family-wise."""
    return t_quantile(1 - family_wise(FALSE_ALARM, comparisons), gap.degrees)


# ---- random weights flatter layer skipping -----------------------------------------------------


def print_random_flatters(report: Report, subjects: Sequence[Subject]) -> None:
    """α of three layers less α of INT3: its sign turns when the weights have learned."""
    gaps = [alpha_difference(s.copies[SKIPPED], s.copies[ROUNDED]) for s in subjects]
    small, same_shape, learned = gaps
    turned = same_shape - learned
    report.section("A draft that looks fine on random weights")
    report.table(
        f"α of the {SKIPPED} beside INT4 and INT3 in groups of 32, same texts",
        ("target", "rank by α", "α", "α of INT4", "α of INT3", "less INT3's", "t"),
        [
            [
                subject.name,
                f"{subject.ranks.index(SKIPPED) + 1} of {len(subject.ranks)}",
                *(f"{subject.copies[name].alpha.value:.3f}" for name in (SKIPPED, FINE, ROUNDED)),
                with_error(gap.value, gap.stderr),
                f"{gap.t:+.1f}",
            ]
            for subject, gap in zip(subjects, gaps, strict=True)
        ],
        key="random flatters",
    )
    claims = {
        "small random model": small,
        "random model of the trained shape": same_shape,
        "learned weights": -learned,
        "from random to learned": turned,
    }
    for name, claim in claims.items():
        critical = _critical(claim, len(claims))
        assert claim.t > critical, f"{name}: t = {claim.t:.2f} is not above {critical:.2f}"
    moved = [subject.copies[SKIPPED].logits_error for subject in subjects[1:]]
    assert moved[0] < moved[1]
    report.say(
        f"On random weights three layers of four make a better draft than INT3; on learned weights "
        f"of the same shape a worse one: {same_shape.value:+.3f} becomes {learned.value:+.3f}, a "
        f"change of {-turned.value:.3f} ± {turned.stderr:.3f} (t = {-turned.t:.1f}). Leaving out a "
        f"random layer moves the logits by {moved[0]:.2f} of their size, leaving out one that has "
        f"learned something by {moved[1]:.2f}.",
        t_random=same_shape.t,
        t_learned=learned.t,
        t_change=-turned.t,
    )


# ---- the text does not depend on the draft -------------------------------------------------------


def print_greedy(report: Report, subject: Subject, seed: int) -> None:
    """At T = 0 every draft leaves the text as it is; only how much is accepted differs."""
    prompts, n_new, gamma = subject.prompts[:4], 24, 4
    alone = generate_many(
        subject.target, None, prompts, n_new, 0, sampling=GREEDY,
        rngs=measure.streams(len(prompts), seed, 4),
    )  # fmt: skip
    rows, differing = [], 0
    for i, draft in enumerate(subject.timed):
        runs = generate_many(
            subject.target, draft.model, prompts, n_new, gamma, sampling=GREEDY,
            rngs=measure.streams(len(prompts), seed, 5, i),
        )  # fmt: skip
        same = sum(
            run.tokens.tolist() == plain.tokens.tolist()
            for run, plain in zip(runs, alone, strict=True)
        )
        differing += len(prompts) - same
        rounds = [r for run in runs for r in run.rounds if r.drafted]
        rows.append([draft.name, f"{same}/{len(prompts)}", f"{_accepted(rounds):.3f}"])
    report.section("The text does not depend on the draft")
    report.table(
        f"T = 0, γ {gamma}, {n_new} new tokens, {subject.name} (engine.generate_many)",
        ("draft", "same text as the target alone", "accepted/tested"),
        rows,
        key="greedy",
    )
    if row_product().row_invariant:
        assert differing == 0
        report.say("Quantising the draft never changes the greedy text, only how much is accepted.")
    else:
        report.say(
            "This BLAS rounds a row differently in other company, so a tie within rounding may "
            f"break either way: {differing} texts differ."
        )


def _accepted(rounds: Sequence[Round]) -> float:
    return alpha_from_rounds(rounds).value


# ---- times ---------------------------------------------------------------------------------------


def print_times(report: Report, subject: Subject, repeats: int) -> None:
    """One token's forward: the target and its copies side by side."""
    target = bench.forward_of(subject.target, rows=1)
    ratios = {}
    for draft in subject.timed:
        seconds = measure.paired_seconds([target, bench.forward_of(draft.model, rows=1)], repeats)
        ratios[draft.name] = float(measure.paired_ratio(seconds)[1])
    report.section("Time, bytes and FLOPs are three ratios")
    report.table(
        f"One token after {bench.CACHED}, {subject.name}: measured here, beside the modelled "
        f"ratios (medians of {repeats} paired runs)",
        ("draft", "time/target's", "bytes/target's", "FLOPs/target's"),
        [
            [
                name,
                f"{ratio:.2f}",
                f"{subject.copies[name].bytes_ratio:.3f}",
                f"{subject.copies[name].flops_ratio:.3f}",
            ]
            for name, ratio in ratios.items()
        ],
        key="times",
    )
    report.say(
        "NumPy has no product of packed codes: a quantised copy is dequantised once to float32 and "
        f"multiplies as many weights as the target. INT4 took {ratios[FINE]:.2f} of "
        f"the target's time here for {subject.copies[FINE].bytes_ratio:.2f} of its bytes and "
        f"{subject.copies[FINE].flops_ratio:.0f} of its FLOPs: no ratio stands for another."
    )
    report.table("This machine (bench.machine)", ("what", "value"), bench.machine(), key="machine")


if __name__ == "__main__":
    run(main)
