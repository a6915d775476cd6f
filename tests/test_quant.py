"""Quantisation: bytes worked out by hand, the reports of section 7, identities on any matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lab.linear import Matrix
from lab.quant import BITS, QuantizedMatrix, quantize


def column(*values):
    """One output column (K, 1)."""
    return np.array(values, np.float32)[:, None]


def coded(bits, *codes):
    """One group (K, 1) whose scale is exactly 1: the codes and, last, the largest code."""
    return quantize(column(*codes, 2 ** (bits - 1) - 1), bits, group=len(codes) + 1)


def normal(shape, seed=0, dtype=np.float32):
    return np.random.default_rng([2, seed]).standard_normal(shape).astype(dtype)


# Section 7 of the public reports. Q7 (asymmetric codes) is not offered.


def test_q2_zero_group_has_codes_and_scale_zero():
    weights = column(0, 0, 0, 0, 0.7, -0.7, 0.1, 0)
    quantized = quantize(weights, bits=4, group=4)
    assert quantized.unpack()[:, 0].tolist() == [0, 0, 0, 0, 7, -7, 1, 0]
    np.testing.assert_array_equal(quantized.scales[:, 0], np.float16([0, 0.1]))
    assert np.isfinite(quantized.dequantize()).all()


@pytest.mark.parametrize("absmax", [1e-40, 1e-7, 5e-324])
def test_q2_group_too_small_for_a_scale_becomes_zero(absmax):
    quantized = quantize(np.array([[absmax], [-absmax / 2], [0.0]]), bits=4, group=3)
    assert quantized.scales.tolist() == [[0]]
    assert quantized.dequantize().tolist() == [[0], [0], [0]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_q2_weights_that_are_not_finite_are_refused(bad):
    with pytest.raises(ValueError, match=f"weights must be finite, got {bad}"):
        quantize(column(1, bad))


def test_q3_row_i_takes_the_scale_of_group_i_over_group():
    quantized = quantize(np.repeat([[7.0], [14.0]], 4, axis=0), bits=4, group=4)
    assert quantized.scales[:, 0].tolist() == [1, 2]
    assert quantized.dequantize()[:, 0].tolist() == [7] * 4 + [14] * 4

    # 256 rows in two groups of 128: step 32 of a kernel must not always read scale 0.
    quantized = quantize(np.repeat([[7.0], [14.0]], 128, axis=0), bits=4, group=128)
    assert quantized.dequantize()[::32, 0].tolist() == [7] * 4 + [14] * 4


def test_q4_the_restricted_range_is_idempotent():
    weights = column(-7, 3, 7, 1)
    quantized = quantize(weights, bits=4, group=4)
    np.testing.assert_array_equal(quantized.dequantize(), weights)
    # The most negative two's-complement code is never used.
    quantized = quantize(0.1 * column(-8, 3, 7, 1), bits=4, group=4)
    assert quantized.unpack()[:, 0].tolist() == [-7, 3, 6, 1]


@pytest.mark.parametrize("bits", BITS)
def test_q5_every_pattern_decodes_as_twos_complement(bits):
    patterns = np.arange(2**bits)
    half = 2 ** (bits - 1)
    expected = (patterns ^ half) - half  # 0..7 -> 0..7, 8 -> -8, ..., 15 -> -1
    stream = sum(int(p) << (bits * i) for i, p in enumerate(patterns))
    codes = np.frombuffer(stream.to_bytes(len(patterns) * bits // 8, "little"), np.uint8)
    quantized = QuantizedMatrix(
        codes[:, None], np.ones((1, 1), np.float16), bits, len(patterns), (len(patterns), 1)
    )
    assert quantized.unpack()[:, 0].tolist() == expected.tolist()
    assert quantized.dequantize()[:, 0].tolist() == expected.tolist()


@pytest.mark.parametrize(("low", "high", "byte"), [(-1, 3, 0x3F), (3, -1, 0xF3), (-7, 7, 0x79)])
def test_q6_the_lower_index_is_in_the_low_nibble(low, high, byte):
    assert coded(4, low, high).codes[0, 0] == byte


def test_q6_the_byte_of_minus_eight_and_seven_is_read_right():
    quantized = QuantizedMatrix(
        np.array([[0x78]], np.uint8), np.ones((1, 1), np.float16), 4, 2, (2, 1)
    )
    assert quantized.unpack()[:, 0].tolist() == [-8, 7]


def test_q8_groups_down_the_input_axis_contain_an_outlying_input():
    """Root mean square error .324 in groups of 32 and .626 with a scale per output.

    Means over 40 matrices, whose standard errors are below .01.
    """
    errors = {32: [], 128: []}
    for seed in range(40):
        weights = normal((128, 64), seed)  # (d_in, d_out)
        weights[0] *= 20
        for group, found in errors.items():
            found.append(
                np.sqrt(np.mean((quantize(weights, 4, group).dequantize() - weights) ** 2))
            )
    assert np.mean(errors[32]) == pytest.approx(0.324, abs=0.02)
    assert np.mean(errors[128]) == pytest.approx(0.626, abs=0.03)


def test_q9_bytes_include_scales():
    quantized = quantize(normal((64, 64)), bits=4, group=32)
    assert quantized.nbytes == quantized.read_bytes == 2304
    assert quantized.codes.nbytes == 64 * 64 // 2
    assert 8 * quantized.nbytes / 64**2 == 4.5
    assert 2 * 64**2 / quantized.nbytes == pytest.approx(3.56, abs=0.005)


@pytest.mark.parametrize(("bits", "expected"), [(8, 8.5), (4, 4.5), (3, 3.5)])
def test_q9_bits_per_weight_in_groups_of_32(bits, expected):
    assert 8 * quantize(normal((64, 48)), bits).nbytes / (64 * 48) == expected


def test_q10_bits_group_and_shape_are_stored_and_checked():
    weights = normal((64, 4))
    four, three = quantize(weights, 4, 32), quantize(weights, 3, 32)
    assert (four.bits, four.group, four.shape) == (4, 32, (64, 4))
    assert (four.d_in, four.d_out) == (64, 4)
    with pytest.raises(ValueError, match=r"codes must be uint8 \(24, 4\), got uint8 \(32, 4\)"):
        QuantizedMatrix(four.codes, four.scales, three.bits, 32, (64, 4))
    with pytest.raises(ValueError, match=r"scales must be float16 \(1, 4\), got float16 \(2, 4\)"):
        QuantizedMatrix(four.codes, four.scales, 4, 64, (64, 4))
    with pytest.raises(ValueError, match=r"scales must be float16 \(2, 4\), got float32"):
        QuantizedMatrix(four.codes, four.scales.astype(np.float32), 4, 32, (64, 4))
    with pytest.raises(ValueError, match=r"dtype=.*float16.* must be float32 or float64"):
        QuantizedMatrix(four.codes, four.scales, 4, 32, (64, 4), np.dtype(np.float16))


def test_q12_halves_are_rounded_to_even():
    assert coded(4, 0.5, 1.5, 2.5, -0.5, -1.5, 0.9).unpack()[:-1, 0].tolist() == [0, 2, 2, 0, -2, 1]


# Packing worked out by hand.


def test_int3_eight_codes_in_three_bytes():
    """Codes 1 2 3 -1 -2 -3 0 3 are 001 010 011 111 110 101 000 011; as a stream, lowest bit first,
    100 010 11 | 0 111 011 1 | 01 000 110, that is the bytes d1, ee, 62.
    """
    quantized = coded(3, 1, 2, 3, -1, -2, -3, 0)
    assert quantized.codes[:, 0].tolist() == [0b11_010_001, 0b1_110_111_0, 0b011_000_10]


def test_int8_codes_are_the_bytes():
    assert coded(8, 1, -1, -127).codes[:, 0].tolist() == [1, 255, 129, 127]


def test_columns_are_packed_apart():
    quantized = quantize(np.array([[7.0, -7.0], [1.0, 2.0], [-3.0, 7.0]]), bits=4, group=3)
    assert quantized.codes.tolist() == [[0x17, 0x29], [0x0D, 0x07]]


def test_a_short_last_group_has_its_own_scale():
    quantized = quantize(column(7, 7, 7, 14, 2), bits=4, group=3)
    assert quantized.scales[:, 0].tolist() == [1, 2]
    assert quantized.dequantize()[:, 0].tolist() == [7, 7, 7, 14, 2]


def test_codes_are_computed_from_the_stored_scale():
    """absmax 2047.4 / 7 = 292.486 is stored as 292.5: 731.24 is 2.49997 of it, not 2.50009."""
    quantized = quantize(np.array([[2047.4], [731.24]]), bits=4, group=2)
    assert quantized.scales.tolist() == [[292.5]]
    assert quantized.unpack()[:, 0].tolist() == [7, 2]


def test_a_subnormal_scale_that_was_rounded_down_clips_symmetrically():
    """absmax / 7 = 1.4 * 2**-24 is stored as 2**-24, and +-9.8 scales become +-7."""
    quantized = quantize(2.0**-24 * column(-9.8, 9.8, 3), bits=4, group=3)
    assert quantized.scales.tolist() == [[2.0**-24]]
    assert quantized.unpack()[:, 0].tolist() == [-7, 7, 3]


# Identities on any matrix.

matrices = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=21),
    elements=st.floats(-1e5, 1e5),
)
layouts = st.tuples(st.sampled_from(BITS), st.integers(1, 24))


@given(matrices, layouts)
@settings(max_examples=150)
def test_definition_written_out(weights, layout):
    """Every code and scale, one weight at a time, by the text of the module's docstring."""
    bits, group = layout
    largest = 2 ** (bits - 1) - 1
    quantized = quantize(weights, bits, group)
    codes, dequantized = quantized.unpack(), quantized.dequantize(np.float64)
    for (i, j), weight in np.ndenumerate(weights):
        start = i // group * group
        absmax = max(abs(weights[start : start + group, j]))
        scale = np.float16(absmax / largest)
        assert quantized.scales[i // group, j] == scale
        code = 0 if scale == 0 else round(weight / float(scale))
        assert codes[i, j] == max(-largest, min(largest, code))
        assert dequantized[i, j] == codes[i, j] * float(scale)


@given(matrices, layouts)
def test_error_is_at_most_half_a_scale_and_a_second_time_changes_nothing(weights, layout):
    bits, group = layout
    quantized = quantize(weights, bits, group)
    normal_scale = quantized.scales >= np.finfo(np.float16).smallest_normal
    rows = np.arange(len(weights)) // group
    scale = quantized.scales.astype(np.float64)[rows]  # (K, N)
    error = np.abs(quantized.dequantize(np.float64) - weights)
    assert (error <= scale / 2)[normal_scale[rows]].all()

    again = quantize(quantized.dequantize(), bits, group)
    same_scale = again.scales == quantized.scales
    assert same_scale[normal_scale].all()
    np.testing.assert_array_equal(
        again.unpack()[same_scale[rows]], quantized.unpack()[same_scale[rows]]
    )


@given(matrices, layouts)
def test_sizes(weights, layout):
    bits, group = layout
    d_in, d_out = weights.shape
    quantized = quantize(weights, bits, group)
    assert quantized.codes.shape == (-(-d_in * bits // 8), d_out)
    assert quantized.scales.shape == (-(-d_in // group), d_out)
    assert quantized.nbytes == quantized.codes.size + 2 * quantized.scales.size


# The face of a matrix.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_apply_is_the_product_with_the_dequantised_copy_in_the_dtype_of_the_weights(dtype):
    weights = normal((40, 24), dtype=dtype)
    kept = weights.copy()
    quantized = quantize(weights)
    x = normal((3, 40), seed=1, dtype=dtype)
    out = quantized.apply(x)
    assert out.dtype == dtype
    assert out.shape == (3, 24)
    np.testing.assert_array_equal(out, Matrix(quantized.dequantize().astype(dtype)).apply(x))
    assert quantized.dequantized_copy.weights.dtype == dtype
    assert quantized.dequantized_copy is quantized.dequantized_copy, "made once"
    np.testing.assert_array_equal(weights, kept)


def test_dequantised_weights_are_float32_and_exact():
    quantized = quantize(normal((64, 8), dtype=np.float64), bits=8)
    assert quantized.dequantize().dtype == np.float32
    np.testing.assert_array_equal(quantized.dequantize(), quantized.dequantize(np.float64))


def test_more_bits_give_less_error():
    weights = normal((256, 32))
    errors = [np.abs(quantize(weights, bits).dequantize() - weights).mean() for bits in (8, 4, 3)]
    assert errors == sorted(errors)
    assert errors[1] > 8 * errors[0], "about 127 / 7 times"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda w: quantize(w, bits=2), r"bits=2 must be one of the integers 8, 4, 3"),
        (lambda w: quantize(w, bits=4.0), r"bits=4.0 must be one of the integers"),
        (lambda w: quantize(w, group=0), r"group=0 must be a whole number >= 1"),
        (lambda w: quantize(w, group=-32), r"group=-32 must be a whole number >= 1"),
        (lambda w: quantize(w, group=1.5), r"group=1.5 must be a whole number"),
        (lambda w: quantize(w[0]), r"weights must be \(d_in, d_out\).* got shape \(8,\)"),
        (lambda w: quantize(w[:0]), r"weights must be .*at least 1, got shape \(0, 8\)"),
        (lambda w: quantize(w * 1j), r"weights must be real numbers, got dtype complex"),
        (lambda w: quantize(w + 1e6), r"as large as .* overflow .* bits=4; .* up to 458528"),
    ],
)
def test_bad_calls_name_argument_and_value(call, says):
    with pytest.raises(ValueError, match=says):
        call(normal((8, 8)))
