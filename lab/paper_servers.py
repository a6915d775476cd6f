"""The printed numbers of two servers: MagicDec's batches of long contexts, gpt-fast's widths."""

from __future__ import annotations

from dataclasses import dataclass

from lab.paper_cell import UNROUNDED, Cell, Rounded, measured, ratio, rows_of

MAGICDEC = "MagicDec, Chen et al. 2024 (arXiv 2408.11049)"
GPT_FAST = "gpt-fast, README (A100-80GB)"

# ---- MagicDec -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Served:
    """A measured row of MagicDec's: times in ms of a step of the whole batch.

    Attributes
    ----------
    table : the table of the paper
    target, draft : "" where not noted here; "itself": the target with fewer cached positions
    context, batch, gamma : cached tokens of each sequence, sequences, drafts a round
    drafting, verifying : γ T_D, T_V
    tokens : Ω, tokens a round and sequence, the target's own included
    plain, speculative : T_AR, T_SD, time of one token of each sequence without and with drafts
    gain : T_AR / T_SD, as printed
    """

    table: str
    target: str
    draft: str
    context: int
    batch: int
    gamma: int
    drafting: Rounded
    verifying: Rounded
    tokens: Rounded
    plain: Rounded
    speculative: Rounded
    gain: str


def _served(table: str, target: str, draft: str, text: str) -> tuple[Served, ...]:
    found = []
    for s, b, gamma, *times, gain in rows_of(text):
        drafting, verifying, tokens, plain, speculative = map(Rounded, times)
        found.append(
            Served(
                table, target, draft, int(s), int(b), int(gamma),
                drafting, verifying, tokens, plain, speculative, gain,
            )
        )  # fmt: skip
    return tuple(found)


_TABLE_1 = _served(
    "Table 1", "", "",
    """
    32000  32  3  44.11 45.12  3.00 36.62 30.32  1.21
    8000   32  2  29.06 42.02  2.53 35.13 28.70  1.22
    8000   64  3  58.33 74.85  3.14 62.92 42.96  1.46
    32000  32  3  15.09 18.30  2.82 17.32 12.16  1.42
    8000   32  3  14.20 15.64  2.98 14.85 10.29  1.44
    8000   64  4  23.63 27.90  3.37 26.17 15.58  1.68
    """,
)  # fmt: skip
_TABLE_2 = _served(
    "Table 2", "", "",
    """
    100000 41  7  34.34 28.50  5.61 25.96 11.35  2.29
    100000 41  11 53.90 29.89  7.93 25.90 10.64  2.43
    100000 41  11 53.98 29.93  8.21 25.83 10.29  2.51
    64000  64  6  32.89 28.80  5.41 25.52 11.54  2.21
    64000  64  7  38.40 29.11  6.08 25.43 11.20  2.27
    64000  64  8  43.91 29.29  6.83 25.48 10.81  2.36
    """,
)  # fmt: skip
TABLE_3: tuple[Served, ...] = (  # 8 A100, the only device that all rows of a table share
    *_served(
        "Table 3", "Llama-2-7B", "TinyLlama",
        """
        1024   32  2   8.21  9.55  2.19  8.27  8.70  0.95
        1024   48  2   8.46 10.66  2.19  9.41  9.33  1.01
        1024   64  2   9.26 13.05  2.19 10.83 10.80  1.00
        1024   128 2  12.04 18.87  2.19 14.02 14.83  0.94
        4000   32  2   8.46 13.21  2.19 11.89 10.52  1.13
        4000   48  2   8.71 16.19  2.19 14.39 12.02  1.20
        4000   64  2   9.35 21.83  2.19 19.28 14.88  1.30
        4000   128 2  12.31 33.82  2.19 28.77 21.78  1.32
        8000   32  2   8.61 18.40  2.18 16.53 13.02  1.27
        8000   48  2   8.91 23.67  2.18 21.45 15.58  1.38
        8000   64  2   9.58 34.32  2.18 31.49 20.80  1.51
        8000   128 2  12.54 53.78  2.18 49.89 31.25  1.60
        16000  32  2   8.78 27.79  2.17 26.28 17.46  1.50
        16000  48  2   9.33 38.29  2.18 35.83 22.52  1.59
        16000  64  2   9.92 58.14  2.17 55.08 31.99  1.72
        24000  32  2   8.68 37.57  2.16 35.70 22.05  1.62
        32000  32  2   8.83 47.35  2.17 44.94 26.55  1.69
        """,
    ),
    *_served(
        "Table 3", "Llama-2-7B", "itself",
        """
        4000   32  2  15.42 13.17  2.56 11.89 11.69  1.02
        4000   48  2  16.96 16.38  2.56 14.39 13.55  1.06
        4000   64  2  19.75 22.01  2.57 19.28 16.82  1.15
        4000   128 2  25.82 33.79  2.56 28.77 23.86  1.21
        8000   32  2  15.70 18.23  2.53 16.53 13.99  1.18
        8000   48  2  18.44 24.32  2.53 21.45 17.50  1.23
        8000   64  2  20.03 34.30  2.53 31.49 22.05  1.43
        8000   128 2  26.10 53.69  2.52 49.89 32.25  1.55
        16000  32  2  16.06 27.54  2.50 26.28 18.02  1.46
        16000  48  2  19.75 39.03  2.50 35.83 24.15  1.48
        16000  64  2  20.87 58.15  2.51 55.08 32.16  1.71
        24000  32  2  15.80 37.06  2.49 35.70 21.77  1.64
        32000  32  2  16.19 46.55  2.50 44.94 25.64  1.75
        """,
    ),
    *_served(
        "Table 3", "Llama-3.1-8B", "itself",
        """
        4000   32  2  13.16 10.32  2.54  8.83  9.78  0.90
        4000   64  2  16.48 13.55  2.54 10.07 12.36  0.81
        4000   128 2  23.41 19.77  2.54 13.42 17.70  0.76
        4000   256 2  39.29 35.05  2.53 23.23 30.46  0.76
        8000   32  2  13.28 11.34  2.50  9.90 10.40  0.95
        8000   64  2  16.98 16.06  2.51 14.16 13.72  1.03
        8000   128 2  23.59 24.84  2.51 18.53 19.97  0.93
        8000   256 2  39.32 46.44  2.51 35.35 34.99  1.01
        16000  32  2  14.46 14.00  2.47 11.93 12.10  0.99
        16000  64  2  18.00 21.15  2.48 17.17 16.40  1.05
        16000  128 2  25.77 34.82  2.46 28.00 25.36  1.10
        32000  32  2  14.12 19.04  2.46 17.13 14.05  1.22
        32000  64  2  19.08 30.86  2.45 26.99 21.03  1.28
        32000  128 2  28.26 54.98  2.45 47.24 34.94  1.35
        64000  32  2  14.92 28.88  2.40 26.96 18.91  1.43
        64000  64  2  18.25 50.19  2.40 46.09 29.22  1.58
        100000 32  2  15.10 39.84  2.45 37.70 23.05  1.64
        """,
    ),
)  # fmt: skip
SERVED: tuple[Served, ...] = (*_TABLE_1, *_TABLE_2, *TABLE_3)
_OFF = ((1024, 128), (16000, 32))  # context and batch, with draft TinyLlama


