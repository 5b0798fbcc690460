"""What the Python file of a catalog's tool may import from this program; docs/writing-a-tool.md describes it.

Names stay as they are while ``VERSION`` stays. A file that needs more than this belongs into the package.
"""

from __future__ import annotations

from typing import Any

from mlir_matrix.actions import contract
from mlir_matrix.actions.contract import (
    ActionCrashed,
    ActionFailed,
    MachineFailed,
    last_words,
    read_text,
    under_test,
    write_json,
    write_verdict,
)
from mlir_matrix.actions.mlir import bindings
from mlir_matrix.actions.mlir.backend import backend_of
from mlir_matrix.actions.mlir.by_programs import uncontracted
from mlir_matrix.actions.mlir.interface import complaints, refuse
from mlir_matrix.actions.numerics.formats import FRAMEWORK_NAMES
from mlir_matrix.actions.params import Tensor
from mlir_matrix.actions.runtime import gpu_program
from mlir_matrix.actions.runtime.driver import check_written, driver_arguments, judge
from mlir_matrix.actions.runtime.gpu_device import GpuDevice
from mlir_matrix.actions.runtime.memrefs import call_main, storage_type
from mlir_matrix.actions.runtime.other_loader import run_with_libraries
from mlir_matrix.actions.runtime.prepared import Expected, pack, write_prepared
from mlir_matrix.actions.runtime.programs import check_started, clean, library, sanitizer_of, variables_of
from mlir_matrix.actions.runtime.programs import command as command_of
from mlir_matrix.actions.runtime.programs import execute as run_program
from mlir_matrix.actions.runtime.referenced import write_referenced
from mlir_matrix.actions.runtime.source import (
    Shape,
    check_arguments,
    check_names,
    check_outputs,
    load,
    name_of,
    text_of,
)
from mlir_matrix.actions.runtime.timing import timed, timed_by

#: Raised when a name changes its meaning or goes.
VERSION = 1

Action = contract.Action[Any]

__all__ = [
    "FRAMEWORK_NAMES",
    "VERSION",
    "Action",
    "ActionCrashed",
    "ActionFailed",
    "Expected",
    "GpuDevice",
    "MachineFailed",
    "Shape",
    "Tensor",
    "backend_of",
    "bindings",
    "call_main",
    "check_arguments",
    "check_names",
    "check_outputs",
    "check_started",
    "check_written",
    "clean",
    "command_of",
    "complaints",
    "driver_arguments",
    "gpu_program",
    "judge",
    "last_words",
    "library",
    "load",
    "name_of",
    "pack",
    "read_text",
    "refuse",
    "run_program",
    "run_with_libraries",
    "sanitizer_of",
    "storage_type",
    "text_of",
    "timed",
    "timed_by",
    "uncontracted",
    "under_test",
    "variables_of",
    "write_json",
    "write_prepared",
    "write_referenced",
    "write_verdict",
]
