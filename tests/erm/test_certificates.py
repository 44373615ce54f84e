"""Certificates never lie: bounds of w from anywhere against minimisers found by another road, in long doubles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

import cuvee
from cuvee import Domain, Logistic, Ridge

LD = np.longdouble
CLASSES = {"ridge": 0, "binary": 2, "softmax": 3}


@dataclass
class Oracle:
    """Risk, gradient and minimiser of one mixture by plain NumPy; sums in long double."""

    kind: str
    X: np.ndarray  # (rows, width), the intercept's column last
    y: np.ndarray
    p: np.ndarray  # (rows,) α_j/m_j
    penalty: np.ndarray  # (P,)

    @property
    def K(self):
        return 3 if self.kind == "softmax" else 1

    def scores(self, w):
        return self.X.astype(LD) @ w.reshape(self.K, -1).T.astype(LD)  # (rows, K)

    def risk(self, w, nu=0.0):
        s = self.scores(w)
        if self.kind == "ridge":
            loss = (s[:, 0] - self.y) ** 2 / 2
        elif self.kind == "binary":
            loss = np.logaddexp(LD(0), np.where(self.y == 1, -s[:, 0], s[:, 0]))
        else:
            top = s.max(1, keepdims=True)
            loss = np.log(np.exp(s - top).sum(1)) + top[:, 0] - s[np.arange(len(s)), self.y]
        w = w.astype(LD)
        return (self.p * loss).sum() + ((self.penalty + nu) * w * w).sum() / 2

    def derivatives(self, w, nu=0.0):
        s = self.scores(w)
        if self.kind == "ridge":
            residual, bend = s - self.y[:, None], np.ones((len(s), 1, 1))
        elif self.kind == "binary":
            mean = 1 / (1 + np.exp(-s))
            residual, bend = mean - self.y[:, None], (mean * (1 - mean))[..., None]
        else:
            e = np.exp(s - s.max(1, keepdims=True))
            mean = e / e.sum(1, keepdims=True)
            residual = mean - np.eye(3)[self.y]
            bend = np.eye(3) * mean[:, None] - mean[:, :, None] * mean[:, None]
        X, p = self.X.astype(LD), self.p.astype(LD)
        g = ((residual * p[:, None]).T @ X).reshape(-1) + (self.penalty + nu) * w
        H = np.einsum("nab,np,nq->apbq", (bend * p[:, None, None]).astype(float), self.X, self.X, optimize=True)
        P = w.size
        return g, H.reshape(P, P) + np.diag(self.penalty + nu)

    def minimiser(self, start, nu=0.0):
        """Damped Newton; steps in double, sums in long double, so that w itself is good to long double."""
        w = start.astype(LD)
        width = len(self.penalty) // self.K
        pin = np.zeros((width, width))
        pin[self.penalty[:width] + nu == 0, self.penalty[:width] + nu == 0] = 1.0
        pin = np.kron(np.ones((self.K, self.K)), pin) if self.kind == "softmax" else 0.0
        for _ in range(100):
            g, H = self.derivatives(w, nu)
            step = np.linalg.solve(H + pin, g.astype(float))
            length, here = 1.0, self.risk(w, nu)
            while self.risk(w - length * step, nu) > here + abs(here) * 1e-17 and length > 1e-8:
                length /= 2
            w = w - length * step
            if np.abs(step).max() <= 1e-17 * (1 + np.abs(w).max()):
                break
        return w

    def minimiser_on(self, radius, start):
        w = self.minimiser(start)
        if radius is None or np.linalg.norm(w.astype(float)) <= radius:
            return w

        def outside(nu):
            nonlocal w
            w = self.minimiser(w, nu)
            return float(np.sqrt((w * w).sum())) - radius

        high = 1e-6
        while outside(high) > 0:
            high *= 4
        nu = brentq(outside, high / 4 if high > 1e-6 else 0.0, high, xtol=1e-18, rtol=1e-15)
        w = self.minimiser(w, nu)
        return w * (radius / np.sqrt((w * w).sum()))


def families():
    for kind in CLASSES:
        for intercept in (True, False):
            for ball in (False, True):
                for l2 in (1e-4, 1e-2, 1.0):
                    for mean in (0.0, 20.0):
                        yield kind, intercept, ball, l2, mean


def make_sources(kind, rng, mean, d=2):
    sources = []
    for j, rows in enumerate((25, 12, 40)):
        X = rng.normal(size=(rows, d)) * 10.0 ** rng.uniform(-0.7, 0.5, d) + mean * rng.normal(size=d) / np.sqrt(d)
        score = (X - X.mean(0)) @ rng.normal(size=d) + rng.normal(size=rows)
        y = score + mean
        if CLASSES[kind]:
            cuts = {"binary": [0.3], "softmax": [-0.6, 0.4]}[kind]
            y = np.digitize(score, cuts)
            y[: CLASSES[kind]] = np.arange(CLASSES[kind])
        sources.append(Domain(f"s{j}", X, y, weight=rng.uniform(0.2, 2, rows) if j == 1 else None))
    return sources


def oracle_of(kind, sources, alpha, l2, intercept):
    share = [a * (np.ones(s.n_rows) / s.n_rows if s.weight is None else s.weight / s.weight.sum())
             for a, s in zip(alpha, sources, strict=True)]  # fmt: skip
    X = np.concatenate([s.X for s in sources])
    X = np.column_stack([X, np.ones(len(X))]) if intercept else X
    penalty = np.full(X.shape[1], l2)
    if intercept:
        penalty[-1] = 0.0
    K = 3 if kind == "softmax" else 1
    return Oracle(kind, X, np.concatenate([s.y for s in sources]), np.concatenate(share), np.tile(penalty, K))


def canonical(kind, w, intercept):
    if kind != "softmax" or not intercept:
        return w
    table = w.reshape(*w.shape[:-1], 3, -1).copy()
    table[..., -1] -= table[..., -1].mean(-1, keepdims=True)
    return table.reshape(w.shape)


def nearby(rng, oracle, best, n, intercept, radius):
    """n models around (and far from) the minimiser, in directions where bounds have least to spare."""
    P, K = best.size, oracle.K
    _, H = oracle.derivatives(best)
    u = rng.normal(size=(n, P))
    kinds = np.arange(n) % 6
    table = u.reshape(n, K, -1)
    if intercept:
        table[kinds == 1, :, :-1] = 0.0  # the intercept alone
        # What the intercept can make up for: δb = −mean·δw.
        mean = (oracle.p @ oracle.X / oracle.p.sum())[:-1]
        table[kinds == 2, :, -1] = -table[kinds == 2, :, :-1] @ mean
    values, vectors = np.linalg.eigh(H)
    u[kinds == 3] = vectors[:, 1 if K > 1 and intercept else 0]
    u[kinds == 4] = u[kinds == 4] @ (vectors / np.maximum(values, 1e-6)) @ vectors.T  # H⁻¹ of a random gradient
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    w = best.astype(float) + u * 10.0 ** rng.uniform(-8, 1, size=(n, 1))
    w[kinds == 5] = rng.normal(size=w[kinds == 5].shape) * 10.0 ** rng.uniform(-2, 1, size=(1, P))  # anywhere
    if radius is not None:
        inside = np.arange(n) % 4 > 0
        norm = np.linalg.norm(w, axis=1, keepdims=True)
        w[inside] = (w * np.minimum(1.0, radius / norm))[inside]
    return w


def test_ten_thousand_certificates_hold(record_property, capsys):
    rng = np.random.default_rng(0)
    per_alpha, pairs, ratios = 36, 0, {}
    lies = []
    for kind, intercept, ball, l2, mean in families():
        sources = make_sources(kind, rng, mean)
        alphas = rng.dirichlet(np.ones(3), size=4)
        alphas[1] = [0.0, 0.7, 0.3]
        alphas[2] *= (1 + 9e-7) / alphas[2].sum()  # allowed: what does not sum to 1 exactly is taken at its word
        P = (3 if kind == "softmax" else 1) * (2 + intercept)
        oracles = [oracle_of(kind, sources, a, l2, intercept) for a in alphas]
        radius, bests = None, [o.minimiser_on(None, np.zeros(P)) for o in oracles]
        if ball:
            norms = sorted(float(np.sqrt((b * b).sum())) for b in bests)
            radius = norms[1] * 0.98  # binds for three of the four, for one but just
            bests = [o.minimiser_on(radius, np.zeros(P)) for o in oracles]
        W = np.concatenate(
            [nearby(rng, o, b, per_alpha, intercept, radius) for o, b in zip(oracles, bests, strict=True)]
        )
        make = Ridge if kind == "ridge" else Logistic
        bound = cuvee.certify(sources, make(l2, intercept, radius), alphas.repeat(per_alpha, 0), W)
        for i, w in enumerate(W):
            oracle, best = oracles[i // per_alpha], bests[i // per_alpha]
            w = canonical(kind, w.astype(LD), intercept)
            error = np.sqrt(((w - canonical(kind, best, intercept)) ** 2).sum())
            excess = oracle.risk(w) - oracle.risk(best)
            pairs += 1
            if not error <= bound.distance[i] * (1 + 1e-12):
                lies.append((kind, intercept, ball, l2, mean, i, "distance", float(error), bound.distance[i]))
            if not excess <= bound.excess_risk[i] * (1 + 1e-12) + 1e-18:
                lies.append((kind, intercept, ball, l2, mean, i, "excess", float(excess), bound.excess_risk[i]))
            family = f"{kind}{'+b' if intercept else ''}{'+ball' if ball else ''}"
            ratios.setdefault(family, []).append(
                (float(bound.distance[i] / error), bound.excess_risk[i] / float(max(excess, 1e-30)))
            )
        assert np.isfinite(bound.gradient_norm).all()
    assert pairs >= 10_000
    with capsys.disabled():
        print()
        for family, both in ratios.items():
            distance, excess = np.array(both).T
            finite = np.isfinite(distance)
            line = (f"median bound/error {np.median(distance[finite]):.3g} (excess {np.median(excess[np.isfinite(excess)]):.3g}), "
                    f"finite {finite.mean():.1%} of {len(finite)}")  # fmt: skip
            record_property(family, line)
            print(f"  {family:18s} {line}")
    assert not lies, f"{len(lies)} lies, e.g. {lies[:6]}"
    for family, both in ratios.items():  # and they say something: everywhere convexity is enough, and mostly elsewhere
        share = np.isfinite(np.array(both)[:, 0]).mean()
        assert share == 1.0 if "ridge" in family or "+b" not in family else share > 0.2
