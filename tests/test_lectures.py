"""Blocks and values of lectures: filled from reports, and compared with them."""

import pytest

from lab import theory
from lab.lectures import Block, blocks, disagreements, filled, markdown, with_values

PARTS = [
    {"table": "rates", "headers": ["draft", "γ", "α", "calls"],
     "rows": [["INT4", 2, "0.94 ± 0.01", "1.20 ± 0.05"], ["INT4", 4, "0.94 ± 0.01", "1.5"],
              ["1 layer", 2, "0.70 ± 0.02", "2.00 ± 0.10"]]},
    {"says": "No difference is seen in 3 of 3 cells."},
]  # fmt: skip
TEXT = """\
# A lecture
<!-- sampled 04_x: rates; columns: draft | α; where: draft = INT4 or 1 layer -->
<!-- end -->
So <!--= theory.expected_tokens(0.8, 4) | .2f -->?<!--/--> tokens.
<!-- exact 04_x: says: No difference -->
<!-- end -->
"""


def test_a_lecture_is_filled_and_then_stays_as_it_is():
    text = filled(TEXT, lambda script: PARTS)
    assert "| draft | α |\n| --- | ---: |\n| INT4 | 0.94 ± 0.01 |\n" in text
    assert "\nNo difference is seen in 3 of 3 cells.\n<!-- end -->" in text
    assert f"-->{theory.expected_tokens(0.8, 4):.2f}<!--/-->" in text
    assert filled(text, lambda script: PARTS) == text
    assert with_values(text) == text


def block(kind, rows, source="rates"):
    return Block(kind, "04_x", source, markdown(PARTS[0]["headers"], rows))


def test_where_and_columns_choose():
    one = Block("exact", "04_x", "rates; where: γ = 4; columns: calls | draft", "")
    assert one.fresh(PARTS) == "| calls | draft |\n| --- | ---: |\n| 1.5 | INT4 |\n"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("rates; where: γ = 3", "no row of table 'rates' is left"),
        ("rates; where: gamma = 3", "column 'gamma' must be one of"),
        ("rates; rows: 3", "must begin with 'columns: ' or 'where: '"),
        ("prices", "must name one part of its report, 0 do"),
        ("says: perhaps", "must name one part of its report, 0 do"),
    ],
)
def test_a_source_that_is_not_there_is_named(source, sentence):
    with pytest.raises(ValueError, match=sentence):
        Block("exact", "04_x", source, "").fresh(PARTS)


def test_exact_blocks_must_be_equal():
    same = block("exact", PARTS[0]["rows"])
    assert not list(disagreements(same, PARTS))
    other = block("exact", [["INT4", 2, "0.94 ± 0.01", "1.21 ± 0.05"], *PARTS[0]["rows"][1:]])
    (found,) = disagreements(other, PARTS)
    assert "rates is now" in found


@pytest.mark.parametrize(
    ("cell", "near"),
    [("0.94 ± 0.01", True), ("1.01 ± 0.01", True), ("1.04 ± 0.01", False), ("94%", False),
     ("0.80 ± 0.10", True)],
)  # fmt: skip
def test_sampled_cells_are_compared_within_their_errors(cell, near):
    """Two of .01 may be .0707 apart, and .01 of rounding."""
    one = block("sampled", [["INT4", 2, cell, "1.20 ± 0.05"]])
    assert (not list(disagreements(one, PARTS))) is near


def test_rows_are_compared_by_all_that_names_them():
    far = block("sampled", [["INT4", 4, "0.94 ± 0.01", "9.00 ± 0.01"]])
    (found,) = disagreements(far, PARTS)  # that cell has no error now
    assert "calls is 9.00 ± 0.01 in the lecture, 1.5 in a run" in found
    none = block("sampled", [["INT4", 4, "0.94 ± 0.01", "n/a"]])
    assert not list(disagreements(none, PARTS))
    unknown = ["INT4", 8, "0.10 ± 0.01", "9.00 ± 0.01"]
    more = block("sampled", [unknown, ["INT4", 4, "0.94 ± 0.01", "1.5"]])
    assert not list(disagreements(more, PARTS))  # a smaller run has fewer rows
    (found,) = disagreements(block("sampled", [unknown]), PARTS)  # but not none
    assert "no row of the lecture" in found


def test_columns_must_be_there_whatever_the_kind():
    one = Block("timed", "04_x", "rates", "| draft | beta |\n| --- | ---: |\n| a | 1 |\n")
    (found,) = disagreements(one, PARTS)
    assert "has columns ['draft', 'beta']" in found


def test_blocks_are_found_in_their_order():
    assert [(one.kind, one.source.split(";")[0]) for one in blocks(TEXT)] == [
        ("sampled", "rates"),
        ("exact", "says: No difference"),
    ]


@pytest.mark.parametrize(
    "stray",
    [
        "<!-- Exact 04_x: rates -->\n<!-- end -->",
        "<!-- exact 04-x: rates -->\n<!-- end -->",
        "<!-- exact 04_x: rates -->\nno end",
        "<!-- exact 04_x: rates --> \n<!-- end -->",
        "<!-- exact 04_x: rates -->\nwords\n<!-- exact 04_x: rates -->\n<!-- end -->",
        "<!--= 1 |  d -->2<!--/-->",
        "<!--= 1 | d -->2",
    ],
)
def test_a_comment_that_is_no_block_and_no_value_is_an_error_not_old_text(stray):
    for call in (blocks, lambda text: filled(text, lambda script: PARTS)):
        with pytest.raises(ValueError, match="must open or close a block or a value"):
            call(f"{TEXT}{stray}\n")


def test_an_empty_cell_is_a_cell():
    rows = [["INT4", 2, "0.94 ± 0.01", None], ["1 layer", 2, "0.70 ± 0.02", None]]
    assert list(disagreements(block("sampled", rows), PARTS)) == []
