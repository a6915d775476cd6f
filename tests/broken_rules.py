"""Rules that cannot be examined, each for one reason; and a few that can, whatever they look like.

`BROKEN` has what must be told of each. All are the token rule but for what they do wrong.
"""

import random
import sys

import numpy as np
from rules import coin, right

from lab.verify import Verdict

RNG = np.random.default_rng(5)
CALLS = [0]
HELD = []


def uncut(p, q, x):
    return p[x] / q[x]


def raises(p, q, drafts, dice):
    right(p, q, drafts, dice)
    return 1 // 0


def one_row_too_many(p, q, drafts, dice):
    return len(drafts), dice.choose(p[len(drafts) + 1])


def asks_for_the_generator(p, q, drafts, dice):
    return 0, int(dice.rng.random() * 3)


def forgets_to_return(p, q, drafts, dice):
    right(p, q, drafts, dice)


def returns_the_tokens(p, q, drafts, dice):
    accepted, token = right(p, q, drafts, dice)
    return np.append(drafts[:accepted], token)


def returns_three(p, q, drafts, dice):
    return (*right(p, q, drafts, dice), True)


def counts_from_one(p, q, drafts, dice):
    accepted, token = right(p, q, drafts, dice)
    return accepted + 1, token


def token_minus_one(p, q, drafts, dice):
    accepted, _ = right(p, q, drafts, dice)
    return accepted, -1


def token_of_no_vocabulary(p, q, drafts, dice):
    accepted, token = right(p, q, drafts, dice)
    return accepted, token + p.shape[1]


def token_as_float(p, q, drafts, dice):
    accepted, token = right(p, q, drafts, dice)
    return accepted, np.float64(token)


def accepted_as_bool(p, q, drafts, dice):
    accepted, token = right(p, q, drafts, dice)
    return accepted == len(drafts), token


def greedy(p, q, drafts, dice):
    best = p.argmax(axis=-1)
    accepted = next((i for i, x in enumerate(drafts) if best[i] != x), len(drafts))
    return accepted, int(best[accepted])


def numpys_generator(p, q, drafts, dice):
    token = dice.choose(p[0])
    return 0, token if np.random.rand() < 0.5 else 0  # noqa: NPY002


def pythons_generator(p, q, drafts, dice):
    return right(p, q, drafts, dice, coin=lambda *law: coin(*law) * random.random())


def a_generator_of_its_own(p, q, drafts, dice):
    accepted, token = right(p, q, drafts, dice)
    return (accepted, token) if RNG.random() < 0.9 else (0, 0)


def counts_its_calls(p, q, drafts, dice):
    CALLS[0] += 1
    return (0, dice.choose(p[0])) if CALLS[0] % 3 else right(p, q, drafts, dice)


