"""Wrong implementations, to see which test would have found them.

Each is a mistake that was really made somewhere, or nearly: a small change of shipped functions
(`lab.mutation`), by name. Most of them are in the public reports of other projects.
"""

from __future__ import annotations

from lab.mutants_loop import (
    CACHES,
    CATCH_UP,
    COUNTERS,
    ENDS,
    ESTIMATORS,
    LOCKSTEP,
    UNIFORMS,
)
from lab.mutants_rules import (
    BONUS_TOKEN,
    EARLY_STOPPING,
    INDICES,
    PROBABILITIES,
    RATIO,
    RESIDUAL,
    SAMPLING,
)

TABLES = (
    SAMPLING, RESIDUAL, RATIO, BONUS_TOKEN, INDICES, UNIFORMS, PROBABILITIES, EARLY_STOPPING,
    CACHES, CATCH_UP, LOCKSTEP, ENDS, COUNTERS, ESTIMATORS,
)  # fmt: skip
MUTANTS = {name: mutant for table in TABLES for name, mutant in table.items()}
