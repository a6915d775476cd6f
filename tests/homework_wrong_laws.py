"""Wrong solutions of homework 1, 2 and 5: the slips and misreadings that are to be expected.

Several are reports of faults in public projects (tests/public_reports.md), many are claims that
lessons make: "tokens = 1 + K α".
"""

from homework_edits import BODY, Solution

WRONG: list[Solution] = []


def wrong(task: str, name: str, says: str, *edits: tuple[str, str]) -> None:
    WRONG.append(Solution(task, name, edits, says))


# ---- 1: theory -------------------------------------------------------------------------------

law = "equal laws are always accepted"
minimum = "np.minimum(target_probs, draft_probs).sum()"
wrong("1.1", "product for min", law, (minimum, "(target_probs * draft_probs).sum()"))
wrong("1.1", "distance", law, (minimum, "np.abs(target_probs - draft_probs).sum() / 2"))
law = "the sum of the smaller of the two"
wrong("1.1", "distance without 1/2", law, (minimum, "1 - np.abs(target_probs - draft_probs).sum()"))
wrong("1.1", "max for min", law, ("np.minimum", "np.maximum"))
wrong("1.1", "mean ratio", law, (minimum, "np.minimum(1, target_probs / draft_probs).mean()"))
law = "laws that share no token accept nothing"
wrong(
    "1.1",
    "distance where q is",
    law,
    (minimum, "1 - np.abs(target_probs - draft_probs)[draft_probs > 0].sum() / 2"),
)
wrong("1.1", "no return", "is there a return?", ("return float", "float"))

law = "the sum 1 + α + … + α^γ has γ + 1 terms"
wrong("1.2", "exponent gamma", law, ("alpha ** (gamma + 1)", "alpha ** gamma"))
wrong(
    "1.2",
    "no bonus",
    law,
    ("return (1 - alpha ** (gamma + 1))", "return (alpha - alpha ** (gamma + 1))"),
)
wrong("1.2", "endless drafts", law, ("(1 - alpha ** (gamma + 1)) / ", "1 / "))
wrong("1.2", "K/(1 + K(1 - alpha))", law, (BODY, "return gamma / (1 + gamma * (1 - alpha))"))
law = "powers of α, not γ times α"
wrong("1.2", "1 + K alpha", law, (BODY, "return 1 + gamma * alpha"))
law = "at α = 1 every draft is kept"
wrong("1.2", "no branch for alpha 1", law, ("if alpha == 1:\n        return gamma + 1.0\n    ", ""))
wrong("1.2", "gamma at alpha 1", law, ("gamma + 1.0", "float(gamma)"))

law = "only the target's own token comes"
wrong(
    "1.2",
    "nothing at alpha 0",
    law,
    ("if alpha == 1", "if alpha == 0:\n        return 0.0\n    if alpha == 1"),
)

law = "one for the token before"
wrong("1.3", "no row but the drafts'", law, ("c_hat + gamma + 1", "c_hat + gamma"))
wrong(
    "1.3",
    "upside down",
    law,
    (BODY, "return expected_tokens(alpha, gamma) / (gamma * c_hat + gamma + 1)"),
)
law = "each of the γ drafts of a round costs ĉ"
wrong("1.3", "one draft run", law, ("gamma * c_hat", "c_hat"))
wrong("1.3", "the draft for nothing", law, ("gamma * c_hat + ", ""))
law = "work per token that comes out"
wrong("1.3", "per round", law, (" / expected_tokens(alpha, gamma)", ""))
wrong(
    "1.3", "tokens if all were kept", law, ("expected_tokens(alpha, gamma)", "(alpha * gamma + 1)")
)

law = "a round runs the target once"
wrong("1.4", "no target run", law, ("gamma * c + 1", "gamma * c"))
wrong("1.4", "a target run a draft", law, ("gamma * c + 1", "gamma * c + gamma + 1"))
wrong("1.4", "as if all were kept", law, ("expected_tokens(alpha, gamma)", "(gamma + 1)"))
law = "the draft runs γ times a round"
wrong("1.4", "c once", law, ("gamma * c", "c"))
wrong("1.4", "alpha for gamma", law, ("gamma * c", "alpha * c"))
wrong("1.4", "a draft run too many", law, ("gamma * c", "(gamma + 1) * c"))

