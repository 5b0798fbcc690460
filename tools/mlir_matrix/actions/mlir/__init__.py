"""MLIR inside an environment: bindings, programs and the interface of kernels."""
