"""mlir-matrix: does this framework, through this pipeline, on this target, still give the right answer?"""

from mlir_matrix.actions.runtime import bytecode

# Before anything is imported that may be damaged.
bytecode.keep_as_told()

__version__ = "0.1.0"
