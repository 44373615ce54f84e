"""Any `nn.Module` as a hypothesis: flat parameters, M copies at once through `torch.func`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from cuvee.errors import DomainError, OptionError
from cuvee.facts import Array, Facts
from cuvee.hypothesis import frozen
from cuvee.hypothesis.base import Space, check_penalties
from cuvee.hypothesis.labels import check_numeric, find_classes, number_labels
from cuvee.hypothesis.logistic import chance_of_error, class_probabilities, cross_entropy, winners
from cuvee.hypothesis.ridge import saturated
from cuvee.hypothesis.stacked import StackedLayers

RowLoss = Callable[[Tensor, Tensor], Tensor]
REACH = 3.0
"""W when the user names none: the ball of three times the norm of a fresh initialisation."""


@dataclass(frozen=True)
class Network:
    """An `nn.Module` that maps rows to one score, or one per class.

    It runs in eval mode, with its buffers and its frozen parameters (`requires_grad` is False) as
    they are. The layers of an `nn.Sequential` before the first that learns, such as a backbone that
    was trained elsewhere, see each row once: what follows learns from their embeddings.

    Copies of what is learnt are stacked by `torch.func.vmap`, which a few modules (recurrent ones
    among them) do not go through; transformers do. The first dimension of all inputs is the rows,
    so attention needs `batch_first=True`. `loss` is "cross_entropy", "squared", or a function
    (scores (outputs, rows), y (rows,)) -> losses (rows,) that is ≥ 0. λ/2‖w‖² covers every
    parameter that is learnt.
    """

    module: nn.Module = field(repr=False)
    loss: Literal["cross_entropy", "squared"] | RowLoss = "cross_entropy"
    l2: float = 1e-3
    radius: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.module, nn.Module):
            raise OptionError(f"Network wraps a torch.nn.Module; got {type(self.module).__name__}")
        if not frozen.learnt(self.module):
            raise OptionError(
                "Network: the module has no parameters to learn: it has none, or all are frozen "
                "(requires_grad is False)"
            )
        if not callable(self.loss) and self.loss not in ("cross_entropy", "squared"):
            raise OptionError(
                f"Network: loss must be 'cross_entropy', 'squared' or a function; got {self.loss!r}"
            )
        check_penalties(self.l2, self.radius)

    def bind(self, facts: Facts, *, standardised: bool = False) -> NetworkSpace:
        """Return the space of the module on a problem; its inputs are left as they are.

        `standardised` only chooses a W when none is given.
        """
        return NetworkSpace(facts, self, standardised)


class _Attention(nn.MultiheadAttention):
    """Attention as matrix products, which `vmap` batches; torch's fused kernels it cannot."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        masks = key_padding_mask, True, attn_mask, average_attn_weights, is_causal
        out, weights = super().forward(query, key, value, *masks)
        return out, weights if need_weights else None


def batched_attention(module: nn.Module) -> nn.Module:
    """Return the module, its attention changed to operations that `vmap` has a rule for.

    In eval mode torch takes fast paths that have no derivatives; it leaves them where `training` is
    set, which these two layers themselves read for nothing else but the dropout set to 0 here.
    """
    for part in module.modules():
        if isinstance(part, nn.TransformerEncoderLayer):
            part.training = True
        elif isinstance(part, nn.MultiheadAttention):
            part.training, part.dropout = True, 0.0
            if type(part) is nn.MultiheadAttention:
                part.__class__ = _Attention
    return module


