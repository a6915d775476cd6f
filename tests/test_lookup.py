"""Prompt lookup: what it finds, by the reports' cells and a search written again; in the loop it
changes nothing but the number of calls."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import FIX_C, GREEDY, PROMPT, plain_greedy

from lab.decode import autoregressive_generate, speculative_generate
from lab.exact import HashLM, TableLM, audit_loop
from lab.ngram import PromptLookup, TokenCache

T = [5, 6, 7, 5, 6, 8, 5, 6]


def found(tokens, gamma=3, vocab=11, **settings):
    return PromptLookup(vocab, **settings).lookup(tokens, gamma).tolist()


def by_hand(tokens, gamma, n_min, n_max, match):
    """Every length, every place, one after the other; a match ends before the text does."""
    for n in range(min(n_max, len(tokens)), n_min - 1, -1):
        places = [i for i in range(len(tokens) - n) if tokens[i : i + n] == tokens[-n:]]
        if places:
            after = (places[0] if match == "earliest" else places[-1]) + n
            return tokens[after : after + gamma]
    return []


# ---- What is found -----------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [1.5, -1, "2", None, True])
def test_gamma_is_a_whole_number(gamma):
    with pytest.raises(ValueError, match=r"gamma=.* must be a whole number >= 0"):
        found([1, 2, 1], gamma=gamma)


def test_w5_latest_or_earliest_match():
    assert found(T, n_min=2, n_max=2, match="earliest") == [7, 5, 6]
    assert found(T, n_min=2, n_max=2, match="latest") == [8, 5, 6]
    assert found(T, n_min=2, n_max=2) == [8, 5, 6], "the default says what it is"


@pytest.mark.parametrize("match", ["latest", "earliest"])
def test_w5_nothing_found_and_too_little_text(match):
    for tokens in ([1, 2, 3, 4], [1], []):
        assert found(tokens, match=match) == []
    assert found([1, 1], n_min=2, n_max=2, match=match) == []


@pytest.mark.parametrize("match", ["latest", "earliest"])
def test_w5_a_continuation_that_reaches_the_end_is_cut_not_dropped(match):
    assert found([9, 9, 9], n_min=2, n_max=2, match=match) == [9]
    assert found([3, 1, 2, 3], gamma=9, n_min=1, n_max=1, match=match) == [1, 2, 3]


def test_w5_the_last_tokens_never_match_themselves():
    """The fault finds the end of the text itself, with nothing behind it."""
    for tokens in (T, [9, 9, 9], [4, 4]):
        for match in ("latest", "earliest"):
            assert found(tokens, match=match) != []
    assert by_hand([*T, 1], 3, 2, 2, "latest") == []
    assert found([*T, 1], n_min=2, n_max=2) == []


def test_w6_the_longest_match_wins_and_lengths_can_be_chosen():
    text = [1, 2, 3, 7, 3, 9, 2, 3]  # "2 3" was followed by 7, the latest "3" by 9
    assert found(text, gamma=1, n_min=1, n_max=3) == [7]
    assert found(text, gamma=1, n_min=1, n_max=1) == [9]
    assert found(text, gamma=1, n_min=3, n_max=3) == []
    assert found(text, gamma=1, n_min=3, n_max=9) == [], "a length beyond the text is none"


def test_w6_on_repetitive_structure_short_matches_cost_rejected_drafts():
    """Records "separator, value, separator, ..." whose values never repeat: a match of one token
    finds every separator and is always wrong about the value."""
    values = [2, 3, 4, 5, 6, 7, 8, 9]
    text = [token for value in values for token in (1, value)]
    target = Recited(text)
    runs = {}
    for n_min in (1, 2):
        draft = PromptLookup(11, n_min=n_min, n_max=3)
        run = speculative_generate(target, draft, text[:5], 10, 3, sampling=GREEDY, rng=generator())
        assert run.tokens.tolist() == text[5:15]
        runs[n_min] = sum(r.drafted for r in run.rounds), run.target_calls
    assert runs[1][0] > 0
    assert runs[2] == (0, 10)
    assert runs[1][1] == 10, "no draft was right: all of them were for nothing"


texts = st.lists(st.integers(0, 2), max_size=14)
lengths = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(sorted)


@given(texts, st.integers(1, 5), lengths, st.sampled_from(["latest", "earliest"]))
def test_w5_by_a_search_written_again(tokens, gamma, lengths, match):
    n_min, n_max = lengths
    again = by_hand(tokens, gamma, n_min, n_max, match)
    assert found(tokens, gamma, n_min=n_min, n_max=n_max, match=match) == again


@given(texts, st.integers(1, 5))
def test_what_is_found_follows_the_last_token_somewhere(tokens, gamma):
    drafts = found(tokens, gamma)
    assert len(drafts) <= gamma
    assert set(pairwise([*tokens[-1:], *drafts])) <= set(pairwise(tokens))
    assert bool(drafts) == (tokens[-1:] != [] and tokens[-1] in tokens[:-1])


# ---- In the loop -------------------------------------------------------------------------------


class Recited:
    """A model that is certain of a fixed text."""

    max_len = None

    def __init__(self, text):
        self.text, self.vocab = text, 11

    def new_cache(self):
        return TokenCache()

    def forward(self, tokens, cache):
        cache.tokens += np.asarray(tokens).tolist()
        ends = range(cache.length - len(tokens) + 1, cache.length + 1)
        return np.eye(11)[[self.text[min(end, len(self.text) - 1)] for end in ends]]


def generator():
    return np.random.default_rng(0)


def test_w5_no_match_is_a_plain_step():
    target = Recited(list(range(11)))
    run = speculative_generate(
        target, PromptLookup(11), [0, 1, 2], 5, 3, sampling=GREEDY, rng=generator()
    )
    assert run.tokens.tolist() == [3, 4, 5, 6, 7]
    assert [(r.allowed, r.drafted, r.tested, r.accepted, r.emitted) for r in run.rounds] == [
        (3, 0, 0, 0, 1), (3, 0, 0, 0, 1), (2, 0, 0, 0, 1), (1, 0, 0, 0, 1), (0, 0, 0, 0, 1),
    ]  # fmt: skip
    assert run.target_calls == 5


def test_a_text_that_repeats_itself_takes_few_calls():
    target = Recited([1, 2, 3, 4] * 9)
    run = speculative_generate(
        target, PromptLookup(11), [1, 2, 3, 4, 1], 20, 3, sampling=GREEDY, rng=generator()
    )
    assert run.tokens.tolist() == ([2, 3, 4, 1] * 5)
    assert run.target_calls == 5, "three drafts and a bonus every time"


@pytest.mark.parametrize("match", ["latest", "earliest"])
@pytest.mark.parametrize("gamma", [1, 2, 3, 5])
def test_k13_a_lookup_that_finds_something_in_some_rounds_only(gamma, match):
    """At T = 0 the text is plain decoding's, whatever the drafts: also in the rounds after those
    without any."""
    draft = PromptLookup(11, match=match)
    run = speculative_generate(HashLM(), draft, PROMPT, 14, gamma, sampling=GREEDY, rng=generator())
    assert run.tokens.tolist() == FIX_C
    prompt = [4, 1, 5, 4, 1]
    long = speculative_generate(
        HashLM(), draft, prompt, 60, gamma, sampling=GREEDY, rng=generator()
    )
    assert long.tokens.tolist() == plain_greedy(HashLM(), prompt, 60)
    drafted = [r.drafted for r in long.rounds]
    assert 0 in drafted[:-1]
    assert any(drafted[drafted.index(0) :])
    assert 0 < sum(r.accepted for r in long.rounds) < sum(drafted)


@pytest.mark.parametrize("rule", ["token", "block", "match"])
def test_drafts_from_lookup_leave_the_text_at_temperature_0(rule):
    for seed in range(5):
        target = TableLM.random(4, seed, context=2)
        plain = autoregressive_generate(target, [0, 1], 30, sampling=GREEDY, rng=generator())
        run = speculative_generate(
            target, PromptLookup(4), [0, 1], 30, 4, sampling=GREEDY, rule=rule, rng=generator()
        )
        assert run.tokens.tolist() == plain.tokens.tolist()
        assert run.target_calls < plain.target_calls


def test_certain_drafts_are_accepted_with_the_targets_probability():
    """Whatever the draft, its law is one-hot: one round of one draft, by hand."""
    probs = np.array([[0.6, 0.3, 0.1]] * 3)
    target = TableLM.of_probs(probs)
    checked = audit_loop(target, PromptLookup(3), [1, 1], 2, 1)
    assert checked.total_variation <= 1e-15
    assert checked.expected["accepted"] == pytest.approx(0.3)


# ---- Arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_min": 0}, "n_min=0"),
        ({"n_min": 4}, r"n_min=4 .*1\.\.3"),
        ({"n_max": 0}, "n_max=0"),
        ({"n_max": 2.0}, "n_max=2.0"),
        ({"match": "first"}, "match='first'.*latest.*earliest"),
        ({"vocab": 0}, "vocab=0"),
    ],
)
def test_bad_settings_are_named(settings, words):
    with pytest.raises(ValueError, match=words):
        PromptLookup(**({"vocab": 11} | settings))


def test_bad_tokens_are_named():
    for tokens, words in (([1, 11], "token 11"), ([-1], "token -1"), ([0.5], "whole numbers")):
        with pytest.raises(ValueError, match=f"tokens.*{words}"):
            PromptLookup(11).lookup(tokens, 2)


def test_what_is_looked_up_in_is_not_written_to():
    tokens = np.array(T)
    tokens.flags.writeable = False
    drafts = PromptLookup(11).lookup(tokens, 3)
    assert drafts.tolist() == [8, 5, 6]
    assert tokens.tolist() == T
