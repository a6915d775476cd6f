"""The command `speclab`: what the lab can do for somebody who brings something of their own.

Every subcommand is one function: given its parser it adds its options and returns what runs with
them; its docstring is its help. `COMMANDS` names them.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from numpy.random import default_rng

import lab.certify
from lab import console, guest, options, replay_file, replay_report
from lab.certificate import Certificate
from lab.console import Report
from lab.exact import EXACT, Difference
from lab.examine import Finding, examine
from lab.homework import cli as homework
from lab.replay_tally import tally
from lab.userrule import Trouble, UserRule, load, told
from lab.verify import RULES, Rule
from lab.watch import Watch

Work = Callable[[argparse.Namespace], int]

YES, NO, CANNOT, INTERRUPTED = 0, 1, guest.CANNOT, 130  # exit codes
ROUNDING = 1e-6  # total variation that float32 may leave
DEFAULT_GAMMAS = "1..3"
RULE_HELP = f"""\
FILE.py:NAME, package.module:NAME, or {", ".join(RULES)};
a function (target_probs, draft_probs, drafts, dice) -> (accepted, token),
or (target_probs, proposal, dice) -> lab.verify.Verdict"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand -> exit code."""
    return console.run(lambda: _dispatch(argv))


# ---- Subcommands ------------------------------------------------------------------------------


def audit(parser: argparse.ArgumentParser) -> Work:
    """Is a verification rule exact, and what does it buy?

    Every branch of every draw is taken, of one round and of the real decoding loop, on small
    random laws; the law of the text that comes out is compared with the law of the target. A rule
    that is wrong gets its exact bias; one that raises, returns nonsense, or draws other than
    through the dice is told so. lectures/audit_your_rule.md shows how to write or wrap one.

    exit code: 0 exact; 1 not exact; 2 the rule cannot be examined, or wrong usage
    """
    _add_rule_options(parser)

    def work(args: argparse.Namespace) -> int:
        user, findings = _examined(args, args.gamma)
        report = Report("speclab audit", args.json)
        _print_findings(report, user, findings)
        code = _say_verdict(report, findings)
        if code == YES:
            report.say(f"For all laws, not these alone: speclab certify {args.rule}")
        report.close()
        return code

    return work


def certify(parser: argparse.ArgumentParser) -> Work:
    """Prove a verification rule exact for all laws, in exact fractions, or refute it.

    A rule knows the laws by comparing numbers. Where all comparisons come out alike, in a cell, the
    probability of a text is a rational function, and a random point decides. So cells are visited,
    not examples tried. A rule that is wrong gets a counterexample in fractions.

    exit code: 0 certified; 1 refuted, or not decided; 2 the rule cannot be examined, or wrong usage
    """
    _add_rule_options(parser)

    def work(args: argparse.Namespace) -> int:
        user, findings = _examined(args, [1])  # it draws through the dice, and only there
        report = Report("speclab certify", args.json)
        code = _print_certificates(report, user, args)
        if code == YES and not all(found.exact for found in findings):
            code = _say_contradiction(report, findings)
        report.close()
        return code

    return work


