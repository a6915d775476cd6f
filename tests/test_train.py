"""AdamW, the schedule, and a run that can be interrupted."""

import hashlib
import json
import os
import runpy
import signal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from lab import checkpoint, corpus
from lab.backprop import held_out_loss
from lab.config import ModelConfig
from lab.train import Recipe, Trainer, clip_gradients

CONFIG = ModelConfig(vocab=7, d_model=8, n_layers=1, n_heads=2, d_ff=8, max_len=32)
RECIPE = Recipe(tokens=64 * 40, batch_tokens=64, stages=((8, 0.5), (16, 0.25), (32, 0.25)))
TEXT = np.tile([0, 1, 2, 3, 4, 5, 6, 5, 3, 1], 60)
SCRIPT = Path(__file__).parents[1] / "scripts" / "train_models.py"


def trainer(seed=0, recipe=RECIPE, tokens=TEXT):
    return Trainer(CONFIG, recipe, tokens, seed)


def run(one, steps=None):
    losses = []
    while not one.done and (steps is None or len(losses) < steps):
        losses.append(one.advance())
    return losses


def assert_same_weights(one, other):
    for name in CONFIG.shapes():
        np.testing.assert_array_equal(one.params[name], other.params[name], err_msg=name)


def test_adamw_equals_the_formula_computed_by_hand():
    recipe = Recipe(tokens=64 * 3, batch_tokens=64, stages=((8, 1.0),), lr=0.01, warmup=0, clip=1e9)
    one = trainer(recipe=recipe)
    name = "layers.0.attn_norm"  # no decay
    matrix = "layers.0.qkv"
    beta1, beta2 = recipe.betas
    expected = {key: one.params[key].astype(np.float64) for key in (name, matrix)}
    mean, square = dict.fromkeys(expected, 0.0), dict.fromkeys(expected, 0.0)
    for t in (1, 2, 3):
        one.advance()
        rate = recipe.learning_rate(t - 1)
        for key in expected:
            grad = one._grads[key].astype(np.float64)
            mean[key] = beta1 * mean[key] + (1 - beta1) * grad
            square[key] = beta2 * square[key] + (1 - beta2) * grad**2
            move = mean[key] / (1 - beta1**t)
            move = move / (np.sqrt(square[key] / (1 - beta2**t)) + recipe.eps)
            decay = recipe.weight_decay if key == matrix else 0
            expected[key] = expected[key] * (1 - rate * decay) - rate * move
    for key in expected:
        np.testing.assert_allclose(one.params[key], expected[key], rtol=2e-5, atol=2e-6)


def test_clipping_scales_to_the_largest_norm_and_leaves_smaller_ones():
    grads = {"a": np.array([3.0]), "b": np.array([[0.0, 4.0]])}
    assert clip_gradients(grads, 10.0) == 5.0
    assert grads["a"][0] == 3.0
    assert clip_gradients(grads, 1.0) == 5.0
    np.testing.assert_allclose([grads["a"][0], grads["b"][0, 1]], [0.6, 0.8])


def test_schedule_rises_then_falls_as_half_a_cosine():
    recipe = Recipe(tokens=1024 * 101, batch_tokens=1024, lr=1.0, final_lr=0.1, warmup=0.1)
    rates = [recipe.learning_rate(step) for step in range(recipe.steps)]
    assert recipe.steps == 101
    np.testing.assert_allclose(rates[:10], np.arange(1, 11) / 10)
    assert rates[10] == 1.0
    assert rates[55] == pytest.approx(0.55, abs=0.01)  # half way down
    assert rates[100] == pytest.approx(0.1)
    assert all(a >= b for a, b in pairwise(rates[10:]))


def test_contexts_grow_and_hold_their_shares_of_the_tokens():
    contexts = [RECIPE.context(step) for step in range(RECIPE.steps)]
    assert contexts == [8] * 20 + [16] * 10 + [32] * 10


def test_learns_a_text_that_repeats():
    losses = run(
        trainer(recipe=Recipe(tokens=64 * 150, batch_tokens=64, stages=((16, 1.0),), lr=0.01))
    )
    assert losses[0] > 1.5
    assert losses[-1] < 0.35  # only 1, 3 and 5, which occur twice, need the token before


def test_same_seed_same_weights_and_another_seed_others():
    one, same, other = trainer(), trainer(), trainer(seed=1)
    assert run(one) == run(same)
    run(other)
    assert_same_weights(one, same)
    assert not np.array_equal(one.params["head"], other.params["head"])


def test_global_numpy_random_state_is_untouched():
    before = np.random.get_state()[1].tobytes()  # noqa: NPY002
    run(trainer(), 3)
    assert np.random.get_state()[1].tobytes() == before  # noqa: NPY002


@pytest.mark.parametrize("cut", [1, 19, 20, 39, 40])
def test_a_resumed_run_gives_the_weights_of_an_uninterrupted_one(tmp_path, cut):
    whole, first, second = trainer(), trainer(), trainer()
    losses = run(whole)
    state = tmp_path / "scratch" / "state.npz"
    begun = run(first, cut)
    first.save_state(state)
    second.load_state(state)
    assert second.step == cut
    assert begun + run(second) == losses
    assert_same_weights(whole, second)
    assert [path.name for path in state.parent.iterdir()] == ["state.npz"]


def test_state_of_another_run_is_refused_and_changes_nothing(tmp_path):
    one = trainer()
    run(one, 3)
    one.save_state(tmp_path / "state.npz")
    for other in (trainer(seed=1), trainer(tokens=TEXT[1:]), trainer(recipe=Recipe(tokens=4096))):
        before = other.params["head"].copy()
        with pytest.raises(ValueError, match=r"state\.npz belongs to another run"):
            other.load_state(tmp_path / "state.npz")
        assert other.step == 0
        np.testing.assert_array_equal(other.params["head"], before)


