"""Mutants of what arrays become: laws, verdicts, and the probabilities a draft gives for its own.

See `lab.mutants`. p = target law, q = draft law, as everywhere.
"""

from __future__ import annotations

from lab.decode import speculate
from lab.drafting import ModelDraft
from lab.mutation import Change, Edit, Mutant, text
from lab.ngram import PromptLookup
from lab.sampling import Sampling, residual
from lab.text import Text
from lab.verify import RULES, _ratio, block_rule, match_rule, token_rule

TOKEN_CHAIN = RULES["token"].verify  # the closure that chain_rule made for it
CORRECTION = "residual(target_probs[i], draft_probs[i])"
COIN = "min(1, _ratio(target_probs[i], draft_probs[i], draft))"
BONUS = "dice.choose(target_probs[len(drafts)])"
GAP = "np.maximum(target - draft, 0)"

SAMPLING = {
    "settings ignored in scoring": Mutant(
        "the target's rows are scored at T = 1 without filters, whatever was asked for",
        "sampling",
        text("T .7, top-k 2", 0.4099),
        Edit(Text._forward, "self.sampling,", "Sampling(),"),
    ),
    "top-p cut one token early": Mutant(
        "a token is kept while the mass up to and with it is at most top_p, the first always",
        "sampling",
        text("top-p .7", 0.6731),
        Edit(
            Sampling._filtered,
            "ranked[before > self.top_p - 1e-15] = 0",
            "ranked[(before + ranked > self.top_p) & (before > 0)] = 0",
        ),
    ),
    "top-p without renormalising": Mutant(
        "what top-p leaves is not divided by its sum",
        "sampling",
        text("top-p .7", 0.03138),
        Edit(Sampling._filtered, "if self.top_p is not None or self.min_p:", "if self.min_p:"),
    ),
    "top-k keeps ties": Mutant(
        "top-k cuts by value, so all tokens that tie with the last one stay",
        "sampling",
        text("top-k 2, ties", 0.1966),
        Edit(
            Sampling._filtered,
            "np.put_along_axis(logits, order, -np.inf, axis=-1)",
            "logits[logits < np.sort(logits, axis=-1)[..., -self.top_k, None]] = -np.inf",
        ),
    ),
    "min-p of 1": Mutant(
        "min-p is compared with 1 in place of the largest probability",
        "sampling",
        text("min-p .3", 0.5542),
        Edit(Sampling._filtered, "weights.max(axis=-1, keepdims=True)", "1"),
    ),
    "T = 0 takes the last argmax": Mutant(
        "at temperature 0 a tie goes to the last token",
        "sampling",
        text("T 0, ties", 1.0),
        Edit(
            Sampling.probs,
            "logits.argmax(axis=-1)",
            "logits.shape[-1] - 1 - logits[..., ::-1].argmax(axis=-1)",
        ),
    ),
    "one penalty history a block": Mutant(
        "the repetition penalty of every row of a block is that of its first row",
        "sampling",
        text("penalty", 0.01241),
        Edit(Sampling.probs_after, "seen[: before + i]", "seen[:before]"),
    ),
    "penalty misses pending token": Mutant(
        "the token just read is not in the history of its own row",
        "sampling",
        text("penalty", 0.0596),
        Edit(Sampling.probs_after, "len(history) + 1", "len(history)"),
    ),
    "penalty once per occurrence": Mutant(
        "a token that occurred twice is penalised twice",
        "sampling",
        text("penalty", 0.005434),
        Edit(
            Sampling.probs,
            "penalty = self.repetition_penalty",
            "penalty = self.repetition_penalty ** np.unique(history, return_counts=True)[1]",
        ),
    ),
    "draft settings ignored": Mutant(
        "the draft samples at the target's settings, not at its own",
        "sampling",
        Change("acceptance", "draft T 1.5", "accepted", 1.527, 1.369),
        Edit(speculate, "draft_sampling or sampling", "sampling"),
    ),
}

