"""`speclab hw`: where a student stands, hints, a way back, solutions; for teachers, many folders.

Every verb is one function: given its parser it adds its options and returns what runs with them.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from lab import console, options
from lab.console import Report
from lab.guest import Interrupted
from lab.homework import folder, printing, running
from lab.homework.grading import grade as grade_folders
from lab.homework.hints import HINTS
from lab.homework.running import examine
from lab.homework.tasks import SETS, places, reference_source, tasks
from lab.sweep import cores

Work = Callable[[argparse.Namespace], int]

YES, NO = 0, 1  # exit codes


def hw(parser: argparse.ArgumentParser) -> Work:
    """Homework: build speculative decoding, and be told at each step whether it is right.

    speclab hw init DIR     makes a folder with five files of functions to write; then, inside it:
    speclab hw              where you are, and what is next
    speclab hw 2.3          one task, check by check (-v: the traceback; speclab hw 2: a set)
    speclab hw hint 2.3     the next of three hints
    speclab hw reset 2.3    put a function back as it was; yours is kept
    speclab hw show 2.3     our solution, once yours is done (or with --give-up)
    speclab hw grade DIR... for teachers: the folders of many students, side by side

    exit code: 0 answered; 1 the one task that was asked for is not done; 2 wrong usage
    """
    verbs = parser.add_subparsers(metavar="VERB")
    for name, verb in VERBS.items():
        sub = options.add_command(verbs, name, verb)
        sub.set_defaults(verbose=False, json=False, verb=verb(sub))
    return lambda args: _plainly(args.verb, args)


def spelled_out(argv: Sequence[str]) -> list[str]:
    """`hw` and `hw 2.3` in full: `hw check`, `hw check 2.3`."""
    words = list(argv)
    if words[:1] == ["hw"] and not (words[1:2] and words[1] in (*VERBS, "-h", "--help")):
        words.insert(1, "check")
    return words


# ---- Verbs ------------------------------------------------------------------------------------


def check(parser: argparse.ArgumentParser) -> Work:
    """Where you are, or one task check by check; `speclab hw 2.3` is short for it.

    exit code: 0 answered; 1 the one task that was asked for is not done; 2 wrong usage
    """
    parser.add_argument("task", metavar="TASK", nargs="?", help="such as 2.3, or 2 for its set")
    parser.add_argument("-v", "--verbose", action="store_true", help="where in your file it raises")
    _add_limit(parser)
    options.add_seed_and_json(parser, "changes the inputs of the checks")

    def work(args: argparse.Namespace) -> int:
        here = _here()
        numbers = list(tasks()) if args.task is None else _numbers(args.task)
        found = examine(here, numbers, seed=args.seed, limit=args.limit)
        report = Report("speclab hw" + f" {args.task}" * bool(args.task), args.json)
        if args.task not in tasks():
            printing.overview(report, here, found)
            code = YES
        else:
            printing.one_task(report, here, found, args.verbose)
            code = YES if found.done else NO
        report.close()
        return code

    return work


def init(parser: argparse.ArgumentParser) -> Work:
    """Make a folder of your own, with all that there is to write."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="new, or empty")

    def work(args: argparse.Namespace) -> int:
        folder.init(args.folder)
        _say(
            f"{args.folder} has {len(SETS)} files with {len(tasks())} functions to write. Now "
            f"`cd {shlex.quote(str(args.folder))}`, open {SETS[0]}.py, write its first function, "
            f"and run `speclab hw {next(iter(tasks()))}`."
        )
        return YES

    return work


def hint(parser: argparse.ArgumentParser) -> Work:
    """The next of three hints: a question, a shape or an invariant, the steps."""
    parser.add_argument("task", metavar="TASK", help="such as 2.3")

    def work(args: argparse.Namespace) -> int:
        number = _number(args.task)
        given, text = folder.hint(_here(), number)
        of = len(HINTS[number])
        _say(f"Hint {given} of {of} for {number}, {tasks()[number].function}: {text}")
        return YES

    return work


