"""Loss curves continued by a network that has seen other runs: Qore-DL's LSTM.

It reads the last 20 losses and tells the next 10; rolled forward, it gives the rest of the curve (20 in and 10 out are
*read* from the authors' scripts). Losses are logarithms over the last one that it reads, the same for any scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mfcp.arrays import Floats
from mfcp.errors import DataError
from mfcp.threads import one_thread

READS, TELLS = 20, 10
HIDDEN, PASSES, LR = 32, 40, 3e-3


class LossForecaster:
    """A trained network, and the deviation of what it reads."""

    def __init__(self, network: nn.Module, deviation: float) -> None:
        self._network, self._deviation = network, deviation

    @classmethod
    @one_thread()
    def fit(
        cls, curves: Sequence[Floats], *, seed: int = 0, advance: Callable[[], Any] = lambda: None
    ) -> LossForecaster:
        """Learn from whole curves of other runs; the same curves and seed give the same network.

        Args:
            curves: losses of every epoch, positive.
            seed: of the first weights and of the order.
            advance: called once per pass.

        Raises:
            DataError: no curve is long enough for a window, or a loss is not positive.
        """
        windows = [
            log[start : start + READS + TELLS] - log[start + READS - 1]
            for log in map(_logarithms, curves)
            for start in range(len(log) - READS - TELLS + 1)
        ]
        if not windows:
            raise DataError(f"loss curves: none has the {READS + TELLS} losses of a window; train longer")
        table = np.stack(windows)
        deviation = max(float(table.std()), 1e-9)
        data = torch.tensor(table / deviation, dtype=torch.float32)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network = _Network()
            optimizer = torch.optim.Adam(network.parameters(), lr=LR)
            for _ in range(PASSES):
                for batch in torch.split(torch.randperm(len(data)), 256):
                    told = network(data[batch, :READS])
                    loss = nn.functional.smooth_l1_loss(told, data[batch, READS:])
                    optimizer.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                advance()
        return cls(network.eval(), deviation)

    @one_thread()
    def continued(self, losses: Floats, epochs: int) -> Floats:
        """(epochs,) the losses so far, and those that are forecast after them.

        Raises:
            DataError: fewer losses than it reads, or one that is not positive.
        """
        log = _logarithms(losses)
        if len(log) < READS:
            raise DataError(f"loss curve: {len(losses)} losses; the network reads {READS} or more")
        with torch.no_grad():
            while len(log) < epochs:
                last = torch.tensor((log[-READS:] - log[-1]) / self._deviation, dtype=torch.float32)
                log = np.append(log, log[-1] + self._deviation * self._network(last[None])[0].numpy())
        return np.concatenate([losses, np.exp(log[len(losses) :])])[:epochs]


class _Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.reads, self.tells = nn.LSTM(1, HIDDEN, batch_first=True), nn.Linear(HIDDEN, TELLS)

    def forward(self, steps: Tensor) -> Tensor:
        """(b, READS) → (b, TELLS)."""
        _, (state, _) = self.reads(steps[:, :, None])
        told: Tensor = self.tells(state[-1])
        return told


def _logarithms(losses: Floats) -> Floats:
    losses = np.asarray(losses, float)
    if not (np.isfinite(losses) & (losses > 0)).all():
        raise DataError("loss curve: expected positive and finite losses")
    logarithms: Floats = np.log(losses)
    return logarithms