RESIDUAL = {
    "residual from p": Mutant(
        "after a rejection the token is drawn from p, not from norm(max(0, p - q))",
        "residual",
        text("plain", 0.2004),
        Edit(token_rule, CORRECTION, "target_probs[i]"),
    ),
    "residual from p less the draft": Mutant(
        "after a rejection the token is drawn from p without the rejected token",
        "residual",
        text("plain", 0.0596),
        Edit(
            token_rule,
            CORRECTION,
            CORRECTION.replace(
                "draft_probs[i]", "target_probs[i] * np.eye(len(draft_probs[i]))[draft]"
            ),
        ),
    ),
    "residual softmax": Mutant(
        "the softmax of max(0, p - q), its exponential to second order: fractions stay exact",
        "residual",
        text("plain", 0.129),
        Edit(residual, GAP, f"1 + (1 + {GAP}) ** 2"),
    ),
    "residual reversed": Mutant(
        "norm(max(0, q - p))",
        "residual",
        text("plain", 0.3432),
        Edit(residual, "target - draft", "draft - target"),
    ),
    "residual even": Mutant(
        "an even law over the tokens with p > q; with two tokens it is right",
        "residual",
        text("plain", 0.1047),
        Edit(residual, GAP, "(target > draft) + 0 * target"),
    ),
    "residual argmax": Mutant(
        "the token with the largest p - q, not a draw; with two tokens it is right",
        "residual",
        text("plain", 0.1436),
        Edit(
            residual,
            "gap / mass",
            "(np.arange(gap.shape[-1]) == gap.argmax(axis=-1)[..., None]) + 0 * gap",
        ),
    ),
    "block residual unweighted": Mutant(
        "block verification draws from norm(max(0, p - q)), without the weight of the prefix",
        "residual",
        text("block", 0.04621),
        Edit(block_rule, "residual(weighted, ", "residual(target_probs[kept], "),
    ),
    "match with a residual": Mutant(
        "exact match, and then a residual draw after a miss",
        "residual",
        text("match", 0.06473),
        Edit(match_rule, "return i, token", f"return i, dice.choose({CORRECTION})"),
    ),
}

RATIO = {
    "ratio swapped": Mutant(
        "a draft is accepted with min(1, q / p)",
        "ratio",
        text("plain", 0.3411),
        Edit(_ratio, "p[draft] / q[draft]", "q[draft] / p[draft]"),
    ),
    "ratio to the maximum": Mutant(
        "a draft is accepted with p(x) / max p",
        "ratio",
        text("plain", 0.2373),
        Edit(_ratio, "p[draft] / q[draft]", "p[draft] / p.max()"),
    ),
    "no coin": Mutant(
        "a draft is rejected whenever p < q",
        "ratio",
        text("plain", 0.8563),
        Edit(token_rule, f"dice.accept({COIN})", f"{COIN} == 1"),
    ),
    "coin twice": Mutant(
        "a draft must pass two coins",
        "ratio",
        text("plain", 0.1775),
        Edit(token_rule, f"dice.accept({COIN})", f"all(dice.accept({COIN}) for _ in range(2))"),
    ),
    "always accepted": Mutant(
        "every draft is accepted",
        "ratio",
        text("plain", 0.3432),
        Edit(token_rule, f"dice.accept({COIN})", "True"),
    ),
    "block gain reversed": Mutant(
        "block verification's coin sums max(0, q - w p)",
        "ratio",
        text("block", 0.09845),
        Edit(block_rule, "weighted - draft_probs[kept]", "draft_probs[kept] - weighted"),
    ),
    "block weight not carried": Mutant(
        "block verification's weight is that of the last draft alone",
        "ratio",
        text("block", 0.03659),
        Edit(block_rule, "weights[i] * _ratio", "_ratio"),
    ),
}

BONUS_TOKEN = {
    "bonus from q": Mutant(
        "after a full acceptance the token is drawn from the draft's last law",
        "bonus",
        text("plain", 0.3122),
        Edit(token_rule, BONUS, "dice.choose(draft_probs[-1])"),
    ),
    "bonus from the row before": Mutant(
        "after a full acceptance the token is drawn from the target's last row but one",
        "bonus",
        text("plain", 0.1945),
        Edit(token_rule, BONUS, "dice.choose(target_probs[-2])"),
    ),
    "bonus repeats the last draft": Mutant(
        "after a full acceptance the last draft is emitted once more",
        "bonus",
        text("plain", 0.4772),
        Edit(token_rule, BONUS, "drafts[-1]"),
    ),
    "bonus greedy": Mutant(
        "after a full acceptance the target's likeliest token is emitted",
        "bonus",
        text("plain", 0.2587),
        Edit(token_rule, BONUS, "target_probs[-1].argmax()"),
    ),
}

