"""Grade the folders of many students: side by side, none of them stopping the others."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.files import replacing
from lab.guest import Interrupted
from lab.homework.running import DONE, SECONDS, TO_FIX, Examined, examine
from lab.homework.tasks import SETS, tasks


@dataclass(frozen=True)
class Grade:
    """What was found in one folder.

    Attributes
    ----------
    folder : as it was given
    found : None where nothing could be examined
    trouble : why not, in a sentence
    """

    folder: Path
    found: Examined | None
    trouble: str = ""

    def done(self, file: str | None = None) -> int | None:
        """Tasks of one set that are done, or of all; None where nothing was examined."""
        if self.found is None:
            return None
        chosen = [one for one in self.found.results if file in (None, one.task.file)]
        return sum(one.state == DONE for one in chosen)

    @property
    def remark(self) -> str:
        """What a teacher should look at first."""
        if self.found is None:
            return self.trouble
        wrong = [one for one in self.found.results if one.state == TO_FIX]
        if not wrong:
            return next(iter(self.found.remarks), "")
        more = f" (and {len(wrong) - 1} more to fix)" * (len(wrong) > 1)
        return f"{wrong[0].task.number}: {wrong[0].sentence}{more}"

    def record(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "folder": str(self.folder),
            "done": self.done(),
            "of": len(tasks()),
            "sets": {file: self.done(file) for file in SETS},
            "remark": self.remark,
            "tasks": [one.record() for one in self.found.results] if self.found else [],
        }


def grade(
    folders: Sequence[Path],
    *,
    seed: int = 0,
    limit: float = SECONDS,
    workers: int = 2,
    file: Path | None = None,
    told: Callable[[int], None] = lambda graded: None,
) -> list[Grade]:
    """Grades in the order of the folders.

    Parameters
    ----------
    workers : folders at a time, each with one process at a time
    file : JSON of all that is graded so far, whole at any time
    told : called with the number of folders that are graded

    Raises
    ------
    OSError
        The JSON file cannot be written: said before anything runs.
    """
    stop = threading.Event()
    grades: dict[int, Grade] = {}

    def write() -> None:
        if file is not None:
            _write(file, seed, len(folders), [grades[i] for i in sorted(grades)])

    write()
    with ThreadPoolExecutor(workers) as pool:
        runs: dict[Future[Grade], int] = {
            pool.submit(_graded, folder, seed, limit, stop): i for i, folder in enumerate(folders)
        }
        try:
            for run in as_completed(runs):
                grades[runs[run]] = run.result()
                write()
                told(len(grades))
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [grades[i] for i in range(len(folders))]


def _graded(folder: Path, seed: int, limit: float, stop: threading.Event) -> Grade:
    """One folder; whatever is wrong with it is a sentence."""
    try:
        if not folder.is_dir():
            return Grade(
                folder, None, "is a file" if folder.exists() else "there is no such folder"
            )
        if not any((folder / f"{file}.py").exists() for file in SETS):
            return Grade(folder, None, f"no homework folder: it has no {SETS[0]}.py, nor another")
        return Grade(folder, examine(folder, seed=seed, limit=limit, at_once=1, stop=stop))
    except Interrupted:
        raise
    except OSError as error:
        return Grade(folder, None, f"cannot be read: {error.strerror or error}")
    except Exception as error:
        return Grade(folder, None, f"cannot be graded: {type(error).__name__}: {error}")


def _write(file: Path, seed: int, of: int, grades: Sequence[Grade]) -> None:
    content = {
        "graded": len(grades),
        "of": of,
        "seed": seed,
        "folders": [grade.record() for grade in grades],
    }
    with replacing(file) as path:
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
