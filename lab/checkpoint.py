"""The lab's own file of a model: an .npz with one array per parameter and its config as JSON.

Weights are stored as float16 by default, half the bytes of what they are computed with; a model
that is loaded is the model of the rounded weights. Arrays are named as in `ModelConfig.shapes()`.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.config import ModelConfig
from lab.files import replacing
from lab.transformer import Transformer

__all__ = ["load", "load_trained", "save"]

FORMAT = "specdec-lab 1"
TRAINED = ("target", "draft_2l", "draft_1l", "mixed_target", "mixed_2l", "mixed_1l")

Array = npt.NDArray[Any]


def save(
    path: str | os.PathLike[str],
    config: ModelConfig,
    params: Mapping[str, Array],
    dtype: npt.DTypeLike = np.float16,
) -> None:
    """Write a model; the file at `path` is whole at any time.

    Parameters
    ----------
    path : path
        Ends in .npz.
    config : ModelConfig
    params : mapping of arrays
        Named and shaped as `config.shapes()`.
    dtype : float16, float32 or float64
        Of the stored arrays; the config keeps the dtype the model computes in.

    Raises
    ------
    ValueError
        If names or shapes are not the config's, or a weight does not fit into `dtype`.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"path must end in .npz, got {str(path)!r}")
    if np.dtype(dtype) not in (np.float16, np.float32, np.float64):
        raise ValueError(f"dtype must be float16, float32 or float64, got {dtype!r}")
    config.check(params)
    arrays = {}
    for name, value in params.items():
        with np.errstate(over="ignore"):
            arrays[name] = np.asarray(value).astype(dtype)
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"params[{name!r}] holds NaN, or numbers too large for {dtype!r}")
    settings = asdict(config) | {"dtype": np.dtype(config.dtype).name}
    header = np.array(json.dumps({"format": FORMAT, "config": settings}))
    with replacing(path) as partial, open(partial, "wb") as file:
        np.savez(file, header=header, **arrays)  # type: ignore[arg-type]


def load(path: str | os.PathLike[str]) -> Transformer:
    """The model that `save` wrote.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is no such file, or is cut off: the message names the path.
    """
    path = Path(path)
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            header = json.loads(str(file["header"]))
            if header["format"] != FORMAT:
                raise ValueError(f"format is {header['format']!r}, this is {FORMAT!r}")
            config = ModelConfig(**header["config"])
            params = {name: file[name] for name in file.files if name != "header"}
        return Transformer.from_params(config, params)
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"path {str(path)!r} holds no whole model of the lab: {error}") from error


def load_trained(name: str = "target") -> Transformer:
    """A model that comes with the lab: "target" (4 layers), "draft_2l" or "draft_1l", which learned
    Shakespeare; "mixed_target", "mixed_2l" or "mixed_1l", which learned all texts of `corpus`."""
    if name not in TRAINED:
        raise ValueError(f"name must be one of {TRAINED}, got {name!r}")
    with resources.as_file(resources.files("lab") / "data" / f"{name}.npz") as path:
        return load(path)