law = "the expected tokens of a round over the time"
wrong(
    "1.4",
    "no branch for alpha 1",
    law,
    ("expected_tokens(alpha, gamma)", "(1 - alpha ** (gamma + 1)) / (1 - alpha)"),
)
law = "where nothing is drafted it is plain decoding"
wrong("1.4", "a draft at least", law, ("gamma * c", "max(gamma, 1) * c"))

law = "not up to a fixed γ"
ten = "max((walltime_speedup(alpha, g, c), -g) for g in range(11))"
wrong("1.5", "stops at 10", law, (BODY, f"speedup, g = {ten}\n    return -g, speedup"))
law = "the smaller γ wins"
wrong("1.5", "ties to the larger", law, ("> best[1] * (1 + 1e-12)", ">= best[1] * (1 - 1e-12)"))
law = "no γ ≥ 1 is faster than plain decoding"
wrong("1.5", "always drafts", law, ("best = (0, 1.0)", "best = (1, walltime_speedup(alpha, 1, c))"))
law = "the largest speed-up of all"
wrong(
    "1.5",
    "gamma 1 or none",
    law,
    (BODY, "return (1, (1 + alpha) / (1 + c)) if alpha > c else (0, 1.0)"),
)
wrong(
    "1.5",
    "most tokens",
    law,
    ("walltime_speedup(alpha, gamma, c)", "expected_tokens(alpha, gamma)"),
)

# ---- 2: sampling -----------------------------------------------------------------------------

law = "logits are divided by T, before exp"
scaled = "(logits - logits.max()) / temperature"
wrong("2.1", "times T", law, (" / temperature", " * temperature"))
wrong("2.1", "T forgotten", law, (scaled, "logits - logits.max()"))
wrong(
    "2.1", "T behind exp", law, (f"np.exp({scaled})", "np.exp(logits - logits.max()) / temperature")
)
law = "it is the softmax"
wrong(
    "2.1",
    "softmax twice",
    law,
    ("return weights", "weights = np.exp(weights / weights.sum())\n    return weights"),
)
law = "exp(1000) is no number"
wrong("2.1", "overflow", law, (scaled, "logits / temperature"))
wrong("2.1", "the mean subtracted", law, ("logits.max()", "logits.mean()"))
law = "nothing is divided by 0"
branch = """if temperature == 0:
        law = np.zeros(len(logits))
        law[logits.argmax()] = 1.0
        return law
    """
wrong("2.1", "0 / 0 at T = 0", law, (branch, ""))
law = "the first of equal logits has all the mass"
wrong("2.1", "T = 0 as a tiny T", law, (branch, "temperature = max(temperature, 1e-9)\n    "))
wrong(
    "2.1",
    "a tie spread",
    law,
    (
        "law[logits.argmax()] = 1.0",
        "law[logits == logits.max()] = 1 / (logits == logits.max()).sum()",
    ),
)
wrong("2.1", "the last of a tie", law, ("logits.argmax()", "logits.argsort(kind='stable')[-1]"))
law = "(float32 is too coarse for it)"
wrong("2.1", "float32", law, ("logits, np.float64", "logits, np.float32"))
law = "changed its argument logits"
wrong("2.1", "in place", law, ("logits = np.asarray(logits, np.float64)", "logits -= logits.max()"))

