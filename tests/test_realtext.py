"""Acceptance along real text: the stored models' own figures, hand cases, identities."""

import json
from importlib import resources
from itertools import pairwise

import numpy as np
import pytest

from lab import corpus
from lab.acceptance import PROMPT, accept_of
from lab.measure import continuations
from lab.ngram import PromptLookup
from lab.realtext import (
    LOOKUP,
    draft,
    draft_along,
    held_out_nats,
    lenient_along,
    lookup_along,
    mean_of,
    prompts_of,
    target,
    target_laws_along,
)
from lab.sampling import Sampling
from lab.theory import acceptance

LEVELS = (1.0, 0.5, 0.3, 0.1)


@pytest.fixture(scope="module", params=[0.0, 1.0])
def material(request):
    """Temperature, texts, the target's laws at it and at 1."""
    sampling = Sampling(temperature=request.param)
    texts = continuations(target(), prompts_of("unicode", 3, 0), 20, 0, 1, sampling=sampling)
    return (
        request.param,
        texts,
        target_laws_along(texts, sampling),
        target_laws_along(texts, Sampling()),
    )


def test_held_out_nats_are_those_measured_after_training():
    """Other windows of the same text: 5 errors."""
    models = json.loads((resources.files("lab") / "data" / "models.json").read_text())
    stored = models["models"]["mixed_target"]["held_out_nats_per_byte"]["unicode"]["context 256"]
    nats = held_out_nats("unicode", 12)
    assert abs(nats.mean - stored) < 5 * nats.stderr


def test_prompts_are_held_out_and_repeatable():
    held_out = corpus.held_out_tokens("python").tobytes()
    prompts = prompts_of("python", 4, 7)
    assert all(len(p) == PROMPT and p.tobytes() in held_out for p in prompts)
    assert np.array_equal(prompts, prompts_of("python", 4, 7))
    assert not np.array_equal(prompts, prompts_of("python", 4, 8))


def test_accept_of_is_q_over_p_at_most_1_and_0_where_the_target_cannot():
    p = np.array([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]])
    q = np.array([[0.25, 0.75], [0.9, 0.1], [0.5, 0.5]])
    assert accept_of(p, q, np.array([0, 0, 1])).tolist() == [0.5, 1.0, 0.0]


def test_a_model_along_texts_by_its_laws_one_prefix_at_a_time(material):
    temperature, texts, laws, _ = material
    sampling = Sampling(temperature=temperature)
    along = draft_along("bigram", texts, laws, sampling, 4)
    for text, p, accept, betas in zip(texts, laws, along.accept, along.betas, strict=True):
        for t in (0, 7, 19):
            prefix = text[: PROMPT + t]
            q = sampling.probs(np.log(draft("bigram").probs(prefix)))
            token = text[PROMPT + t]
            assert accept[t] == pytest.approx(min(1, q[token] / p[t, token]))
            assert betas[t] == pytest.approx(acceptance(p[t], q))
    assert along.alpha == mean_of(along.betas)
    if temperature == 0:
        assert all(map(np.array_equal, along.accept, along.betas))


def test_lookup_along_by_hand():
    """The text goes 0 1 2 3 0 1 2 3 ...: every copy is right, from any start; then a 9."""
    text = np.concatenate((np.arange(PROMPT) % 4, [0, 1, 9, 3]))
    accept = lookup_along(PromptLookup(10), text, 3)
    #  from 0: 0 1 2 proposed; from 1: 1 2 3; from 2: 2 3; from 3, behind the 9: nothing
    assert accept.tolist() == [[1, 1, 0], [1, 0, 1], [0, 1, 0], [0, 0, 0]]


def test_lookup_has_acceptances_and_no_beta(material):
    temperature, texts, laws, _ = material
    along = draft_along(LOOKUP, texts, laws, Sampling(temperature=temperature), 4)
    assert along.betas == ()
    assert [a.shape for a in along.accept] == [(20, 4)] * 3


def test_lenience_at_1_is_the_exact_rule_and_less_keeps_more(material):
    temperature, texts, laws, plain = material
    name = "trained 1L"
    exact = draft_along(name, texts, laws, Sampling(temperature=temperature), 4)
    found = lenient_along(name, texts, plain, temperature, LEVELS)
    rows = [np.concatenate(found[name, level]) for level in LEVELS]
    assert rows[0] == pytest.approx(np.concatenate(exact.betas))
    assert all((more >= less).all() for less, more in pairwise(rows))
    assert rows[-1].mean() > rows[0].mean()
    if temperature == 0:
        assert set(np.concatenate(rows)) <= {0.0, 1.0}


def test_an_unknown_draft_is_named():
    with pytest.raises(ValueError, match=r"name='5-gram' must be one of \['unigram'"):
        draft("5-gram")
