"""Make a program of a function that checks its own results: its constants become inputs, what it checks becomes outputs.

Checks are operations of the dialects ``check`` of StableHLO and of IREE, which no package of bindings has, or StableHLO's custom
calls ``@check.expect_…``. They are replaced in the text by operations that every release parses, and taken out afterwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action, ActionFailed, Expected

Array = numpy.ndarray[Any, Any]

#: By MLIR's element type: our dtype, and how its elements are stored.
DTYPES = {
    "f64": ("f64", "<f8"), "f32": ("f32", "<f4"), "f16": ("f16", "<f2"), "bf16": ("bf16", "<u2"),
    "complex<f64>": ("c128", "<c16"), "complex<f32>": ("c64", "<c8"), "i1": ("bool", "?"),
    **{f"{sign}{bits}": (f"{sign[0]}{bits}", f"<{sign[0]}{bits // 8}") for sign in ("i", "ui") for bits in (8, 16, 32, 64)},
}  # fmt: skip
#: By dtype: the integer with the same bits, the number of these bits for a sign, and the parts of complex numbers.
BITS = {"f64": "<u8", "f32": "<u4", "f16": "<u2", "bf16": "<u2"}
PARTS = {"c128": "f64", "c64": "f32"}

TENSOR = r"tensor ?<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>"
ELEMENTS = r'(?:"[^"]*"|[^>"])*'
DENSE = f"dense<{ELEMENTS}>"
OPTIONS = r"(?:\s*,\s*\w+\s*=?\s*[0-9][0-9.eE+-]*)*"
#: A check of a value against a constant (in the forms of both dialects and in generic form), one of two values, and constants
#: that IREE does not fold.
CONST_CHECK = re.compile(
    rf'"?check\.(\w+?)_const"?\s*\(?\s*(%[\w#]+)\s*[,)]\s*(?:<\{{value = )?({DENSE})\s*:\s*({TENSOR})({OPTIONS})'
    rf"(?:\s*\)\s*:\s*({TENSOR})|\s*\}}>[^\n]*|\s*\{{([^}}\n]*)\}})?"
)
VALUE_CHECK = re.compile(
    rf"check\.(expect_eq|expect_almost_eq|expect_close)\s*\(?\s*(%[\w#]+)\s*,\s*(%[\w#]+)({OPTIONS})\s*\)?\s*:\s*({TENSOR})"
    rf"(?:\s*,\s*{TENSOR})?"
)
UNFOLDABLE = re.compile(rf"util\.unfoldable_constant\s+({DENSE})\s*:\s*({TENSOR})")
BARRIER = re.compile(rf"util\.optimization_barrier (%[\w#]+) : ({TENSOR})")
#: A constant whose sizes IREE hides.
RESIZED = re.compile(rf"(%\w+) = flow\.tensor\.dynamic_constant\s+({DENSE})\s*:\s*({TENSOR})\s*->\s*({TENSOR})")
UNFOLDABLE_SCALAR = re.compile(r"util\.unfoldable_constant(?=\s+[\w.+-]+\s*:\s*\w+)")
#: The elements of a constant as MLIR prints them in an operation. The bindings cannot give those of complex numbers.
VALUE = re.compile(rf"dense<({ELEMENTS})> : tensor<((?:\d+x)*)((?:[^<>]|<[^<>]*>)*)>")
SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)
#: The operations that hold constants; the first ones of these that a function has become inputs.
CONSTANTS = ("util.unfoldable_constant", "stablehlo.constant")
HOLDERS = (*CONSTANTS, "arith.constant", "tosa.const")
#: Operations whose operands may be sizes, which compilers need to know.
NEED_CONSTANTS = re.compile(r"dynamic|bounded|stablehlo.composite")


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check of a value, and the bound that it has: ``ulps``, or ``atol`` and ``rtol``, all 0 if elements must be equal."""

    value: Any
    expected: str
    kind: str
    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0


