"""Wrong solutions of homework 3 and 4, as edits of the solved functions, and right ones that are
written otherwise. The faults of caches, rollback and stop tokens are those that public projects
reported (tests/public_reports.md, its sections on caches and on endings).

`says` is in the first sentence that a student is told.
"""

from homework_edits import Solution


def wrong(task: str, name: str, says: str, *edits: tuple[str, str]) -> Solution:
    return Solution(task, name, edits, says)


def right(task: str, name: str, *edits: tuple[str, str]) -> Solution:
    return Solution(task, name, edits)


APPEND = (
    "    cache.keys[start:end] = keys\n    cache.values[start:end] = values\n"
    "    cache.length = end\n"
)
REFUSE = (
    "    if end > len(cache.keys):\n"
    '        raise ValueError(f"{end} positions do not fit into a cache of {len(cache.keys)}")\n'
)
SOFTMAX = (
    "    weights = np.exp(scores - scores.max(axis=1, keepdims=True))\n"
    "    return (weights / weights.sum(axis=1, keepdims=True)) @ values\n"
)
FORWARD = (
    "    append(cache, x @ weights.to_key, x @ weights.to_value)\n"
    "    return attend(x @ weights.to_query, cache) @ weights.head\n"
)
LOOP = (
    "    for _ in range(count):\n"
    "        law = draft.forward(unread, cache)[-1]\n"
    "        draft_probs.append(law)\n"
    "        drafts.append(dice.choose(law))\n"
    "        unread = [drafts[-1]]\n"
)
SCORE = "    return target.forward([tokens[-1], *drafts], cache)\n"
COMMIT = (
    "    for emitted in [*drafts[:accepted], token]:\n"
    "        tokens.append(emitted)\n"
    "        if emitted in stop:\n"
    "            return True\n"
    "    return False\n"
)
ROLL_BACK = "    cache.truncate(min(cache.length, len(tokens) - 1))\n"
PREFILL = (
    "        target.forward(tokens[:-1], target_cache)\n"
    "        draft.forward(tokens[:-1], draft_cache)\n"
)
BOTH = "        roll_back(target_cache, tokens)\n        roll_back(draft_cache, tokens)\n"
VERDICT = (
    "        if drafts:\n"
    "            accepted, token = rule(target_probs, draft_probs, drafts, dice)\n"
    "        else:\n"
    "            accepted, token = 0, dice.choose(target_probs[0])\n"
)