law = "each in its own place"
wrong("2.2", "likeliest first", law, ("law[kept] = probs[kept]", "law[: len(kept)] = probs[kept]"))
wrong(
    "2.2",
    "a least probability",
    law,
    (BODY, "law = np.where(probs >= top_p, probs, 0)\n    return law / law.sum()"),
)
law = "the one that reaches top_p stays too"
wrong("2.2", "less than top_p", law, ("before < top_p", "before + probs[order] <= top_p"))
law = "no more than needed"
wrong("2.2", "one too many", law, ("before < top_p", "before <= top_p"))
law = "a place, not a value, is cut"
wrong(
    "2.2",
    "equals all stay",
    law,
    ("kept = order[before < top_p]", "kept = probs >= probs[order[before < top_p]].min()"),
)
wrong(
    "2.2",
    "equals from the end",
    law,
    ('np.argsort(-probs, kind="stable")', 'np.argsort(probs, kind="stable")[::-1]'),
)
law = "scaled to sum to 1 again"
wrong("2.2", "not scaled", law, ("law / law.sum()", "law"))

law = "is accepted with p / q"
ratio = "target_probs[token] / draft_probs[token]"
wrong("2.3", "q / p", law, (ratio, "draft_probs[token] / target_probs[token]"))
wrong("2.3", "p alone", law, (ratio, "target_probs[token]"))
wrong("2.3", "over the largest p", law, (ratio, "target_probs[token] / target_probs.max()"))
wrong(
    "2.3",
    "without a coin",
    law,
    (f"min(1.0, {ratio})", "target_probs[token] >= draft_probs[token]"),
)
wrong("2.3", "of the whole law", law, (ratio, "np.minimum(target_probs, draft_probs).sum()"))
law = "always accepted: min(1, p / q)"
wrong("2.3", "no min", law, (f"min(1.0, {ratio})", ratio))

law = "a token that p never gives is never accepted"
wrong("2.3", "0 for missing", law, (f"min(1.0, {ratio})", f"min(1.0, {ratio}) or 1.0"))

law = "only tokens that the target gives more often than the draft"
positive = "np.maximum(target_probs - draft_probs, 0.0)"
wrong("2.4", "q - p", law, (positive, "np.maximum(draft_probs - target_probs, 0.0)"))
wrong("2.4", "|p - q|", law, (positive, "np.abs(target_probs - draft_probs)"))
wrong("2.4", "p itself", law, (positive, "target_probs"))
wrong("2.4", "softmax of it", law, (positive, f"np.exp({positive})"))
law = "divided by its own sum"
divided = "rest / mass if mass > 0 else target_probs.copy()"
wrong("2.4", "not divided", law, (divided, "rest if mass > 0 else target_probs.copy()"))
wrong(
    "2.4",
    "over what is shared",
    law,
    ("mass = rest.sum()", "mass = np.minimum(target_probs, draft_probs).sum()"),
)
law = "return p, not 0 / 0"
wrong("2.4", "0 / 0", law, (divided, "rest / mass"))
wrong(
    "2.4",
    "nothing is uniform",
    law,
    ("else target_probs.copy()", "else np.full(len(rest), 1 / len(rest))"),
)
law = "not for p == q"
equal = """if (target_probs == draft_probs).all():
        return target_probs.copy()
    return rest / mass"""
wrong("2.4", "asks for p == q", law, (f"return {divided}", equal))
law = "changed its argument target_probs"
in_place = "target_probs -= draft_probs\n    rest = np.maximum(target_probs, 0.0)"
wrong("2.4", "in place", law, (f"rest = {positive}", in_place))

