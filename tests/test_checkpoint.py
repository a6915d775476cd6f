"""The lab's own model file: what is saved is loaded, and nothing else is."""

import hashlib
import json
import re
from importlib import resources

import numpy as np
import pytest

from lab import checkpoint, corpus
from lab.backprop import init_params
from lab.config import ModelConfig

CONFIG = ModelConfig(
    vocab=11, d_model=8, n_layers=2, n_heads=4, n_kv_heads=2, d_ff=6, max_len=16, bias=True
)


def weights(config=CONFIG):
    return init_params(config, np.random.default_rng([3, 1]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_saved_model_is_loaded_with_its_weights_rounded_once(tmp_path, dtype):
    path, params = tmp_path / "model.npz", weights()
    checkpoint.save(path, CONFIG, params, dtype)
    model = checkpoint.load(path)
    assert model.config == CONFIG
    assert set(model.params()) == set(params)
    for name, value in model.params().items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, params[name].astype(dtype).astype(np.float32))
    assert [found.name for found in tmp_path.iterdir()] == ["model.npz"]


def test_file_is_a_plain_npz_that_numpy_alone_can_read(tmp_path):
    checkpoint.save(tmp_path / "model.npz", CONFIG, weights())
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        assert set(file.files) == {"header", *CONFIG.shapes()}
        assert json.loads(str(file["header"]))["config"]["n_kv_heads"] == 2
        assert file["head"].dtype == np.float16


def test_a_float64_model_stays_float64(tmp_path):
    config = ModelConfig(vocab=11, d_model=8, n_layers=1, n_heads=2, d_ff=6, dtype="float64")
    checkpoint.save(tmp_path / "model.npz", config, weights(config), np.float64)
    model = checkpoint.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(model.params()["head"], weights(config)["head"])
    assert model.forward([1, 2], model.new_cache()).dtype == np.float64


def test_missing_file_is_an_oserror(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        checkpoint.load(tmp_path / "nowhere.npz")


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncated_file_is_refused_by_name(tmp_path, part):
    path = tmp_path / "model.npz"
    checkpoint.save(path, CONFIG, weights())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ValueError, match=r"model\.npz' holds no whole model of the lab"):
        checkpoint.load(path)


def damage_header(**changes):
    header = {"format": checkpoint.FORMAT, "config": {"vocab": 11}} | changes
    return {"header": np.array(json.dumps(header))}


@pytest.mark.parametrize(
    "content",
    [
        {"weights": np.zeros(3)},
        {"header": np.array("no json")},
        {"header": np.array("[]")},
        damage_header(format="another 1"),
        damage_header(config={"vocab": 11, "colour": "red"}),
        damage_header(config={"vocab": 0}),
        damage_header() | {"head": np.zeros((2, 2))},
    ],
    ids=["foreign", "no json", "no object", "format", "unknown key", "bad size", "wrong arrays"],
)
def test_foreign_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "model.npz"
    np.savez(path, **content)
    with pytest.raises(ValueError, match=r"model\.npz' holds no whole model of the lab"):
        checkpoint.load(path)
    path.write_bytes(b"not an archive at all")
    with pytest.raises(ValueError, match=r"model\.npz' holds no whole model of the lab"):
        checkpoint.load(path)


def test_wrong_shape_inside_a_file_names_the_array(tmp_path):
    path = tmp_path / "model.npz"
    checkpoint.save(path, CONFIG, weights())
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **(arrays | {"layers.1.qkv": np.zeros((8, 3))}))
    with pytest.raises(ValueError, match=r"layers\.1\.qkv'\] must be \(8, 16\), got \(8, 3\)"):
        checkpoint.load(path)


