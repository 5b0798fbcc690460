"""Common parts of importers: they read ``source``, check it against the workload's declaration, and write ``out``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from mlir_matrix.actions.contract import ActionFailed, under_test
from mlir_matrix.actions.params import Tensor

#: Sizes as an importer sees them; None is a dynamic one.
Shape = tuple[int | None, ...]


def load(path: str, function: str = "workload") -> Callable[..., Any]:
    """Return the function that a source file defines.

    Compile the file under its relative name, which tracebacks and locations then show. Do not import it: it is called ``jax.py``
    or ``onnx.py``, its folder must not hide the real packages, and Python must write nothing beside it.
    """
    module = ModuleType("workload_source")
    module.__file__ = path
    # Dataclasses and pickling look up their module by name.
    sys.modules[module.__name__] = module
    text = Path(path).read_bytes()
    with under_test():
        exec(compile(text, path, "exec"), module.__dict__)
        found = getattr(module, function, None)
    if not callable(found):
        raise ActionFailed(f"{Path(path).name} does not define the function {function}")
    return found  # type: ignore[no-any-return]


def check_arguments(function: Callable[..., object], inputs: Sequence[Tensor]) -> None:
    """Raise ActionFailed unless the parameters have the names of the inputs, which are passed by position."""
    try:
        with under_test():
            signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    parameters = signature.parameters.values()
    if any(each.kind in (each.VAR_POSITIONAL, each.KEYWORD_ONLY, each.VAR_KEYWORD) for each in parameters):
        try:
            signature.bind(*inputs)
        except TypeError as error:
            raise ActionFailed(f"the source does not take {len(inputs)} arguments in order: {error}") from None
        return
    check_names("inputs", [tensor["name"] for tensor in inputs], [each.name for each in parameters])


def check_names(what: str, declared_names: Sequence[str], names: Sequence[str]) -> None:
    """Raise ActionFailed unless names and order are those of ``workload.yaml``."""
    if list(declared_names) != list(names):
        raise ActionFailed(f"declared {what} ({', '.join(declared_names)}), the source has ({', '.join(names)})")


def check_outputs(outputs: Sequence[Tensor], got: Sequence[tuple[Shape | None, str]]) -> None:
    """Raise ActionFailed unless the results are those that the workload declares.

    ``got`` has the shape (None if it has none) and the dtype of each result. A dynamic size matches any size.
    """
    if len(outputs) != len(got):
        raise ActionFailed(f"declared {_count(len(outputs))}, got {_count(len(got))}")
    wrong = [
        f"output {output['name']}: declared {text_of(output['shape'], output['dtype'])}, got {text_of(shape, dtype)}"
        for output, (shape, dtype) in zip(outputs, got, strict=True)
        if dtype != output["dtype"] or not _agree(output["shape"], shape)
    ]
    if wrong:
        raise ActionFailed(wrong[0], diagnostics="\n".join(wrong))


def name_of(dtypes: Mapping[str, object], dtype: object) -> str:
    """Return our name of a framework's dtype, or the framework's name if we have none."""
    return next((name for name, value in dtypes.items() if value == dtype), str(dtype))


def _agree(declared_shape: Sequence[int], shape: Shape | None) -> bool:
    return (
        shape is not None
        and len(declared_shape) == len(shape)
        and all(size is None or size == want for want, size in zip(declared_shape, shape, strict=True))
    )


def text_of(shape: Sequence[int | None] | None, dtype: str) -> str:
    """Return a type as text: ``f32[8, ?]``, or only the dtype if the shape is unknown."""
    return dtype if shape is None else f"{dtype}[{', '.join('?' if size is None else str(size) for size in shape)}]"


def _count(number: int) -> str:
    return f"{number} output" if number == 1 else f"{number} outputs"
