"""Independent jobs, run on all cores.

Every cell of a sweep has random streams of its own, keyed by the cell, so the result does not
depend on how many processes there are, or in which order they work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any


def sweep(jobs: Sequence[Callable[[], Any]], executor: Executor | None = None) -> list[Any]:
    """Results of all jobs, in their order.

    Parameters
    ----------
    jobs : picklable calls without arguments (`functools.partial` of module functions); the longest
        first keeps all cores busy to the end
    executor : any `concurrent.futures` executor; None: a process for each core, for this sweep
    """
    if executor is not None:
        return [future.result() for future in [executor.submit(job) for job in jobs]]
    processes = min(len(jobs), len(cores()))
    if processes < 2:
        return [job() for job in jobs]
    with ProcessPoolExecutor(processes) as pool:
        return sweep(jobs, pool)


def cores() -> Sequence[int]:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return list(os.sched_getaffinity(0))
    return range(os.cpu_count() or 1)