law = "accepted with min(1, p / q) of its own token"
asked = "accept_probability(target_probs[i], draft_probs[i], token)"
wrong(
    "2.5",
    "min(1, q / p)",
    law,
    (asked, "accept_probability(draft_probs[i], target_probs[i], token)"),
)
wrong("2.5", "q / p", law, (asked, "draft_probs[i][token] / target_probs[i][token]"))
wrong("2.5", "p alone", law, (asked, "target_probs[i][token]"))
wrong("2.5", "no min", law, (asked, "target_probs[i][token] / draft_probs[i][token]"))
wrong(
    "2.5",
    "the first row for all",
    law,
    (asked, "accept_probability(target_probs[0], draft_probs[0], token)"),
)
wrong(
    "2.5",
    "the row behind",
    law,
    (asked, "accept_probability(target_probs[i + 1], draft_probs[i], token)"),
)
wrong(
    "2.5",
    "exact match, then residual",
    law,
    (f"not dice.accept({asked})", "dice.choose(target_probs[i]) != token"),
)
law = "the first rejection ends the round"
behind = "return i, dice.choose(residual(target_probs[i], draft_probs[i]))"
goes_on = """rounds = zip(target_probs, draft_probs, drafts)
    kept = [dice.accept(accept_probability(p, q, x)) for p, q, x in rounds]
    for i, accepted in enumerate(kept):
        if not accepted:
            return sum(kept), dice.choose(residual(target_probs[i], draft_probs[i]))
    return len(drafts), dice.choose(target_probs[len(drafts)])"""
wrong("2.5", "goes on behind a rejection", law, (BODY, goes_on))
wrong("2.5", "counts the rejected one", law, ("return i,", "return i + 1,"))
law = "a rejected draft's place is drawn once, from the residual"
of_row = "residual(target_probs[i], draft_probs[i])"
wrong("2.5", "resamples from p", law, (of_row, "target_probs[i]"))
wrong("2.5", "resamples from q", law, (of_row, "draft_probs[i]"))
wrong("2.5", "residual q - p", law, (of_row, "residual(draft_probs[i], target_probs[i])"))
wrong(
    "2.5",
    "residual of the row behind",
    law,
    (of_row, "residual(target_probs[i + 1], draft_probs[i])"),
)
wrong(
    "2.5",
    "residual of the last draft",
    law,
    (of_row, "residual(target_probs[len(drafts) - 1], draft_probs[-1])"),
)
wrong(
    "2.5",
    "the likeliest of the residual",
    law,
    (f"dice.choose({of_row})", f"int({of_row}.argmax())"),
)
law = "drawn once, from the target's last row"
last = "target_probs[len(drafts)]"
wrong("2.5", "bonus from the last draft's row", law, (last, "target_probs[len(drafts) - 1]"))
wrong("2.5", "bonus from the first row", law, (last, "target_probs[0]"))
wrong("2.5", "bonus from the residual", law, (last, "residual(target_probs[-1], draft_probs[-1])"))
wrong("2.5", "bonus from the draft", law, (last, "draft_probs[-1]"))
wrong("2.5", "no bonus", law, (f"dice.choose({last})", "int(drafts[-1])"))
law = "with no draft nothing is tested"
wrong("2.5", "needs a draft", law, (last, "target_probs[i + 1]"))
law = "the text has the target's law"
wrong("2.5", "0 for missing", law, (asked, f"({asked} or 1)"))
wrong(
    "2.5",
    "certain laws",
    law,
    (f"not dice.accept({asked})", f"not dice.accept({asked}) and target_probs[i].max() < 1"),
)
law = "expected (accepted, token)"
wrong(
    "2.5",
    "the tokens themselves",
    law,
    (f"return {behind[7:]}", f"return [*drafts[:i], {behind[10:]}]"),
)

# ---- 5: drafts and costs ---------------------------------------------------------------------