WRONG = [
    # ---- 3.1 append ----
    wrong("3.1", "overwrites from 0", "behind those that count",
          ("start, end = cache.length, cache.length + len(keys)", "start, end = 0, len(keys)")),
    wrong("3.1", "length before write", "behind those that count",
          (APPEND, "    cache.length = end\n"
                   "    room = len(cache.keys) - end\n"
                   "    cache.keys[end : end + len(keys)] = keys[:room]\n"
                   "    cache.values[end : end + len(keys)] = values[:room]\n")),
    wrong("3.1", "forgets the values", "behind those that count",
          ("    cache.values[start:end] = values\n", "")),
    wrong("3.1", "values are the keys", "behind those that count",
          ("cache.values[start:end] = values", "cache.values[start:end] = keys")),
    wrong("3.1", "length does not grow", "grows by T", ("    cache.length = end\n", "")),
    wrong("3.1", "length grows by one", "grows by T",
          ("cache.length = end", "cache.length += 1")),
    wrong("3.1", "keeps the last row free", "full at its capacity",
          ("if end > len(cache.keys)", "if end >= len(cache.keys)")),
    wrong("3.1", "buffers shrink to what counts", "full at its capacity",
          (APPEND, "    cache.keys = np.concatenate([cache.keys[:start], keys])\n"
                   "    cache.values = np.concatenate([cache.values[:start], values])\n"
                   "    cache.length = end\n")),
    wrong("3.1", "appends though there is no room", "no room is no reason", (REFUSE, "")),
    wrong("3.1", "cuts silently", "expected a ValueError",
          (REFUSE, "    end = min(end, len(cache.keys))\n"
                   "    keys, values = keys[: end - start], values[: end - start]\n")),
    wrong("3.1", "writes one by one until it is full", "no room is no reason",
          (REFUSE, ""), (APPEND,
           "    for key, value in zip(keys, values):\n"
           "        if cache.length == len(cache.keys):\n"
           '            raise ValueError("full")\n'
           "        cache.keys[cache.length], cache.values[cache.length] = key, value\n"
           "        cache.length += 1\n")),
    # ---- 3.2 attend ----
    wrong("3.2", "weights are not normalised", "sum to 1",
          (SOFTMAX, "    return np.exp(scores - scores.max(axis=1, keepdims=True)) @ values\n")),
    wrong("3.2", "no sqrt of D", "sqrt(D)", (" / np.sqrt(width)", "")),
    wrong("3.2", "divides by D", "sqrt(D)", ("np.sqrt(width)", "width")),
    wrong("3.2", "divides by the root of the number of keys", "sqrt(D)",
          ("np.sqrt(width)", "np.sqrt(len(keys))")),
    wrong("3.2", "softmax without the shift", "largest score",
          ("np.exp(scores - scores.max(axis=1, keepdims=True))", "np.exp(scores)")),
    wrong("3.2", "the largest score of all rows is subtracted", "largest score of the row",
          ("scores.max(axis=1, keepdims=True)", "scores.max()")),
    wrong("3.2", "no mask", "sees the positions 0 .. i", ("-np.inf, scores", "scores, scores")),
    wrong("3.2", "hides itself", "sees the positions 0 .. i",
          ("> position[:, None]", ">= position[:, None]")),
    wrong("3.2", "shows the next", "sees the positions 0 .. i",
          ("> position[:, None]", "> position[:, None] + 1")),
    wrong("3.2", "mask the wrong way round", "sees the positions 0 .. i",
          ("> position[:, None]", "< position[:, None]")),
    wrong("3.2", "hidden scores of 0", "sees the positions 0 .. i", ("-np.inf", "0.0")),
    wrong("3.2", "mask ignores what was cached", "newest positions",
          ("np.arange(cache.length - count, cache.length)", "np.arange(count)")),
    wrong("3.2", "attends over the new positions only", "newest positions",
          ("keys, values = cache.keys[: cache.length], cache.values[: cache.length]",
           "new = slice(cache.length - len(queries), cache.length)\n"
           "    keys, values = cache.keys[new], cache.values[new]"),
          ("position = np.arange(cache.length - count, cache.length)",
           "position = np.arange(count)"),
          ("hidden = np.arange(cache.length)", "hidden = np.arange(count)")),
    wrong("3.2", "attends over the whole capacity", "left over",
          ("keys, values = cache.keys[: cache.length], cache.values[: cache.length]",
           "keys, values = cache.keys, cache.values"),
          ("hidden = np.arange(cache.length) >", "hidden = np.arange(len(keys)) >")),
    wrong("3.2", "divides the cached keys in place", "changed its argument cache",
          ("    scores = queries @ keys.T / np.sqrt(width)  # (T, S)\n",
           "    keys /= np.sqrt(width)\n    scores = queries @ keys.T\n")),
    # ---- 3.3 truncate ----
    wrong("3.3", "drops so many", "not how many go",
          ("    cache.length = length\n", "    cache.length -= length\n")),
    wrong("3.3", "resets", "no reset", ("    cache.length = length\n", "    cache.length = 0\n")),
    wrong("3.3", "refuses its own length", "how many positions stay",
          ("0 <= length <= cache.length", "0 <= length < cache.length")),
    wrong("3.3", "clears all rows", "stays as it was",
          ("    cache.length = length\n", "    cache.length = length\n    cache.keys[:] = 0\n")),
    wrong("3.3", "cuts the buffers", "capacity",
          ("    cache.length = length\n",
           "    cache.length = length\n"
           "    cache.keys, cache.values = cache.keys[:length], cache.values[:length]\n")),
    wrong("3.3", "grows", "cannot grow", ("0 <= length <= cache.length", "0 <= length")),
    wrong("3.3", "takes what is negative", "cannot grow",
          ("0 <= length <= cache.length", "length <= cache.length")),
    wrong("3.3", "refuses after the cut", "changed what it was given",
          ("    if not 0 <=", "    before, cache.length = cache.length, length\n    if not 0 <="),
          ("<= cache.length:", "<= before:")),
    # ---- 3.4 forward ----
    wrong("3.4", "attends before it appends", "before it attends",
          (FORWARD, "    mixed = attend(x @ weights.to_query, cache)\n"
                    "    append(cache, x @ weights.to_key, x @ weights.to_value)\n"
                    "    return mixed @ weights.head\n")),
    wrong("3.4", "forgets to append", "before it attends",
          ("    append(cache, x @ weights.to_key, x @ weights.to_value)\n", "")),
    wrong("3.4", "keys and values change places", "before it attends",
          ("x @ weights.to_key, x @ weights.to_value", "x @ weights.to_value, x @ weights.to_key")),
    wrong("3.4", "queries are the keys", "embed, project",
          ("attend(x @ weights.to_query", "attend(x @ weights.to_key")),
    wrong("3.4", "only the last logits", "embed, project",
          ("(x @ weights.to_query, cache)", "(x @ weights.to_query, cache)[-1:]")),
    wrong("3.4", "token by token without the past", "embed, project",
          (FORWARD, "    rows = []\n    for row in x:\n        cache.length = 0\n"
                    "        row = row[None]\n"
                    "        append(cache, row @ weights.to_key, row @ weights.to_value)\n"
                    "        rows.append(attend(row @ weights.to_query, cache) @ weights.head)\n"
                    "    return np.concatenate(rows)\n")),
    wrong("3.4", "starts anew at every call", "behind those of earlier calls",
          ("    append(cache, x", "    cache.length = 0\n    append(cache, x")),
    wrong("3.4", "appends twice", "one key and one value",
          (FORWARD, FORWARD.replace("return", "logits =")
           + "    append(cache, x @ weights.to_key, x @ weights.to_value)\n    return logits\n")),
    wrong("3.4", "keeps its keys outside the cache", "one key and one value",
          (FORWARD, "    own = new_cache(len(x), x.shape[1])\n"
                    "    append(own, x @ weights.to_key, x @ weights.to_value)\n"
                    "    cache.length += len(x)\n"
                    "    return attend(x @ weights.to_query, own) @ weights.head\n")),
    wrong("3.4", "attends to this call's tokens only", "cached equals fresh",
          (FORWARD, FORWARD.replace(
              "return attend(x @ weights.to_query, cache)",
              "own = Cache(x @ weights.to_key, x @ weights.to_value, len(x))\n"
              "    return attend(x @ weights.to_query, own)"))),
    wrong("3.4", "keeps what it has read beside the cache", "after a rollback",
          (FORWARD, "    cache.read = np.concatenate([getattr(cache, 'read', x[:0]), x])\n"
                    "    append(cache, x @ weights.to_key, x @ weights.to_value)\n"
                    "    read = cache.read\n"
                    "    own = Cache(read @ weights.to_key, read @ weights.to_value, len(read))\n"
                    "    return attend(x @ weights.to_query, own) @ weights.head\n")),
    # ---- 4.1 drafts_allowed ----
    wrong("4.1", "no cut", "one token more", ("min(gamma, wanted - 1)", "gamma")),
    wrong("4.1", "no room for the target's token", "one token more",
          ("min(gamma, wanted - 1)", "min(gamma, wanted)")),
    wrong("4.1", "at least one draft", "one token more",
          ("min(gamma, wanted - 1)", "min(gamma, wanted - 1) or (1 if gamma else 0)")),
    wrong("4.1", "the larger", "gamma is the most", ("min(gamma", "max(gamma")),
    wrong("4.1", "one less than gamma", "gamma is the most",
          ("min(gamma, wanted - 1)", "max(0, min(gamma - 1, wanted - 1))")),
    wrong("4.1", "no gamma of 0", "gamma = 0 is plain decoding",
          ("min(gamma, wanted - 1)", "min(max(gamma, 1), wanted - 1)")),
    # ---- 4.2 propose ----
    wrong("4.2", "forgets to catch up", "full acceptance",
          ("unread = tokens[cache.length :]", "unread = tokens[-1:]")),
    wrong("4.2", "catches up one call each", "in one call",
          ("    for _ in range(count):\n",
           "    for token in unread[:-1]:\n        draft.forward([token], cache)\n"
           "    unread = unread[-1:]\n    for _ in range(count):\n")),
    wrong("4.2", "catches up in a call of its own", "in one call",
          ("    for _ in range(count):\n",
           "    if len(unread) > 1:\n        draft.forward(unread[:-1], cache)\n"
           "        unread = unread[-1:]\n    for _ in range(count):\n")),
    wrong("4.2", "reads the text anew every time", "what the cache lacks",
          ("unread = tokens[cache.length :]", "unread = list(tokens)")),
    wrong("4.2", "feeds the whole text for every draft", "every token is fed once",
          ("unread = [drafts[-1]]", "unread = [*tokens, *drafts]")),
    wrong("4.2", "feeds the last draft too", "every token is fed once",
          ("    return drafts, np.array",
           "    draft.forward(unread, cache)\n    return drafts, np.array")),
    wrong("4.2", "feeds the pending token again", "every token is fed once",
          ("unread = [drafts[-1]]", "unread = [tokens[-1], drafts[-1]]")),
    wrong("4.2", "all from one law", "every token is fed once",
          (LOOP, "    law = draft.forward(unread, cache)[-1]\n"
                 "    for _ in range(count):\n"
                 "        draft_probs.append(law)\n"
                 "        drafts.append(dice.choose(law))\n")),
    wrong("4.2", "the first row of a call", "behind the text",
          ("draft.forward(unread, cache)[-1]", "draft.forward(unread, cache)[0]")),
    wrong("4.2", "laws of the step before", "behind the text",
          ("        draft_probs.append(law)\n",
           "        draft_probs.append(draft_probs[-1] if draft_probs else law)\n")),
    wrong("4.2", "probabilities of the drafts only", "behind the text",
          ("        draft_probs.append(law)\n        drafts.append(dice.choose(law))\n",
           "        drafts.append(dice.choose(law))\n"
           "        draft_probs.append(law[drafts[-1]])\n")),
    wrong("4.2", "the likeliest token", "drawn by the dice",
          ("dice.choose(law)", "int(law.argmax())")),
    wrong("4.2", "drawn from a sharper law", "drawn by the dice",
          ("dice.choose(law)", "dice.choose(law**2 / (law**2).sum())")),
    # ---- 4.3 score ----
    wrong("4.3", "without the pending token", "pending token",
          (SCORE, "    return target.forward(drafts, cache)\n")),
    wrong("4.3", "the whole text again", "pending token",
          (SCORE, "    return target.forward([*tokens, *drafts], cache)[-len(drafts) - 1:]\n")),
    wrong("4.3", "one row too few", "bonus",
          (SCORE, "    rows = target.forward([tokens[-1], *drafts], cache)\n"
                  "    return rows[: max(1, len(drafts))]\n")),
    wrong("4.3", "does not feed the last draft", "bonus",
          (SCORE, "    return target.forward([tokens[-1], *drafts[:-1]], cache)\n")),
    wrong("4.3", "a call for every draft", "one call",
          (SCORE, "    return np.concatenate(\n"
                  "        [target.forward([token], cache) for token in [tokens[-1], *drafts]]\n"
                  "    )\n")),
    wrong("4.3", "rolls back at once", "the rollback comes later",
          (SCORE, "    rows = target.forward([tokens[-1], *drafts], cache)\n"
                  "    cache.truncate(len(tokens))\n    return rows\n")),
    # ---- 4.4 commit ----
    wrong("4.4", "bonus forgotten", "then the rule's token",
          ("[*drafts[:accepted], token]", "drafts[:accepted]")),
    wrong("4.4", "the token comes first", "in their order",
          ("[*drafts[:accepted], token]", "[token, *drafts[:accepted]]")),
    wrong("4.4", "one draft too many", "accepted drafts",
          ("drafts[:accepted]", "drafts[: accepted + 1]")),
    wrong("4.4", "all drafts", "accepted drafts", ("drafts[:accepted]", "drafts")),
    wrong("4.4", "stop missed inside a block", "first stop token",
          (COMMIT, "    tokens.extend([*drafts[:accepted], token])\n    return token in stop\n")),
    wrong("4.4", "stop seen, rest kept", "first stop token",
          (COMMIT, "    new = [*drafts[:accepted], token]\n    tokens.extend(new)\n"
                   "    return any(one in stop for one in new)\n")),
    wrong("4.4", "stop dropped", "is kept",
          ("        tokens.append(emitted)\n        if emitted in stop:\n            return True\n",
           "        if emitted in stop:\n            return True\n"
           "        tokens.append(emitted)\n")),
    wrong("4.4", "a rejected stop ends the text", "no rejected draft",
          ("    return False\n", "    return any(draft in stop for draft in drafts)\n")),
    wrong("4.4", "an old stop ends the text", "nothing that was there",
          ("    return False\n", "    return any(one in stop for one in tokens)\n")),
    wrong("4.4", "never says so", "the loop goes by it", ("return True", "return False")),
    # ---- 4.5 roll_back ----
    wrong("4.5", "keeps the pending token", "without its last token",
          (ROLL_BACK, "    cache.truncate(min(cache.length, len(tokens)))\n")),
    wrong("4.5", "one too few", "without its last token",
          (ROLL_BACK, "    cache.truncate(min(cache.length, len(tokens) - 2))\n")),
    wrong("4.5", "drops one position", "without its last token",
          (ROLL_BACK, "    cache.truncate(cache.length - 1)\n")),
    wrong("4.5", "by the number of rejected", "without its last token",
          (ROLL_BACK, "    cache.truncate(max(0, cache.length - len(tokens)))\n")),
    wrong("4.5", "resets", "without its last token", (ROLL_BACK, "    cache.truncate(0)\n")),
    wrong("4.5", "never", "without its last token", (ROLL_BACK, "    pass\n")),
    wrong("4.5", "never on the draft's side", "fed one token less",
          (ROLL_BACK, "    if cache.length > len(tokens):\n"
                      "        cache.truncate(len(tokens) - 1)\n")),
    wrong("4.5", "also what is short", "no truncate makes it longer",
          (ROLL_BACK, "    cache.truncate(len(tokens) - 1)\n")),
    # ---- 4.6 generate ----
    wrong("4.6", "prompt's last token fed twice", "fed twice",
          ("target.forward(tokens[:-1], target_cache)", "target.forward(tokens, target_cache)")),
    wrong("4.6", "draft reads the whole prompt", "pending",
          ("draft.forward(tokens[:-1], draft_cache)", "draft.forward(tokens, draft_cache)")),
    wrong("4.6", "prefill forgotten", "the prompt is read", (PREFILL, "        pass\n")),
    wrong("4.6", "the target's prefill forgotten", "the prompt is read",
          ("        target.forward(tokens[:-1], target_cache)\n", "")),
    wrong("4.6", "one cache for both", "a cache that the target made",
          ("target_cache, draft_cache = target.new_cache(), draft.new_cache()",
           "target_cache = draft_cache = target.new_cache()")),
    wrong("4.6", "both caches of the target's making", "a cache that the target made",
          ("target.new_cache(), draft.new_cache()", "target.new_cache(), target.new_cache()")),
    wrong("4.6", "mutates the prompt", "changed its argument prompt",
          ("    tokens = list(prompt)\n", "    tokens, prompt = prompt, list(prompt)\n")),
    wrong("4.6", "writes into the prompt, and never ends", "changed its argument prompt",
          ("    tokens = list(prompt)\n", "    tokens = prompt\n")),
    wrong("4.6", "gives the prompt back", "no prompt",
          ("return tokens[len(prompt) :]", "return tokens")),
    wrong("4.6", "one token too many", "never more",
          ("end = len(prompt) + n_new", "end = len(prompt) + n_new + 1")),
    wrong("4.6", "drafts without a limit", "never more",
          ("count = drafts_allowed(gamma, end - len(tokens))", "count = gamma"),
          ("or len(tokens) == end", "or len(tokens) >= end")),
    wrong("4.6", "a token though none is wanted", "never more",
          ("ended = n_new == 0", "ended = False"),
          ("or len(tokens) == end", "or len(tokens) >= end"),
          ("count = drafts_allowed(gamma, end - len(tokens))",
           "count = max(0, drafts_allowed(gamma, end - len(tokens)))")),
    wrong("4.6", "one token too few", "not fewer",
          ("or len(tokens) == end", "or len(tokens) >= end - 1")),
    wrong("4.6", "asks the rule without drafts", "neither draft nor rule",
          (VERDICT, "        accepted, token = rule(target_probs, draft_probs, drafts, dice)\n")),
    wrong("4.6", "drafts in vain", "neither draft nor rule",
          ("        if count:\n            drafts, draft_probs = propose(",
           "        if not count:\n"
           "            draft.forward(tokens[draft_cache.length :], draft_cache)\n"
           "        if count:\n            drafts, draft_probs = propose(")),
    wrong("4.6", "no rollback", "both forget",
          (BOTH, "")),
    wrong("4.6", "no rollback of the target", "both forget",
          ("        roll_back(target_cache, tokens)\n", "")),
    wrong("4.6", "no rollback of the draft", "both forget",
          ("        roll_back(draft_cache, tokens)\n", "")),
    wrong("4.6", "rolls back before it commits", "both forget",
          (BOTH, ""), ("        ended = commit(", BOTH + "        ended = commit(")),
    wrong("4.6", "a new draft cache every round", "both forget",
          ("        if count:\n", "        draft_cache = draft.new_cache()\n        if count:\n"),
          ("draft_cache, tokens, count", "draft_cache, tokens[-1:], count")),
    wrong("4.6", "commits nothing but the token", "accepted drafts and one token more",
          ("commit(tokens, drafts, accepted,", "commit(tokens, drafts, 0,")),
    wrong("4.6", "never drafts", "one call of the target",
          ("count = drafts_allowed(gamma, end - len(tokens))", "count = 0")),
    wrong("4.6", "drafts one at most", "one call of the target",
          ("drafts_allowed(gamma, ", "drafts_allowed(min(gamma, 1), ")),
    wrong("4.6", "laws change places", "the target's own law",
          ("rule(target_probs, draft_probs, drafts, dice)",
           "rule([*draft_probs, target_probs[-1]], target_probs, drafts, dice)")),
    wrong("4.6", "the likeliest where nothing is drafted", "the target's own law",
          ("dice.choose(target_probs[0])", "int(target_probs[0].argmax())")),
    wrong("4.6", "draws anew from p after a rejection", "the target's own law",
          (VERDICT, VERDICT + "        if drafts and accepted == 0:\n"
           "            token = dice.choose(target_probs[0])\n")),
    wrong("4.6", "stop ignored", "first stop token",
          ("accepted, token, stop) or", "accepted, token, frozenset()) or")),
    wrong("4.6", "ends only by its length", "first stop token",
          ("ended = commit(tokens, drafts, accepted, token, stop) or len(tokens) == end",
           "commit(tokens, drafts, accepted, token, stop)\n        ended = len(tokens) == end")),
    wrong("4.6", "a stop in the prompt ends it", "first stop token",
          ("ended = n_new == 0", "ended = n_new == 0 or tokens[-1] in stop")),
]  # fmt: skip