def prepare(action: Action, name: str) -> None:
    """Write the program of the function ``name`` in ``source``, its interface, its arguments and what is expected."""
    source = action.inputs["source"]
    text = _chunk(api.read_text(source, "the file"), name)
    options: list[tuple[str, str]] = []
    with api.bindings.load().session() as session:
        # The context is that of the next action, too.
        session.context.allow_unregistered_dialects = True
        try:
            Path("source.mlir").write_text(_parsable(text, options), encoding="utf-8")
            module = session.parse("source.mlir", "the file")
            function = _functions(module).get(name)
            if function is None:
                raise ActionFailed(f"the file has no function @{name} without arguments")
            program = Program(session, module, function, options)
            inputs, checks = program.inputs(), program.checks()
            arguments = [_argument(at, value) for at, value in enumerate(inputs)]
            expected = [_expected(at, check) for at, check in enumerate(checks)]
            program.close([check.value for check in checks])
            written = session.text(module)
        except ActionFailed as error:
            diagnostics = str(error.diagnostics or "").replace("source.mlir", source)
            raise ActionFailed(error.reason.replace("source.mlir", source), diagnostics=diagnostics) from None
        finally:
            session.context.allow_unregistered_dialects = False
    api.write_prepared(action, written, arguments, expected)


def _chunk(text: str, name: str) -> str:
    """Return the part of a file that is split at ``// -----`` which has the function, at its own lines."""
    function = re.compile(rf"^[ \t]*func\.func\s+(?:\w+\s+)?@{re.escape(name)}(?![\w$.-])", re.MULTILINE)
    places = [match.start() for match in function.finditer(text)]
    if not places:
        raise ActionFailed(f"the file has no function @{name}")
    if len(places) > 1:
        lines = " and ".join(str(text.count("\n", 0, place) + 1) for place in places)
        raise ActionFailed(f"the file has several functions @{name}, at lines {lines}; give each a name of its own")
    separators = list(SEPARATOR.finditer(text))
    begin = max((each.end() for each in separators if each.end() <= places[0]), default=0)
    end = min((each.start() for each in separators if each.start() > places[0]), default=len(text))
    return "\n" * text.count("\n", 0, begin) + text[begin:end]


def _parsable(text: str, options: list[tuple[str, str]]) -> str:
    """Replace checks and unfoldable constants by operations in generic form; ``options`` gets the words of each check."""

    def against_constant(found: re.Match[str]) -> str:
        options.append((found[1], found[5] + (found[7] or "")))
        checked = found[6] or found[4]
        return f'"check.{len(options) - 1}"({found[2]}) {{value = {found[3]} : {found[4]}}} : ({checked}) -> ()'

    def against_value(found: re.Match[str]) -> str:
        options.append((found[1], found[4]))
        return f'"check.{len(options) - 1}"({found[2]}, {found[3]}) : ({found[5]}, {found[5]}) -> ()'

    text = CONST_CHECK.sub(against_constant, text)
    text = VALUE_CHECK.sub(against_value, text)
    text = UNFOLDABLE_SCALAR.sub("arith.constant", text)
    text = BARRIER.sub(r'"util.optimization_barrier"(\1) : (\2) -> \2', text)
    text = RESIZED.sub(r"\1.known = util.unfoldable_constant \2 : \3 \1 = tensor.cast \1.known : \3 to \4", text)
    return UNFOLDABLE.sub(r'"util.unfoldable_constant"() {value = \1 : \2} : () -> \2', text)


def _functions(module: Any) -> dict[str, Any]:
    return {
        each.attributes["sym_name"].value: each for each in module.body.operations if each.operation.name == "func.func"
    }


