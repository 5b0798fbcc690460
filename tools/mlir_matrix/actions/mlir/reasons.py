"""Say in one sentence which operation MLIR does not lower, with its constants and the operation that it comes from."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from mlir_matrix.actions.mlir import generic_form
from mlir_matrix.actions.runtime.programs import NO_PATTERN, shortened

#: A reason is at most this long; what is left out stands in the diagnostics.
_LIMIT = 180
#: Constants, lists of them and casts fail in place of the operation that uses them.
_PLUMBING = re.compile(
    r"torch\.(?:constant\.|prim\.(?:List|Tuple)Construct|vtensor\.literal)|torch_c\.|builtin\.unrealized_conversion_cast"
    r"|(?:arith|tosa|stablehlo|mhlo)\.const|func\.|builtin\.module|ml_program\."
)
_FAILED = re.compile(NO_PATTERN.format(r"'([\w.$]+)'"))
#: As ``mlir-opt`` and the bindings print it; the latter write ``loc("in/ir.mlir":3:5)``.
_PLACE = re.compile(r'"?([^\s"()]+)"?:(\d+):\d+')
_FIRST_ERROR = re.compile(r"^([^\s:]+:\d+:\d+): error: (.*)", re.MULTILINE)
_LIVE_USER = re.compile(r'see existing live user here: ((?:%[^="\n]+ = )?"?([\w.$]+).*)')
_STATEMENT = re.compile(r'^\s*(?:%[^="\n]+ = )?"?([a-z_]\w*\.[\w.$]+)"?(.*)')
_GENERIC = re.compile(r'(?:%[^="\n]+ = )?"([\w.$]+)"(?=\()')
#: Values of attributes that are worth their place: numbers, words, short lists of them.
_PLAIN = re.compile(r'-?[\w.+"][\w.+" -]*|\[[\w.+", -]*\]')
#: Types of torch-mlir's operands that are no tensors.
_NUMBERS = re.compile(r"!torch\.(?:list<)?(?:int|bool|float|number)>?")
_DOUBLE = re.compile(r"-?\d\.\d+e[+-]\d\d")
_TIDY = (
    (re.compile(r"^dense<(.*)> : .*"), r"\1"),
    (re.compile(r"^array<\w+(?:: )?(.*)>$"), r"[\1]"),
    (re.compile(r" : [a-z]\w*\b"), ""),
)  # fmt: skip


def by_text(said: str) -> str:
    """Return a sentence on the first error of what ``mlir-opt`` printed; empty if it has no place."""
    found = _FIRST_ERROR.search(said)
    if found is None:
        return ""
    generic = _GENERIC.search(found[2])
    user = _LIVE_USER.search(said)
    line = shortened(found[2])
    failed = _FAILED.search(line)
    if failed and user and _PLUMBING.match(failed[1]):
        return sentence(line.replace(f"'{failed[1]}'", f"'{user[2]}'"), user[1], found[1])
    return sentence(line, found[2][generic.start() :] if generic else "", found[1])


def by_module(ir: Any, module: Any, message: str, location: str) -> str:
    """Return a sentence on an error that has a location, from the module as the failed pass left it."""
    line = shortened(message)
    failed = _FAILED.search(line)
    operation = _in_the_way(module, failed[1], location) if failed else None
    if failed is None or operation is None:
        generic = _GENERIC.search(message) if failed else None
        return sentence(line, message[generic.start() :] if generic else "", location)
    line = line.replace(f"'{failed[1]}'", f"'{_called(operation)}'")
    printed = str(operation.get_asm(print_generic_op_form=True, large_elements_limit=8, use_local_scope=True))
    return sentence(line, printed, str(operation.location), list(_constants(ir, operation)))


def sentence(line: str, generic: str, location: str, constants: Sequence[str] = ()) -> str:
    """Add to an error what an operation in generic form has, as far as there is room, and what its location says."""
    failed = _FAILED.search(line)
    if failed and _PLUMBING.match(failed[1]):
        line = line.replace(failed[0], f"'{failed[1]}' is left over")
    attributes, types = _parts(generic)
    origin = _origin(location)
    origin = f", from {origin}" if origin and origin not in line else ""
    room = _LIMIT - len(line) - len(origin)
    details = ""
    for each in [*constants, *attributes]:
        more = f"{details}, {each}" if details else each
        details = more if len(more) + 3 <= room else details
    details = f" ({details})" if details else ""
    shaped = ", ".join(dict.fromkeys(each for each in types if "tensor<" in each or "memref<" in each))
    on = f" on {shaped}" if shaped and len(details) + len(shaped) + 4 <= room else ""
    return f"{line}{details}{on}{origin}"


def _parts(generic: str) -> tuple[list[str], list[str]]:
    """Return the plain attributes of an operation and the types of its operands."""
    found = _GENERIC.match(generic)
    if found is None:
        return [], []
    attributes, types = generic_form.operation(generic[found.end() :])
    if found[1] == "torch.operator":
        attributes.pop("name", None)
    named = ((name.removeprefix("torch.onnx."), _tidy(name, text)) for name, text in attributes.items())
    return [f"{name} = {value}" for name, value in named if value], types


def _tidy(name: str, value: str) -> str:
    for pattern, text in _TIDY:
        value = pattern.sub(text, value)
    value = _DOUBLE.sub(lambda found: f"{float(found[0])}", value)
    plain = len(value) <= 40 and _PLAIN.fullmatch(value) and not value.startswith("0x")
    return value if plain and "egment" not in name else ""


def _origin(location: str) -> str:
    """Return the operation at a location in the file of the IR, in quotes, or the line of a Python file; else nothing."""
    found = _PLACE.search(location)
    if found is None:
        return ""
    path, number = found[1], int(found[2])
    if path.endswith(".py"):
        return f"line {number} of {os.path.basename(path)}"
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = next((line for at, line in enumerate(file, 1) if at == number), "")
    except OSError:
        return ""
    statement = _STATEMENT.match(text)
    known = statement and not _PLUMBING.match(statement[1])
    return f"'{_held(statement[1], statement[2])}'" if statement and known else ""


def _held(name: str, rest: str) -> str:
    """Return the operator of another dialect that a ``torch.operator`` holds, else the name."""
    held = re.search(r'"([\w.]+)"', rest) if name == "torch.operator" else None
    return held[1] if held else name


def _in_the_way(module: Any, name: str, location: str) -> Any:
    """Return the operation that failed, or the one that uses it where it only serves others; None if it is gone."""
    same = [each for each in walk(module.operation) if each.name == name]
    found = next((each for each in same if str(each.location) == location), same[0] if same else None)
    waiting, seen = [found] if found else [], set()
    while waiting:
        operation = waiting.pop(0)
        if not _PLUMBING.match(operation.name):
            return operation
        users = [use.owner.operation for result in operation.results for use in result.uses]
        waiting += [each for each in users if each not in seen]
        seen.update(users)
    return found


def walk(operation: Any) -> Iterator[Any]:
    """Yield an operation and all operations inside of it."""
    yield operation
    for region in operation.regions:
        for block in region.blocks:
            for each in block.operations:
                yield from walk(each.operation)


def _called(operation: Any) -> str:
    return _held(operation.name, str(operation.attributes["name"]) if "name" in operation.attributes else "")


def _constants(ir: Any, operation: Any) -> Iterator[str]:
    """Yield the operands that are constants, each with its name where one is known, else its position.

    Before them come those that must often be constants, and are not: numbers and lists of them.
    """
    names = _names(operation)
    called = [names[at].rstrip("_") if at < len(names) else f"operand {at}" for at in range(len(operation.operands))]
    values = [_value(ir, operand) for operand in operation.operands]
    for name, operand, value in zip(called, operation.operands, values, strict=True):
        if not value and _NUMBERS.fullmatch(str(operand.type)) and _is_computed(ir, operand):
            yield f"{name} is not constant"
    yield from (f"{name} = {value}" for name, value in zip(called, values, strict=True) if value)


def _is_computed(ir: Any, operand: Any) -> bool:
    """Return whether a number is no constant, or any number of a list."""
    owner = operand.owner
    if isinstance(owner, ir.Block):
        return True
    owner = owner.operation
    if owner.name == "torch.prim.ListConstruct":
        return any(_is_computed(ir, each) for each in owner.operands)
    return not owner.name.startswith("torch.constant.")


def _names(operation: Any) -> list[str]:
    """Return the names of operands in the dialect's bindings or, of an operator that torch-mlir does not know, in PyTorch."""
    if operation.name == "torch.operator":
        base, _, overload = _called(operation).removeprefix("torch.aten.").partition(".")
        packet = getattr(sys.modules["torch"].ops.aten, base, None) if "torch" in sys.modules else None
        schema = getattr(getattr(packet, overload or "default", None), "_schema", None)
        return [each.name for each in schema.arguments] if schema else []
    view = type(operation.opview)
    if view.__name__ == "OpView":
        # An operation of a dialect without bindings.
        return []
    names = [name for name, kind in vars(view).items() if isinstance(kind, property)]
    # Properties of operands come first, in order, where no operand is optional or variadic.
    return names if len(names) >= len(operation.operands) + len(operation.results) else []


def _value(ir: Any, operand: Any) -> str:
    """Return a constant or a list of constants as text; empty for None and for what is computed."""
    owner = operand.owner
    if isinstance(owner, ir.Block):
        return ""
    owner = owner.operation
    if owner.name == "torch.prim.ListConstruct":
        values = [_value(ir, each) for each in owner.operands]
        return f"[{', '.join(values)}]" if all(values) else ""
    return _tidy("value", str(owner.attributes["value"])) if "value" in owner.attributes else ""
