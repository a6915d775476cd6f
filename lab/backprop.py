"""A language model's loss and its gradients, by hand.

Every `_part` below runs forward over all positions at once and returns its output with what its
`_part_back` needs; that one takes the gradient of the output, adds the gradients of the weights to
`grads`, and returns the gradient of the input. No cache, no tiles, plain `@`: the forward pass is
also an independent second opinion on `lab.transformer`, which must give the same logits.

Shapes: B sequences of T tokens, N = B * T rows, D = d_model, H query heads, K key/value heads,
G = H / K query heads to a key/value head, E = head_dim, F = d_ff, V vocabulary.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.config import ModelConfig

__all__ = ["forward", "held_out_loss", "init_params", "loss_and_grads"]

Array = NDArray[np.floating[Any]]
Complex = NDArray[np.complexfloating[Any, Any]]
Params = dict[str, Array]
Tokens = NDArray[np.integer[Any]]
Saved = tuple[Array, ...]

GELU_SCALE = math.sqrt(2 / math.pi)
GELU_CUBIC = 0.044715


def init_params(config: ModelConfig, rng: np.random.Generator) -> Params:
    """Starting weights in `config.dtype`: matrices normal with deviation 1/sqrt(d_in).

    The two matrices that write to the residual stream are smaller by sqrt(2 * n_layers), so that
    the stream's variance does not grow with depth; the head starts small, so that the first loss is
    near log(V); gains are 1 and biases 0.
    """
    params: Params = {}
    for name, shape in config.shapes().items():
        if name.endswith("_bias"):
            values = np.zeros(shape)
        elif len(shape) == 1:
            values = np.ones(shape)
        else:
            values = rng.standard_normal(shape) * _init_scale(config, name, shape[0])
        params[name] = values.astype(config.dtype)
    return params


def _init_scale(config: ModelConfig, name: str, d_in: int) -> float:
    if name in ("embedding", "positions"):
        return 1 / math.sqrt(config.d_model) if config.tied else 0.5
    scale = 1 / math.sqrt(d_in)
    if name == "head":
        return 0.5 * scale
    if name.endswith(("attn_out", "mlp_down")):
        return scale / math.sqrt(2 * config.n_layers)
    return scale


def forward(config: ModelConfig, params: Params, tokens: Tokens) -> Array:
    """Logits (B, T, V) of tokens (B, T), each sequence from position 0."""
    logits, _ = _network(config, params, tokens)
    return logits.reshape(*tokens.shape, config.vocab)


def loss_and_grads(
    config: ModelConfig, params: Params, tokens: Tokens, targets: Tokens, grads: Params
) -> float:
    """Mean cross-entropy in nats over all B * T positions; its gradients are added to `grads`.

    Parameters
    ----------
    tokens, targets : (B, T) int
        `targets[b, t]` is the token that follows `tokens[b, t]`.
    grads : dict
        One array per parameter, of its shape; changed in place.
    """
    logits, saved = _network(config, params, tokens)
    loss, d_logits = _cross_entropy(logits, targets.reshape(-1))
    _network_back(config, params, tokens, saved, d_logits, grads)
    return loss


def held_out_loss(
    config: ModelConfig, params: Params, tokens: Tokens, context: int, batch_tokens: int = 4096
) -> float:
    """Mean cross-entropy in nats per token over windows of `context` that do not overlap.

    Every position counts, those at the start of a window too, which see little before them; so it
    is an upper bound on what the model does with a full context. Tokens after the last whole
    window are left out.
    """
    windows = (len(tokens) - 1) // context
    if windows < 1:
        raise ValueError(f"tokens must hold more than context={context}, got {len(tokens)}")
    inputs = tokens[: windows * context].reshape(windows, context)
    targets = tokens[1 : windows * context + 1].reshape(windows, context)
    at_once = max(1, batch_tokens // context)
    total = 0.0
    for start in range(0, windows, at_once):
        part = slice(start, start + at_once)
        logits, _ = _network(config, params, inputs[part])
        total += _cross_entropy(logits, targets[part].reshape(-1))[0] * targets[part].size
    return total / targets.size


# ------------------------------------------------------------------------------ whole network


def _network(config: ModelConfig, params: Params, tokens: Tokens) -> tuple[Array, list[Saved]]:
    """Logits (N, V) of tokens (B, T), and what each part saved, in order of use."""
    length = tokens.shape[1]
    x = params["embedding"][tokens.reshape(-1)]  # (N, D)
    if config.positions == "learned":
        x.reshape(*tokens.shape, -1)[...] += params["positions"][:length]
    saved: list[Saved] = []
    for layer in range(config.n_layers):
        at = f"layers.{layer}."
        h, norm = _norm(config, params, f"{at}attn_norm", x)
        y, attention = _attention(config, params, at, h, length)
        x += y
        saved += [norm, (h,), attention]
        h, norm = _norm(config, params, f"{at}mlp_norm", x)
        y, mlp = _mlp(config, params, at, h)
        x += y
        saved += [norm, (h,), mlp]
    h, norm = _norm(config, params, "final_norm", x)
    saved += [norm, (h,)]
    return h @ _head(config, params), saved


def _network_back(
    config: ModelConfig,
    params: Params,
    tokens: Tokens,
    saved: list[Saved],
    d_logits: Array,
    grads: Params,
) -> None:
    length = tokens.shape[1]
    saved = list(saved)
    (h,), norm = saved.pop(), saved.pop()
    if config.tied:
        grads["embedding"] += d_logits.T @ h
    else:
        grads["head"] += h.T @ d_logits
    dh: Array = d_logits @ _head(config, params).T
    dx = _norm_back(config, params, "final_norm", norm, dh, grads)
    for layer in reversed(range(config.n_layers)):
        at = f"layers.{layer}."
        mlp, (h,), norm = saved.pop(), saved.pop(), saved.pop()
        dh = _mlp_back(config, params, at, h, mlp, dx, grads)
        dx += _norm_back(config, params, f"{at}mlp_norm", norm, dh, grads)
        attention, (h,), norm = saved.pop(), saved.pop(), saved.pop()
        dh = _attention_back(config, params, at, h, length, attention, dx, grads)
        dx += _norm_back(config, params, f"{at}attn_norm", norm, dh, grads)
    if config.positions == "learned":
        grads["positions"][:length] += dx.reshape(*tokens.shape, -1).sum(axis=0)
    one_hot = np.zeros((config.vocab, len(dx)), dx.dtype)  # a product beats np.add.at by far
    one_hot[tokens.reshape(-1), np.arange(len(dx))] = 1
    grads["embedding"] += one_hot @ dx


def _head(config: ModelConfig, params: Params) -> Array:
    return params["embedding"].T if config.tied else params["head"]  # (D, V)


def _cross_entropy(logits: Array, targets: Tokens) -> tuple[float, Array]:
    """Mean loss of logits (N, V), and its gradient (softmax - one-hot) / N; logits are consumed."""
    rows = np.arange(len(targets))
    logits -= logits.max(axis=-1, keepdims=True)
    chosen = logits[rows, targets]
    probs = np.exp(logits, out=logits)
    mass = probs.sum(axis=-1, keepdims=True)
    loss = float(np.mean(np.log(mass[:, 0]) - chosen, dtype=np.float64))
    probs /= mass
    probs[rows, targets] -= 1
    probs /= len(targets)
    return loss, probs


# -------------------------------------------------------------------------------------- parts


def _linear(params: Params, name: str, x: Array) -> Array:
    """(N, d_in) -> (N, d_out)."""
    y: Array = x @ params[name]
    if f"{name}_bias" in params:
        y += params[f"{name}_bias"]
    return y


def _linear_back(params: Params, name: str, x: Array, dy: Array, grads: Params) -> Array:
    grads[name] += x.T @ dy
    if f"{name}_bias" in params:
        grads[f"{name}_bias"] += dy.sum(axis=0)
    dx: Array = dy @ params[name].T
    return dx


def _norm(config: ModelConfig, params: Params, name: str, x: Array) -> tuple[Array, Saved]:
    """RMSNorm or LayerNorm of rows x (N, D); saves the unit rows and 1 / deviation (N, 1)."""
    if config.norm == "layer":
        x = x - x.mean(axis=-1, keepdims=True)
    square = np.einsum("nd,nd->n", x, x)[:, None] / config.d_model
    inverse = 1 / np.sqrt(square + config.eps)  # (N, 1)
    unit = x * inverse
    y = unit * params[name]
    if config.norm == "layer":
        y += params[f"{name}_bias"]
    return y, (unit, inverse)


def _norm_back(
    config: ModelConfig, params: Params, name: str, saved: Saved, dy: Array, grads: Params
) -> Array:
    unit, inverse = saved
    grads[name] += np.einsum("nd,nd->d", dy, unit)
    if config.norm == "layer":
        grads[f"{name}_bias"] += dy.sum(axis=0)
    dx = dy * params[name]  # d unit; what moves along the row itself is normalised away
    along = np.einsum("nd,nd->n", dx, unit)[:, None] / config.d_model
    if config.norm == "layer":
        dx -= dx.mean(axis=-1, keepdims=True)
    dx -= unit * along
    dx *= inverse
    return dx


def _heads(config: ModelConfig, qkv: Array) -> tuple[Array, Array, Array]:
    """Views of qkv (B, T, H + 2K, E): q (B, K, G, T, E), k and v (B, K, 1, T, E)."""
    n_q, n_kv = config.n_heads, config.kv_heads
    batch, length = qkv.shape[:2]
    q = qkv[:, :, :n_q].reshape(batch, length, n_kv, n_q // n_kv, config.width)
    k = qkv[:, :, n_q : n_q + n_kv, None]
    v = qkv[:, :, n_q + n_kv :, None]
    return q.transpose(0, 2, 3, 1, 4), k.transpose(0, 2, 3, 1, 4), v.transpose(0, 2, 3, 1, 4)


@lru_cache(maxsize=8)
def _causal_mask(length: int, dtype: np.dtype[Any]) -> Array:
    """(T, T): 0 where a row may look, -inf above the diagonal."""
    return np.triu(np.full((length, length), -np.inf, dtype), k=1)


@lru_cache(maxsize=8)
def _rotation(config: ModelConfig, length: int) -> Complex:
    """Unit complex numbers (T, 1, E / 2): pair j of position t turns by t * base ** (-2j / E)."""
    frequency = config.rope_base ** (-np.arange(0, config.width, 2) / config.width)
    turned: Complex = np.exp(1j * np.arange(length)[:, None] * frequency)[:, None]
    return turned.astype(np.result_type(config.dtype, np.complex64))


def _rotate(config: ModelConfig, qkv: Array, rotation: Complex) -> None:
    """RoPE in place: consecutive pairs of every query and key head, read as complex numbers."""
    qk = qkv[:, :, : config.n_heads + config.kv_heads].view(rotation.dtype)
    qk *= rotation


def _attention(
    config: ModelConfig, params: Params, at: str, h: Array, length: int
) -> tuple[Array, Saved]:
    """Causal attention of rows h (N, D).

    Saves qkv, rotated and scaled, the weights (B, K, G, T, T), and the mixed values (N, H * E).
    """
    n_heads = config.n_heads + 2 * config.kv_heads
    qkv = _linear(params, f"{at}qkv", h).reshape(-1, length, n_heads, config.width)
    if config.positions == "rope":
        _rotate(config, qkv, _rotation(config, length))
    q, k, v = _heads(config, qkv)
    q *= config.width**-0.5  # writes into qkv
    weights = q @ k.swapaxes(-1, -2)
    weights += _causal_mask(length, weights.dtype)
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=-1, keepdims=True)
    heads = np.empty((len(qkv), length, config.n_heads, config.width), h.dtype)
    np.matmul(weights, v, out=_heads_of_mix(config, heads))
    mix = heads.reshape(len(h), -1)
    return _linear(params, f"{at}attn_out", mix), (qkv, weights, mix)


def _heads_of_mix(config: ModelConfig, mix: Array) -> Array:
    """View of (B, T, H, E) as (B, K, G, T, E)."""
    grouped = mix.reshape(*mix.shape[:2], config.kv_heads, -1, config.width)
    return grouped.transpose(0, 2, 3, 1, 4)


def _attention_back(
    config: ModelConfig,
    params: Params,
    at: str,
    h: Array,
    length: int,
    saved: Saved,
    dy: Array,
    grads: Params,
) -> Array:
    qkv, weights, mix = saved
    q, k, v = _heads(config, qkv)
    d_mix = _linear_back(params, f"{at}attn_out", mix, dy, grads)
    shape = (len(qkv), length, config.n_heads, config.width)
    # softmax: dS = P (dP - sum dP P), and that sum is also the product of the mix with its gradient
    along = _heads_of_mix(config, (d_mix * mix).reshape(shape)).sum(axis=-1, keepdims=True)
    d_mix = _heads_of_mix(config, d_mix.reshape(shape))
    d_scores = d_mix @ v.swapaxes(-1, -2)
    d_scores -= along
    d_scores *= weights

    d_qkv = np.empty_like(qkv)
    dq, dk, dv = _heads(config, d_qkv)
    np.matmul(d_scores, k, out=dq)
    dq *= config.width**-0.5
    np.sum(d_scores.swapaxes(-1, -2) @ q, axis=2, keepdims=True, out=dk)  # q is scaled already
    np.sum(weights.swapaxes(-1, -2) @ d_mix, axis=2, keepdims=True, out=dv)
    if config.positions == "rope":
        _rotate(config, d_qkv, _rotation(config, length).conj())
    return _linear_back(params, f"{at}qkv", h, d_qkv.reshape(len(h), -1), grads)


def _mlp(config: ModelConfig, params: Params, at: str, h: Array) -> tuple[Array, Saved]:
    """SwiGLU: silu(gate) * up; or GELU, tanh approximation (Hendrycks, Gimpel 2016)."""
    wide = _linear(params, f"{at}mlp_in", h)
    if config.activation == "swiglu":
        gate, up = wide[:, : config.d_ff], wide[:, config.d_ff :]
        sigmoid = 0.5 * gate  # by tanh, which cannot overflow
        np.tanh(sigmoid, out=sigmoid)
        sigmoid += 1
        sigmoid *= 0.5
        inner = gate * sigmoid
        saved = (wide, sigmoid, inner * up)
    else:
        inner = wide * wide
        inner *= GELU_CUBIC
        inner += 1
        inner *= wide
        inner *= GELU_SCALE
        tanh = np.tanh(inner, out=inner)
        saved = (wide, tanh, 0.5 * wide * (1 + tanh))
    return _linear(params, f"{at}mlp_down", saved[-1]), saved


def _mlp_back(
    config: ModelConfig, params: Params, at: str, h: Array, saved: Saved, dy: Array, grads: Params
) -> Array:
    wide, squash, inner = saved
    d_inner = _linear_back(params, f"{at}mlp_down", inner, dy, grads)
    d_wide = np.empty_like(wide)
    if config.activation == "swiglu":
        gate, up = wide[:, : config.d_ff], wide[:, config.d_ff :]
        silu = gate * squash
        np.multiply(d_inner, silu, out=d_wide[:, config.d_ff :])
        slope = squash - silu * squash  # silu' = s + g s (1 - s)
        slope += silu
        slope *= up
        np.multiply(d_inner, slope, out=d_wide[:, : config.d_ff])
    else:
        slope = 1 - squash * squash
        slope *= GELU_SCALE * (1 + 3 * GELU_CUBIC * wide * wide) * wide
        slope += 1 + squash
        slope *= 0.5
        np.multiply(d_inner, slope, out=d_wide)
    return _linear_back(params, f"{at}mlp_in", h, d_wide, grads)