RIGHT = [
    right("3.1", "row by row, after looking", (APPEND,
          "    for key, value in zip(keys, values):\n"
          "        cache.keys[cache.length], cache.values[cache.length] = key, value\n"
          "        cache.length += 1\n")),
    right("3.1", "new buffers of the same capacity", (APPEND,
          "    cache.keys = np.concatenate([cache.keys[:start], keys, cache.keys[end:]])\n"
          "    cache.values = np.concatenate([cache.values[:start], values, cache.values[end:]])\n"
          "    cache.length = end\n")),
    right("3.2", "query by query, a list of rows", (
          "    keys, values = cache.keys[: cache.length]",
          "    rows = []\n    for i, query in enumerate(queries):\n"
          "        seen = cache.length - len(queries) + i + 1\n"
          "        scores = cache.keys[:seen] @ query / len(query) ** 0.5\n"
          "        weights = np.exp(scores - scores.max())\n"
          "        rows.append(weights @ cache.values[:seen] / weights.sum())\n"
          "    return rows\n"
          "    keys, values = cache.keys[: cache.length]")),
    right("3.3", "wipes what it forgets", (
          "    cache.length = length\n",
          "    cache.keys[length:] = cache.values[length:] = np.nan\n    cache.length = length\n")),
    right("3.4", "token by token", (FORWARD,
          "    rows = []\n    for row in x:\n"
          "        append(cache, [row @ weights.to_key], [row @ weights.to_value])\n"
          "        rows.append(attend(row[None] @ weights.to_query, cache)[0] @ weights.head)\n"
          "    return np.stack(rows)\n")),
    right("4.1", "in words", ("    return min(gamma, wanted - 1)\n",
          "    if gamma + 1 > wanted:\n        return wanted - 1\n    return gamma\n")),
    right("4.2", "arrays in and out", (LOOP,
          "    for _ in range(count):\n"
          "        law = draft.forward(np.array(unread), cache)[-1]\n"
          "        draft_probs.append(law)\n"
          "        drafts.append(np.int64(dice.choose(law)))\n"
          "        unread = drafts[-1:]\n"),
          ("return drafts, np.array(draft_probs)", "return np.array(drafts), draft_probs")),
    right("4.3", "an array of tokens", (SCORE,
          "    fed = np.array([tokens[-1]] + list(drafts))\n"
          "    return list(target.forward(fed, cache))\n")),
    right("4.4", "one slice", (COMMIT,
          "    new = list(drafts[:accepted]) + [token]\n"
          "    at = next((i for i, one in enumerate(new) if one in stop), None)\n"
          "    tokens += new if at is None else new[: at + 1]\n    return at is not None\n")),
    right("4.5", "only where it holds more", (ROLL_BACK,
          "    if cache.length >= len(tokens):\n        cache.truncate(len(tokens) - 1)\n")),
    right("4.6", "draft reads the prompt in its first round", (
          "        draft.forward(tokens[:-1], draft_cache)\n", "")),
    right("4.6", "an array of tokens, prompt read token by token", (PREFILL,
          "        for token in tokens[:-1]:\n"
          "            target.forward([token], target_cache)\n"
          "            draft.forward([token], draft_cache)\n"),
          ("return tokens[len(prompt) :]", "return np.array(tokens[len(prompt) :], int)")),
]  # fmt: skip
