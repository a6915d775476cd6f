"""Why is decoding slow? Every new token reads every weight, and does little with it.

A ledger counts the FLOPs and bytes of real forwards, of a random model and of a model trained on
Shakespeare.

How to read it. First one token, operation by operation: FLOP/byte, the arithmetic intensity, says
how much there is to do for what was read. Processors can do hundreds of operations in the time in
which they read one byte; what stays near 1 waits for memory. Then what a cache saves; what a batch
shares (the weights) and what it does not (each sequence's keys and values); how the rows of one
sequence share both, which is what speculative decoding is made of; and the prompt, which has many
rows by nature. Times of this machine come last, apart from what was counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab import bench, intensity, measure
from lab.checkpoint import load_trained
from lab.console import Report, arguments, quantity, run
from lab.corpus import held_out_tokens
from lab.decode import autoregressive_generate
from lab.intensity import Cost, Pass
from lab.ledger import CONVENTIONS, MATMUL_OPS
from lab.linear import row_product
from lab.transformer import ModelConfig, Transformer

BATCHES = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS = (16, 64, 256)
MIDDLE = CONTEXTS[1]  # positions cached where one number is enough
ROWS = (1, 2, 3, 5, 9)
PROMPT = 32
LONG_PROMPT = 128


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(__doc__).parse_args(argv)
    report = Report("Decoding reads every weight", args.json)
    report.say(CONVENTIONS)
    models = {
        "random model": Transformer.init(ModelConfig(), args.seed),
        "trained target": load_trained("target"),
    }
    for name, model in models.items():
        study(report, name, model, args.seed, args.fast)
    print_times(report, models, args.seed, args.fast)
    report.close()


def study(report: Report, name: str, model: Transformer, seed: int, fast: bool) -> None:
    """Everything that is counted, for one model."""
    c = model.config
    report.section(
        f"The {name}",
        f"{c.n_layers} layers, d {c.d_model}, V {c.vocab}: {model.matmul_parameters:,} weights in "
        f"matrices, {quantity(2 * model.matmul_parameters, 'B')} at 16 bits.",
    )
    print_operations(report, name, model, seed)
    print_cache(report, name, model, seed, 48 if fast else 96)
    costs = intensity.pass_costs(
        model, [Pass(batch, 1, context) for batch in BATCHES for context in CONTEXTS], seed
    )
    print_batches(report, name, model, costs)
    print_contexts(report, name, model, costs)
    print_rows(report, name, model, seed)
    print_phases(report, name, model, seed)


def prompts_of(name: str, model: Transformer, count: int, length: int, seed: int) -> list[Any]:
    """Held-out text for the model that reads, random tokens for the one that does not."""
    if name == "trained target":
        return measure.cut_prompts(held_out_tokens(), count, length, seed, 1)
    return measure.random_prompts(model.vocab, count, length, seed, 1)


# ---- one token ----------------------------------------------------------------------------------


def print_operations(report: Report, name: str, model: Transformer, seed: int) -> None:
    """One token, operation by operation."""
    alone = Pass(context=MIDDLE)
    ledger = intensity.pass_ledgers(model, [alone], seed)[alone]
    parts = {row.op: Cost.of(ledger, ops=(row.op,)) for row in ledger.rows()}
    total = Cost.of(ledger)
    report.table(
        f"One token of the {name} after {MIDDLE} others, 16-bit weights (intensity.pass_ledgers)",
        ("operation", "FLOPs", "weight bytes", "KV bytes", "FLOP/byte"),
        [cost_row(op, cost) for op, cost in [*parts.items(), ("all", total)]],
        key=f"one token, {name}",
    )
    products = Cost.of(ledger, ops=MATMUL_OPS)
    assert products.flops == 2 * model.matmul_parameters
    assert products.weight_bytes == 2 * model.matmul_parameters
    report.say(
        f"Every weight is read, 2 bytes, for one multiply-add, 2 FLOPs: {products.intensity:g} "
        f"FLOP/byte. Weights are {total.weight_bytes / total.bytes:.0%} of the bytes.",
        intensity=products.intensity,
        weight_share=total.weight_bytes / total.bytes,
    )


def cost_row(label: str, cost: Cost) -> list[Any]:
    return [
        label,
        quantity(cost.flops),
        quantity(cost.weight_bytes, "B"),
        quantity(cost.kv_bytes, "B"),
        f"{cost.intensity:.3f}",
    ]


# ---- with and without a cache -------------------------------------------------------------------


def print_cache(report: Report, name: str, model: Transformer, seed: int, n_new: int) -> None:
    """The same text written with and without a cache."""
    prompt = prompts_of(name, model, 1, PROMPT, seed)[0]
    stream = measure.streams(1, seed, 2)
    run, cached = intensity.token_costs(model, prompt, n_new, stream[0])
    stream = measure.streams(1, seed, 2)
    bare = intensity.WithoutCache(model)
    again, recomputed = intensity.token_costs(bare, prompt, n_new, stream[0])
    same = int((run.tokens == again.tokens).sum())
    if row_product().row_invariant:
        assert same == n_new, "logits have the same bits with a cache and without"
    rows = []
    for i in range(n_new):
        n = PROMPT + i  # positions the token attends to, its own included
        assert cached[i].flops == flops_of_rows(model, n - 1, n)
        assert recomputed[i].flops == flops_of_rows(model, 0, n)
        if i % (n_new // 4) == 0 or i == n_new - 1:
            a, b = cached[i], recomputed[i]
            cells = [n, quantity(a.flops), quantity(b.flops), f"{b.flops / a.flops:.1f}"]
            cells += [quantity(a.bytes, "B"), quantity(b.bytes, "B")]
            rows.append([*cells, f"{a.intensity:.2f}", f"{b.intensity:.1f}"])
    report.table(
        f"Per token of the {name}, with a cache and without (intensity.token_costs)",
        (
            "position", "FLOPs, cache", "none", "ratio", "bytes, cache", "none",
            "FLOP/byte, cache", "none",
        ),
        rows,
        key=f"cache, {name}",
    )  # fmt: skip
    work = sum(b.flops for b in recomputed) / sum(a.flops for a in cached)
    report.say(
        f"{same} of {n_new} tokens are the same. Without a cache every token does the whole text "
        f"again, {work:.0f} times the operations here and more with every position; the weights "
        "are read once per token either way. The cache trades operations for bytes of keys and "
        "values, and leaves a forward that mostly waits.",
        same=same,
        tokens=n_new,
        work=work,
    )


def flops_of_rows(model: Transformer, start: int, end: int) -> int:
    """FLOPs of one forward over positions start..end - 1, as the conventions have it."""
    c = model.config
    pairs = (end * (end + 1) - start * (start + 1)) // 2
    attention = 4 * c.n_layers * c.n_heads * c.width * pairs
    return 2 * model.matmul_parameters * (end - start) + attention


# ---- batch, context, rows, phases ---------------------------------------------------------------


def print_batches(report: Report, name: str, model: Transformer, costs: dict[Pass, Cost]) -> None:
    """Sequences share the weights, not the cache."""
    rows = []
    one = costs[Pass(1, 1, MIDDLE)].flops
    for batch in BATCHES:
        whole = costs[Pass(batch, 1, MIDDLE)]
        part = whole.per(batch)
        assert part.flops == one, "a token's operations do not depend on the batch"
        weights_only = whole.flops / (2 * model.matmul_parameters)
        cells = [batch, quantity(part.flops), quantity(part.weight_bytes, "B")]
        cells += [quantity(part.kv_bytes, "B"), f"{whole.intensity:.2f}"]
        rows.append([*cells, f"{weights_only:.2f}"])
    report.table(
        f"Per token of the {name} by batch, {MIDDLE} cached (intensity.pass_costs)",
        ("batch", "FLOPs", "weight bytes", "KV bytes", "FLOP/byte", "if only weights were read"),
        rows,
        key=f"batch, {name}",
    )
    first, last = (costs[Pass(batch, 1, MIDDLE)] for batch in (BATCHES[0], BATCHES[-1]))
    limit = one / first.kv_bytes
    assert first.intensity < last.intensity < limit
    report.say(
        f"A weight is read once for the whole batch, a key once for every sequence: {BATCHES[-1]} "
        f"sequences raise FLOP/byte {last.intensity / first.intensity:.1f} times, and no batch "
        f"reaches {limit:.1f}, a token's operations per byte of its own keys and values.",
        gain=last.intensity / first.intensity,
        limit=limit,
    )


def print_contexts(report: Report, name: str, model: Transformer, costs: dict[Pass, Cost]) -> None:
    """Intensity by batch and context."""
    rows = [
        [batch, *(f"{costs[Pass(batch, 1, context)].intensity:.2f}" for context in CONTEXTS)]
        for batch in BATCHES
    ]
    report.table(
        f"FLOP/byte of the {name} by batch and cached positions (intensity.pass_costs)",
        ("batch", *(f"{context} cached" for context in CONTEXTS)),
        rows,
        key=f"context, {name}",
    )
    position = costs[Pass(1, 1, CONTEXTS[1])].kv_bytes - costs[Pass(1, 1, CONTEXTS[0])].kv_bytes
    position /= CONTEXTS[1] - CONTEXTS[0]
    equal = 2 * model.matmul_parameters / position
    for context in CONTEXTS:
        ladder = [costs[Pass(batch, 1, context)].intensity for batch in BATCHES]
        assert ladder == sorted(ladder), "a larger batch never lowers FLOP/byte"
    report.say(
        f"A cached position is {quantity(position, 'B')} to read for every further token: keys and "
        f"values outweigh the weights from {equal:.0f} positions on, over all sequences of a "
        f"batch: {equal / BATCHES[-1]:.1f} each in a batch of {BATCHES[-1]}.",
        kv_bytes_per_position=position,
        positions=equal,
    )


def print_rows(report: Report, name: str, model: Transformer, seed: int) -> None:
    """n rows of one sequence beside n sequences of one row."""
    passes = [p for n in ROWS for p in (Pass(n, 1, MIDDLE), Pass(1, n, MIDDLE))]
    costs = intensity.pass_costs(model, passes, seed)
    rows = []
    for n in ROWS:
        many, one = costs[Pass(n, 1, MIDDLE)], costs[Pass(1, n, MIDDLE)]
        assert n == 1 or one.bytes < many.bytes
        assert many.weight_bytes == one.weight_bytes
        cells = [n, quantity(many.bytes, "B"), f"{many.intensity:.2f}"]
        rows.append([*cells, quantity(one.bytes, "B"), f"{one.intensity:.2f}"])
    report.table(
        f"n rows of the {name} in one forward, {MIDDLE} cached (intensity.pass_costs)",
        ("rows", "n sequences, bytes", "FLOP/byte", "one sequence, bytes", "FLOP/byte"),
        rows,
        key=f"rows, {name}",
    )
    first, last = costs[Pass(1, 1, MIDDLE)], costs[Pass(1, ROWS[-1], MIDDLE)]
    report.say(
        f"{ROWS[-1]} rows of one sequence read {last.bytes / first.bytes:.2f} times the bytes of "
        f"one row: they share the weights and the cache too. This is what verifying "
        f"{ROWS[-1] - 1} drafts costs in bytes, and where speculative decoding finds its time.",
        bytes_ratio=last.bytes / first.bytes,
    )


def print_phases(report: Report, name: str, model: Transformer, seed: int) -> None:
    """A prompt is one forward of many rows."""
    prompt = prompts_of(name, model, 1, LONG_PROMPT, seed)
    n_new = LONG_PROMPT // 2
    run = measure.count_plain(model, prompt, n_new, seed, 3)
    phases = {"prefill": LONG_PROMPT - 1, "decode": n_new}
    costs = {phase: Cost.of(run.target, phase).per(n) for phase, n in phases.items()}
    report.table(
        f"Per token of the {name}: {phases['prefill']} of a prompt in one forward, then {n_new} "
        "one by one (measure.count_plain)",
        ("phase", "FLOPs", "weight bytes", "KV bytes", "FLOP/byte"),
        [cost_row(phase, cost) for phase, cost in costs.items()],
        key=f"phases, {name}",
    )
    prefill, decode = costs["prefill"], costs["decode"]
    assert prefill.intensity > decode.intensity
    report.say(
        f"Prefill does {prefill.intensity / decode.intensity:.0f} times the FLOP per byte of "
        "decoding: the same weights, read once for all rows (the head, which makes logits, is not "
        "read for a prompt).",
        ratio=prefill.intensity / decode.intensity,
    )


# ---- times --------------------------------------------------------------------------------------


def print_times(report: Report, models: dict[str, Transformer], seed: int, fast: bool) -> None:
    """What the clock says, apart."""
    repeats, n_new = (3, 16) if fast else (12, 32)
    report.section(
        "Times of this machine", "They differ from run to run; ratios less so than times."
    )
    report.table("This machine (bench.machine)", ("what", "value"), bench.machine(), key="machine")
    rows = []
    for name, model in models.items():
        prompt = prompts_of(name, model, 1, PROMPT, seed)[0]
        bare = intensity.WithoutCache(model)

        def write(by: Any, prompt: Any = prompt) -> None:
            autoregressive_generate(by, prompt, n_new, rng=measure.streams(1, seed, 4)[0])

        def write_with(model: Any = model) -> None:
            write(model)

        def write_without(model: Any = bare) -> None:
            write(model)

        cache = bench.Ratio.of(measure.paired_seconds([write_without, write_with], repeats))
        many = [bench.forward_of(model, n) for n in (ROWS[-1], 1)]
        prefill = [bench.forward_of(model, LONG_PROMPT, 0), bench.forward_of(model, 1)]
        row_ratio = bench.Ratio.of(measure.paired_seconds(many, 5 * repeats))
        prompt_ratio = bench.Ratio.of(measure.paired_seconds(prefill, 5 * repeats))
        rows.append([name, *(f"{r.ratio:.2f}" for r in (cache, row_ratio, prompt_ratio))])
    report.table(
        f"Time ratios, medians of {repeats} and {5 * repeats} repeats side by side "
        "(measure.paired_seconds)",
        (
            "model",
            f"{n_new} tokens, no cache / cache",
            f"{ROWS[-1]} rows / 1",
            f"prompt of {LONG_PROMPT} / 1 token",
        ),
        rows,
        key="times",
    )


if __name__ == "__main__":
    run(main)
