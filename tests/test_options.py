"""Options that several subcommands have."""

import argparse
import re

import pytest

from lab.options import costs, figure_folder, gammas


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("2", [2]), ("1..3", [1, 2, 3]), ("1,3", [1, 3]), ("3,1..2,2", [1, 2, 3]), ("10", [10])],
)
def test_gammas(text, wanted):
    assert gammas(text) == wanted


NO_GAMMAS = {
    **dict.fromkeys(["", "-1", "1-3", "1..", "..3", "a", "1.5"], "must be like 2, 1..3 or 1,3"),
    **dict.fromkeys(["0", "0..2", "100", "1..99999999999999"], "draft lengths within 1..99"),
    "3..1": "has nothing from 3 to 1",
}


@pytest.mark.parametrize("text", NO_GAMMAS)
def test_what_are_no_gammas(text):
    with pytest.raises(argparse.ArgumentTypeError, match=re.escape(repr(text))) as told:
        gammas(text)
    assert NO_GAMMAS[text] in str(told.value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("0.05", [0.05]), ("0.2,0.02", [0.02, 0.2]), ("0", [0.0]), ("1e-2, 0.01", [0.01])],
)
def test_costs(text, wanted):
    assert costs(text) == wanted


@pytest.mark.parametrize("text", ["", "a", "0.1,", "-0.1", "nan", "inf", "0.1..0.3"])
def test_what_are_no_costs(text):
    with pytest.raises(argparse.ArgumentTypeError, match="must be finite numbers of at least 0"):
        costs(text)


def test_a_folder_for_figures_is_made_or_refused_before_anything_runs(tmp_path):
    pytest.importorskip("matplotlib")
    folder, file = tmp_path / "new" / "one", tmp_path / "file"
    assert figure_folder(str(folder)) == folder
    assert folder.is_dir()
    file.touch()
    for text in (str(file), str(file / "below")):
        with pytest.raises(argparse.ArgumentTypeError, match="must be a folder to draw in"):
            figure_folder(text)
