"""The README's code runs as it stands, its figures are what the scripts print, its files exist."""

import ast
import contextlib
import io
import re
from pathlib import Path

import pytest
from homework_folders import fresh, write
from script_runs import parts, rows_of

from lab import cli
from lab.mutants import MUTANTS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```\n.*?```\n(.*?)```", README, re.DOTALL)


def printed(code):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {})
    return out.getvalue()


def test_the_quick_start_is_a_few_lines_and_decodes_with_the_trained_pair():
    code, shown = BLOCKS[0]
    assert len([line for line in code.splitlines() if line]) <= 5
    found = printed(code)
    counts = [tuple(map(int, re.findall(r"\d+", text.splitlines()[-1]))) for text in (found, shown)]
    assert counts[0][0] == counts[1][0] == 160
    assert counts[0][1] == pytest.approx(counts[1][1], abs=12)  # rounding may change the text


def test_the_exact_law_prints_what_is_shown():
    code, shown = BLOCKS[1]
    found = printed(code)
    assert float(re.search(r"variation (\S+)", found)[1]) <= 1e-12
    assert found.splitlines()[1] == shown.splitlines()[1]
    assert re.search(r"over \d+ branches", found)[0] == re.search(r"over \d+ branches", shown)[0]


def test_every_file_and_target_it_names_is_there():
    tree = README[README.index("## Scripts") :]
    named = set(re.findall(r"`(\w+\.py)`", tree))
    modules = {path.name for path in (ROOT / "lab").glob("*.py")} - {"__init__.py"}
    scripts = {path.name for path in (ROOT / "scripts").glob("*.py")}
    assert modules <= named, "the house lists every module"
    assert named <= modules | scripts
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make (\w+)", README):
        assert f"\n{target}:" in makefile
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("http") or (ROOT / link).exists()


FLOORS = {
    module: int(floor)
    for floor, modules in re.findall(r"^\| (\d) \| (.*?) \|", README, re.M)
    for module in re.findall(r"`(\w+)\.py`", modules)
}


def imported(module):
    """Modules of the lab that a module imports, wherever it does."""
    for node in ast.walk(ast.parse((ROOT / "lab" / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            if isinstance(node, ast.ImportFrom):
                names = [f"lab.{name}" for name in names] if node.module == "lab" else [node.module]
            yield from (name.removeprefix("lab.") for name in names if name.startswith("lab."))


def test_no_module_imports_from_a_floor_above():
    edges = [(module, other) for module in FLOORS for other in imported(module)]
    assert {("cli", "certify"), ("rule_laws", "domains"), ("pairs", "corpus")} <= set(edges)
    floors = FLOORS | {"homework": FLOORS["cli"]}  # a folder, beside the command that runs it
    upwards = [(a, b) for a, b in edges if floors[a] < floors[b]]
    assert not upwards


def test_it_counts_the_mutants():
    assert f"which of {len(MUTANTS)} planted faults" in " ".join(README.split())


@pytest.mark.slow
def test_the_result_table_is_what_script_04_prints():
    """On another machine sampled figures agree within their errors: 4 of them, both sides."""
    shown = re.findall(r"^\| [^|]+ \| (\S+) ± (\S+) \| (\S+) ± (\S+) \| (\S+) \|$", README, re.M)
    rows = rows_of(parts("04_spec_decode_speedup"), "loop, model trained on Shakespeare")
    found = [row for row in rows if row[1] == 4 and row[0] != "1 layer"]
    assert len(shown) == len(found) == 5
    for line, row in zip(shown, found, strict=True):
        alpha, alpha_error, tokens, tokens_error, expected = map(float, line)
        assert float(row[2].split(" ± ")[0]) == pytest.approx(alpha, abs=6 * alpha_error + 0.001)
        assert float(row[3].split(" ± ")[0]) == pytest.approx(tokens, abs=6 * tokens_error)
        assert float(row[4]) == pytest.approx(expected, abs=0.4)


def test_the_homework_says_what_is_shown(tmp_path, monkeypatch, capsys):
    (wrong,) = re.findall(r"`return (\(1 - alpha\*\*gamma\).*?)`", README)
    (shown,) = re.findall(r"\$ speclab hw 1\.2\n(.*?)```", README, re.DOTALL)
    write(fresh(tmp_path / "hw"), "1.2", f"return {wrong}")
    monkeypatch.chdir(tmp_path / "hw")
    capsys.readouterr()
    assert cli.main(["hw", "1.2"]) == 1
    assert capsys.readouterr().out == shown
