"""Squared loss: one GEMM over Gram matrices and one batched Cholesky for all mixtures."""

from __future__ import annotations

import torch
from torch import Tensor

from cuvee.components import Rows
from cuvee.gram import GramComponents, own_grams

BUDGET = 256 * 2**20  # bytes of stacked (P, P) systems at a time


def solve(components: GramComponents, rows: Rows, alpha: Tensor) -> Tensor:
    """α (M, Q, N+1) -> w (M, Q, P), exactly; a singular system (λ = 0) gives the least-norm solution."""
    sources, _ = components.grams
    N, P = sources.b.shape
    M, Q = alpha.shape[:2]
    ridge = (components.space.l2 * components.space.penalised).to(alpha).diag()
    w = alpha.new_empty(M, Q, P)
    own_rows = rows.own_X.shape[1]
    chunk = max(1, BUDGET // (8 * Q * P * (3 * P + 2 * own_rows)))
    for low in range(0, M, chunk):
        some = slice(low, low + chunk)
        a, own = alpha[some, :, :N], alpha[some, :, N:]
        weight = rows.own_weight[some]
        grams = own_grams(
            rows.own_X[some, None], rows.own_y[some].expand(-1, weight.shape[1], -1), weight
        )  # (m, Q or 1, …)
        A = (a.reshape(-1, N) @ sources.A.reshape(N, -1)).view(-1, Q, P, P) + own[..., None] * grams.A + ridge
        b = a @ sources.b + own * grams.b
        w[some] = _solve(A, b)
    return w


def _solve(A: Tensor, b: Tensor) -> Tensor:
    factor, info = torch.linalg.cholesky_ex(A)
    w = torch.cholesky_solve(b[..., None], factor)[..., 0]
    # A tiny pivot passes for positive definite but its solution is noise; both kinds go the careful way.
    pivots = factor.diagonal(dim1=-2, dim2=-1)
    singular = (info != 0) | (pivots.amin(-1) <= 1e-7 * pivots.amax(-1)) | ~w.isfinite().all(-1)
    broken = ~A.isfinite().all(-1).all(-1)  # overflowed: no answer, and nothing LAPACK should see
    w[broken] = torch.nan
    singular &= ~broken
    if bool(singular.any()):
        careful, right = A[singular].cpu(), b[singular][..., None].cpu()
        w[singular] = torch.linalg.lstsq(careful, right, driver="gelsd").solution[..., 0].to(w.device)
    return w