def test_bad_arguments_of_save_leave_the_old_file_as_it_was(tmp_path):
    path, params = tmp_path / "model.npz", weights()
    checkpoint.save(path, CONFIG, params)
    before = path.read_bytes()
    large = params | {"head": np.full((8, 11), 1e5)}
    missing = {name: value for name, value in params.items() if name != "head"}
    wrong = params | {"head": np.zeros((8, 12))}
    for bad, message in [
        (large, "params['head'] holds NaN, or numbers too large"),
        (params | {"head": np.full((8, 11), np.nan)}, "params['head'] holds NaN"),
        (missing, "missing or unknown: ['head']"),
        (wrong, "params['head'] must be (8, 11), got (8, 12)"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            checkpoint.save(path, CONFIG, bad)
    with pytest.raises(ValueError, match="dtype must be float16, float32 or float64"):
        checkpoint.save(path, CONFIG, params, np.int8)
    with pytest.raises(ValueError, match=r"path must end in \.npz, got"):
        checkpoint.save(tmp_path / "model.bin", CONFIG, params)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["model.npz"]


def test_a_crash_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path, params = tmp_path / "model.npz", weights()
    checkpoint.save(path, CONFIG, params)
    before = path.read_bytes()

    def fails(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint.np, "savez", fails)
    with pytest.raises(OSError, match="disk full"):
        checkpoint.save(path, CONFIG, params)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["model.npz"]


# ---------------------------------------------------------------------- the models in lab/data


@pytest.fixture(scope="module")
def report():
    return json.loads((resources.files("lab") / "data" / "models.json").read_text())


def test_trained_models_are_the_ones_their_report_describes(report):
    data = resources.files("lab") / "data"
    assert set(report["corpus"]) == set(corpus.FILES)
    for text, entry in report["corpus"].items():
        assert entry["sha256_of_text"] == hashlib.sha256(corpus.load(text)).hexdigest()
        assert entry["held_out_bytes"] == len(corpus.held_out_tokens(text))
    for name in checkpoint.TRAINED:
        entry = report["models"][name]
        content = (data / entry["file"]).read_bytes()
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        model = checkpoint.load_trained(name)
        sizes = {key: value.size for key, value in model.params().items()}
        assert entry["parameters"] == sum(sizes.values())
        assert (model.vocab, model.max_len) == (256, 512)
    assert sum(path.stat().st_size for path in data.iterdir()) < 6e6


def test_trained_models_have_the_sizes_they_are_said_to_have():
    sizes = {
        name: (config.n_layers, config.d_model)
        for name in checkpoint.TRAINED
        for config in [checkpoint.load_trained(name).config]
    }
    assert sizes == {
        f"{learned}{name}": size
        for learned, names in (("", ("target", "draft_2l", "draft_1l")),
                               ("mixed_", ("target", "2l", "1l")))
        for name, size in zip(names, ((4, 128), (2, 64), (1, 32)), strict=True)
    }  # fmt: skip
    params = checkpoint.load_trained("target").params()
    assert sum(v.size for name, v in params.items() if name != "embedding") == 812_160


def test_held_out_loss_of_the_report_is_that_of_the_cached_forward_pass(report):
    """The transformer with its cache, on 20 windows of a held-out text.

    The mean of twenty windows of 128 bytes has a standard error of about 0.05 nats (plays, table)
    or 0.1 (source code).
    """
    cases = [
        (name, text, held_out)
        for name in checkpoint.TRAINED
        for found in [report["models"][name]["held_out_nats_per_byte"]]
        for text, held_out in (
            found if name.startswith("mixed") else {"shakespeare": found}
        ).items()
    ]
    assert len(cases) == 3 + 9
    for name, text, held_out in cases:
        model, tokens = checkpoint.load_trained(name), corpus.held_out_tokens(text)
        losses = []
        step = (len(tokens) - 129) // 20
        for start in range(0, 20 * step, step):
            window = tokens[start : start + 129]
            logits = model.forward(window[:-1], model.new_cache()).astype(np.float64)
            log_mass = np.log(np.exp(logits).sum(axis=-1))
            losses.append((log_mass - logits[np.arange(128), window[1:]]).mean())
        within = 0.3 if text == "python" else 0.15
        assert np.mean(losses) == pytest.approx(held_out["context 128"], abs=within), (name, text)


def test_an_unknown_trained_model_is_named():
    with pytest.raises(ValueError, match=r"name must be one of .*, got 'draft_3l'"):
        checkpoint.load_trained("draft_3l")
