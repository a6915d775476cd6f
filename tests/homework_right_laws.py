"""Right solutions of homework 1, 2 and 5, written otherwise than the solved files.

Lists for arrays, NumPy's numbers for Python's, another road to the same law.
"""

from homework_edits import BODY, Solution

RIGHT: list[Solution] = []


def right(task: str, name: str, *lines: str) -> None:
    RIGHT.append(Solution(task, name, ((BODY, "\n    ".join(lines)),)))


right("1.1", "1 - distance", "return 1 - np.abs(target_probs - draft_probs).sum() / 2")
right("1.1", "a loop", "return sum(min(p, q) for p, q in zip(target_probs, draft_probs))")
right("1.2", "a sum of powers", "return sum(alpha**i for i in range(gamma + 1))")
right("1.2", "NumPy's sum", "return (np.float64(alpha) ** np.arange(gamma + 1)).sum()")
right(
    "1.3",
    "rows apart",
    "rows = (c_hat + 1) * gamma + 1",
    "return rows / expected_tokens(alpha, gamma)",
)
right("1.4", "over time", "return expected_tokens(alpha, gamma) / (1 + np.float64(c) * gamma)")
right(
    "1.5",
    "until it falls",
    "gamma, speedup = 0, 1.0",
    "while walltime_speedup(alpha, gamma + 1, c) > speedup + 1e-12:",
    "    gamma += 1",
    "    speedup = walltime_speedup(alpha, gamma, c)",
    "return np.int64(gamma), speedup",
)
right(
    "2.1",
    "of log-probabilities",
    "if temperature == 0:",
    "    return [float(i == np.argmax(logits)) for i in range(len(logits))]",
    "log_law = (logits - np.logaddexp.reduce(logits)) / temperature",
    "return np.exp(log_law - np.logaddexp.reduce(log_law))",
)
right(
    "2.2",
    "a count",
    "order = sorted(range(len(probs)), key=lambda i: -probs[i])",
    "held, law = 0.0, [0.0] * len(probs)",
    "for i in order:",
    "    if held >= top_p:",
    "        break",
    "    held += probs[i]",
    "    law[i] = probs[i]",
    "return [x / held for x in law]",
)
right(
    "2.2",
    "searchsorted",
    "order = np.lexsort((np.arange(len(probs)), -probs))",
    "kept = order[: np.searchsorted(np.cumsum(probs[order]), top_p) + 1]",
    "law = np.where(np.isin(np.arange(len(probs)), kept), probs, 0)",
    "return law / law.sum()",
)
right(
    "2.3",
    "two cases",
    "p, q = target_probs[token], draft_probs[token]",
    "return 1 if p > q else p / q",
)
right("2.3", "clip", "return np.clip(target_probs[token] / draft_probs[token], 0, 1)")
right(
    "2.4",
    "over 1 - acceptance",
    "rest = np.clip(target_probs - draft_probs, 0, None)",
    "if not rest.any():",
    "    return target_probs",
    "return rest / (1 - np.minimum(target_probs, draft_probs).sum())",
)
right(
    "2.4",
    "where",
    "rest = np.where(target_probs > draft_probs, target_probs - draft_probs, 0)",
    "return np.where(rest.sum() > 0, rest / rest.sum(), target_probs)",
)
right(
    "2.5",
    "a count of its own",
    "kept = 0",
    "while kept < len(drafts):",
    "    p, q, x = target_probs[kept], draft_probs[kept], drafts[kept]",
    "    if not dice.accept(np.minimum(1.0, p[x] / q[x])):",
    "        break",
    "    kept += 1",
    "if kept == len(drafts):",
    "    return [np.int64(kept), np.int64(dice.choose(target_probs[-1]))]",
    "rest = np.maximum(0, p - q)",
    "return kept, dice.choose(rest / rest.sum())",
)
right(
    "5.1",
    "filled up and reshaped",
    "d_in, d_out = weights.shape",
    "groups = -(-d_in // group)",
    "full = np.zeros((groups * group, d_out))",
    "full[:d_in] = weights",
    "full = full.reshape(groups, group, d_out)",
    "scales = (abs(full).max(axis=1) / 7).astype(np.float16)",
    "codes = np.nan_to_num(full / scales[:, None], posinf=0, neginf=0).round().clip(-7, 7)",
    "return codes.reshape(-1, d_out)[:d_in].astype(np.int8), scales",
)
right("5.2", "by index", "return codes * scales.astype('f4')[np.arange(len(codes)) // group]")
right(
    "5.3",
    "by arithmetic",
    "n = len(codes)",
    "full = np.vstack([codes, np.zeros((n % 2, codes.shape[1]), int)]) % 16",
    "return (full[::2] + 16 * full[1::2]).astype(np.uint8)",
)
right(
    "5.4",
    "a loop over pairs",
    "n = len(tokens)",
    "unigram = [(list(tokens).count(b) + 0.5) / (n + 0.5 * vocab) for b in range(vocab)]",
    "rows = [[weight * u for u in unigram] for a in range(vocab)]",
    "for a, b in zip(tokens, tokens[1:]):",
    "    rows[a][b] += 1",
    "return [[x / sum(row) for x in row] for row in rows]",
)
right(
    "5.5",
    "one row after the other",
    "weights = sum(np.prod(shape) for shape in shapes)",
    "pairs = np.arange(cached + 1, cached + rows + 1).sum()",
    "return [rows * weights * 2, bits / 8 * weights, pairs]",
)
right(
    "5.6",
    "one array",
    "flat = np.concatenate(betas)",
    "alpha = flat.mean()",
    "moves = [len(row) * (row.mean() - alpha) for row in betas]",
    "return alpha, np.std(moves, ddof=1) * np.sqrt(len(betas)) / len(flat)",
)
right(
    "5.6",
    "an array of the two",
    "alpha = np.concatenate(betas).mean()",
    "moves = np.array([(row - alpha).sum() for row in betas])",
    "spread = len(betas) / (len(betas) - 1) * (moves**2).sum()",
    "return np.array([alpha, np.sqrt(spread) / sum(map(len, betas))])",
)
