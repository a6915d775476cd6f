"""Train the byte-level targets and their drafts, and write lab/data/*.npz and models.json.

One target learns Shakespeare, one ("mixed") prose, source code and a table; each has two drafts.
The number of tokens is fixed, not the time: the same seed on the same machine gives the same
weights. Ctrl-C saves what was done; the same command goes on from there.

    python scripts/train_models.py                    about 45 minutes on one core
    python scripts/train_models.py --fast --out models
"""

import argparse
import ctypes
import hashlib
import json
import signal
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import lab  # noqa: F401  (one BLAS thread, before NumPy is loaded)
from lab import checkpoint, corpus
from lab.backprop import held_out_loss
from lab.config import ModelConfig
from lab.files import replacing
from lab.train import Recipe, Trainer

TARGET = ModelConfig(vocab=256, d_model=128, n_layers=4, n_heads=4, d_ff=336)
DRAFT_2L = ModelConfig(vocab=256, d_model=64, n_layers=2, n_heads=4, d_ff=192)
DRAFT_1L = ModelConfig(vocab=256, d_model=32, n_layers=1, n_heads=2, d_ff=96)
MODELS = {
    "target": (TARGET, Recipe(tokens=7_000_000, batch_tokens=512)),
    "draft_2l": (DRAFT_2L, Recipe(tokens=7_000_000, batch_tokens=512, lr=4e-3)),
    "draft_1l": (DRAFT_1L, Recipe(tokens=7_000_000, batch_tokens=512, lr=8e-3)),
    "mixed_target": (TARGET, Recipe(tokens=10_000_000, batch_tokens=512)),
    "mixed_2l": (DRAFT_2L, Recipe(tokens=7_000_000, batch_tokens=512, lr=4e-3)),
    "mixed_1l": (DRAFT_1L, Recipe(tokens=7_000_000, batch_tokens=512, lr=8e-3)),
}
FAST = 50  # --fast trains on this many times fewer tokens
SAVE_EVERY = 30.0  # seconds
CONTEXTS = (128, 256)
MEASURED = (
    "mean cross-entropy in nats per byte of the stored float16 weights over windows that do not "
    "overlap, every position of a window counted; held out: the last tenth of a text; train: "
    "as many bytes from its start"
)


def keep_freed_memory() -> None:
    """Tell glibc not to hand freed arrays back to the system: page faults take a third of the time.

    Elsewhere nothing is done, and nothing but the time changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        trim_threshold, mmap_threshold = -1, -3  # as in malloc.h
        mallopt(trim_threshold, 1 << 30)
        mallopt(mmap_threshold, 32 << 20)  # the most that every glibc takes


class Stop:
    """Turns Ctrl-C and SIGTERM into a question asked between steps: no step is left half done."""

    def __init__(self) -> None:
        self.asked = False
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, self._ask)

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True


def train(trainer: Trainer, name: str, state: Path, stop: Stop) -> None:
    """Run to the end, or until asked to stop; the state is saved now and then, and at the end."""
    if state.exists():
        trainer.load_state(state)
        print(f"{name}: goes on from step {trainer.step} of {trainer.recipe.steps} ({state})")
    recipe, first, mean = trainer.recipe, trainer.step, 0.0
    began = said = saved = time.perf_counter()
    while not (trainer.done or stop.asked):
        loss = trainer.advance()
        mean = loss if trainer.step == first + 1 else mean + 0.05 * (loss - mean)
        now = time.perf_counter()
        if now - said > 5 or trainer.done:
            rate = (trainer.step - first) / (now - began)
            print(
                f"{name}: step {trainer.step}/{recipe.steps}"
                f"  context {recipe.context(trainer.step - 1)}  loss {mean:.3f} nats"
                f"  {rate * recipe.batch_tokens:,.0f} tokens/s"
                f"  {(recipe.steps - trainer.step) / rate:.0f} s left",
                flush=True,
            )
            said = now
        if now - saved > SAVE_EVERY:
            trainer.save_state(state)
            saved = now
    trainer.save_state(state)


def learns_all(name: str) -> bool:
    """Whether a model learns all texts, not Shakespeare alone."""
    return name.startswith("mixed_")


def describe(name: str, trainer: Trainer, path: Path) -> dict[str, object]:
    """What models.json says of one model. Losses are those of the stored float16 weights."""
    model = checkpoint.load(path)
    params, config = model.params(), model.config
    sizes = {key: value.size for key, value in params.items()}

    def losses(text: str, held_out: bool) -> dict[str, float]:
        tokens = corpus.held_out_tokens(text)
        if not held_out:
            tokens = corpus.train_tokens(text)[: len(tokens)]
        return {
            f"context {context}": round(held_out_loss(config, params, tokens, context), 4)
            for context in CONTEXTS
        }

    def by_text(held_out: bool) -> dict[str, object]:
        if not learns_all(name):
            return {**losses("shakespeare", held_out)}
        return {text: losses(text, held_out) for text in corpus.FILES}

    return {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "parameters": sum(sizes.values()),
        "parameters_without_embedding": sum(sizes.values()) - sizes["embedding"],
        "seed": trainer.seed,
        "tokens": trainer.recipe.steps * trainer.recipe.batch_tokens,
        "recipe": asdict(trainer.recipe),
        "held_out_nats_per_byte": by_text(held_out=True),
        "train_nats_per_byte": by_text(held_out=False),
    }


def update_report(path: Path, name: str, entry: dict[str, object]) -> None:
    """Enter one model into models.json; what it says of the others stays."""
    report = json.loads(path.read_text()) if path.exists() else {"models": {}}
    report["models"][name] = entry
    report["corpus"] = {
        text: {
            "file": corpus.FILES[text],
            "bytes": len(corpus.load(text)),
            "held_out_bytes": len(corpus.held_out_tokens(text)),
            "sha256_of_text": hashlib.sha256(corpus.load(text)).hexdigest(),
        }
        for text in corpus.FILES
    }
    report["measured"] = MEASURED
    with replacing(path) as partial:
        partial.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fast", action="store_true", help=f"1/{FAST} of the tokens")
    parser.add_argument("--only", choices=MODELS, action="append", help="may be repeated")
    parser.add_argument("--out", type=Path, default=Path("lab/data"), help="default: lab/data")
    parser.add_argument(
        "--scratch", type=Path, default=Path("build/train"), help="states of runs not finished"
    )
    args = parser.parse_args(argv)

    keep_freed_memory()
    args.out.mkdir(parents=True, exist_ok=True)
    stop = Stop()
    for name in args.only or MODELS:
        config, recipe = MODELS[name]
        if args.fast:
            recipe = replace(recipe, tokens=recipe.tokens // FAST)
        tokens = corpus.mixed_tokens() if learns_all(name) else corpus.train_tokens()
        trainer = Trainer(config, recipe, tokens, args.seed)
        state = args.scratch / f"{name}.npz"
        train(trainer, name, state, stop)
        if stop.asked:
            print(f"stopped; {state} holds step {trainer.step}: the same command goes on from it")
            return 130
        path = args.out / f"{name}.npz"
        checkpoint.save(path, config, trainer.params)
        entry = describe(name, trainer, path)
        update_report(args.out / "models.json", name, entry)
        print(f"{name}: {path}, held out {entry['held_out_nats_per_byte']} nats per byte")
    for name in args.only or MODELS:  # not before: a finished model is not trained again
        (args.scratch / f"{name}.npz").unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
