"""lab.domains: what arguments become, and what is said of those that cannot be."""

import numpy as np
import pytest

from lab import domains


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.array(3)])
def test_whole_numbers_become_python_ints(value):
    assert type(domains.whole("n", value)) is int
    assert domains.whole("n", value, 3, 3) == 3


@pytest.mark.parametrize(
    "value", [True, np.True_, np.array(True), 3.0, np.float64(3), "3", None, [3], np.array([3])]
)
def test_nothing_else_is_a_whole_number(value):
    assert not domains.is_whole(value)
    with pytest.raises(ValueError, match=r"^n=.* must be a whole number >= 0 and < 2\^63$"):
        domains.whole("n", value)


@pytest.mark.parametrize("value", [-1, 2**63])
def test_a_whole_number_without_limits_is_one_of_int64(value):
    with pytest.raises(ValueError, match=rf"n={value} must be a whole number >= 0 and < 2\^63"):
        domains.whole("n", value)
    assert domains.whole("n", 2**63 - 1) == 2**63 - 1


@pytest.mark.parametrize("value", [1, 6])
def test_limits_are_part_of_the_range(value):
    with pytest.raises(ValueError, match=rf"n={value} must be a whole number within 2\.\.5"):
        domains.whole("n", value, 2, 5)


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), 1, np.array(0.5)])
def test_one_number_becomes_a_float(value):
    assert type(domains.number("x", value, "in [0, 1]", domains.in_unit)) is float


@pytest.mark.parametrize("value", [1.5, float("nan"), True, "0.5", None])
def test_one_number_outside_is_shown_with_its_name(value):
    with pytest.raises(ValueError, match=rf"^x={value!r} must be in \[0, 1\]$"):
        domains.number("x", value, "in [0, 1]", domains.in_unit)
    with pytest.raises(ValueError, match=r"^x=\[0\.5\] must be one number$"):
        domains.number("x", [0.5], "in [0, 1]", domains.in_unit)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_tokens_are_int64_of_their_own(dtype):
    given = np.array([0, 4, 2], dtype)
    ids = domains.tokens("prompt", given, 5)
    assert ids.dtype == np.int64
    assert ids.tolist() == [0, 4, 2]
    assert not np.shares_memory(ids, given)
    assert domains.tokens("prompt", [], 5).dtype == np.int64


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([1, 5], r"prompt: token 5 is not within 0\.\.4 \(vocab=5\)"),
        ([1, -2], r"prompt: token -2 is not within"),
        (np.array([2**64 - 1], np.uint64), r"prompt: token 18446744073709551615 is not within"),
        ([1.0], r"prompt must be whole numbers, got dtype float64"),
        ([True], r"prompt must be whole numbers, got dtype bool"),
        ([[1, 2]], r"prompt must be one row of tokens, got shape \(1, 2\)"),
        ([[1], [2, 3]], r"prompt=\[\[1\], \[2, 3\]\] must be one row of tokens"),
    ],
)
def test_what_is_no_row_of_tokens_is_named(value, says):
    with pytest.raises(ValueError, match=says):
        domains.tokens("prompt", value, 5)
