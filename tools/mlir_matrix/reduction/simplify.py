"""Edits of a module that keep its operations: smaller sizes, plainer element types, constants, attributes and inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from mlir_matrix.actions.mlir.generic_form import split
from mlir_matrix.actions.mlir.sizes import resized, sizes_of
from mlir_matrix.reduction.constants import constant_text, cut_to, dense_text, elements_of
from mlir_matrix.reduction.draft import Draft
from mlir_matrix.reduction.edits import Edit, functions_of
from mlir_matrix.reduction.tree import Module, Operation, Value, attribute, blocks_of, walk
from mlir_matrix.reduction.types import element_of, is_float

#: Attributes whose numbers are no sizes.
_NO_SIZES = re.compile(r"segment|dimension|reassoc|perm|axis|stride|dilation|align|_map")
#: Lists of numbers, and single ones.
_NUMBERS = re.compile(
    r"(?<=array<i64: )[-\d, ]+|(?<=dense<)[-\d, \[\]]+(?=> : \w+<\d+x(?:i64|i32|index)>)|\d+(?= : (?:i64|i32|index)\b)"
)
_NUMBER = re.compile(r"(?<![-\d])\d+")
#: What is tried in place of one size: these, and a half.
_SMALL = (1, 2, 4)
#: Element types and plainer ones.
_PLAINER = (("f64", "f32"), ("bf16", "f32"), ("f16", "f32"), ("i64", "i32"), ("i16", "i32"), ("i8", "i32"))
#: Casts that do nothing once both types are the same.
_CASTS = frozenset(
    {"arith.extf", "arith.truncf", "arith.extsi", "arith.extui", "arith.trunci", "tosa.cast", "stablehlo.convert"}
)
#: Attributes that an operation cannot be without.
_NEEDED = frozenset(
    {"function_type", "sym_name", "value", "indexing_maps", "iterator_types", "operandSegmentSizes", "predicate"}
)
#: Names of attributes that hold the numbers of a constant.
VALUES = frozenset({"value", "values", "initial_value"})
#: The beginning of a formula that lists values, and how many of them are tried alone.
_VALUES, _MOST_VALUES = "values(", 64
#: The formula that numbers the elements.
_NUMBERED = "iota()"
FORMULAS = ("1", "integers(0, 2)", "normal(0, 1)")


def _values(operation: Operation) -> Iterator[Value]:
    yield from operation.results
    for block in blocks_of(operation):
        yield from block.arguments


def shapes(module: Module) -> list[Edit]:
    """Replace sizes in all types at once: all of them, then one number, alone or with what stands in proportion to it."""
    types = {value.type for one in walk(module.operation) for value in _values(one)}
    sizes = sorted({size for text in types for size in sizes_of(text)} - {0, 1}, reverse=True)
    edits = []

    def add(name: str, new_size: Callable[[int], int]) -> None:
        edits.append(Edit(name, partial(_resize, new_size, True)))
        edits.append(Edit(f"{name}, in types", partial(_resize, new_size, False)))

    for most in _SMALL:
        add(f"no size above {most}", partial(min, most))
    add("halve all sizes", lambda size: max(1, size // 2))
    for size in sizes:
        for new in dict.fromkeys(each for each in (*_SMALL, size // 2) if each < size):
            add(f"size {size} to {new}", partial(_exchanged, {size: new}))
            multiples = {each: each // size * new for each in sizes if each % size == 0}
            if len(multiples) > 1:
                add(f"size {size} and its multiples to {new}", partial(_exchanged, multiples))
    # A window, a pad or a concatenation keeps differences.
    for number, large in enumerate(sizes):
        for small in sizes[number + 1 :]:
            pair = {large: large - small + 1, small: 1}
            add(f"sizes {large} and {small} to {pair[large]} and 1", partial(_exchanged, pair))
    return edits


def _exchanged(new: Mapping[int, int], size: int) -> int:
    return new.get(size, size)


def _resize(new_size: Callable[[int], int], with_numbers: bool, draft: Draft) -> None:
    def renumbered(found: re.Match[str]) -> str:
        return _NUMBER.sub(lambda number: str(new_size(int(number[0]))), found[0])

    for one in draft.operations:
        for value in _values(one):
            value.type = resized(value.type, new_size)
        for attributes in (one.properties, one.attributes):
            for name, text in attributes.items():
                if name in VALUES:
                    new = _resized_constant(text, new_size)
                else:
                    # A list of numbers has as many as its operation says.
                    new = text if text.startswith("dense<") else resized(text, new_size)
                if with_numbers and not _NO_SIZES.search(name):
                    new = _NUMBERS.sub(renumbered, new)
                attributes[name] = new


def _resized_constant(text: str, new_size: Callable[[int], int]) -> str:
    """Return a constant of other sizes with the first elements of each row; one full of 1 if they are not known."""
    new = resized(text[text.rfind(" : ") :], new_size)
    if text.endswith((new, "xindex>")):
        return text
    found = elements_of(text)
    if found is None:
        return constant_text(new.removeprefix(" : "), 1) or text
    numbers, type_ = found
    new_type = resized(type_, new_size)
    return dense_text(cut_to(numbers, sizes_of(type_), sizes_of(new_type)), new_type)


def element_types(module: Module) -> list[Edit]:
    """Replace an element type everywhere by the plain one of its kind. Casts between types that are the same then go."""
    texts = {value.type for one in walk(module.operation) for value in _values(one)}
    kinds = {element_of(text) for text in texts}
    return [Edit(f"{old} to {new}", partial(_retype, old, new)) for old, new in _PLAINER if old in kinds]


def _retype(old: str, new: str, draft: Draft) -> None:
    word = re.compile(rf"(?:(?<=\dx)|(?<=\?x)|(?<![\w.$\"@])){old}(?!\w)")
    for one in draft.operations:
        for value in _values(one):
            value.type = word.sub(new, value.type)
        for attributes in (one.properties, one.attributes):
            for name, text in attributes.items():
                found = elements_of(text) if name in VALUES else None
                if found is not None and element_of(found[1]) == old:
                    attributes[name] = _written(found[0], word.sub(new, found[1]))
                elif name == "function_type" or (is_float(old) and not text.startswith('"')):
                    attributes[name] = word.sub(new, text)
        if one.name in _CASTS and one.operands[0].type == one.results[0].type:
            draft.replace(one.results[0], one.operands[0])


def _written(numbers: list[float], type_: str) -> str:
    if element_of(type_) != type_:
        return dense_text(numbers, type_)
    return constant_text(type_, numbers[0])


def constants(module: Module) -> list[Edit]:
    """Give constants rounder numbers: all of them, then each."""
    edits = [
        Edit("all constants 1", partial(_renumber_all, 1)),
        Edit("write numbers shortly", partial(_renumber_all, None)),
    ]
    for number, one in enumerate(walk(module.operation)):
        for name in VALUES & (one.properties | one.attributes).keys():
            text = attribute(one, name)
            for new in _rounder(text):
                edits.append(Edit(f"{one.name} {new.partition(' : ')[0]}", partial(_set_attribute, number, name, new)))
    return edits


def _rounder(text: str) -> list[str]:
    """Return attributes in place of a constant, of the same type, the roundest first."""
    found = elements_of(text)
    if found is None:
        is_resource = text.startswith(("dense<", "dense_resource<"))
        type_ = text.rpartition(" : ")[2]
        return [constant_text(type_, number) for number in (1, 0)] if is_resource else []
    numbers, type_ = found
    first = numbers[0]
    choices = [1, 0, 2, first]
    if is_float(element_of(type_)):
        choices += [float(f"{first:.{digits}e}") for digits in (0, 1, 2)]
    else:
        choices += [first // 2, first - 1]
    written = (constant_text(type_, number) for number in choices)
    return list(dict.fromkeys(each for each in written if each and each != text))


def _set_attribute(number: int, name: str, text: str, draft: Draft) -> None:
    one = draft.operations[number]
    (one.properties if name in one.properties else one.attributes)[name] = text


def _renumber_all(number: float | None, draft: Draft) -> None:
    """Give all constants a number; None writes those that they have as shortly as possible."""
    for one in draft.operations:
        for attributes in (one.properties, one.attributes):
            for name in VALUES & attributes.keys():
                found = elements_of(attributes[name])
                if found is not None:
                    numbers = found[0] if number is None else [number]
                    attributes[name] = _written(numbers, found[1])


def attributes(module: Module) -> list[Edit]:
    """Drop attributes: all that belong to no operation, then those of one name, then each; and resources without uses."""
    operations = list(walk(module.operation))
    edits = []
    if any(one.properties for one in operations):
        edits.append(Edit("drop discardable attributes", partial(_drop_attributes, None, None)))
    if module.resources and not any(
        "dense_resource<" in text for one in operations for text in (one.properties | one.attributes).values()
    ):
        edits.append(Edit("drop resources", _drop_resources))
    holders: dict[str, list[int]] = {}
    for number, one in enumerate(operations):
        for name in (one.properties | one.attributes).keys() - _NEEDED:
            holders.setdefault(name, []).append(number)
    for name, numbers in sorted(holders.items()):
        edits.append(Edit(f"drop {name}", partial(_drop_attributes, name, numbers)))
    for name, numbers in sorted(holders.items()):
        if len(numbers) > 1:
            edits += [
                Edit(f"drop {name} of {operations[each].name}", partial(_drop_attributes, name, [each]))
                for each in numbers
            ]
    return edits


def _drop_attributes(name: str | None, numbers: list[int] | None, draft: Draft) -> None:
    for number in range(len(draft.operations)) if numbers is None else numbers:
        one = draft.operations[number]
        if name is None:
            one.attributes = {}
        else:
            one.properties.pop(name, None)
            one.attributes.pop(name, None)


def _drop_resources(draft: Draft) -> None:
    draft.module.resources = ""


def formulas(module: Module) -> list[Edit]:
    """Fill inputs of @main by simpler formulas: all at once, then each."""
    edits = []
    for _, function in functions_of(module):
        names = [value.input for value in function.regions[0][0].arguments if value.input]
        for chosen in [names, *([name] for name in names if len(names) > 1)]:
            edits += [Edit(f"{', '.join(chosen)}: {text}", partial(_fill, chosen, text)) for text in FORMULAS if chosen]
        edits += [
            Edit(f"{name}: its value {index}", partial(_fill_by_value, name, index))
            for name in names
            for index in range(_MOST_VALUES)
        ]
    return edits


def _fill_by_value(name: str, index: int, draft: Draft) -> None:
    """Fill an input whose formula lists values, ``values(0, inf, -1)``, by one of them."""
    formula = draft.formulas.get(name, "")
    if formula.startswith(_VALUES) and formula.endswith(")"):
        values = list(split(formula.removeprefix(_VALUES)[:-1]))
        draft.formulas[name] = values[index] if index < len(values) else formula


def _fill(names: list[str], text: str, draft: Draft) -> None:
    """Fill inputs, but not those that number elements: they are indices and sizes, and others may be out of bounds."""
    draft.formulas.update({name: text for name in names if draft.formulas.get(name) != _NUMBERED})
