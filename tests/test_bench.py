"""lab.bench and scripts/bench.py: structure and sanity; never a time."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from lab import bench, theory
from lab.bench import Ratio, RowCosts
from lab.console import Report
from lab.ledger import Ledger
from lab.measure import paired_seconds
from lab.transformer import ModelConfig, Transformer

SCRIPTS = Path(__file__).parent.parent / "scripts"
SMALL = ModelConfig(vocab=23, d_model=16, n_layers=2, n_heads=4, d_ff=24)


@pytest.fixture(scope="module")
def model():
    return Transformer.init(SMALL, 0)


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPTS / "bench.py"))


def test_machine_names_what_a_time_depends_on():
    facts = dict(bench.machine())
    assert list(facts) == [
        "system", "processor", "NumPy", "BLAS", "BLAS threads", "product of a few rows",
    ]  # fmt: skip
    assert facts["NumPy"] == np.__version__
    assert all(facts.values())


def test_plain_products_give_the_same_logits_from_the_same_weights(model):
    for single, tokens in ((True, [3]), (False, [3]), (False, [3, 1, 4])):
        plain = bench.with_plain_products(model, single)
        wanted = model.forward(tokens, model.new_cache())
        found = plain.forward(tokens, plain.new_cache())
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert plain.head.matrix.weights is model.head.matrix.weights


def test_plain_products_are_counted_like_tiled_ones(model):
    ledgers = Ledger(), Ledger()
    for m, ledger in zip((model, bench.with_plain_products(model)), ledgers, strict=True):
        m.forward([1, 2], m.new_cache(), ledger=ledger)
    assert ledgers[0].rows() == ledgers[1].rows()


def test_plain_products_need_a_dense_model(model):
    with pytest.raises(ValueError, match="model must be dense, got a QuantizedMatrix"):
        bench.with_plain_products(model.quantized())


@pytest.mark.parametrize("cached", [0, 5])
def test_a_timed_forward_leaves_its_cache_as_it_was(cached):
    class Spy:
        """Notes rows and cache length of each forward."""

        def __init__(self, model):
            self.model, self.vocab, self.seen = model, model.vocab, []
            self.new_cache, self.prefill = model.new_cache, model.prefill

        def forward(self, tokens, cache):
            self.seen.append((len(tokens), cache.length))
            return self.model.forward(tokens, cache)

    spy = Spy(Transformer.init(SMALL, 0))
    call = bench.forward_of(spy, 3, cached)
    call()
    call()
    assert spy.seen == [(3, cached)] * 2


@pytest.mark.parametrize("tied", [False, True])
def test_bare_products_are_those_of_every_matrix(tied, monkeypatch):
    config = ModelConfig(vocab=23, d_model=16, n_layers=2, n_heads=4, tied=tied)
    model = Transformer.init(config, 0)
    seen = []

    class Watched(np.ndarray):
        def __matmul__(self, other):
            seen.append((np.shape(self), np.shape(other)))
            return np.asarray(self) @ np.asarray(other)

    class Rng:
        def standard_normal(self, shape):
            return np.zeros(shape).view(Watched)

    monkeypatch.setattr(bench.np.random, "default_rng", lambda seed: Rng())
    bench.bare_products(model)()
    assert sum(w[0] * w[1] for _, w in seen) == model.matmul_parameters
    assert all(x == (1, w[0]) for x, w in seen)


def test_row_costs_have_a_ratio_for_each_number_of_rows(model):
    tiled, plain = bench.row_costs(model, (1, 2, 5), repeats=3, cached=4)
    assert (tiled.product, plain.product) == ("tiled", "plain")
    assert tiled.over_tiled == 1
    for costs in (tiled, plain):
        assert costs.rows == (1, 2, 5)
        assert costs.ratios[0] == 1
        assert all(0 < ratio < np.inf for ratio in costs.ratios)
        assert costs.one_row > 0
        assert 0 < costs.over_tiled < np.inf
        assert costs.most == 4


def test_row_costs_as_a_verify_cost():
    costs = RowCosts("tiled", (1, 2, 4, 9), (1.0, 0.9, 1.3, 1.8), 0.001)
    assert [costs(g) for g in (0, 1, 3, 8)] == [1.0, 0.9, 1.3, 1.8]
    assert costs(2) == pytest.approx(1.1)
    assert costs.least == 0.9
    found = theory.best_gamma(0.8, 0.05, costs, least_verify_cost=costs.least, max_gamma=costs.most)
    speeds = [theory.walltime_speedup(0.8, g, 0.05, costs) for g in range(9)]
    assert found == (int(np.argmax(speeds)), max(speeds))
    for gamma in (-1, 9):
        with pytest.raises(ValueError, match=rf"gamma={gamma} must be within 0\.\.8"):
            costs(gamma)


@pytest.mark.parametrize("rows", [(1,), (2, 3), (1, 3, 2), (1, 2, 2)])
def test_rows_must_rise_from_one(model, rows):
    with pytest.raises(ValueError, match="must rise from 1"):
        bench.row_costs(model, rows, repeats=1)


def test_a_ratio_is_the_median_of_ratios_and_not_the_ratio_of_medians():
    seconds = np.array([[2.0, 1.0], [30.0, 10.0], [4.0, 4.0]])
    ratio = Ratio.of(seconds)
    assert ratio == Ratio(2.0, 1.5, 2.5, (4.0, 4.0))
    assert Ratio.of(seconds, scale=8).ratio == 16


def test_forward_over_products(model):
    ratio = bench.forward_over_products(model, repeats=3, cached=4)
    assert 0 < ratio.low <= ratio.ratio <= ratio.high < np.inf


def test_engine_over_single_runs_every_block(model, monkeypatch):
    alone, together = [], []

    def single(target, draft, prompt, n_new, gamma, *, rng):
        alone.append((prompt.tolist(), n_new, gamma))

    def many(target, draft, prompts, n_new, gamma, *, rngs):
        together.append(([prompt.tolist() for prompt in prompts], n_new, gamma, len(rngs)))

    monkeypatch.setattr(bench, "speculative_generate", single)
    monkeypatch.setattr(bench, "generate_many", many)
    bench.engine_over_single(
        model, model, 0, repeats=2, prompts=6, prompt_length=3, n_new=5, gamma=2, block=2
    )
    prompts = together[0][0]
    assert [prompt for prompt, _, _ in alone] == prompts  # one warm-up and two repeats of two
    assert {(n, gamma) for _, n, gamma in alone} == {(5, 2)}
    assert [call[1:] for call in together] == [(5, 2, 6)] * 3


def test_engine_over_single_is_a_positive_ratio(model):
    ratio = bench.engine_over_single(
        model, model.quantized(), 0, 2, prompts=4, prompt_length=3, n_new=4, gamma=2, block=2
    )
    assert 0 < ratio.ratio < np.inf


def test_blocks_must_divide_the_prompts(model):
    with pytest.raises(ValueError, match="block=3 must divide prompts=4"):
        bench.engine_over_single(model, model, 0, 1, prompts=4, block=3)


def test_script_seconds(tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("import sys, lab.ledger; assert sys.argv[1:] == ['--fast']")
    bad.write_text("raise SystemExit('no such draft')")
    assert bench.script_seconds(good, "--fast") > 0
    with pytest.raises(RuntimeError, match=r"bad\.py .*no such draft"):
        bench.script_seconds(bad)


def test_the_script_prints_every_table(script, capsys):
    script["main"](["--fast", "--json", "--no-scripts", "--repeats", "1"])
    found = json.loads(capsys.readouterr().out)
    tables = {part["table"]: part for part in found["parts"] if "table" in part}
    assert list(tables) == [
        "machine", "engine", "forward", "rows, random model, trained target", "rows, d 768 x 1",
    ]  # fmt: skip
    assert [row[0] for row in tables["forward"]["rows"]] == ["random model", "trained target"]
    for key in list(tables)[3:]:
        measured = [row for row in tables[key]["rows"] if row[0] != "aim"]
        assert [row[1] for row in measured] == ["tiled", "plain"] * (len(measured) // 2)
        assert all(row[4] == "1.00" for row in measured)
        assert all(row[3] == "1.00" for row in measured if row[1] == "tiled")
        assert all(float(row[3]) > 0 for row in measured)


def test_the_script_times_the_main_script_by_parts(script, monkeypatch, capsys):
    called = []
    monkeypatch.setattr(
        bench, "script_seconds", lambda path, *options: called.append((path.name, options)) or 1.25
    )
    script["print_script"](Report("Times"), fast=True)
    assert [options[1] for _, options in called] == ["random", "text", "both"]
    assert {name for name, _ in called} == {"04_spec_decode_speedup.py"}
    assert "1.2 s" in capsys.readouterr().out


def test_the_script_says_where_the_main_script_is_missing(script, monkeypatch, capsys):
    monkeypatch.setitem(script["print_script"].__globals__, "MAIN_SCRIPT", Path("none/04_x.py"))
    script["print_script"](Report("Times"), fast=True)
    assert "04_x.py is not there" in capsys.readouterr().out


def test_t7_every_repeat_has_caches_of_its_own_and_prefills_its_prompts(model):
    class Spy:
        """Counts caches, and the positions that each prefill found in its cache."""

        def __init__(self, model):
            self.model, self.vocab, self.max_len = model, model.vocab, model.max_len
            self.caches, self.found, self.prefilled = 0, 0, 0

        def new_cache(self, batch=None):
            self.caches += 1
            return self.model.new_cache(batch)

        def prefill(self, tokens, cache, **more):
            self.found += int(np.sum(cache.length))
            self.prefilled += int(np.sum(more.get("counts", len(tokens))))
            self.model.prefill(tokens, cache, **more)

        def forward(self, tokens, cache, ledger=None, counts=None):
            return self.model.forward(tokens, cache, ledger, counts)

    spies = Spy(model), Spy(model.quantized())
    bench.engine_over_single(
        *spies, 0, repeats=2, prompts=4, prompt_length=5, n_new=6, gamma=2, block=2
    )
    for spy in spies:  # unmeasured once, then twice: four in one cache, two in one each
        assert spy.caches == 3 * (1 + 2)
        assert spy.prefilled == 3 * (4 + 2) * (5 - 1)
        assert spy.found == 0


def test_t7_every_repeat_is_in_the_result_and_one_more_was_made_before():
    made = []
    seconds = paired_seconds([lambda: made.append("a"), lambda: made.append("b")], 3)
    assert seconds.shape == (3, 2)
    assert (seconds > 0).all()
    assert made == ["a", "b"] * 4
