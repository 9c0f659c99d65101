"""Checkpoints of training: a killed run goes on where it was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from affinerank.errors import DataError
from affinerank.files import written_whole

if TYPE_CHECKING:
    from affinerank.rankers.early_stopping import Best
    from affinerank.rankers.training import NetworkTrainer


class Checkpoint:
    """A file with the state after the last finished epoch.

    Of several processes the first writes it and all read it: on several machines it
    must lie in a folder that they share.

    ``fingerprint`` tells whether it is of the same training: settings, seeds, weights.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        self.path = Path(path)
        self.fingerprint = fingerprint

    def write(
        self, trainer: NetworkTrainer, best: Best | None, losses: list[NDArray[Any]]
    ) -> None:
        """Keep the state of an epoch, in place of the one before."""
        state = {name: t.cpu().contiguous() for name, t in trainer.state().items()}
        state["losses"] = torch.from_numpy(np.stack(losses))
        if best is not None:
            state["best"] = best.flat.cpu().contiguous()
            state["best_values"] = torch.from_numpy(best.values)
            state["waited"] = torch.from_numpy(best.waited)
        with written_whole(self.path) as aside:
            save_file(state, aside, metadata={"fingerprint": self.fingerprint})

    def resume(self, trainer: NetworkTrainer, best: Best | None) -> list[NDArray[Any]]:
        """Go on from the file, if there is one; return the losses up to it."""
        if not self.path.exists():
            return []
        try:
            with safe_open(self.path, framework="pt") as file:
                found = (file.metadata() or {}).get("fingerprint")
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise DataError(
                f"{self.path}: not a checkpoint ({error}); remove it to start anew"
            ) from None
        if found != self.fingerprint:
            raise DataError(
                f"{self.path}: a checkpoint of another training (other settings, seeds "
                "or weights); remove it to start anew, or name another file"
            )
        trainer.restore(state)
        if best is not None:
            best.flat = state["best"].to(trainer.device)
            best.values = state["best_values"].numpy()
            best.waited = state["waited"].numpy()
        return list(state["losses"].numpy())

    def remove(self) -> None:
        """Training is done: nothing to go on from."""
        self.path.unlink(missing_ok=True)