law = "the largest |weight| of a column over 7"
largest = "np.abs(part).max(axis=0) / 7"
wrong("5.1", "8 levels", law, ("/ 7", "/ 8"))
wrong("5.1", "8 bits", law, ("/ 7", "/ 127"))
wrong("5.1", "the largest, not |largest|", law, ("np.abs(part)", "part"))
wrong("5.1", "one scale for all columns", law, ("np.abs(part).max(axis=0)", "np.abs(part).max()"))
law = "one large weight spoils its own group and no other"
wrong("5.1", "scale of the whole column", law, ("np.abs(part)", "np.abs(weights)"))
wrong("5.1", "groups of 32 always", law, ("d_in, d_out = ", "group = 32\n    d_in, d_out = "))
law = "a short last group has its own scale"
wrong(
    "5.1", "no short group", law, ("range(0, d_in, group)", "range(0, d_in - d_in % group, group)")
)
wrong("5.1", "whole groups only", law, ("-(-d_in // group)", "d_in // group"))
law = "halves to the even one"
wrong(
    "5.1",
    "halves up",
    law,
    (
        "np.rint(part / np.where(scale > 0, scale, 1.0))",
        "np.floor(part / np.where(scale > 0, scale, 1.0) + 0.5)",
    ),
)
wrong("5.1", "cut off", law, ("np.rint", "np.trunc"))
law = "the scale as float16 keeps it"
wrong(
    "5.1",
    "codes from the unrounded scale",
    law,
    ("scales[row].astype(np.float64)", f"np.where(scales[row] > 0, {largest}, 0)"),
)
law = "never 0 / 0"
wrong(
    "5.1",
    "divides by a scale of 0",
    law,
    ("np.where(scale > 0, scale, 1.0)", "scale"),
    ("np.where(scale > 0, np.clip(whole, -7, 7), 0)", "np.clip(whole, -7, 7)"),
)
wrong("5.1", "codes beyond 7", law, ("np.clip(whole, -7, 7)", "whole"))
law = "expected an array of int8"
wrong("5.1", "codes in eight bytes", law, ("np.int8", "np.int64"))

each = "np.repeat(scales.astype(np.float32), group, axis=0)[: len(codes)]"
law = "a weight is its code times its scale"
wrong("5.2", "divides", law, ("np.float32) * each", "np.float32) / each"))
law = "row i takes the scale of group i // group"
wrong("5.2", "the first scale for all", law, (each, "scales[:1].astype(np.float32)"))
wrong(
    "5.2",
    "scales in turn",
    law,
    (each, "np.tile(scales.astype(np.float32), (group, 1))[: len(codes)]"),
)
wrong("5.2", "groups of 32 always", law, ("np.float32), group", "np.float32), 32"))
law = "as many rows come out as there are codes"
wrong("5.2", "whole groups only", law, ("[: len(codes)]", ""))
law = "in float32, where it is exact"
wrong(
    "5.2",
    "in float16",
    law,
    (
        BODY,
        "scale = scales[np.arange(len(codes)) // group]\n    return (codes * scale).astype('f4')",
    ),
)
law = "expected an array of float32"
wrong("5.2", "in float64", law, ("codes.astype(np.float32)", "codes.astype(np.float64)"))

law = "the lower row in its low four bits"
wrong(
    "5.3",
    "nibbles swapped",
    law,
    ("nibbles[0::2] | (nibbles[1::2] << 4)", "nibbles[1::2] | (nibbles[0::2] << 4)"),
)
wrong(
    "5.3",
    "first half, second half",
    law,
    (
        "nibbles[0::2] | (nibbles[1::2] << 4)",
        "nibbles[: len(nibbles) // 2] | (nibbles[len(nibbles) // 2 :] << 4)",
    ),
)
wrong("5.3", "codes plus 8", law, ("codes.astype(np.uint8) & 15", "(codes + 8).astype(np.uint8)"))
law = "its four-bit two's complement"
wrong("5.3", "sign lost", law, ("codes.astype(np.uint8) & 15", "np.abs(codes).astype(np.uint8)"))
wrong("5.3", "three bits", law, ("& 15", "& 7"))
wrong("5.3", "not masked", law, ("codes.astype(np.uint8) & 15", "codes.astype(np.uint8)"))
law = "filled up with a row of 0"
odd = """if len(codes) % 2:
        codes = np.concatenate([codes, np.zeros((1, codes.shape[1]), codes.dtype)])
    """
wrong("5.3", "odd rows", law, (odd, ""))
wrong("5.3", "the odd row dropped", law, (odd, "codes = codes[: len(codes) // 2 * 2]\n    "))
law = "expected an array of uint8"
wrong(
    "5.3",
    "bytes in eight bytes",
    law,
    ("codes.astype(np.uint8) & 15", "codes.astype(np.int64) & 15"),
)