INDICES = {
    "residual row late": Mutant(
        "the residual takes the target's row after the rejected draft",
        "indices",
        text("plain", 0.1205),
        Edit(token_rule, CORRECTION, "residual(target_probs[i + 1], draft_probs[i])"),
    ),
    "residual row early": Mutant(
        "the residual takes the target's row before, where there is one",
        "indices",
        text("plain", 0.1283),
        Edit(token_rule, CORRECTION, "residual(target_probs[max(i - 1, 0)], draft_probs[i])"),
    ),
    "ratio row late": Mutant(
        "a draft is compared with the target's row after it",
        "indices",
        text("plain", 0.5231),
        Edit(token_rule, COIN, COIN.replace("target_probs[i]", "target_probs[i + 1]")),
    ),
    "rejected draft kept": Mutant(
        "the count of accepted drafts is one too many after a rejection",
        "indices",
        text("plain", 0.349),
        Edit(token_rule, "return i, dice", "return i + 1, dice"),
    ),
    "accepted draft lost": Mutant(
        "the count of accepted drafts is one too few after a rejection",
        "indices",
        text("plain", 0.1418),
        Edit(token_rule, "return i, dice", "return max(i - 1, 0), dice"),
    ),
    "lookup finds itself": Mutant(
        "prompt lookup matches the end of the text with itself, after which nothing follows",
        "indices",
        Change("acceptance", "lookup", "drafted", 3.119, 0.0),
        Edit(PromptLookup.lookup, "ids[:-1], n)", "ids, n)"),
    ),
}

PROBABILITIES = {
    "draft laws at twice T": Mutant(
        "the draft draws at its temperature and reports the laws of twice that",
        "probabilities",
        text("plain", 0.2341),
        Edit(
            ModelDraft.propose,
            "probs.append(laws[-1])",
            "probs.append(laws[-1] ** 0.5 / (laws[-1] ** 0.5).sum())",
        ),
    ),
    "draft filtered but not its laws": Mutant(
        "the draft never draws its least likely token, and reports the law before that filter",
        "probabilities",
        text("plain", 0.05094),
        Edit(
            ModelDraft.propose,
            "dice.choose(laws[-1])",
            "dice.choose(laws[-1] * (laws[-1] > laws[-1].min()))",
        ),
    ),
    "draft greedy but not its laws": Mutant(
        "the draft takes its likeliest token, and reports the law as if it had drawn",
        "probabilities",
        text("plain", 0.2332),
        Edit(ModelDraft.propose, "dice.choose(laws[-1])", "laws[-1].argmax()"),
    ),
    "first draft's law for all": Mutant(
        "every draft of a round is reported with the law of the first",
        "probabilities",
        text("plain", 0.2325),
        Edit(ModelDraft.propose, "probs.append(laws[-1])", "probs.append([*probs, laws[-1]][0])"),
    ),
    "draft laws in float32": Mutant(
        "the draft draws from float64 laws and reports them in single precision",
        "probabilities",
        text("plain", 1.933e-08),
        Edit(ModelDraft.propose, "np.array(probs)", "np.array(probs, np.float32)"),
    ),
    "certain draft taken for drawn": Mutant(
        "a draft that was certain is judged as if it had been drawn evenly",
        "probabilities",
        text("lookup", 0.6925),
        Edit(
            TOKEN_CHAIN,
            "draft_probs[np.arange(len(drafts)), drafts] += 1",
            "draft_probs += 1 / target_probs.shape[1]",
        ),
    ),
}

EARLY_STOPPING = {
    "unlikely draft dropped": Mutant(
        "the draft stops before a token that it gave less than .25, and drops it",
        "early stopping",
        text("plain", 0.07588),
        Edit(
            ModelDraft.propose,
            "dice.choose(laws[-1])",
            "dice.choose(laws[-1])\n"
            "        if laws[-1][self.fed[end]] < 0.25:\n"
            "            self.fed, probs = self.fed[:end], probs[:-1]\n"
            "            break",
        ),
    ),
}