class Program:
    """A function that becomes ``@main``."""

    def __init__(self, session: Any, module: Any, function: Any, options: Sequence[tuple[str, str]]) -> None:
        self._ir, self._module, self._function = session.bindings.ir, module, function
        self._options = options
        if len(list(function.operation.regions[0].blocks)) != 1:
            raise ActionFailed("the function has several blocks, so its checks are not all reached")
        (self._block,) = function.operation.regions[0].blocks
        if len(self._block.arguments):
            raise ActionFailed("the function takes arguments, of which nothing is known")

    def _operations(self) -> list[Any]:
        return [each.operation for each in self._block.operations]

    def inputs(self) -> list[str]:
        """Make arguments of constants; return their values."""
        found: list[str] = []
        for operation in [each for each in self._operations() if each.name == "util.optimization_barrier"]:
            operation.results[0].replace_all_uses_with(operation.operands[0])
            operation.erase()
        called = [each for each in self._operations() if _callee(each) == "inputs"]
        for operation in called:
            for result, value in zip(operation.results, self._returned("inputs"), strict=True):
                found.append(self._take(result, value))
            operation.erase()
        if called:
            return found
        present = {each.name for each in self._operations()}
        name = next((each for each in CONSTANTS if each in present), "")
        for operation in [each for each in self._operations() if each.name == name]:
            if name == "stablehlo.constant" and self._is_needed(operation):
                continue
            found.append(self._take(operation.results[0], str(operation)))
            operation.erase()
        return found

    def _is_needed(self, constant: Any) -> bool:
        """Return whether an operation needs to know a constant, or a check compares with it."""
        users = [use.owner.operation for use in constant.results[0].uses]
        return any(NEED_CONSTANTS.search(each.name) or _check_of(each) for each in users)

    def _take(self, result: Any, value: str) -> str:
        """Put an argument in the place of a result."""
        argument = self._block.add_argument(result.type, self._ir.Location.unknown())
        result.replace_all_uses_with(argument)
        return value

    def _returned(self, name: str) -> list[str]:
        """Return the constants that a function returns."""
        function = _functions(self._module).get(name)
        if function is None:
            raise ActionFailed(f"the file has no function @{name}")
        *_, end = function.operation.regions[0].blocks[0].operations
        return [self._constant(value, f"@{name}") for value in end.operation.operands]

    def _constant(self, value: Any, what: str) -> str:
        """Return a constant as text. Raise ActionFailed for what is computed."""
        owner = getattr(value.owner, "operation", value.owner)
        name = getattr(owner, "name", "an argument")
        if name not in HOLDERS:
            raise ActionFailed(f"{what} is computed, by {name}; only constants are known before a run")
        return str(owner)

    def checks(self) -> list[Check]:
        """Take the checks out of the function and return them."""
        found = []
        for operation in self._operations():
            target = _check_of(operation)
            if target:
                found.append(self._check(operation, target))
                operation.erase()
        if not found:
            raise ActionFailed("the function checks nothing, so nothing is expected")
        return found

    def _check(self, operation: Any, target: str) -> Check:
        """Return a check by its operation. One of two values is a constant, as a rule the second."""
        kind, words = self._options[int(target)] if target.isdigit() else (target, "")
        atol, rtol, ulps = tolerance(kind, words, custom_call=not target.isdigit())
        if len(operation.operands) == 1:
            value, expected = operation.operands[0], str(operation)
        else:
            value, other = sorted(operation.operands, key=self._is_known)
            expected = self._value(other)
        return Check(value=value, expected=expected, kind=kind, atol=atol, rtol=rtol, ulps=ulps)

    def _is_known(self, value: Any) -> bool:
        owner = getattr(value.owner, "operation", value.owner)
        return _callee(owner) == "expected" or getattr(owner, "name", "") in HOLDERS

    def _value(self, value: Any) -> str:
        """Return the elements of a constant, or of a result of ``@expected``."""
        owner = getattr(value.owner, "operation", value.owner)
        if _callee(owner) == "expected":
            return self._returned("expected")[int(value.result_number)]
        return self._constant(value, "what is expected")

    def close(self, results: Sequence[Any]) -> None:
        """Let the function return the results, call it ``@main``, and erase what it does not need."""
        ir, operation = self._ir, self._function.operation
        *_, end = self._block.operations
        with ir.InsertionPoint(end):
            ir.Operation.create("func.return", operands=results)
        end.erase()
        for each in reversed(self._operations()):
            if each.results and _callee(each) in ("inputs", "expected") and not any(list(r.uses) for r in each.results):
                each.erase()
        types = ir.FunctionType.get([each.type for each in self._block.arguments], [each.type for each in results])
        operation.attributes["function_type"] = ir.TypeAttr.get(types)
        for name in ("arg_attrs", "res_attrs", "sym_visibility"):
            if name in operation.attributes:
                del operation.attributes[name]
        self._erase_others()
        operation.attributes["sym_name"] = ir.StringAttr.get("main")
        left = list(_walk(self._module.operation))
        if any(each.name == "stablehlo.rng" for each in left):
            raise ActionFailed(
                "stablehlo.rng gives numbers that each compiler chooses, so the test's results are no reference"
            )
        foreign = sorted({each.name for each in left if not ir.Context.current.is_registered_operation(each.name)})
        if foreign:
            raise ActionFailed(f"the function has operations of other dialects: {', '.join(foreign[:3])}")

    def _erase_others(self) -> None:
        """Erase the functions that the program does not call."""
        functions = _functions(self._module)
        own = self._function.attributes["sym_name"].value
        needed, left = {own}, [own]
        while left:
            words = set(re.findall(r"@([\w.]+)", str(functions[left.pop()])))
            called = words & functions.keys() - needed
            needed |= called
            left += called
        for name, function in functions.items():
            if name not in needed:
                function.operation.erase()


