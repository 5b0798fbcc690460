"""Translate a module of linalg on tensors to the text of a reference in NumPy, on which error bounds can be derived.

The text stays inside what :mod:`mlir_matrix.actions.numerics.running_error` knows. What is undefined never looks right:

- what ``tensor.empty`` holds is NaN, or the least number of an integer type, which hardly a program gives; of booleans it is
  not translated;
- an index out of bounds, a division of integers by 0, a shift by the width or more and a number that its integer type cannot
  hold raise an exception.

Integers wrap. Floating point narrower than the widest result is rounded to its type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from mlir_matrix.reduction.numpy_linalg import index_of, structured
from mlir_matrix.reduction.numpy_scalars import translate
from mlir_matrix.reduction.numpy_terms import (
    DIGITS,
    DYNAMIC,
    HELPERS,
    Term,
    Untranslatable,
    Writer,
    constant,
    dims_of,
    integers_of,
    tuple_of,
    type_of,
)
from mlir_matrix.reduction.tree import Block, Module, Operation, Value, attribute

__all__ = ["Untranslatable", "numpy_text"]

#: An element of ``tensor.empty`` that has no value like NaN.
_UNINITIALISED = "UNINITIALISED"
_CALL = re.compile(r"(?<![\w.])(\w+)\(")
_RESOURCE = re.compile(r'([\w.-]+): "0x([0-9A-Fa-f]*)"')


def numpy_text(module: Module) -> str:
    """Return the text of a ``reference.py`` that computes what ``@main`` does.

    Raise Untranslatable for a program without one; the message names the first operation in the way.
    """
    try:
        return _text_of(module)
    except (LookupError, ValueError, StopIteration) as error:
        # An edit may have made what no release accepts, such as an operation without a required attribute.
        raise Untranslatable(f"there is no NumPy for an invalid module: {type(error).__name__}: {error}") from error


def _text_of(module: Module) -> str:
    functions = [one for one in module.operation.regions[0][0].operations if one.name == "func.func"]
    main = next((one for one in functions if attribute(one, "sym_name").strip('"') == "main"), None)
    if main is None or len(main.regions[0]) != 1:
        raise Untranslatable("the module has no function @main of one block")
    (block,) = main.regions[0]
    elements = [type_of(each.type)[1] for each in block.operations[-1].operands]
    if not elements:
        raise Untranslatable("there is no NumPy for a function @main without results")
    writer = Writer(widest=max(elements, key=lambda each: DIGITS.get(each, 0)))
    names = [value.input or f"arg{number}" for number, value in enumerate(block.arguments)]
    _check_names(writer, names)
    for name, value in zip(names, block.arguments, strict=True):
        writer.terms[value] = Term(text=name, element=type_of(value.type)[1], dims=dims_of(name, value.type))
    _Translator(writer, dict(_RESOURCE.findall(module.resources))).block(block)
    results = [writer.array(value).text for value in block.operations[-1].operands]
    body = "\n".join([*writer.lines, f"    return {', '.join(results)}"])
    called = set(_CALL.findall(body))
    if _UNINITIALISED in body:
        raise Untranslatable("there is no NumPy for a program that reads booleans of tensor.empty")
    imports = "import math\n\n" if called & {"erf", "erfc"} else ""
    helpers = "".join(f"\n{text}\n\n" for name, text in HELPERS.items() if name in called)
    heading = (
        f'"""Compute what the program does, operation by operation, in float64."""\n\n{imports}import numpy as np\n'
    )
    return f"{heading}\n{helpers}\ndef reference({', '.join(names)}):\n{body}\n"


def _check_names(writer: Writer, names: Sequence[str]) -> None:
    """Choose names for the other values that no input has."""
    reserved = {"np", "math", *HELPERS}.intersection(names)
    if reserved or not all(name.isidentifier() for name in names):
        raise Untranslatable(f"there is no NumPy for inputs with the names {', '.join(names)}")
    while any(re.fullmatch(rf"({writer.prefix}|{writer.loop_prefix})\d+", name) for name in names):
        writer.prefix, writer.loop_prefix = f"{writer.prefix}_", f"{writer.loop_prefix}_"


class _Translator:
    """Write operations one by one; ``writer`` has the lines."""

    def __init__(self, writer: Writer, resources: dict[str, str]) -> None:
        self.writer = writer
        self._resources = resources
        self._known: dict[str, Callable[[Operation, list[Term]], Sequence[Term]]] = {
            "arith.constant": self._constant,
            "tensor.empty": self._empty,
            "tensor.cast": self._reshape,
            "tensor.expand_shape": self._reshape,
            "tensor.collapse_shape": self._reshape,
            "tensor.extract_slice": self._extract_slice,
            "tensor.insert_slice": self._insert_slice,
            "tensor.extract": self._extract,
            "tensor.insert": self._insert,
            "tensor.dim": self._dim,
            "tensor.pad": self._pad,
            "tensor.concat": self._concat,
            "tensor.from_elements": self._from_elements,
            "linalg.index": self._loop_index,
            "scf.for": self._for,
            "scf.if": self._if,
            "cf.assert": self._assert,
        }

    def block(self, block: Block) -> list[Term]:
        """Write the operations of a block; return the terms of what ends it."""
        terms = self.writer.terms
        for one in block.operations[:-1]:
            terms.update(zip(one.results, self._operation(one), strict=True))
        return [terms[value] for value in block.operations[-1].operands]

    def _operation(self, one: Operation) -> Sequence[Term]:
        given = [self.writer.terms[value] for value in one.operands]
        if one.name in self._known:
            return self._known[one.name](one, given)
        if one.name.startswith(("arith.", "math.")):
            return [translate(self.writer, one, given)]
        if one.name.startswith("linalg.") and one.regions:
            return structured(self.writer, one, self.block)
        raise Untranslatable(f"there is no NumPy for {one.name}")

    def _constant(self, one: Operation, _: list[Term]) -> Sequence[Term]:
        type_text = one.results[0].type
        made = constant(attribute(one, "value"), type_text, self._resources)
        if isinstance(made, str):
            sizes, element = type_of(type_text)
            return [self.writer.define(made, element, sizes)]
        return [made]

    def _empty(self, one: Operation, given: list[Term]) -> Sequence[Term]:
        sizes, element = type_of(one.results[0].type)
        dynamic = iter(given)
        dims = tuple(next(dynamic).text if size == "?" else size for size in sizes)
        if element == "i1":
            text = _UNINITIALISED
        elif element in DIGITS:
            text = "np.nan"
        else:
            bits = 64 if element == "index" else int(element[1:])
            text = str(-(2 ** (bits - 1)))
        return [Term(text=text, element=element, dims=dims, literal=True, splat=True)]

    def _reshape(self, one: Operation, given: list[Term]) -> Sequence[Term]:
        """Reshape; a cast keeps the shape, or makes sure of it."""
        sizes, element = type_of(one.results[0].type)
        source, *dynamic = given
        if one.name == "tensor.cast" and "?" in sizes:
            return [source]
        if source.splat and "?" not in sizes:
            return [replace(source, dims=sizes)]
        if sizes.count("?") > max(1, len(dynamic)):
            raise Untranslatable(f"there is no NumPy for {one.name} to {one.results[0].type}")
        text = self.writer.array(one.operands[0]).text
        unknown = iter([each.text for each in dynamic] or ["-1"])
        shape = tuple_of([next(unknown) if size == "?" else size for size in sizes])
        made = self.writer.define(f"{text}.reshape{shape if sizes else '(())'}", element)
        return [replace(made, dims=dims_of(made.text, one.results[0].type))]

    def _mixed(self, one: Operation, first: int, given: list[Term]) -> list[list[int | Term]]:
        """Return the offsets, sizes and strides of a slice; those that only the run knows are operands after ``first``."""
        dynamic = iter(given[first:])
        return [
            [next(dynamic) if number in DYNAMIC[:places] else number for number in integers_of(attribute(one, name))]
            for name, places in (("static_offsets", 1), ("static_sizes", 2), ("static_strides", 1))
        ]

    def _indexer(self, one: Operation, first: int, given: list[Term], whole: Term, part: Value) -> str:
        """Return the index of a slice, which drops axes of size 1 that the part lacks."""
        offsets, sizes, strides = self._mixed(one, first, given)
        left = list(type_of(part.type)[0])
        texts = []
        for axis, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
            if not isinstance(stride, int):
                raise Untranslatable(f"there is no NumPy for {one.name} with strides that only the run knows")
            length = size.text if isinstance(size, Term) else str(size)
            kept = len(left) > 0 and left[0] in ("?" if isinstance(size, Term) else length, "?")
            if kept:
                left.pop(0)
            elif size != 1:
                raise Untranslatable(f"there is no NumPy for {one.name} to {part.type}")
            texts.append(self._slice(offset, length, stride, whole.dims[axis], kept=kept))
        return ", ".join(texts) or "()"

    def _slice(self, offset: int | Term, length: str, stride: int, dim: str, *, kept: bool) -> str:
        begin = str(offset)
        if not length.isdigit() or isinstance(offset, Term):
            # NumPy cuts a slice that is out of bounds.
            text = offset.text if isinstance(offset, Term) else begin
            last = f"{dim} - ({length} - 1) * {stride}"
            begin = self.writer.define(f"within({text}, {last})", "index").text
            end = f"{begin} + ({length} - 1) * {stride} + 1"
        else:
            end = str(int(begin) + (int(length) - 1) * stride + 1)
        if not kept:
            return begin
        if begin == "0" and end == dim and stride == 1:
            return ":"
        return f"{begin}:{end}" + (f":{stride}" if stride != 1 else "")

    def _extract_slice(self, one: Operation, given: list[Term]) -> Sequence[Term]:
        sizes, element = type_of(one.results[0].type)
        if given[0].splat and "?" not in sizes:
            return [replace(given[0], dims=sizes)]
        source = self.writer.array(one.operands[0])
        indexer = self._indexer(one, 1, given, source, one.results[0])
        made = self.writer.define(f"{source.text}[{indexer}]", element)
        return [replace(made, dims=dims_of(made.text, one.results[0].type))]

    def _insert_slice(self, one: Operation, given: list[Term]) -> Sequence[Term]:
        indexer = self._indexer(one, 2, given, given[1], one.operands[0])
        return [self._changed(one, indexer, given[0])]

    def _changed(self, one: Operation, indexer: str, new: Term) -> Term:
        """Copy the second operand and set elements of it."""
        whole = self.writer.array(one.operands[1])
        made = self.writer.define(f"np.array({whole.text})", whole.element)
        self.writer.line(f"{made.text}[{indexer}] = {new.text}")
        return replace(made, dims=tuple(dim.replace(f"{whole.text}.", f"{made.text}.") for dim in whole.dims))

    def _index(self, whole: Term, indices: Sequence[Term]) -> str:
        """Return an index of an element, or of one for each loop of a body."""
        texts = [each.text for each in indices]
        if self.writer.taken is not None:
            # Where the branch is not taken, the index is that of another.
            texts = [f"np.where({self.writer.taken.text}, {text}, 0)" for text in texts]
        return ", ".join(f"within({text}, {dim})" for text, dim in zip(texts, whole.dims, strict=True)) or "()"

    def _extract(self, one: Operation, given: list[Term]) -> Sequence[Term]:
        whole, *indices = given
        if whole.splat or whole.literal:
            return [replace(whole, dims=(), splat=False)]
        taken = [self.writer.taken] if self.writer.taken is not None and indices else []
        span = frozenset[int]().union(*(each.span for each in (*indices, *taken)))
        return [self.writer.define(f"{whole.text}[{self._index(whole, indices)}]", whole.element, span=span)]

    def _insert(self, one: Operation, given: list[Term]) -> Sequence[Term]:
        new, whole, *indices = given
        return [self._changed(one, self._index(whole, indices), new)]

    def _dim(self, one: Operation, given: list[Term]) -> Sequence[Term]:
        source, axis = given
        if not axis.literal:
            raise Untranslatable("there is no NumPy for tensor.dim of an axis that only the run knows")
        text = source.dims[int(axis.text)]
        if text.isdigit():
            return [Term(text=text, element="index", literal=True)]
        return [self.writer.define(f"np.int64({text})", "index")]

    def _pad(self, one: Operation, given: list[Term]) -> Sequence[Term]:
        (block,) = one.regions[0]
        (filling,) = self.block(block) if not _uses_arguments(block) else (None,)
        if filling is None:
            raise Untranslatable("there is no NumPy for tensor.pad with an element that depends on its place")
        dynamic = iter(given[1:])
        low, high = (
            [
                f"int({next(dynamic).text})" if each in DYNAMIC[:1] else str(each)
                for each in integers_of(attribute(one, name))
            ]
            for name in ("static_low", "static_high")
        )
        widths = tuple_of([f"({before}, {after})" for before, after in zip(low, high, strict=True)])
        text = self.writer.array(one.operands[0]).text
        made = self.writer.define(f"np.pad({text}, {widths}, constant_values={filling.text})", filling.element)
        return [replace(made, dims=dims_of(made.text, one.results[0].type))]

    def _concat(self, one: Operation, _: list[Term]) -> Sequence[Term]:
        arrays = [self.writer.array(value) for value in one.operands]
        axis = integers_of(attribute(one, "dim"))[0]
        made = self.writer.define(
            f"np.concatenate({tuple_of([each.text for each in arrays])}, axis={axis})", arrays[0].element
        )
        return [replace(made, dims=dims_of(made.text, one.results[0].type))]

    def _from_elements(self, one: Operation, given: list[Term]) -> Sequence[Term]:
        sizes, element = type_of(one.results[0].type)
        if len(given) == 1:
            return [replace(given[0], dims=sizes, splat=bool(sizes))]
        text = f"np.stack(({', '.join(each.typed for each in given)}))"
        return [self.writer.define(text + (f".reshape{tuple_of(sizes)}" if len(sizes) > 1 else ""), element, sizes)]

    def _loop_index(self, one: Operation, _: list[Term]) -> Sequence[Term]:
        return [index_of(self.writer, integers_of(attribute(one, "dim"))[0])]

    def _for(self, one: Operation, given: list[Term]) -> Sequence[Term]:
        (block,), writer = one.regions[0], self.writer
        begin, end, step = (each.text for each in given[:3])
        carried = []
        for value in one.operands[3:]:
            start = writer.array(value)
            name = writer.define(start.text, start.element).text
            carried.append(replace(start, text=name, dims=dims_of(name, value.type)))
        index = Term(text=writer.name(), element=given[0].element)
        writer.terms.update(zip(block.arguments, [index, *carried], strict=True))
        with writer.block(f"for {index.text} in np.arange({begin}, {end}, {step}):"):
            self.block(block)
            self._assign(carried, block)
        return carried

    def _if(self, one: Operation, given: list[Term]) -> Sequence[Term]:
        """In the body of loops that are all computed at once, so are both sides."""
        condition = given[0]
        if not condition.span:
            raise Untranslatable("there is no NumPy for scf.if outside of the body of an operation")
        masks = (condition, replace(condition, text=f"~{condition.text}"))
        sides = zip(one.regions, masks, strict=True)
        both = zip(*(self._branch(region[0], mask) for region, mask in sides), strict=True)
        return [
            self.writer.define(
                f"np.where({condition.text}, {yes.typed}, {no.typed})",
                yes.element,
                span=condition.span | yes.span | no.span,
            )
            for yes, no in both
        ]

    def _branch(self, block: Block, mask: Term) -> Sequence[Term]:
        """Write a branch that only those elements take for which the mask is true."""
        outer = self.writer.taken
        self.writer.taken = mask
        if outer is not None:
            self.writer.taken = self.writer.define(f"{outer.text} & {mask.text}", "i1", span=outer.span | mask.span)
        results = self.block(block)
        self.writer.taken = outer
        return results

    def _assign(self, targets: Sequence[Term], block: Block) -> None:
        """Give variables what a block ends with."""
        new = [self.writer.array(value).text for value in block.operations[-1].operands]
        self.writer.line(f"{', '.join(each.text for each in targets)} = {', '.join(new)}" if new else "pass")

    def _assert(self, _: Operation, given: list[Term]) -> Sequence[Term]:
        self.writer.line(f"assert np.all({given[0].text})")
        return []


def _uses_arguments(block: Block) -> bool:
    return any(value in block.arguments for one in block.operations for value in one.operands)
