"""mlir-matrix: does this framework, through this pipeline, on this target, still give the right answer?"""

import sys

if "matrix_bytecode" in sys._xoptions:
    # Before anything is imported that may be damaged.
    from mlir_matrix.actions.runtime import bytecode

    bytecode.keep_as_told()

__version__ = "0.1.0"
