"""Run ``matrix`` as builds of Buildbot: a ``master.cfg`` imports this, and nothing else of the program does.

One build runs ``matrix run`` once. What it reports becomes a step for each cell, while it runs.
"""

from mlir_matrix.buildbot.config import BisectFactory, MatrixFactory, configure

__all__ = ["BisectFactory", "MatrixFactory", "configure"]
