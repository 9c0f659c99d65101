"""Checkpoints: an interrupted training is resumed after its last finished epoch.

A checkpoint holds the tensors that training changes in place. Of several processes the
first writes it and all read it: on several machines it must lie in a folder that they
share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from affinerank.support.errors import DataError
from affinerank.support.files import atomic_write, one_line


def write_state(path: Path, mark: str, state: Mapping[str, Tensor]) -> None:
    """Keep the state, in place of the one before; ``mark`` identifies the training."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in state.items()}
    with atomic_write(path) as aside:
        # Not save_file: it writes beside the file first, under a name of its own.
        aside.write_bytes(save(tensors, metadata={"fingerprint": mark}))


def restore_state(path: Path, mark: str, state: Mapping[str, Tensor]) -> None:
    """Fill the tensors of ``state`` from the file, if there is one."""
    if not path.exists():
        return
    try:
        with safe_open(path, framework="pt") as file:
            found = (file.metadata() or {}).get("fingerprint")
            saved = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except Exception as error:  # what a broken file raises is not documented
        text = f"{path}: not a checkpoint ({one_line(error):.200})"
        raise DataError(f"{text}; remove it to start anew") from None
    own, there = ({k: (v.shape, v.dtype) for k, v in s.items()} for s in (state, saved))
    if found != mark or own != there:
        raise DataError(
            f"{path}: a checkpoint of another training; remove it or name another file"
        )
    for name, tensor in state.items():
        tensor.copy_(saved[name])


def fingerprint(*parts: Any) -> str:
    """Identify a training by its settings and all that it learns from."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.shape} {part.dtype}".encode())
            digest.update(np.ascontiguousarray(part).data)
        elif is_dataclass(part):
            inside = (getattr(part, field.name) for field in fields(part))
            digest.update(fingerprint(*inside).encode())
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()