def replay(parser: argparse.ArgumentParser) -> Work:
    """Tokens per call for every γ, from what target and draft made of the target's own texts.

    No speculation is run: given a text of the target, a draft is accepted with probability
    min(1, q / p), and the rounds along it are summed exactly. FILE.jsonl has a prompt per line:
      {"target_logprobs": [-0.1, ..], "draft_logprobs": [-0.3, ..]}
    or at temperature 0, where it counts whether both argmaxes agree:
      {"agree": [true, false, ..]}
    or a token per line, of the prompt named, if there are several:
      {"prompt": "p7", "token": 42, "target_logprob": -0.1, "draft_logprob": -0.3}
      {"prompt": "p7", "token": 42, "agree": true}
    Texts are the target's own continuations, without the prompt, and end at a length rather than a
    stop token. Log-probabilities are natural ones of the laws that decoding would use: servers give
    raw ones unless told to apply temperature, top-k and top-p.

    exit code: 0 replayed; 2 the file cannot be replayed, or wrong usage
    """
    parser.add_argument("file", metavar="FILE.jsonl", type=Path, help="texts, as above")
    options.add_gamma(parser, "1..8")
    parser.add_argument(
        "--c",
        type=options.costs,
        default="0.02,0.05,0.1,0.2",
        help="time of a draft pass / of a target pass, one or several (0.02,0.05,0.1,0.2)",
    )
    parser.add_argument(
        "--verify-cost",
        type=console.positive_number,
        default=1.0,
        help="time of a target pass over γ + 1 rows / over one row (1)",
    )
    options.add_seed_and_json(parser, "seed of the bootstrap")
    parser.set_defaults(verbose=False)

    def work(args: argparse.Namespace) -> int:
        texts = replay_file.read(args.file)
        found = tally(texts.accept, args.gamma, default_rng(args.seed))
        report = Report("speclab replay", args.json)
        replay_report.show(report, texts, found, args.c, args.verify_cost)
        report.close()
        return YES

    return work


COMMANDS = {"audit": audit, "certify": certify, "replay": replay, "hw": homework.hw}


# ---- Options ----------------------------------------------------------------------------------


def _add_rule_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rule", metavar="RULE", help=RULE_HELP)
    options.add_gamma(parser, DEFAULT_GAMMAS)
    parser.add_argument(
        "--vocab", type=console.positive_whole_number, default=3, help="tokens, at least 2 (3)"
    )
    options.add_seed_and_json(parser, "seed of the random laws")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="the traceback, if the rule raises"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="speclab", description="A laboratory of speculative decoding."
    )
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, command in COMMANDS.items():
        sub = options.add_command(commands, name, command)
        sub.set_defaults(work=command(sub), command=name)
    return parser


def _dispatch(argv: Sequence[str] | None) -> int:
    parser = _parser()
    args = parser.parse_args(homework.spelled_out(sys.argv[1:] if argv is None else argv))
    if not hasattr(args, "work"):
        parser.print_help(sys.stderr)
        return CANNOT
    try:
        code: int = args.work(args)
    except (Trouble, ValueError) as error:
        _tell(error, args)
        return CANNOT
    except guest.Interrupted:
        return INTERRUPTED
    return code


def _tell(error: Exception, args: argparse.Namespace) -> None:
    """What was wrong, in a sentence; the traceback of what is behind it only if asked for."""
    if args.verbose:
        traceback.print_exception(error.__cause__ or error)
    if args.json:
        report = Report(f"speclab {args.command}", as_json=True)
        report.say(str(error), examined=False)
        report.close()
    else:
        print(console.folded(f"speclab: {error}"), file=sys.stderr)


# ---- A rule -----------------------------------------------------------------------------------


def _examined(args: argparse.Namespace, gammas: Sequence[int]) -> tuple[UserRule, list[Finding]]:
    """Load and examine."""
    with guest.aside():
        user = load(args.rule)
        return user, examine(Watch(user), gammas, args.vocab, args.seed)


def _print_findings(report: Report, user: UserRule, findings: Sequence[Finding]) -> None:
    rows = []
    for found in findings:
        off = found.difference
        tokens = (found.tokens, found.token_tokens, found.block_tokens)
        variation, wrong = "0", ["", "", ""]
        if not found.exact:
            text = " ".join(map(str, off.prefix or ()))
            variation = f"{off.total_variation:.3g}"
            wrong = [text, f"{off.p_law:.4g}", f"{off.p_reference:.4g}"]
        rows.append([found.case, found.gamma, variation, *(f"{n:.3f}" for n in tokens), *wrong])
    report.section(
        f"{user.name}, V {findings[0].vocab}",
        "Total variation of the text's exact law from the target's (0: at most "
        f"{EXACT:g}); expected tokens per round, beside those of the rules token and block; the "
        "shortest text whose probability is wrong, with the probability that it should have.",
    )
    report.table(
        "Every branch of every draw (lab.examine)",
        (
            "case", "γ", "total\nvariation", "tokens/\nround", "\ntoken", "\nblock",
            "first\nwrong", "proba-\nbility", "should\nbe",
        ),
        rows,
        key="cases",
        values=list(map(_flat, findings)),
    )  # fmt: skip


