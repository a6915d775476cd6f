"""What a report makes of values: printed cells, and the same values unrounded in JSON."""

import json
from fractions import Fraction

import pytest

from lab.console import Report, shown
from lab.stats import ClusteredMean

MEAN = ClusteredMean(0.8704, 0.0042, 32)


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (2.71828, ".3f", "2.718"),
        (0.125, "+.1%", "+12.5%"),
        (MEAN, ".3f", "0.870 ± 0.004"),
        (MEAN, "+.2f", "+0.87 ± 0.00"),
        ((-0.5, 0.25), "+.1f", "-0.5 ± 0.2"),
        (ClusteredMean(0.0, 0.1, 2), "+.1f", "+0.0 ± 0.1"),
        (ClusteredMean(0.0, 0.0, 2), "+.1f", "0"),
        (0.0, ".3f", "0"),
        (1e-9, ".3f", "0.000"),
        ("token", "", "token"),
        (Fraction(2, 3), "", "2/3"),
        (None, "", "n/a"),
        (True, "", "yes"),
    ],
)
def test_a_value_by_its_format(value, form, text):
    assert shown(value, form) == text


COLUMNS = (("rule", "rule", ""), ("kept\nfirst", "kept", ".2f"))
RECORDS = [{"rule": "token", "kept": MEAN, "t": 1.25}, {"rule": "match", "kept": 0.5, "t": None}]


def test_records_are_printed_by_their_columns(capsys):
    Report("title").records("A table", COLUMNS, RECORDS)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "",
        "A table",
        "rule           kept",
        "              first",
        "------  -----------",
        "token   0.87 ± 0.00",
        "match          0.50",
    ]


def test_json_has_all_of_a_record_unrounded(capsys):
    report = Report("title", as_json=True)
    report.records("A table", COLUMNS, RECORDS, key="kept")
    report.close()
    (part,) = json.loads(capsys.readouterr().out)["parts"]
    assert part["headers"] == ["rule", "kept first"]
    assert part["rows"] == [["token", "0.87 ± 0.00"], ["match", "0.50"]]
    assert part["values"] == [
        {"rule": "token", "kept": 0.8704, "kept_stderr": 0.0042, "t": 1.25},
        {"rule": "match", "kept": 0.5, "t": None},
    ]


def test_progress_is_for_terminals_and_gives_way_to_what_is_printed(capsys, monkeypatch):
    report = Report("title")
    report.progress("1 of 2")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    report.progress("1 of 2")
    report.progress("2 of 2")
    report.say("Done.")
    report.say("Really.")
    shown = capsys.readouterr()
    assert shown.err == "\r1 of 2\x1b[K\r2 of 2\x1b[K\r\x1b[K"
    assert shown.out.endswith("Done.\nReally.\n")


def test_progress_leaves_json_alone(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    report = Report("title", as_json=True)
    report.progress("1 of 2")
    report.close()
    shown = capsys.readouterr()
    assert json.loads(shown.out)["title"] == "title"
    assert shown.err.endswith("\r\x1b[K")