law = "never 0 / 0, and it sums to 1"
backed = "(counts + weight * unigram) / (counts.sum(axis=1, keepdims=True) + weight)"
wrong("5.4", "no back-off", law, (backed, "counts / counts.sum(axis=1, keepdims=True)"))
wrong(
    "5.4", "rows of 0", law, (backed, "counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)")
)
wrong("5.4", "weight above the line only", law, (" + weight)", ")"))
wrong("5.4", "divided by columns", law, ("axis=1", "axis=0"))
law = "row a is the law behind token a"
pairs = "(tokens[:-1], tokens[1:])"
wrong("5.4", "row and column swapped", law, (pairs, "(tokens[1:], tokens[:-1])"))
law = "0.5 is added to every count"
wrong(
    "5.4",
    "unigram not smoothed",
    law,
    (" + 0.5) /", ") /"),
    ("(len(tokens) + 0.5 * vocab)", "len(tokens)"),
)
wrong(
    "5.4",
    "uniform",
    law,
    ("counts = np.zeros", "unigram = np.full(vocab, 1 / vocab)\n    counts = np.zeros"),
)
law = "a pair counts as often as it comes"
wrong(
    "5.4",
    "a pair counts once",
    law,
    (f"np.add.at(counts, {pairs}, 1)", "counts[tokens[:-1], tokens[1:]] += 1"),
)
wrong("5.4", "the end followed by the start", law, (pairs, "(tokens, np.roll(tokens, -1))"))
law = "the unigram counts as `weight` tokens"
wrong("5.4", "weight 2 always", law, ("counts = np.zeros", "weight = 2.0\n    counts = np.zeros"))

law = "a multiply-add is 2 FLOPs"
wrong("5.5", "multiply-adds", law, ("2 * rows * weights", "rows * weights"))
wrong("5.5", "FLOPs of one row", law, ("2 * rows * weights", "2 * weights"))
law = "bits / 8 bytes"
wrong("5.5", "bits for bytes", law, ("weights * bits / 8", "weights * bits"))
wrong("5.5", "whole bytes", law, ("weights * bits / 8", "weights * (bits // 8)"))
law = "a weight is read once per forward"
wrong("5.5", "weights read per row", law, ("weights * bits / 8", "rows * weights * bits / 8"))
law = "never to later ones"
causal = "rows * cached + rows * (rows + 1) // 2"
wrong("5.5", "no causality", law, (causal, "rows * (cached + rows)"))
wrong("5.5", "not itself", law, (causal, "rows * cached + rows * (rows - 1) // 2"))
wrong("5.5", "only itself and the new", law, (causal, "rows * (rows + 1) // 2"))
wrong("5.5", "the last row's", law, (causal, "cached + rows"))

law = "a long prompt weighs more than a short one"
wrong(
    "5.6",
    "mean of means",
    law,
    ("sum(row.sum() for row in betas) / n", "np.mean([row.mean() for row in betas])"),
)
law = "copies of them bring no new knowledge"
stderr = "np.sqrt(groups / (groups - 1) * (moves**2).sum()) / n"
wrong(
    "5.6",
    "positions as independent",
    law,
    (stderr, "np.concatenate(betas).std(ddof=1) / np.sqrt(n)"),
)
wrong("5.6", "coins", law, (stderr, "np.sqrt(alpha * (1 - alpha) / n)"))
wrong("5.6", "over sqrt(n)", law, ("sum()) / n", "sum()) / np.sqrt(n)"))
law = "stderr = sqrt(G / (G - 1)"
wrong("5.6", "no G / (G - 1)", law, ("groups / (groups - 1) * ", ""))
wrong(
    "5.6",
    "error of the mean of means",
    law,
    (stderr, "np.std([row.mean() for row in betas], ddof=1) / np.sqrt(groups)"),
)
wrong("5.6", "all prompts as one", law, ("(moves**2).sum()", "moves.sum() ** 2"))