def _walk(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region:
            for each in block:
                yield each.operation
                yield from _walk(each.operation)


def _callee(operation: Any) -> str:
    return operation.attributes["callee"].value if getattr(operation, "name", "") == "func.call" else ""


def _check_of(operation: Any) -> str:
    """Return which check an operation is: its number among those replaced, or the name of a custom call."""
    operation = operation.operation
    if operation.name.startswith("check."):
        return str(operation.name).removeprefix("check.")
    if operation.name != "stablehlo.custom_call":
        return ""
    target = str(operation.attributes["call_target_name"].value)
    return target.removeprefix("check.") if target.startswith("check.") else ""


def tolerance(kind: str, words: str, *, custom_call: bool) -> tuple[float, float, int]:
    """Return ``atol``, ``rtol`` and units in the last place that a check allows: stated ones, else its own defaults.

    Those of custom calls are StableHLO's interpreter's (StablehloTranslateMain.cpp), of operations those of both dialects.
    """
    stated = {name: float(value) for name, value in re.findall(r"(\w+)(?:\s*=\s*|\s+)([0-9][0-9.eE+-]*)", words)}
    if kind == "expect_close":
        return 0.0, 0.0, 3 if custom_call else int(stated.get("max_ulp_difference", 1))
    if kind == "expect_almost_eq":
        return stated.get("tolerance", stated.get("atol", 1e-3 if custom_call else 1e-4)), stated.get("rtol", 0.0), 0
    return (1e-4 if kind == "eq" else 0.0), 0.0, 0


def _argument(at: int, value: str) -> tuple[dict[str, Any], str]:
    declared, array = _declared(f"x{at}", "an input", value)
    return {**declared, "dynamic": []}, _save(f"argument-{at}.npy", array)


def _expected(at: int, check: Check) -> Expected:
    """Write what is expected, and the bound of each element."""
    declared, stored = _declared(f"y{at}", "an output", check.expected)
    if not stored.size:
        raise ActionFailed("an output has no elements, so nothing can be compared", diagnostics=declared["name"])
    dtype = declared["dtype"]
    if dtype not in BITS and dtype not in PARTS:
        return Expected(declared=declared, file=_save(f"expected-{at}.npy", stored))
    exact = stored.astype("<c16") if dtype in PARTS else decoded(stored, dtype)
    allowed = check.atol + check.rtol * numpy.abs(exact) + distance(stored, dtype, check.ulps)
    words = f"{check.ulps} units in the last place" if check.ulps else f"atol {check.atol:g}, rtol {check.rtol:g}"
    return Expected(
        declared=declared,
        file=_save(f"expected-{at}.npy", exact),
        bound=_save(f"bound-{at}.npy", numpy.broadcast_to(allowed, exact.shape)),
        rationale=f"given by the test: {check.kind}, {words}",
    )


def decoded(stored: Array, dtype: str) -> Array:
    """Return stored elements in double."""
    if dtype == "bf16":
        return (stored.astype("<u4") << numpy.uint32(16)).view("<f4").astype("<f8")
    return stored.astype("<f8")


def distance(stored: Array, dtype: str, ulps: int) -> Array:
    """Return how far the number is that lies ``ulps`` numbers beyond each one; of complex numbers in the plane."""
    if dtype in PARTS:
        parts = (distance(numpy.array(part, order="C"), PARTS[dtype], ulps) for part in (stored.real, stored.imag))
        return numpy.hypot(*parts)
    bits = stored.view(BITS[dtype])
    size = bits & bits.dtype.type(numpy.iinfo(bits.dtype).max >> 1)
    beyond, own = (decoded(each.view(stored.dtype), dtype) for each in (size + bits.dtype.type(ulps), size))
    with numpy.errstate(invalid="ignore"):
        # Beyond the largest number: the tolerance of the layer holds. The bound of NaN is never read.
        return numpy.where(numpy.isfinite(own), beyond - own, 0.0)


def _declared(name: str, what: str, value: str) -> tuple[dict[str, Any], Array]:
    """Return a declaration and the elements of a constant. Raise ActionFailed for what kernels do not take."""
    found = VALUE.search(value)
    if found is None:
        raise ActionFailed(f"{what} is no constant with elements: {value[:80]}")
    elements, sizes, kind = found.groups()
    if kind not in DTYPES:
        raise ActionFailed(f"{what} is of {kind}, which is no dtype here")
    dtype, storage = DTYPES[kind]
    shape = [int(size) for size in sizes.split("x") if size]
    array = _elements(elements, dtype, numpy.dtype(storage), math.prod(shape))
    return {"name": name, "shape": shape, "dtype": dtype}, array.reshape(shape)


def _elements(text: str, dtype: str, storage: numpy.dtype[Any], count: int) -> Array:
    """Return the elements of ``dense<text>``, as stored: of one element all that there are, or each."""
    if text.startswith('"'):
        data = bytes.fromhex(text.strip('"')[2:])
        if dtype == "bool" and len(data) == -(-count // 8):
            return numpy.unpackbits(numpy.frombuffer(data, "u1"), count=count, bitorder="little").astype("?")
        found = numpy.frombuffer(data, storage)
    else:
        words = re.findall(r"[^][(),\s]+", text)
        parts = PARTS.get(dtype, dtype)
        found = _numbers(words, parts)
        found = found.view(storage) if dtype in PARTS else found
    return numpy.broadcast_to(found, count) if found.size == 1 else found


def _numbers(words: Sequence[str], dtype: str) -> Array:
    """Return numbers as stored: decimal ones, and floating-point ones as their bits in hexadecimal."""
    if dtype == "bool":
        return numpy.array([word == "true" for word in words])
    if dtype not in BITS:
        return numpy.array([int(word, 0) for word in words], dtype=f"<{dtype[0]}{int(dtype[1:]) // 8}")
    bits = BITS[dtype]
    known: Array = numpy.array([0.0 if word.startswith("0x") else float(word) for word in words])
    if dtype == "bf16":
        # To nearest even, by way of f32, which has every decimal number that MLIR prints for a bf16.
        wide = known.astype("<f4").view("<u4")
        stored: Array = ((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16).astype(bits)
    else:
        stored = known.astype(f"<f{int(dtype[1:]) // 8}").view(bits)
    for place, word in enumerate(words):
        if word.startswith("0x"):
            stored[place] = int(word, 16)
    return stored if dtype == "bf16" else stored.view(f"<f{int(dtype[1:]) // 8}")


def _save(path: str, array: Array) -> str:
    # Not ascontiguousarray, which makes a vector of a scalar.
    numpy.save(path, numpy.array(array, order="C"))
    return path
