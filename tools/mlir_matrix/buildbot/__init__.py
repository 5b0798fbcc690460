"""Run ``matrix`` as builds of Buildbot. Only a ``master.cfg`` imports this package.

One build runs ``matrix run`` once. While it runs, its events become a step for each cell.
"""

from mlir_matrix.buildbot.config import BisectFactory, JobFactory, MatrixFactory, configure

__all__ = ["BisectFactory", "JobFactory", "MatrixFactory", "configure"]