def _flat(found: Finding) -> dict[str, Any]:
    """A finding for JSON, its difference taken apart."""
    values = vars(found).copy()
    difference: Difference = values.pop("difference")
    return difference._asdict() | values | {"exact": found.exact}


def _say_verdict(report: Report, findings: Sequence[Finding]) -> int:
    """Whether it is exact, how far it is off, and what it emits for that -> exit code."""
    tokens = {
        name: sum(getattr(found, name) for found in findings) / len(findings)
        for name in ("tokens", "token_tokens", "block_tokens")
    }
    emits = (
        "{tokens:.3f} tokens per round in the mean of the cases, against {token_tokens:.3f} "
        "(token) and {block_tokens:.3f} (block)."
    ).format(**tokens)
    worst = max(findings, key=lambda found: found.difference.total_variation)
    variation = worst.difference.total_variation
    wrong = sum(not found.exact for found in findings)
    if worst.exact:
        text = (
            f"exact: in all {len(findings)} cases the text has the target's law. It emits {emits}"
        )
    else:
        rounding = " So little may be rounding: try float64." * (variation <= ROUNDING)
        text = (
            f"not exact: {wrong} of {len(findings)} cases differ. The largest total variation is "
            f"{variation:.3g} ({worst.case}, γ {worst.gamma}).{rounding} For that it emits {emits}"
        )
    report.section("Verdict")
    report.say(text, exact=worst.exact, differ=wrong, total_variation=variation, **tokens)
    return YES if worst.exact else NO


def _print_certificates(report: Report, user: UserRule, args: argparse.Namespace) -> int:
    """A certificate for every gamma -> exit code."""
    code = YES
    for gamma in args.gamma:
        report.section(f"Certificate, γ {gamma}")
        try:
            found = _certified(user, args.vocab, gamma, args.seed)
        except (Trouble, ValueError) as error:
            report.say(f"It cannot be certified. {error}", gamma=gamma, holds=None)
            return CANNOT
        values = vars(found) | {"violations": list(map(str, found.violations))}
        report.say(str(found), gamma=gamma, holds=found.holds, proved=found.proved, **values)
        if found.holds and not found.proved:
            report.say(
                "Not decided: nothing wrong was found, but too much was not seen. Take a smaller "
                "vocab or gamma."
            )
        code = code if found.proved else NO
    return code


def _certified(user: UserRule, vocab: int, gamma: int, seed: int) -> Certificate:
    rule = Rule(user.name, user.verify, lossless=False, source="")
    try:
        with guest.aside():
            return lab.certify.rule(rule, vocab, gamma, seed)
    except (ValueError, guest.Interrupted):
        raise
    except BaseException as error:  # what is no `Exception` comes through the certifier
        raise Trouble(f"{user.name} {told(error, user.file)}.") from error


def _say_contradiction(report: Report, findings: Sequence[Finding]) -> int:
    """In exact numbers the rule is right, and in floats it was just measured to be wrong."""
    worst = max(findings, key=lambda found: found.difference.total_variation)
    variation = worst.difference.total_variation
    report.section("Verdict")
    report.say(
        "Not certified: in floats the rule is not exact. The certificate is of what it does with "
        f"exact numbers; with floats its total variation is {variation:.3g} ({worst.case}, "
        f"γ {worst.gamma}). It does something else there, or loses digits: see speclab audit.",
        exact=False,
        total_variation=variation,
    )
    return NO


if __name__ == "__main__":
    sys.exit(main())