def keeps_a_token(p, q, drafts, dice):
    HELD.append(dice.choose(p[0]))
    return 0, HELD[len(HELD) // 2]


def writes_into_p(p, q, drafts, dice):
    p[0] -= q[0]
    return right(p, q, drafts, dice)


def writes_all_the_same(p, q, drafts, dice):
    answer = right(p, q, drafts, dice)
    p.flags.writeable = True
    p[0] = 0
    return answer


def asks_until_it_is_told_yes(p, q, drafts, dice):
    while not dice.accept(p[0, 0]):
        pass
    return right(p, q, drafts, dice)


def asks_until_it_is_told_no(p, q, drafts, dice):
    while dice.accept(p[0, 0]):
        pass
    return right(p, q, drafts, dice)


def ratio_not_cut(p, q, drafts, dice):
    return right(p, q, drafts, dice, coin=uncut)


def negative_ratio(p, q, drafts, dice):
    return right(p, q, drafts, dice, coin=lambda *law: -uncut(*law))


def ratio_nan(p, q, drafts, dice):
    return right(p, q, drafts, dice, coin=lambda *law: float("nan"))


def all_ratios_at_once(p, q, drafts, dice):
    every = np.arange(len(drafts))
    dice.accept(np.minimum(1, p[every, drafts] / q[every, drafts]).repeat(2))
    return right(p, q, drafts, dice)


def residual_not_divided(p, q, drafts, dice):
    return right(p, q, drafts, dice, correction=lambda p, q: np.maximum(p - q, 0))


def residual_not_clamped(p, q, drafts, dice):
    dice.choose(p[0] - q[0] + 1 / 3)
    return right(p, q, drafts, dice)


def residual_empty(p, q, drafts, dice):
    return right(p, q, drafts, dice, correction=lambda p, q: 0 * p)


def residual_nan(p, q, drafts, dice):
    return right(p, q, drafts, dice, correction=lambda p, q: p * float("nan"))


def all_rows_at_once(p, q, drafts, dice):
    return 0, dice.choose(p)


def no_law(p, q, drafts, dice):
    return 0, dice.choose("p")


def swallows_what_the_dice_says(p, q, drafts, dice):
    try:
        return right(p, q, drafts, dice, coin=uncut)
    except Exception:
        return right(p, q, drafts, dice)


def leaves(p, q, drafts, dice):
    sys.exit("no GPU")


def never_comes_back(p, q, drafts, dice):
    while True:
        pass


def never_comes_back_whatever_happens(p, q, drafts, dice):
    while True:
        try:
            while True:
                pass
        except Exception:
            pass


def three_parameters_and_a_pair(p, proposal, dice):
    return right(p, proposal.probs, proposal.tokens, dice)


def a_path_with_a_gap(p, proposal, dice):
    return Verdict((1,), dice.choose(p[0]), 2)


def a_path_that_is_a_number(p, proposal, dice):
    return Verdict(1, dice.choose(p[0]), 1)


def tested_too_few(p, proposal, dice):
    accepted, token = right(p, proposal.probs, proposal.tokens, dice)
    return Verdict(tuple(range(accepted)), token, 0)


def takes_uncertain_drafts_only(p, proposal, dice):
    accepted, token = right(p, proposal.probs, proposal.tokens, dice)
    tested = min(accepted + 1, len(proposal))
    return Verdict(tuple(range(accepted)), token, tested)


BROKEN = {
    raises: r"raises ZeroDivisionError: .* \(broken_rules\.py, line \d+\)",
    one_row_too_many: r"raises IndexError: index 2 is out of bounds .* \(broken_rules\.py, line",
    asks_for_the_generator: r"raises AttributeError: .* no attribute 'rng' \(broken_rules\.py,",
    forgets_to_return: r"returns nonsense: its answer must be \(accepted, token\), not None\. Seen",
    returns_the_tokens: r"returns nonsense: its answer must be \(accepted, token\), not array\(",
    returns_three: r"returns nonsense: its answer must be \(accepted, token\), not \(1, 0, True\)",
    counts_from_one: r"returns nonsense: accepted=2 must be a whole number within 0\.\.1\. Seen",
    token_minus_one: r"returns nonsense: token=-1 must be a whole number within 0\.\.2\. Seen",
    token_of_no_vocabulary: r"returns nonsense: token=3 must be a whole number within 0\.\.2\.",
    token_as_float: r"returns nonsense: token=np\.float64\(0\.0\) must be a whole number",
    accepted_as_bool: r"returns nonsense: accepted=True must be a whole number within 0\.\.1\.",
    greedy: r"draws nothing: it never asked the dice",
    numpys_generator: r"hides randomness, or a memory, .* it returned \(0, \d\) where it returned",
    pythons_generator: r"hides randomness, or a memory, .* it asked accept\(0\.\d+\) where it",
    a_generator_of_its_own: r"hides randomness, or a memory, .* it returned .* where it returned",
    counts_its_calls: r"hides randomness, or a memory, .* it asked (choose|accept)\(.* where it",
    keeps_a_token: r"hides randomness, or a memory, .* it returned \(0, \d\) where it returned",
    writes_into_p: r"writes into its arguments \(broken_rules\.py, line \d+\); copy",
    writes_all_the_same: r"writes into its arguments; copy what you change",
    asks_until_it_is_told_yes: r"asks without end, 62 questions .* accept\(0\.\d+\) -> no",
    asks_until_it_is_told_no: r"asks without end, 62 questions .* accept\(0\.\d+\) -> yes",
    ratio_not_cut: r"asks accept with probability \d+\.\d+, outside 0\.\.1; take min\(1, ·\) first",
    negative_ratio: r"asks accept with probability -\d+\.\d+, outside 0\.\.1\. Seen",
    ratio_nan: r"asks accept with probability NaN; is it 0 / 0\?",
    all_ratios_at_once: r"asks accept about array\(.*, which is not one number",
    residual_not_divided: r"asks choose about a vector that sums to 0\.\d+, not to 1; divide by",
    residual_not_clamped: r"asks choose about a law with the negative entry -0\.\d+",
    residual_empty: r"asks choose about a law that is 0 everywhere",
    residual_nan: r"asks choose about a law with NaN in it; is it 0 / 0\?",
    all_rows_at_once: r"asks choose about an array of shape \(2, 3\); it takes one law \(V,\)",
    no_law: r"asks choose about 'p', which is no row of numbers",
    swallows_what_the_dice_says: r"asks accept with probability \d+\.\d+, outside 0\.\.1",
    leaves: r"calls sys\.exit \(broken_rules\.py, line \d+\)",
    never_comes_back: r"does not come back within 0\.1 s",
    never_comes_back_whatever_happens: r"does not come back within 0\.1 s",
    three_parameters_and_a_pair: r"its answer must be a lab\.verify\.Verdict, not \(1, 0\); lab",
    a_path_with_a_gap: r"returns nonsense: path=\(1,\) must be 0, 1, \.\.\. of 1 drafts\. Seen",
    a_path_that_is_a_number: r"returns nonsense: path=1 must be 0, 1, \.\.\. of 1 drafts\. Seen",
    tested_too_few: r"returns nonsense: tested=0 must be a whole number within 1\.\.1\. Seen",
    takes_uncertain_drafts_only: r"raises TypeError: .* with loop, lookup, γ 1, drafts",
}
