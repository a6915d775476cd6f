"""Products of few rows: right by an outside sum, and the same bits however rows are grouped."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.linear import Matrix, row_product

GROUPS = (1, 2, 3, 4, 5, 8, 12)
DTYPES = (np.float32, np.float64)
SHAPES = [
    (1, 1),
    (1, 40),
    (3, 5),
    (64, 256),
    (48, 11),  # columns are no multiple of four
    (125, 1000),  # eight rows are exactly a million products: one tile
    (126, 1000),  # above it: tiles of 64 columns, the last not full
    (1953, 64),
    (1954, 64),
    (768, 130),
    (1200, 70),  # tiles of 32
    (3072, 33),
    (14336, 16),  # two rows at a time
]


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([11, seed, *shape]).standard_normal(shape).astype(dtype)


def assert_same(actual, expected):
    """The same bits; within rounding where this machine's BLAS cannot give them."""
    if row_product().row_invariant:
        np.testing.assert_array_equal(actual, expected)
    else:
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_this_machine_has_row_invariant_products():
    """Where it has not, every test of equal bits tests equality within rounding instead."""
    if not row_product().row_invariant:
        pytest.skip(str(row_product()))
    assert "row-invariant" in str(row_product())


# ---- The product is right ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_product_equals_the_sum_over_inputs(shape, dtype):
    """Bound: K + 1 roundings of every term, whatever the order of the sum."""
    weights = normal(*shape, dtype=dtype)
    matrix = Matrix(weights)
    for n in (1, 2, 8, 9, 20):
        x = normal(n, shape[0], seed=1, dtype=dtype)
        out = matrix.apply(x)
        assert out.shape == (n, shape[1])
        assert out.dtype == dtype
        wide = x.astype(np.longdouble), weights.astype(np.longdouble)
        exact = np.einsum("nk,kd->nd", *wide, optimize=False)
        terms = np.einsum("nk,kd->nd", *map(np.abs, wide), optimize=False)
        error = np.abs(out - exact)
        assert (error <= (shape[0] + 1) * np.finfo(dtype).eps * terms).all()


def test_hand_computed_product():
    matrix = Matrix(np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]))
    assert matrix.apply(np.array([[1.0, 1.0], [2.0, -1.0]])).tolist() == [
        [11, 22, 33],
        [-8, -16, -24],
    ]
    assert (matrix.d_in, matrix.d_out, matrix.dtype) == (2, 3, np.float64)


@pytest.mark.parametrize("shape", [(4, 4), (4000, 400)])
def test_no_rows_give_no_rows(shape):
    assert Matrix(normal(*shape)).apply(np.zeros((0, shape[0]), np.float32)).shape == (0, shape[1])


def test_nothing_given_is_changed():
    weights, x = normal(300, 700), normal(5, 300)
    kept = weights.copy(), x.copy()
    Matrix(weights).apply(x)
    np.testing.assert_array_equal(weights, kept[0])
    np.testing.assert_array_equal(x, kept[1])


@pytest.mark.parametrize("shape", [(64, 256), (300, 700)])
def test_the_layout_of_what_is_given_does_not_matter(shape):
    weights, x = normal(*shape), normal(6, shape[0])
    expected = Matrix(weights).apply(x)
    assert_same(Matrix(np.asfortranarray(weights)).apply(x), expected)
    assert_same(Matrix(weights[::-1, ::-1][::-1, ::-1]).apply(x), expected)
    strided = np.repeat(x, 2, axis=1)[:, ::2]
    assert not strided.flags.c_contiguous
    np.testing.assert_allclose(Matrix(weights).apply(strided), expected, rtol=1e-4, atol=1e-4)


# ---- The same bits -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_bits_in_groups_of_rows(shape, dtype):
    matrix = Matrix(normal(*shape, dtype=dtype))
    x = normal(24, shape[0], seed=1, dtype=dtype)
    whole = matrix.apply(x)
    for group in GROUPS:
        parts = [matrix.apply(x[i : i + group]) for i in range(0, len(x), group)]
        assert_same(np.concatenate(parts), whole)


@given(
    st.integers(1, 300),
    st.integers(1, 600),
    st.sampled_from(DTYPES),
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_the_same_bits_in_any_groups_of_any_matrix(d_in, d_out, dtype, sizes):
    matrix = Matrix(normal(d_in, d_out, dtype=dtype))
    x = normal(sum(sizes), d_in, seed=1, dtype=dtype)
    parts = [matrix.apply(rows) for rows in np.split(x, np.cumsum(sizes)[:-1])]
    assert_same(np.concatenate(parts), matrix.apply(x))


def test_a_row_does_not_depend_on_its_place_nor_on_its_neighbours():
    matrix = Matrix(normal(200, 900))
    x = normal(11, 200)
    whole = matrix.apply(x)
    order = np.random.default_rng(3).permutation(11)
    assert_same(matrix.apply(x[order]), whole[order])
    x[4] = np.nan
    assert_same(np.delete(matrix.apply(x), 4, axis=0), np.delete(whole, 4, axis=0))


def test_n11_rows_together_and_one_by_one():
    """The report's shape, on which a plain product differs by up to 7.6e-6 in float32."""
    matrix, x = Matrix(normal(64, 256)), normal(9, 64)
    one_by_one = np.concatenate([matrix.apply(x[i : i + 1]) for i in range(9)])
    assert_same(matrix.apply(x), one_by_one)


# ---- What is declared, and the fallback --------------------------------------------------------


@pytest.mark.parametrize(("bits", "expected"), [(16, 128), (32, 256), (4.5, 36)])
def test_bytes_are_those_of_the_declared_width(bits, expected):
    assert Matrix(normal(8, 8), bits=bits).read_bytes == expected
    assert Matrix(normal(8, 8, dtype=np.float64), bits=bits).read_bytes == expected


def test_the_blas_is_tried_once():
    assert row_product() is row_product()
    assert row_product().ratio > 0


@pytest.mark.parametrize("shape", [(64, 256), (300, 700)])
def test_the_fallback_is_the_plain_product_and_says_so(shape, monkeypatch):
    plain = replace(row_product(), row_invariant=False)
    monkeypatch.setattr("lab.linear.row_product", lambda: plain)
    weights = normal(*shape)
    matrix = Matrix(weights)
    for n in (1, 2, 9):
        x = normal(n, shape[0])
        np.testing.assert_array_equal(matrix.apply(x), x @ weights)
    assert "not row-invariant" in str(plain)


@pytest.mark.parametrize("shape", [(8,), (2, 2, 2), ()])
def test_weights_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"weights must be \(d_in, d_out\).*got shape"):
        Matrix(np.zeros(shape))


@pytest.mark.parametrize("shape", [(2, 3), (2, 5)])
def test_rows_of_another_width_are_refused(shape):
    matrix = Matrix(normal(4, 4))
    for x in (np.zeros(shape, np.float32), np.zeros(shape[1:], np.float32)):
        with pytest.raises(ValueError):
            matrix.apply(x)
