"""Co-component ERM: the minimiser of every mixture's risk, all mixtures together.

Solvers share one call, `solve(components, rows, alpha) -> w`: α (M, Q, N+1) weighs the N sources and, in the last
column, the target's own block (whose row weights may hold out a fold per q); w is (M, Q, P).
"""

from cuvee.erm.solver import solve

__all__ = ["solve"]
