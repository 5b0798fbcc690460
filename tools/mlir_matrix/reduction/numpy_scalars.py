"""Translate operations on numbers (arith, math), which NumPy applies to all elements at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mlir_matrix.reduction.numpy_terms import DIGITS, DTYPES, Term, Untranslatable, Writer, literal, type_of
from mlir_matrix.reduction.tree import Operation, attribute

_SAME_NAMES = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sin", "cos", "tan", "sinh",
               "cosh", "tanh")  # fmt: skip
_ARC_NAMES = ("sin", "cos", "tan", "sinh", "cosh", "tanh")
#: Operations that round, on floating point.
_ROUNDED = {
    "arith.addf": "{0} + {1}",
    "arith.subf": "{0} - {1}",
    "arith.mulf": "{0} * {1}",
    "arith.divf": "{0} / {1}",
    "arith.remf": "{0} - np.trunc({0} / {1}) * {1}",
    "math.fma": "{0} * {1} + {2}",
    "math.powf": "np.power({0}, {1})",
    "math.fpowi": "np.power({0}, {1})",
    "math.rsqrt": "1.0 / np.sqrt({0})",
    "math.atan2": "np.arctan2({0}, {1})",
    "math.erf": "erf({0})",
    "math.erfc": "erfc({0})",
    **{f"math.{name}": f"np.{name}({{0}})" for name in _SAME_NAMES},
    **{f"math.a{name}": f"np.arc{name}({{0}})" for name in _ARC_NAMES},
}
_EXACT = {
    "arith.negf": "-{0}",
    **dict.fromkeys(("arith.maximumf", "arith.maxf"), "np.maximum({0}, {1})"),
    **dict.fromkeys(("arith.minimumf", "arith.minf"), "np.minimum({0}, {1})"),
    "arith.maxnumf": "np.fmax({0}, {1})",
    "arith.minnumf": "np.fmin({0}, {1})",
    "math.absf": "np.abs({0})",
    "math.floor": "np.floor({0})",
    "math.ceil": "np.ceil({0})",
    "math.trunc": "np.trunc({0})",
    "math.roundeven": "np.rint({0})",
    "math.round": "np.sign({0}) * np.floor(np.abs({0}) + 0.5)",
    "math.copysign": "np.where(np.signbit({1}), -np.abs({0}), np.abs({0}))",
    "math.isnan": "np.isnan({0})",
    "math.isinf": "np.isinf({0})",
    "math.isfinite": "np.isfinite({0})",
    "math.clampf": "np.minimum(np.maximum({0}, {1}), {2})",
}
_INTEGERS = {
    "arith.addi": "{0} + {1}",
    "arith.subi": "{0} - {1}",
    "arith.muli": "{0} * {1}",
    "arith.andi": "{0} & {1}",
    "arith.ori": "{0} | {1}",
    "arith.xori": "{0} ^ {1}",
    "arith.maxsi": "np.maximum({0}, {1})",
    "arith.minsi": "np.minimum({0}, {1})",
    "arith.divsi": "quotient({0}, {1})",
    "arith.remsi": "remainder({0}, {1})",
    "arith.floordivsi": "quotient({0} - np.mod({0}, {1}), {1})",
    "arith.ceildivsi": "quotient({0} + np.mod(-{0}, {1}), {1})",
    "arith.shli": "{0} << within({1}, {width})",
    "arith.shrsi": "{0} >> within({1}, {width})",
    "math.absi": "np.abs({0})",
}
#: Of unsigned numbers, which the operands are converted to.
_UNSIGNED = {
    "arith.divui": "quotient({0}, {1})",
    "arith.remui": "remainder({0}, {1})",
    "arith.maxui": "np.maximum({0}, {1})",
    "arith.minui": "np.minimum({0}, {1})",
    "arith.shrui": "{0} >> within({1}, {width})",
    "math.ctpop": "np.bitwise_count({0})",
}
#: Of one bit: as a signed number, true is -1.
_BITS = {
    **dict.fromkeys(("arith.addi", "arith.subi", "arith.xori"), "{0} ^ {1}"),
    **dict.fromkeys(("arith.muli", "arith.andi", "arith.minui", "arith.maxsi"), "{0} & {1}"),
    **dict.fromkeys(("arith.ori", "arith.maxui", "arith.minsi"), "{0} | {1}"),
}
#: By predicate. An operation whose name begins with u is true for NaN.
_FLOAT_COMPARISONS = (
    "np.zeros(np.shape({0}), bool)", "{0} == {1}", "{0} > {1}", "{0} >= {1}", "{0} < {1}", "{0} <= {1}",
    "({0} < {1}) | ({0} > {1})", "~(np.isnan({0}) | np.isnan({1}))", "~(({0} < {1}) | ({0} > {1}))",
    "~({0} <= {1})", "~({0} < {1})", "~({0} >= {1})", "~({0} > {1})", "{0} != {1}", "np.isnan({0}) | np.isnan({1})",
    "np.ones(np.shape({0}), bool)",
)  # fmt: skip
_COMPARISONS = ("{0} == {1}", "{0} != {1}", *("{0} < {1}", "{0} <= {1}", "{0} > {1}", "{0} >= {1}") * 2)
_UNSIGNED_COMPARISONS = 6
_CASTS = {
    "arith.extsi": "{0}.astype({to})",
    "arith.index_cast": "{0}.astype({to})",
    "arith.trunci": "{0}.astype({to})",
    "arith.extui": "{0}.astype({unsigned}).astype({to})",
    "arith.index_castui": "{0}.astype({unsigned}).astype({to})",
    "arith.sitofp": "real({0})",
    "arith.uitofp": "real({0}.astype({unsigned}))",
    "arith.fptosi": "whole({0}, {to})",
    "arith.fptoui": "whole({0}, {to_unsigned}).astype({to})",
}
_CASTS_OF_BITS = {
    "arith.extsi": "-{0}.astype({to})",
    "arith.index_cast": "-{0}.astype({to})",
    "arith.extui": "{0}.astype({to})",
    "arith.index_castui": "{0}.astype({to})",
    "arith.sitofp": "-real({0})",
    "arith.uitofp": "real({0})",
}


def translate(writer: Writer, one: Operation, given: Sequence[Term]) -> Term:
    """Write an operation on numbers. Raise Untranslatable for one that is not known."""
    _, element = type_of(one.results[0].type)
    if one.name == "arith.extf":
        return replace(given[0], element=element)
    if one.name == "arith.truncf" and given[0].literal:
        number = float(given[0].text.replace("np.", ""))
        return replace(given[0], text=literal(number, element), element=element)
    text = _expression(writer, one, given, element)
    rounds = one.name in _ROUNDED or one.name in ("arith.sitofp", "arith.uitofp")
    if (rounds and writer.narrow(element)) or one.name == "arith.truncf":
        text = f"{element}({text})"
    # It varies along all loops of its operands; outside of loops, it has the size of the largest.
    largest = max(given, key=lambda each: (bool(each.dims), not each.splat))
    span = frozenset[int]().union(*(each.span for each in given))
    return replace(writer.define(text, element, largest.dims, span), splat=largest.splat)


def _expression(writer: Writer, one: Operation, given: Sequence[Term], element: str) -> str:
    source = given[0].element
    if one.name == "arith.truncf":
        return given[0].text
    if one.name == "arith.select":
        return f"np.where({given[0].text}, {given[1].typed}, {given[2].typed})"
    template = _template(one, source, element)
    unsigned = one.name in _UNSIGNED or (one.name == "arith.cmpi" and _predicate(one) >= _UNSIGNED_COMPARISONS)
    if unsigned and source != "i1":
        texts = [f"{each.typed}.astype({_unsigned(source)})" for each in given]
        if one.name in _UNSIGNED:
            template = f"({template}).astype({DTYPES[element]})"
    else:
        # A method needs an array, and two numbers have no dtype.
        first = given[0].typed if all(each.literal for each in given) or "{0}." in template else given[0].text
        texts = [first, *(each.text for each in given[1:])]
    names = {"to": DTYPES[element], "unsigned": _unsigned(source), "to_unsigned": _unsigned(element)}
    return template.format(*texts, width=_width(source), **names)


def _template(one: Operation, source: str, element: str) -> str:
    if one.name == "arith.cmpf":
        return _FLOAT_COMPARISONS[_predicate(one)]
    if one.name == "arith.cmpi" and not (source == "i1" and 2 <= _predicate(one) < _UNSIGNED_COMPARISONS):
        return _COMPARISONS[_predicate(one)]
    if one.name == "arith.trunci" and element == "i1":
        return "({0} & 1).astype(bool)"
    by_name = _CASTS | _ROUNDED | _EXACT | _INTEGERS | _UNSIGNED
    if source == "i1":
        by_name = _BITS | _CASTS_OF_BITS
    if one.name not in by_name or (element == "i1" and one.name in _CASTS):
        raise Untranslatable(f"there is no NumPy for {one.name} from {source} to {element}")
    return by_name[one.name]


def _predicate(one: Operation) -> int:
    return int(attribute(one, "predicate").partition(":")[0])


def _unsigned(element: str) -> str:
    if element in DIGITS or element == "i1":
        return ""
    return f"np.uint{_width(element)}"


def _width(element: str) -> int:
    return 64 if element == "index" else int(element.strip("bfi"))
