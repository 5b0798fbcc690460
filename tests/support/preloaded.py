"""What the process has that :mod:`support.fork_server` starts: the program, but for what few verbs import and what needs NumPy."""

import gc
import pkgutil
import sys
from contextlib import suppress
from importlib import import_module

import mlir_matrix
import mlir_matrix.cli.main

sys.dont_write_bytecode = False
_OMITTED = ("actions", "bazel", "buildbot", "compare", "containers", "history")
# It starts threads, which no fork has.
sys.modules["numpy"] = None  # type: ignore[assignment]
for _room in pkgutil.iter_modules(mlir_matrix.__path__, "mlir_matrix."):
    # A module alone is for another program: lit, which is not here.
    if _room.ispkg and _room.name.removeprefix("mlir_matrix.") not in _OMITTED:
        for _module in pkgutil.walk_packages(import_module(_room.name).__path__, f"{_room.name}."):
            with suppress(ImportError):
                import_module(_module.name)
del sys.modules["numpy"]
gc.collect()
gc.freeze()
