"""mlir-matrix: does this framework, through this pipeline, on this target, still give the right answer?"""

__version__ = "0.1.0"