class NetworkSpace(Space):
    """`Network` on a problem."""

    convex = False

    def __init__(self, facts: Facts, spec: Network, standardised: bool) -> None:
        self.input_shape = facts.input_shape
        self._given = copy.deepcopy(spec.module).cpu().eval()
        start, learning = frozen.split(self._given)
        self._module = batched_attention(copy.deepcopy(learning))
        parameters = frozen.learnt(self._module)
        self._module.requires_grad_(False)
        self._start, self._learnt = start, list(parameters)
        fixed = [*self._module.named_parameters(), *self._module.named_buffers()]
        self._fixed = {name: tensor for name, tensor in fixed if name not in parameters}
        frozen_too = any(isinstance(one, nn.Parameter) for one in self._fixed.values())
        self._stack = None if frozen_too else StackedLayers.of(self._module)
        self._shapes = {name: p.shape for name, p in parameters.items()}
        self._sizes = [p.numel() for p in parameters.values()]
        self.dtype = next(iter(parameters.values())).dtype
        self.n_params, self.l2 = sum(self._sizes), spec.l2
        self._loss = spec.loss
        self.label_scale = 1.0
        self.n_outputs = self._count_outputs(facts)
        self.classes: Array | None = None
        if spec.loss == "cross_entropy":
            self.likelihood, self.task = True, "classification"
            self.classes = find_classes(facts)
            self._check_outputs(len(self.classes))
        else:
            check_numeric(facts)
            self.label_scale = facts.quantity()[1]
            if spec.loss == "squared" and self.n_outputs != 1:
                raise OptionError(
                    f"Network: squared loss needs a module with one output, not {self.n_outputs}"
                )
        self.radius = spec.radius
        self._rehearse(facts)
        if standardised and spec.radius is None:
            self.radius = REACH * (float(torch.linalg.vector_norm(self.start(1, seed=0))) or 1.0)

    def _rehearse(self, facts: Facts) -> None:
        """Raise `OptionError` for what `vmap` or the loss cannot do, before any work starts.

        Two models are run on two rows.
        """
        labels = torch.zeros(2, dtype=self.dtype if self.classes is None else torch.int64)
        w = self._flat(self._module).expand(2, -1)
        rows = self.prepare(torch.zeros(2, *facts.input_shape, dtype=self.dtype))
        try:
            losses = self.trained(self.scores(w, rows), labels)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise OptionError(
                f"Network: module and loss do not run as a stack: {str(error).splitlines()[0]}"
            ) from None
        if losses.shape != (2, 2):
            raise OptionError(
                "Network: the loss must give one number per row, (rows,); got "
                f"{tuple(losses.shape[1:])}"
            )

    def _count_outputs(self, facts: Facts) -> int:
        rows = torch.zeros(2, *facts.input_shape, dtype=self.dtype)
        try:
            out = self._module(self.prepare(rows))
            beside = self._module(self.prepare(torch.stack([rows[0], torch.ones_like(rows[1])])))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise DomainError(
                f"the module does not take rows of shape {facts.input_shape} (source "
                f"{facts.sources[0].name!r}): {str(error).splitlines()[0]}"
            ) from None
        shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        if not isinstance(out, Tensor) or out.ndim not in (1, 2) or len(out) != len(rows):
            raise OptionError(
                f"Network: the module must return (rows,) or (rows, outputs); got {shape}"
            )
        if not torch.allclose(beside[0], out[0], rtol=1e-3, atol=1e-5, equal_nan=True):
            raise OptionError(
                "Network: the module's scores of a row change with the rows beside it: rows must "
                "come first in all its layers (batch_first=True of attention)"
            )
        return 1 if out.ndim == 1 else out.shape[1]

    def _check_outputs(self, n_classes: int) -> None:
        if self.n_outputs == (1 if n_classes == 2 else n_classes) or self.n_outputs >= n_classes:
            return
        raise OptionError(
            f"Network: {n_classes} classes, but the module has {self.n_outputs} outputs"
        )

    def prepare(self, X: Tensor) -> Tensor:
        return (X if self._start is None else self._start(X)).to(self.dtype)

    def encode(self, y: Array, name: str) -> Array:
        return (
            y.astype(np.float64) if self.classes is None else number_labels(y, self.classes, name)
        )

    def scores(self, w: Tensor, X: Tensor) -> Tensor:
        if self._stack is not None:
            return self._stack.scores(w, X)
        flat: Tensor = vmap(self._forward, (0, None))(w.reshape(-1, self.n_params), X)
        return flat.view(*w.shape[:-1], *flat.shape[1:])

    def own_scores(self, w: Tensor, X: Tensor) -> Tensor:
        if self._stack is not None:
            return self._stack.own_scores(w, X)
        scores: Tensor = vmap(vmap(self._forward, (0, None)), (0, 0))(w, X)
        return scores

    def _forward(self, flat: Tensor, X: Tensor) -> Tensor:
        """Return scores (outputs, rows) of one model (P,) on one table (rows, …)."""
        views = (
            part.view(shape)
            for part, shape in zip(flat.split(self._sizes), self._shapes.values(), strict=True)
        )
        named = dict(zip(self._shapes, views, strict=True))
        fixed = {name: tensor.to(X.device) for name, tensor in self._fixed.items()}
        out: Tensor = functional_call(self._module, (named, fixed), (X,))
        return out.unsqueeze(0) if out.ndim == 1 else out.T

    def trained(self, scores: Tensor, y: Tensor) -> Tensor:
        if self._loss == "cross_entropy":
            return cross_entropy(scores, y)
        if self._loss == "squared":
            return 0.5 * (scores.squeeze(-2) - y).square()
        assert callable(self._loss)
        y = y.expand(*scores.shape[:-2], -1).reshape(-1, scores.shape[-1])
        rows: Tensor = vmap(self._loss)(scores.reshape(-1, *scores.shape[-2:]), y)
        return rows.view(*scores.shape[:-2], *rows.shape[1:])

    def bounded(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return 1 − p_y for classes, and ℓ/(1 + ℓ/s) for other losses.

        s is half the variance of the labels.
        """
        if self._loss == "cross_entropy":
            return chance_of_error(scores, y)
        return saturated(self.trained(scores, y), 0.5 * self.label_scale**2)

    def decide(self, scores: Tensor) -> Array:
        if self.classes is not None:
            return np.asarray(
                self.classes[np.asarray(winners(scores[..., : len(self.classes), :]))]
            )
        return np.asarray(scores.squeeze(-2))

    def probabilities(self, scores: Tensor) -> Tensor:
        if self.classes is None:
            return super().probabilities(scores)
        return class_probabilities(scores[..., : len(self.classes), :])

    def start(self, n_models: int, seed: int) -> Tensor:
        """Return starts: row 0 is the module as given, every other row a fresh initialisation."""
        rows = [self._fresh(seed, k) for k in range(n_models)]
        return (
            self.project(torch.stack(rows))
            if rows
            else torch.zeros(0, self.n_params, dtype=self.dtype)
        )

    def module(self, w: Array) -> nn.Module:
        module = copy.deepcopy(self._given).cpu()
        parts = torch.as_tensor(w).split(self._sizes)
        with torch.no_grad():
            for parameter, part in zip(frozen.learnt(module).values(), parts, strict=True):
                parameter.copy_(part.view_as(parameter))
        return module

    def _flat(self, module: nn.Module) -> Tensor:
        """Return the parameters of a module that are learnt, as one vector (P,)."""
        parameters = dict(module.named_parameters())
        chosen = [parameters[name] for name in self._learnt]
        return nn.utils.parameters_to_vector(chosen).detach()

    def _fresh(self, seed: int, k: int) -> Tensor:
        module = self._module
        if k > 0:
            module = copy.deepcopy(self._module)
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                torch.manual_seed(int(np.random.default_rng([seed, k]).integers(2**31)))
                for part in module.modules():
                    if callable(reset := getattr(part, "reset_parameters", None)):
                        reset()
                for given, fresh in zip(
                    self._module.parameters(), module.parameters(), strict=True
                ):
                    # nothing knows how to draw it anew, so it is moved a little
                    if torch.equal(given, fresh):
                        fresh.add_(torch.randn_like(fresh) * (0.1 + 0.1 * given.abs().mean()))
        return self._flat(module)
