"""Two hidden states for a text: `lab.chains` fitted to acceptances along real text.

Fitted on some texts, the chain says what correlation costs on others. Shapes: n positions of a
text.
"""

from __future__ import annotations

import numpy as np

from lab.chains import Chain, sticky_chain
from lab.domains import Floats, whole
from lab.interval import Texts, rows_of

ROUNDING = 1e-14  # a variance this small is none
MOST = 0.999  # the largest correlation that is fitted


def autocovariances(rows: Texts, lags: int) -> Floats:
    """(lags + 1,): mean product of deviations from the mean of all, 0, 1, .. positions apart.

    Parameters
    ----------
    rows : (n,) in [0, 1], or several such rows of any lengths, one per text
    lags : >= 0, below the longest row's length
    """
    texts = rows_of("rows", rows)
    longest = max(len(text) for text in texts)
    lags = whole("lags", lags, 0, longest - 1)
    mean = np.concatenate(texts).mean()
    off = [text - mean for text in texts]
    products = [[x[: max(0, len(x) - k)] * x[k:] for x in off] for k in range(lags + 1)]
    return np.array([np.concatenate(rows).mean() for rows in products])


def fit_moments(rows: Texts) -> Chain:
    """The two states that have the mean, variance, third moment and lag-1 correlation of rows of β.

    It takes each β to be its state's, and all that is random to be the state. The two values are
    the nodes of the Gauss rule of the βs, so they always lie between the smallest and the largest;
    their weights are its weights. A correlation that two such states cannot have becomes the
    nearest that they can.

    Parameters
    ----------
    rows : (n,) in [0, 1], n >= 2, or several such rows, one per text
    """
    variance, covariance = autocovariances(rows, 1)
    values = np.concatenate(rows_of("rows", rows))
    mean = values.mean()
    if variance <= ROUNDING:
        return sticky_chain([mean, mean], 0.0)
    spread = np.sqrt(variance)
    skew = (((values - mean) / spread) ** 3).mean()
    nodes = (skew + np.sqrt(skew**2 + 4) * np.array([-1, 1])) / 2  # roots of z² - skew z - 1
    weights = np.abs(nodes[::-1]) / np.abs(nodes).sum()
    least = -(weights.min() / weights.max())
    correlation = min(max(covariance / variance, least), MOST)
    return sticky_chain(np.clip(mean + spread * nodes, 0, 1), correlation, weights)


def fit_lags(rows: Texts, lags: int = 4) -> Chain:
    """The two states whose autocovariances v ρ^k are nearest those of the rows, k = 1 .. lags.

    Rows may be acceptances (0 or 1) of consecutive positions, or their probabilities min(1, q / p)
    of the tokens of a text: noise around the state's b, which is independent from position to
    position, adds to the variance but to no covariance between two positions, and so lag 0 is left
    out. Only such covariances enter tokens per call: every position is tested at most once.

    The method: least squares over v >= 0 and ρ = .001, .002, .. .999. Then b = mean ∓ √v, equally
    likely states; where this leaves [0, 1] that end is the bound, and the weights keep mean and v.
    Without positive correlation, v = 0 and eq. (1).

    Parameters
    ----------
    rows : (n,) in [0, 1], or several such rows of any lengths, one per text
    lags : >= 2, below the longest row's length
    """
    seen = autocovariances(rows, whole("lags", lags, 2))[1:]
    mean = float(np.concatenate(rows_of("rows", rows)).mean())
    grid = np.arange(1, 1000) / 1000
    powers = grid[:, None] ** np.arange(1, lags + 1)  # (999, lags)
    explained = np.maximum(powers @ seen, 0)  # v Σ ρ^2k, at the best v of each ρ
    norms = np.square(powers).sum(axis=1)
    best = int((explained**2 / norms).argmax())
    variance = min(explained[best] / norms[best], mean * (1 - mean))
    if variance <= ROUNDING:
        return sticky_chain([mean, mean], 0.0)
    low, high = mean - np.sqrt(variance), mean + np.sqrt(variance)
    if high > 1:
        low, high = mean - variance / (1 - mean), 1.0
    elif low < 0:
        low, high = 0.0, mean + variance / mean
    share = (mean - low) / (high - low)
    return sticky_chain([max(low, 0.0), min(high, 1.0)], grid[best], [1 - share, share])
