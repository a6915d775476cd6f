"""Scripts run in this process, and what they printed."""

import contextlib
import io
import json
import runpy
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "scripts"


def script(name):
    """The globals of a script, which is not run."""
    return runpy.run_path(str(FOLDER / f"{name}.py"))


def printed(name, *options):
    """What `main(options)` of a script prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        script(name)["main"](list(options))
    return out.getvalue()


def parts(name, *options):
    """The sections, tables and observations of a run, from its JSON."""
    return json.loads(printed(name, *options, "--json"))["parts"]


def rows_of(found, key):
    """The rows of one table."""
    (table,) = [part for part in found if part.get("table") == key]
    return table["rows"]


def values_of(found, *names):
    """The values of the observations that have all these names."""
    values = [part["values"] for part in found if "says" in part and "values" in part]
    return [v for v in values if set(names) <= set(v)]
