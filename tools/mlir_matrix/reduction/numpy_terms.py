"""Write NumPy's text for values of MLIR: types, constants, names, lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from mlir_matrix.base.errors import MatrixError
from mlir_matrix.reduction.constants import elements_of
from mlir_matrix.reduction.tree import Value

#: The types of elements that arrays have here: by MLIR's name, NumPy's. Floating point is computed in double.
DTYPES = {"f64": "np.float64", "f32": "np.float64", "f16": "np.float64", "bf16": "np.float64", "i1": "bool",
          "i8": "np.int8", "i16": "np.int16", "i32": "np.int32", "i64": "np.int64", "index": "np.int64"}  # fmt: skip
#: Digits of the significand.
DIGITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
#: A size that only the run knows, and its form before release 16.
DYNAMIC = (-(2**63), -1)
#: What the text defines before ``reference`` if it uses it: name to definition.
HELPERS = {
    "erf": "erf = np.vectorize(math.erf, otypes=[np.float64])",
    "erfc": "erfc = np.vectorize(math.erfc, otypes=[np.float64])",
    "real": '''def real(x):
    """Convert to floating point."""
    return np.ones(np.shape(x)) * x''',
    "bf16": '''def bf16(x):
    """Round to bf16, which has 8 digits."""
    exponent = np.searchsorted(2.0 ** np.arange(-126, 128), np.abs(x), side="right") - 127
    unit = 2.0 ** (np.maximum(exponent, -126) - 7)
    return np.rint(x / unit) * unit''',
    **{
        f"f{bits}": f'''def f{bits}(x):
    """Round to f{bits}."""
    return x.astype(np.float{bits}).astype(np.float64)'''
        for bits in (16, 32)
    },
    "whole": '''def whole(x, dtype):
    """Convert to integers. Raise ArithmeticError if one does not fit."""
    limits = np.iinfo(dtype)
    if not np.all((x > limits.min - 1.0) & (x < limits.max + 1.0)):
        raise ArithmeticError("an integer cannot hold the number")
    return x.astype(dtype)''',
    "quotient": '''def quotient(a, b):
    """Divide integers, rounded to 0. Raise FloatingPointError for a division by 0."""
    with np.errstate(all="raise"):
        return (a - np.fmod(a, b)) // b''',
    "remainder": '''def remainder(a, b):
    """Return what is left of a division that rounds to 0. Raise FloatingPointError for a division by 0."""
    with np.errstate(all="raise"):
        return np.fmod(a, b)''',
    "within": '''def within(index, size):
    """Return the index. Raise IndexError if it is negative or beyond the size."""
    if np.any((index < 0) | (index >= size)):
        raise IndexError("an index is out of bounds")
    return index''',
}  # fmt: skip
_TENSOR = re.compile(r"tensor<((?:(?:\d+|\?)x)*)(\w+)>")
_RESOURCE = re.compile(r"dense_resource<([^>]*)>")


class Untranslatable(MatrixError):
    """A program has no reference in NumPy. The message names the first operation in the way."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """What stands for a value: the text of a name or a number, safe as an operand.

    In the body of a structured operation, ``span`` has the loops along which it varies; its axes are those of the loops, the
    first ones perhaps absent, and it is a number if it varies along none.
    """

    text: str
    element: str
    #: The sizes of a tensor, as text.
    dims: tuple[str, ...] = ()
    #: Whether it is the text of a constant number.
    literal: bool = False
    #: Whether the text is that of a number, which all elements of the tensor are.
    splat: bool = False
    span: frozenset[int] = frozenset()

    @property
    def typed(self) -> str:
        """The text of an array or of a number with a dtype."""
        if not self.literal:
            return self.text
        if self.element in DIGITS:
            # Numbers that an array with error bounds does not know have no error.
            return f"np.full((), {self.text})"
        return f"{'np.bool_' if self.element == 'i1' else DTYPES[self.element]}({self.text})"


@dataclass(kw_only=True)
class Writer:
    """The lines of a function so far, and the term of each value."""

    #: The widest floating-point type of the function's results: what is narrower is rounded.
    widest: str
    lines: list[str] = field(default_factory=list)
    terms: dict[Value, Term] = field(default_factory=dict)
    indent: str = "    "
    #: The first letters of names that no input has.
    prefix: str = "t"
    loop_prefix: str = "d"
    #: Of the structured operation that is written: loops that are axes, with their sizes, and those whose index has a name.
    loops: dict[int, str] = field(default_factory=dict)
    indexed: set[int] = field(default_factory=set)
    #: In a branch that is computed for all loops at once: where it is taken.
    taken: Term | None = None
    _names: int = 0

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def name(self) -> str:
        self._names += 1
        return f"{self.prefix}{self._names}"

    def define(self, text: str, element: str, dims: Sequence[str] = (), span: frozenset[int] = frozenset()) -> Term:
        """Give an expression a name."""
        name = self.name()
        self.line(f"{name} = {text}")
        return Term(text=name, element=element, dims=tuple(dims), span=span)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write what follows inside ``for`` or ``if``."""
        outside = self.indent
        self.line(head)
        self.indent += "    "
        yield
        self.indent = outside

    def enter(self, loops: Mapping[int, str]) -> None:
        """Begin a structured operation."""
        self.loops = dict(loops)
        self.indexed = set()

    def array(self, value: Value) -> Term:
        """Return a value as an array: a splat gets all its elements."""
        term = self.terms[value]
        if not term.splat:
            return replace(term, text=term.typed, literal=False)
        if not term.literal:
            return self.define(f"np.broadcast_to({term.text}, {tuple_of(term.dims)})", term.element, term.dims)
        dtype = "" if term.element in DIGITS else f", {DTYPES[term.element]}"
        return self.define(f"np.full({tuple_of(term.dims)}, {term.text}{dtype})", term.element, term.dims)

    def narrow(self, element: str) -> bool:
        """Return whether a type is rounded: it has fewer digits than the results."""
        return DIGITS.get(element, 99) < DIGITS.get(self.widest, 0)