def test_a_truncated_state_is_refused_by_name_and_changes_nothing(tmp_path):
    one, other = trainer(), trainer()
    run(one, 3)
    path = tmp_path / "state.npz"
    one.save_state(path)
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"state\.npz is damaged"):
            other.load_state(path)
    assert other.step == 0
    with pytest.raises(OSError, match="nowhere"):
        other.load_state(tmp_path / "nowhere.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": 0}, "tokens must be at least 1, got 0"),
        ({"lr": 0.0}, "lr must be above 0, got 0.0"),
        ({"stages": ((48, 1.0),)}, "context 48 does not divide batch_tokens=64"),
        ({"stages": ((8, 0.5), (16, 0.6))}, "shares must sum to 1, got 1.1"),
        ({"stages": ((8, 1.5), (16, -0.5))}, "share must be above 0, got -0.5"),
    ],
)
def test_bad_recipes_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**({"tokens": 100, "batch_tokens": 64, "stages": ((8, 1.0),)} | change))


def test_bad_texts_are_named():
    with pytest.raises(ValueError, match="more than 32 tokens, got 20"):
        trainer(tokens=TEXT[:20])
    with pytest.raises(ValueError, match=r"tokens must be in 0\.\.6, got 1\.\.7"):
        trainer(tokens=TEXT + 1)


def test_a_learned_position_for_every_context():
    config = ModelConfig(vocab=7, d_model=8, n_layers=1, n_heads=2, d_ff=8, max_len=16,
                         positions="learned")  # fmt: skip
    with pytest.raises(ValueError, match="max_len=16 is less than the context 32"):
        Trainer(config, RECIPE, TEXT, 0)


def test_a_loss_that_is_no_number_stops_the_run_and_leaves_the_weights(monkeypatch):
    one = trainer()
    before = {name: value.copy() for name, value in one.params.items()}
    monkeypatch.setattr("lab.train.loss_and_grads", lambda *args: float("nan"))
    with pytest.raises(FloatingPointError, match="loss is nan at step 0"):
        one.advance()
    assert one.step == 0
    for name, value in before.items():
        np.testing.assert_array_equal(one.params[name], value)


# ---------------------------------------------------------------------------------- the script


@pytest.fixture
def script(monkeypatch):
    """scripts/train_models.py with two tiny models, its signal handlers undone afterwards."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    names = runpy.run_path(str(SCRIPT))
    config = ModelConfig(vocab=256, d_model=8, n_layers=1, n_heads=2, d_ff=8)
    common = {"batch_tokens": 256, "stages": ((32, 0.5), (64, 0.5))}
    tiny = {
        "target": (config, Recipe(tokens=256 * 30, **common)),
        "draft_1l": (config, Recipe(tokens=256 * 20, **common)),
    }
    main = names["main"]
    monkeypatch.setitem(main.__globals__, "MODELS", tiny)
    yield main
    for number, handler in handlers.items():
        signal.signal(number, handler)


def arguments(folder):
    return ["--out", str(folder / "out"), "--scratch", str(folder / "scratch"), "--seed", "5"]


def test_script_writes_a_model_and_its_report_and_leaves_nothing_else(script, tmp_path, capsys):
    assert script(arguments(tmp_path)) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "models.json",
        "target.npz",
        "draft_1l.npz",
    }
    assert list((tmp_path / "scratch").iterdir()) == []
    model = checkpoint.load(tmp_path / "out" / "target.npz")
    report = json.loads((tmp_path / "out" / "models.json").read_text())
    entry = report["models"]["target"]
    assert entry["tokens"] == 256 * 30
    assert entry["seed"] == 5
    assert entry["sha256"] == sha256(tmp_path / "out" / "target.npz")
    loss = held_out_loss(model.config, model.params(), corpus.held_out_tokens(), 128)
    assert entry["held_out_nats_per_byte"]["context 128"] == pytest.approx(loss, abs=1e-4)
    line = next(line for line in capsys.readouterr().out.splitlines() if "tokens/s" in line)
    assert all(word in line for word in ("step 30/30", "loss", "nats", "s left"))


@pytest.mark.slow
def test_script_stopped_within_a_step_goes_on_to_the_same_files(script, tmp_path, monkeypatch):
    """A signal in the middle of a step lets that step end; models that are done stay done."""
    advance, calls = Trainer.advance, []

    def interrupted(self):
        calls.append(self.step)
        if len(calls) in (12, 38):
            os.kill(os.getpid(), signal.SIGINT)
        return advance(self)

    monkeypatch.setattr(Trainer, "advance", interrupted)
    first, second = tmp_path / "first", tmp_path / "second"
    assert script(arguments(first)) == 130
    assert [path.name for path in (first / "scratch").iterdir()] == ["target.npz"]
    assert list((first / "out").iterdir()) == []
    assert script(arguments(first)) == 130
    assert {path.name for path in (first / "out").iterdir()} == {"models.json", "target.npz"}
    assert script(arguments(first)) == 0
    assert calls == [*range(30), *range(20)]
    assert list((first / "scratch").iterdir()) == []

    monkeypatch.setattr(Trainer, "advance", advance)
    assert script(arguments(second)) == 0
    for name in ("target.npz", "draft_1l.npz", "models.json"):
        assert sha256(first / "out" / name) == sha256(second / "out" / name)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
