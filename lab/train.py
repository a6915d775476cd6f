"""Train the lab's small models: AdamW, warm-up and cosine, clipping, contexts that grow.

A run is a function of (config, recipe, tokens, seed): the batch of a step is drawn by a generator
seeded with [seed, step], so a run that was interrupted and resumed gives the same weights as one
that was not.
"""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lab.backprop import Params, Tokens, init_params, loss_and_grads
from lab.config import ModelConfig
from lab.files import replacing

__all__ = ["Recipe", "Trainer"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a model is trained; shares are of `tokens`.

    Short contexts first: most of what a byte model learns early needs few bytes before it, and a
    short context is the cheaper one.
    """

    tokens: int  # trained on in all, repeats counted; rounded up to whole steps
    batch_tokens: int = 2048  # of one step, whatever the context
    stages: tuple[tuple[int, float], ...] = (
        (32, 0.2),
        (64, 0.3),
        (128, 0.35),
        (256, 0.1),
        (512, 0.05),
    )
    lr: float = 2e-3  # the highest
    final_lr: float = 0.02  # share of lr that is left at the end
    warmup: float = 0.02  # share of the steps in which the rate rises
    weight_decay: float = 0.1  # of matrices only, embeddings included
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-8
    clip: float = 1.0  # largest global norm of the gradient

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"tokens must be at least 1, got {self.tokens}")
        if not self.lr > 0:
            raise ValueError(f"lr must be above 0, got {self.lr}")
        for context, share in self.stages:
            if context < 1 or self.batch_tokens % context:
                raise ValueError(
                    f"stages: context {context} does not divide batch_tokens={self.batch_tokens}"
                )
            if share <= 0:
                raise ValueError(f"stages: share must be above 0, got {share}")
        total = sum(share for _, share in self.stages)
        if abs(total - 1) > 1e-9:
            raise ValueError(f"stages: shares must sum to 1, got {total}")

    @property
    def steps(self) -> int:
        return math.ceil(self.tokens / self.batch_tokens)

    def context(self, step: int) -> int:
        """Positions of a sequence at `step` (from 0)."""
        end = 0.0
        for context, share in self.stages:
            end += share * self.steps
            if step < end - 0.5:
                return context
        return self.stages[-1][0]

    def learning_rate(self, step: int) -> float:
        """Linear warm-up, then half a cosine (Loshchilov, Hutter 2017) down to `final_lr * lr`."""
        rising = max(1, round(self.warmup * self.steps))
        if step < rising:
            return self.lr * (step + 1) / rising
        progress = (step - rising) / max(1, self.steps - 1 - rising)
        fall = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        return self.lr * (self.final_lr + (1 - self.final_lr) * fall)


class Trainer:
    """A model in training.

    Parameters
    ----------
    config : ModelConfig
        Shape of the model; its dtype is the dtype of the training.
    recipe : Recipe
    tokens : (N,) int
        The text; a step reads windows of it that start anywhere.
    seed : int
        Of the starting weights and of every batch.

    Attributes
    ----------
    params : dict of arrays
        The weights, changed in place by every step.
    step : int
        Steps done.
    """

    def __init__(self, config: ModelConfig, recipe: Recipe, tokens: Tokens, seed: int) -> None:
        longest = max(context for context, _ in recipe.stages)
        if len(tokens) <= longest:
            raise ValueError(f"tokens must hold more than {longest} tokens, got {len(tokens)}")
        if config.positions == "learned" and config.max_len < longest:
            raise ValueError(f"max_len={config.max_len} is less than the context {longest}")
        if tokens.min() < 0 or tokens.max() >= config.vocab:
            raise ValueError(
                f"tokens must be in 0..{config.vocab - 1}, got {tokens.min()}..{tokens.max()}"
            )
        self.config, self.recipe, self.tokens, self.seed = config, recipe, tokens, seed
        self.params = init_params(config, np.random.default_rng([seed]))
        self.step = 0
        self._mean = _zeros_like(self.params)
        self._square = _zeros_like(self.params)
        self._grads = _zeros_like(self.params)

    @property
    def done(self) -> bool:
        return self.step >= self.recipe.steps

    def advance(self) -> float:
        """Do one step; its loss before the step, in nats per token."""
        context = self.recipe.context(self.step)
        rng = np.random.default_rng([self.seed, 1 + self.step])
        n_windows = self.recipe.batch_tokens // context
        starts = rng.integers(len(self.tokens) - context, size=n_windows)
        windows = self.tokens[starts[:, None] + np.arange(context + 1)]  # (B, T + 1)
        for grad in self._grads.values():
            grad[...] = 0
        loss = loss_and_grads(
            self.config, self.params, windows[:, :-1], windows[:, 1:], self._grads
        )
        if not math.isfinite(loss):
            raise FloatingPointError(f"loss is {loss} at step {self.step}; lr={self.recipe.lr}")
        clip_gradients(self._grads, self.recipe.clip)
        self._adamw()
        self.step += 1
        return loss

    def _adamw(self) -> None:
        """One step of AdamW (Loshchilov, Hutter 2019): the decay is no part of the gradient."""
        recipe, count = self.recipe, self.step + 1
        rate = recipe.learning_rate(self.step)
        beta1, beta2 = recipe.betas
        scale = rate / (1 - beta1**count)
        unbiased = 1 / (1 - beta2**count)
        for name, param in self.params.items():
            grad, mean, square = self._grads[name], self._mean[name], self._square[name]
            mean += (1 - beta1) * (grad - mean)
            square += (1 - beta2) * (grad * grad - square)
            if param.ndim == 2:
                param *= 1 - rate * recipe.weight_decay
            param -= scale * mean / (np.sqrt(square * unbiased) + recipe.eps)

    # ------------------------------------------------------------------------ interrupt, resume

    def save_state(self, path: Path) -> None:
        """Write weights, both moments and the step; the file at `path` is whole at any time."""
        arrays = {"identity": np.array(self._identity()), "step": np.array(self.step)}
        for kind, group in self._state().items():
            arrays |= {f"{kind}/{name}": value for name, value in group.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial, open(partial, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    def load_state(self, path: Path) -> None:
        """Go on from where `save_state` left off.

        Raises
        ------
        OSError
            If there is no such file.
        ValueError
            If the file is damaged, or was written by another run: another config, recipe, seed or
            text.
        """
        try:
            with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
                identity, step = str(file["identity"]), int(file["step"])
                if identity == self._identity():
                    state = {
                        kind: {name: file[f"{kind}/{name}"] for name in group}
                        for kind, group in self._state().items()
                    }
        except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
            raise ValueError(
                f"state {path} is damaged ({error}): delete it to begin anew"
            ) from error
        if identity != self._identity():
            raise ValueError(
                f"state {path} belongs to another run: delete it to begin anew\n"
                f"  there: {identity}\n  here:  {self._identity()}"
            )
        for kind, group in self._state().items():
            for name, value in group.items():
                value[...] = state[kind][name]
        self.step = step

    def _state(self) -> dict[str, Params]:
        return {"param": self.params, "mean": self._mean, "square": self._square}

    def _identity(self) -> str:
        text = [
            len(self.tokens),
            int(np.sum(self.tokens * (1 + np.arange(len(self.tokens)) % 997))),
        ]
        run = [asdict(self.config), asdict(self.recipe), self.seed, text]
        return json.dumps(run, default=str)


def clip_gradients(grads: Params, largest: float) -> float:
    """Scale all gradients so that their global norm is at most `largest`; the norm before."""
    norm = math.sqrt(sum(float(np.vdot(grad, grad)) for grad in grads.values()))
    if norm > largest:
        for grad in grads.values():
            grad *= largest / norm
    return norm


def _zeros_like(params: Params) -> Params:
    return {name: np.zeros_like(value) for name, value in params.items()}
