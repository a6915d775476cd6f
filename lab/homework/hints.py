"""Three hints for every task: a question, a shape or an invariant, the steps. Never the code."""

from __future__ import annotations

from typing import NamedTuple


class Hints(NamedTuple):
    """In the order in which they are given."""

    question: str
    invariant: str
    steps: str


HINTS = {
    # ---- 1: what it buys ----------------------------------------------------------------------
    "1.1": Hints(
        "A token x is drafted with probability q(x) and then kept with min(1, p(x) / q(x)). What "
        "is the probability that it is drafted and kept?",
        "The answer is one number, the same if p and q change places: the area under both curves "
        "at once. It is 1 where p = q and 0 where no token has mass under both.",
        "Multiply q(x) by min(1, p(x) / q(x)) on paper first: the division goes. Take the smaller "
        "of the two laws token by token, sum over the vocabulary, return a float.",
    ),
    "1.2": Hints(
        "With γ = 2 a round emits one, two or three tokens. What is the probability that it emits "
        "at least two? At least three?",
        "The mean of a count is the sum of P(at least i) over i. Here that is 1 + α + … + α^γ: γ "
        "+ 1 terms, so at γ = 0 it is 1 for every α, and at α = 1 it is γ + 1.",
        "Sum the geometric series in closed form. Its denominator is 0 at one α: treat that α "
        "before you divide.",
    ),
    "1.3": Hints(
        "How many rows does the target compute in a round, counting those of drafts that are then "
        "thrown away? How many tokens share the bill?",
        "At c_hat = 0 and α = 1 the factor is exactly 1: nothing is wasted. At α < 1 it is above "
        "1: speculation saves time, never operations.",
        "In units of one target row: γ + 1 rows of the target and γ of the draft, each at c_hat. "
        "Divide by the tokens that the round emits on average; you have that function.",
    ),
    "1.4": Hints(
        "In units of one run of the target, how long does a round last? How long would plain "
        "decoding take for the tokens that the round emits?",
        "At γ = 0 the speed-up is 1, whatever α and c. At c = 0 it is the tokens per round. A run "
        "of the target counts once, though it computes γ + 1 rows.",
        "Time of a round: γ draft runs at c each, and one target run at 1. Tokens per round over "
        "that time.",
    ),
    "1.5": Hints(
        "One more draft adds α^(γ+1) tokens to a round and c to its time. Which of the two stays "
        "the same as γ grows, and what does that say about the shape of the curve?",
        "The speed-up rises, then falls, and has no second peak. Its peak can lie at γ = 1 or at "
        "γ = 60. (0, 1.0) is the answer whenever α <= c.",
        "Start with (0, 1.0) as the best. Go up from γ = 1; take a γ that is better by more than "
        "a relative 1e-12; leave when the next γ is slower than this one.",
    ),
    # ---- 2: sampling --------------------------------------------------------------------------
    "2.1": Hints(
        "What happens to the law if the same number is added to every logit? And what does that "
        "allow you to do with a logit of 1000?",
        "(V,) in, (V,) out, no negative number, sum 1. Temperature 0 is one-hot, at the first of "
        "equal largest logits: there is nothing to divide by.",
        "Temperature 0 on its own. Else subtract the largest logit, divide by the temperature, "
        "exponentiate, divide by the sum, all in float64.",
    ),
    "2.2": Hints(
        "Sort the tokens by probability. For one of them, which mass decides whether it stays: "
        "the mass up to and including it, or the mass before it?",
        "The mass before the likeliest token is 0, which is below every top_p: so one token "
        "always stays. What leaves becomes exactly 0, what stays keeps its proportions and its "
        "place.",
        "Order by falling probability (a stable sort, for ties). Cumulate, and take each token's "
        "own mass off again: the mass before it. Keep those below top_p, put them back at their "
        "own indices, divide by the sum.",
    ),
    "2.3": Hints(
        "If the target likes a token at least as much as the draft does, why ever reject it? If "
        "it likes it half as much, how often must it stay?",
        "A probability: never above 1, and 0 only for a token that the target never emits. It "
        "depends on the two laws at this one token.",
        "The ratio of the target's probability of the token to the draft's, at most 1. Mind which "
        "is on top: the draft drew the token, so its probability is the one that cannot be 0.",
    ),
    "2.4": Hints(
        "Kept drafts already put mass min(p(x), q(x)) on token x. The total has to be p(x). How "
        "much is missing, token by token?",
        "(V,), nothing negative, sum 1. What is missing sums to 1 - Σ min(p, q), not to 1. A "
        "token that the draft likes better than the target gets nothing: it has been tried "
        "enough.",
        "Subtract q from p into a new array, cut at 0, sum. If the sum is 0 nothing is ever "
        "rejected: return p, as a copy. Else divide by the sum.",
    ),
    "2.5": Hints(
        "After a draft was rejected, are the drafts behind it worth a look? They continue a text "
        "that will never be.",
        "One `accept` for each draft that is looked at, and exactly one `choose` in all. With N "
        "drafts there are N + 1 target rows: the last one serves only where every draft was kept.",
        "Walk through the drafts. Ask the dice with `accept_probability` of row i. At the first "
        "no: return i and a token from the residual of row i. Behind the loop: N, and a token "
        "from the last row of the target as it is.",
    ),
    # ---- 3: the cache -------------------------------------------------------------------------
    "3.1": Hints(
        "At which row does the first new key belong? Where does room end: at `cache.length`, or "
        "at the number of rows of `cache.keys`?",
        "Afterwards length has grown by T, rows before the old length are the same bits as "
        "before, and if it raises nothing at all has changed.",
        "Compute the new end. If it does not fit, raise before anything else. Then write keys "
        "and values between the old length and the end, in place, and set the length last.",
    ),
    "3.2": Hints(
        "Five positions are cached and T = 2: which positions are the queries of? Which keys may "
        "the first of them see?",
        "Scores are (T, S) with S = cache.length. Row i of the queries stands at position S - T + "
        "i and sees S - T + i + 1 keys; the last row sees all. Weights of a row sum to 1.",
        "Cut keys and values to the length before anything is computed (0 times NaN is NaN). "
        "Scores over sqrt(D); -inf where the key's position is beyond the query's; a softmax "
        "along each row, its maximum taken off first; times the values.",
    ),
    "3.3": Hints(
        "Do the numbers behind the new length have to be erased, if nothing behind `length` is "
        "ever read?",
        "`length` is what is left, counted from the start: truncate(cache, cache.length) changes "
        "nothing, and truncate(cache, 0) empties it. Cutting can never make a cache longer.",
        "Outside 0 .. cache.length raise a ValueError. Else set the length: a rollback costs "
        "nothing.",
    ),
    "3.4": Hints(
        "A token attends to itself as well. Must its key be in the cache before or after you call "
        "`attend`?",
        "x is (T, D), so are its queries, keys and values; logits are (T, V), T rows even if 100 "
        "positions were cached before. One call or five, the rows are the same.",
        "Embed the tokens by indexing. Project three times. Append keys and values. Attend with "
        "the queries. Multiply by the head. No position is counted here: `append` and `attend` do "
        "it.",
    ),
    # ---- 4: the loop --------------------------------------------------------------------------
    "4.1": Hints(
        "Ten tokens are wanted, γ is 4: how many come out of a round at most? And if three are "
        "wanted, what would the fourth draft be for?",
        "Accepted drafts and one more token: a round with k drafts emits up to k + 1. So k + 1 "
        "must not exceed what is wanted, and k = 0, plain decoding, is fine.",
        "The smaller of γ and one less than what is wanted.",
    ),
    "4.2": Hints(
        "The draft's cache knows the first `cache.length` tokens of the text. Which slice of "
        "`tokens` has it not read yet, after a rejection and after a full acceptance?",
        "`count` forwards make `count` laws: one before each draw. The first call feeds all that "
        "is unread, every later call one token: the one just drawn. At the end the cache holds "
        "len(tokens) + count - 1 positions.",
        "Start with the unread end of the text. As often as asked: forward, take the last row, "
        "keep it, draw from it, and let what was drawn be what is unread next.",
    ),
    "4.3": Hints(
        "Which law is the first draft tested against: the one behind the pending token, or the "
        "one behind the draft itself?",
        "N drafts, N + 1 rows: row i is the law behind the first i drafts. The cache lacks "
        "exactly one token of the text, and grows by N + 1.",
        "One forward, of the last token of the text followed by all drafts. All its rows are the "
        "answer.",
    ),
    "4.4": Hints(
        "A stop token may be an accepted draft in the middle of the round. Where does the text "
        "end then, and what becomes of the tokens behind it?",
        "What a round emits is the accepted drafts and then the token, in this order. At most one "
        "stop token is ever appended, and it is the last token of the text.",
        "Go through what is emitted; append each to the list you were given (not to a copy); "
        "after a token in `stop`, return True. Behind the loop, False.",
    ),
    "4.5": Hints(
        "The text has n tokens and the last one is pending. How many positions may a cache hold "
        "for its contents to be a beginning of that text, and leave the pending one to feed?",
        "After every round the target's cache holds len(tokens) - 1 positions; the draft's no "
        "more than that, and one less after a full acceptance. A rollback only ever shortens.",
        "The smaller of what the cache holds and len(tokens) - 1, given to `truncate` as a length.",
    ),
    "4.6": Hints(
        "What must hold at the top of the loop, every time? Write it down (text, both caches, "
        "what is still wanted), then see which of your functions brings it about again.",
        "At the top of each round the target's cache holds len(tokens) - 1 positions. Nothing is "
        "forwarded if nothing is wanted, and the prompt you were given stays as it was.",
        "Copy the prompt. Feed all but its last token to both models, if there is more than one. "
        "Until a stop token or the length: count drafts; propose, if any; score; ask the rule, or "
        "draw from the one row; commit; roll back both. Return what is behind the prompt.",
    ),
    # ---- 5: drafts and ledger -----------------------------------------------------------------
    "5.1": Hints(
        "A float16 scale is not the scale that you computed. Which of the two will `dequantize` "
        "multiply by, and so which must the codes be made for?",
        "codes (d_in, d_out), int8, within -7 .. 7; scales (ceil(d_in / group), d_out), float16. "
        "A group is `group` rows of one column: no column sees another's largest weight. No code "
        "is off by more than half a step where nothing is clipped.",
        "Group by group down axis 0, the last may be short: the largest |weight| of each column "
        "over 7, stored as float16, read back; divide, round with rint (half to even), clip. "
        "Where the stored scale is 0 the code is 0: avoid the division.",
    ),
    "5.2": Hints(
        "Row 40 of the codes, groups of 32: which row of the scales belongs to it?",
        "float32, the shape of the codes. Where a group is short its scale still serves its rows "
        "and no others: repeated scales may be longer than the codes, never shorter.",
        "Repeat each row of scales `group` times down axis 0, cut to the rows there are, "
        "multiply, both as float32.",
    ),
    "5.3": Hints(
        "What are the four lowest bits of -1, and of -7? Print np.int8(-7).view(np.uint8) in "
        "binary.",
        "Byte i holds rows 2i (low four bits) and 2i + 1 (high four bits). An odd number of rows "
        "is filled up with one row of 0. The array you were given keeps its shape.",
        "Add a row of zeros if the number is odd. As uint8, keep the low four bits of each code. "
        "Even rows, or'ed with odd rows shifted left by four.",
    ),
    "5.4": Hints(
        "How many pairs has a text of n tokens? What should the row of a token say that was never "
        "seen?",
        "Every row sums to 1 and has no 0. A token never seen gets exactly the unigram; one seen "
        "very often forgets it.",
        "Count tokens (with a length of vocab) and pairs (the same index can come twice: "
        "np.add.at counts both). Mix as the docstring has it; what divides is the sum of the "
        "row's counts, not how often the token occurs: the last token has no successor.",
    ),
    "5.5": Hints(
        "Three rows share one read of a weight matrix. Which of FLOPs and bytes grows threefold?",
        "bytes do not depend on rows. Pairs: with nothing cached, T rows see 1 + 2 + … + T. One "
        "row behind S cached positions sees S + 1.",
        "Count the weights of all shapes once. FLOPs: two for each weight and row. Bytes: weights "
        "times bits over 8. Pairs: every row sees all that is cached, and the rows up to itself.",
    ),
    "5.6": Hints(
        "A hundred positions of one prompt were all easy. Do they count as a hundred observations "
        "of how hard prompts are, or as one?",
        "alpha weights positions, so long prompts count more; the error weighs prompts. The e_g "
        "sum to 0. With all betas equal the error is 0; splitting one prompt in two changes it, "
        "though not alpha.",
        "n and the mean over all positions. For each prompt the sum of (beta - alpha). Square, "
        "sum, times G / (G - 1), root, over n. Two floats.",
    ),
}
