"""Minimise a mixture's ridge risk in rational arithmetic: nothing is rounded."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from math import isqrt, lcm

import mpmath
import numpy as np

DIGITS = 60  # of the steps that are proposed
STEPS = 4
LEFT = Fraction(1, 10**60)  # of the distance from the true minimiser


class Rational:
    """Hold w* of Σ_j α_j · mean ½(y − x·w − b)² + l2/2 ‖w‖², and measure others from there.

    Without an intercept b is 0, and so are x̄ and ȳ below. It is found around the mixture's mean, in one unknown a row: w = Σ_i a_i (x_i − x̄), where
    l2/p_i · a_i + Σ_k (x_i − x̄)·(x_k − x̄) a_k = y_i − ȳ. Arithmetic of 60 digits proposes the steps, and
    what is left of these equations is rational, so w* is known up to ‖∇‖/l2, which is checked.
    """

    def __init__(self, sources, alpha, l2, intercept=True):
        shares = [Fraction(float(a)) / s.n_rows for a, s in zip(alpha, sources, strict=True)]
        p = [share for share, s in zip(shares, sources, strict=True) for _ in range(s.n_rows)]
        kept = [i for i, share in enumerate(p) if share > 0]
        self.p, common = whole([p[i] for i in kept])
        self.l2, self.common = Fraction(float(l2)), common
        X, self.unit = whole(np.concatenate([s.X for s in sources])[kept])
        y, unit = whole(np.concatenate([s.y for s in sources])[kept])
        self.X, self.intercept, total = X, intercept, int(self.p.sum())
        mean, y_mean = (self.p @ X, int(self.p @ y)) if intercept else (0 * X[0], 0)
        self.scale = total * self.unit
        self.centred = total * X - mean  # times `scale`
        labels = total * y - y_mean  # times total · unit
        gram = self.centred @ self.centred.T  # times scale²
        context = mpmath.mp.clone()
        context.dps = DIGITS
        H = context.matrix(gram.tolist()) / self.scale**2
        for i, n in enumerate(self.p):
            H[i, i] += context.mpf(float(l2)) * common / int(n)
        a, past = [Fraction(0)] * len(kept), Fraction(0)
        for _ in range(STEPS):
            left = [
                Fraction(int(v), total * unit) - k - self.l2 * common / int(n) * one
                for v, k, n, one in zip(
                    labels, product(gram, a, self.scale**2), self.p, a, strict=True
                )
            ]
            # ∇ at w = Σ a_i (x_i − x̄) is −Σ p_i left_i (x_i − x̄)
            pushed = [Fraction(int(n), common) * v for n, v in zip(self.p, left, strict=True)]
            gradient = product(self.centred.T, pushed, self.scale)
            past = root(sum(g * g for g in gradient)) / self.l2
            if past <= LEFT:
                break
            step = context.lu_solve(
                H, context.matrix([[context.mpf(v.numerator) / v.denominator] for v in left])
            )
            a = [
                one + Fraction(int(context.ldexp(s, 600)), 1 << 600)
                for one, s in zip(a, step, strict=True)
            ]
        assert past <= LEFT, "refinement did not settle"
        self.w = product(self.centred.T, a, self.scale)
        self.b = Fraction(y_mean, total * unit) - sum(
            Fraction(int(m), self.scale) * v for m, v in zip(mean, self.w, strict=True)
        )

    def errors(self, w):
        """Return ‖w − w*‖, f(w) − f(w*) and ‖∇f(w)‖∞ of w (features and intercept), as floats."""
        features, b = (w[:-1], w[-1]) if self.intercept else (w, 0.0)
        away = [Fraction(float(v)) - best for v, best in zip(features, self.w, strict=True)]
        moved = Fraction(float(b)) - self.b
        distance = root(sum(v * v for v in away) + moved * moved)
        scores = [v + moved for v in product(self.X, away, self.unit)]
        risk = sum(int(n) * v * v for n, v in zip(self.p, scores, strict=True)) / self.common
        excess = (risk + self.l2 * sum(v * v for v in away)) / 2
        pulled = [Fraction(int(n), self.common) * v for n, v in zip(self.p, scores, strict=True)]
        slopes = product(self.X.T, pulled, self.unit)
        gradient = [g + self.l2 * v for g, v in zip(slopes, away, strict=True)]
        gradient += [sum(pulled)] if self.intercept else []
        return float(distance), float(excess), float(max(abs(g) for g in gradient))


def whole(numbers):
    """Return numbers as whole ones (an array of Python's), and what these were multiplied by."""
    exact = np.frompyfunc(Fraction, 1, 1)(np.asarray(numbers, dtype=object))
    unit = reduce(lcm, (v.denominator for v in exact.flat), 1)
    return np.frompyfunc(lambda v: v.numerator * (unit // v.denominator), 1, 1)(exact), unit


def product(A, x, unit):
    """Return A x / unit, for A of whole numbers and x of fractions."""
    numbers, common = whole(x)
    return [Fraction(int(v), common * unit) for v in A @ numbers]


def root(square):
    """Return the square root of a fraction, rounded up at its 100th digit."""
    if square == 0:
        return Fraction(0)
    scale = 1 << (2 * max(0, 400 - square.numerator.bit_length() + square.denominator.bit_length()))
    return Fraction(isqrt(square.numerator * scale // square.denominator) + 1, isqrt(scale))