def _gain(row: Served) -> Cell:
    words = f"S = {row.context}, B = {row.batch}, γ = {row.gamma}, Ω = {row.tokens.text}"
    if row.target:
        words = f"{row.target}, draft {row.draft}: {words}"
    setting = (row.context, row.batch)
    off = UNROUNDED if row.draft == "TinyLlama" and setting in _OFF else ""
    given = {"above": row.plain, "below": row.speculative}
    return Cell(MAGICDEC, row.table, words, "x", row.gain, given, ratio, off)


MAGICDEC_GAINS: tuple[Cell, ...] = tuple(map(_gain, SERVED))

# ---- gpt-fast: one model at three widths --------------------------------------------------------

_SPEEDS = {  # tokens/s, GB/s
    "Llama-2-7B bf16": ("104.9", "1397.31"),
    "Llama-2-7B int8": ("155.58", "1069.20"),
    "Llama-2-7B int4-g32": ("196.80", "862.69"),
    "Llama-2-70B int8": ("19.13", "1322.58"),
    "Llama-2-70B int4-g32": ("25.25", "1097.66"),
    "Llama-3.1-8B bf16": ("93.89", "1410.76"),
    "Llama-3.1-8B int8": ("137.64", "1030.89"),
}
_TOGETHER = "48.4"  # tokens/s of the 70B at int4 with the 7B at int4 as its draft


def bytes_ratio(speed: float, rate: float, of_speed: float, of_rate: float) -> float:
    """Bytes a token of one model over those of another, from tokens/s and bytes/s of both."""
    return (rate / speed) / (of_rate / of_speed)


def _bytes(draft: str, of: str, printed: str) -> Cell:
    names = ("speed", "rate", "of_speed", "of_rate")
    numbers = (*_SPEEDS[draft], *_SPEEDS[of])
    given = {name: Rounded(text) for name, text in zip(names, numbers, strict=True)}
    row = f"{draft} for {of}"
    return Cell(GPT_FAST, "c", row, "bytes", printed, given, bytes_ratio, worked=True)


def _c(draft: str, of: str, printed: str) -> Cell:
    """c of a draft: the target's tokens/s over the draft's."""
    given = {"above": Rounded(_SPEEDS[of][0]), "below": Rounded(_SPEEDS[draft][0])}
    return Cell(GPT_FAST, "c", f"{draft} for {of}", "c", printed, given, ratio, worked=True)


GPT_FAST_SPEEDS: tuple[Cell, ...] = (
    *(
        cell
        for model, (speed, rate) in _SPEEDS.items()
        for cell in measured(GPT_FAST, "speeds", model, **{"tokens/s": speed, "GB/s": rate})
    ),
    *measured(GPT_FAST, "speeds", "70B int4, draft 7B int4", **{"tokens/s": _TOGETHER}),
)
GPT_FAST_C: tuple[Cell, ...] = (
    _c("Llama-2-7B int8", "Llama-2-7B bf16", "0.6743"),
    _bytes("Llama-2-7B int8", "Llama-2-7B bf16", "0.516"),
    _c("Llama-2-7B int4-g32", "Llama-2-7B bf16", "0.5330"),
    _bytes("Llama-2-7B int4-g32", "Llama-2-7B bf16", "0.329"),
    _c("Llama-2-7B int4-g32", "Llama-2-70B int4-g32", "0.1283"),
    Cell(
        GPT_FAST, "c", "70B int4, draft 7B int4", "speed-up", "1.917",
        {"above": Rounded(_TOGETHER), "below": Rounded(_SPEEDS["Llama-2-70B int4-g32"][0])},
        ratio, worked=True,
    ),
)  # fmt: skip