def tuple_of(texts: Sequence[str]) -> str:
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def type_of(text: str) -> tuple[tuple[str, ...], str]:
    """Return the sizes (``?`` if only the run knows one) and the element of a type. Raise Untranslatable for others."""
    found = _TENSOR.fullmatch(text)
    sizes, element = (found[1], found[2]) if found else ("", text)
    if element not in DTYPES:
        raise Untranslatable(f"there is no NumPy for the type {text}")
    return tuple(sizes.split("x")[:-1]), element


def dims_of(name: str, type_text: str) -> tuple[str, ...]:
    """Return the sizes of a tensor as text; those that only the run knows are asked of its array."""
    sizes, _ = type_of(type_text)
    return tuple(f"{name}.shape[{axis}]" if size == "?" else size for axis, size in enumerate(sizes))


def integers_of(text: str) -> list[int]:
    """Return the integers of an attribute: ``array<i64: 1, 2>``, ``dense<[1, 2]> : tensor<2xi64>``, ``[1 : i64]``, ``3 : i64``."""
    inside = re.sub(r"^array<\w+:?|^dense<|>?\s*:\s*(tensor|vector)<.*", "", text)
    return [int(each) for each in re.findall(r"-?\d+", re.sub(r":\s*\w+", "", inside))]


def constant(value: str, type_text: str, resources: Mapping[str, str]) -> Term | str:
    """Return the term of a constant's attribute, or the expression of an array whose elements differ. Raise Untranslatable."""
    sizes, element = type_of(type_text)
    resource = _RESOURCE.match(value)
    if resource is not None:
        # The first four bytes are the alignment.
        value = f'dense<"0x{resources.get(resource[1], "")[8:]}"> : {type_text}'
    found = elements_of(value)
    if found is None:
        raise Untranslatable(f"there is no NumPy for the constant {value[:60]}")
    texts = [literal(number, element) for number in found[0]]
    if len(texts) == 1:
        return Term(text=texts[0], element=element, dims=sizes, literal=True, splat=bool(sizes))
    text = f"np.array([{', '.join(texts)}], {DTYPES[element]})"
    if len(sizes) > 1:
        text += f".reshape{tuple_of(sizes)}"
    return f"real({text})" if element in DIGITS else text


def literal(number: float, element: str) -> str:
    """Return the text of a number as its type holds it: MLIR has only as many digits as the type needs."""
    if element not in DIGITS:
        return str(bool(number) if element == "i1" else int(number))
    if math.isnan(number):
        return "np.nan"
    if math.isinf(number):
        return "np.inf" if number > 0 else "-np.inf"
    mantissa, exponent = math.frexp(number)
    # Of a subnormal number, MLIR's text has digits that its type has not. Their effect is below all bounds.
    scale = 2.0 ** DIGITS[element]
    return repr(math.ldexp(round(mantissa * scale) / scale, exponent))