def reset(parser: argparse.ArgumentParser) -> Work:
    """Put a function back as it was, or with the number of a set its file; yours is kept."""
    parser.add_argument("task", metavar="TASK", help="such as 2.3, or 2 for its set")

    def work(args: argparse.Namespace) -> int:
        here = _here()
        _numbers(args.task)
        kept = folder.reset(here, args.task)
        file = f"{folder.file_of(args.task)}.py"
        what = f"{tasks()[args.task].function} in {file}" if args.task in tasks() else file
        was = f"your file as it was is {kept.relative_to(here)}" if kept else "it was missing"
        _say(f"{what} is as it was at the start; {was}.")
        return YES

    return work


def show(parser: argparse.ArgumentParser) -> Work:
    """Our solution of a task that you have done.

    exit code: 0 shown; 1 the task is not done; 2 wrong usage
    """
    parser.add_argument("task", metavar="TASK", help="such as 2.3")
    parser.add_argument("--give-up", action="store_true", help="show it though it is not done")
    _add_limit(parser)

    def work(args: argparse.Namespace) -> int:
        number = _number(args.task)
        if not (args.give_up or examine(_here(), [number], limit=args.limit).done):
            _say(
                f"{number} is not done yet: `speclab hw {number}` says why, `speclab hw hint "
                f"{number}` helps, and `speclab hw show {number} --give-up` shows it all the same."
            )
            return NO
        source = reference_source(tasks()[number].file)
        place = places(source)[number]
        print("".join(source.splitlines(keepends=True)[place.start : place.end]), end="")
        return YES

    return work


def grade(parser: argparse.ArgumentParser) -> Work:
    """For teachers: how many tasks are done in each of many folders.

    The checks run the students' code with your rights; a folder in which something hangs, crashes
    or is missing gets a remark, and the others their grades.

    exit code: 0 all graded; 2 wrong usage
    """
    parser.add_argument("folders", metavar="DIR", nargs="+", type=Path, help="of a student each")
    parser.add_argument("--json", dest="file", metavar="FILE", type=Path, help="all results, there")
    parser.add_argument(
        "--workers",
        type=console.positive_whole_number,
        default=len(cores()),
        help=f"folders at a time ({len(cores())})",
    )
    options.add_seed(parser, "changes the inputs of the checks")
    _add_limit(parser)

    def work(args: argparse.Namespace) -> int:
        if args.file and args.file.is_dir():
            raise ValueError(f"--json {args.file} is a folder: all results go into one file.")
        report = Report("speclab hw grade")
        grades = grade_folders(
            args.folders,
            seed=args.seed,
            limit=args.limit,
            workers=args.workers,
            file=args.file,
            told=lambda graded: report.progress(f"{graded} of {len(args.folders)} graded"),
        )
        printing.grades(report, grades, args.file)
        report.close()
        return YES

    return work


VERBS = {"check": check, "init": init, "hint": hint, "reset": reset, "show": show, "grade": grade}


# ---- Arguments --------------------------------------------------------------------------------


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        metavar="SECONDS",
        type=console.positive_number,
        default=running.SECONDS,
        help=f"that one check may take ({running.SECONDS:g})",
    )


def _here() -> Path:
    """The current folder, if it is one of homework."""
    here = Path.cwd()
    folder.Marker.of(here)
    return here


def _number(text: str) -> str:
    """A task."""
    if text not in tasks():
        raise ValueError(f"there is no task {text!r}: tasks are {', '.join(tasks())}.")
    return text


def _numbers(text: str) -> list[str]:
    """The tasks that an argument stands for: one, or those of a set."""
    return [number for number in tasks() if number.startswith(f"{text}.")] or [_number(text)]


def _plainly(work: Work, args: argparse.Namespace) -> int:
    """Run a verb; what the system refuses is a sentence, and Ctrl-C ends all workers."""
    try:
        return work(args)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise ValueError(f"{where}{error.strerror or error}.") from error
    except KeyboardInterrupt:
        raise Interrupted from None


def _say(text: str) -> None:
    print(console.folded(text))
