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


def table_of(found, key):
    """One table: its headers, rows, and values if it has them."""
    (table,) = [part for part in found if part.get("table") == key]
    return table


def rows_of(found, key):
    """The rows of one table."""
    return table_of(found, key)["rows"]


def records_of(found, key):
    """The values of one table's rows, by name and unrounded."""
    return table_of(found, key)["values"]


def saying(found, words):
    """The one observation in which these words occur."""
    (part,) = [part for part in found if words in part.get("says", "")]
    return part


def values_of(found, *names):
    """The values of the observations that have all these names."""
    values = [part["values"] for part in found if "says" in part and "values" in part]
    return [v for v in values if set(names) <= set(v)]
