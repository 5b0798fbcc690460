"""Translate structured operations (linalg): each is loops over all elements, here NumPy over whole arrays.

An operand's indexing map says where in the loops it varies: the array is transposed and gets axes, or it is indexed with arrays
for maps like ``d0 * 2 + d1``. The body is then computed for all loops at once, and reduced. A reduction that NumPy has no name
for is a loop of Python over what is reduced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from mlir_matrix.reduction.numpy_scalars import translate
from mlir_matrix.reduction.numpy_terms import DTYPES, Term, Untranslatable, Writer, integers_of, tuple_of, type_of
from mlir_matrix.reduction.tree import Block, Operation, Value, attribute, walk

#: The axes of named products, by letters: of the operands, then of the result.
_PRODUCTS = {
    "matmul": "mk kn mn",
    "matmul_transpose_a": "km kn mn",
    "matmul_transpose_b": "mk nk mn",
    "batch_matmul": "bmk bkn bmn",
    "batch_matmul_transpose_a": "bkm bkn bmn",
    "batch_matmul_transpose_b": "bmk bnk bmn",
    "batch_reduce_matmul": "bmk bkn mn",
    "matvec": "mk k m",
    "vecmat": "k kn n",
    "batch_matvec": "bmk bk bm",
    "batch_vecmat": "bk bkn bn",
    "dot": "k k ",
}
#: The names of convolutions and poolings have the axes of the image and of the filter: ``conv_2d_nhwc_hwcf``.
_CONVOLUTION = re.compile(r"(depthwise_)?conv_\dd_([ngdhwc]+)_([gdhwcfm]+)")
_POOLING = re.compile(r"pooling_([ndhwc]+)_(?:sum|max|min|max_unsigned|min_unsigned)")
_WINDOWED = re.compile(r"linalg\.(depthwise_conv|conv|pooling)_")
_MAP = re.compile(r"affine_map<\(([^)]*)\)(?:\[\])? -> \((.*?)\)>")
_LOOP = re.compile(r"\bd(\d+)")
#: The letters of loops in ``einsum``.
_LETTERS = "abcdefghijklmnop"
_MATMUL = re.compile(r"(\w*)(\w)(\w),\1\3(\w)->\1\2\4")
#: How NumPy reduces by an operation, and the number that changes nothing.
_REDUCTIONS = {
    "arith.addf": ("np.sum({0}, axis={axes})", ("0.0", "-0.0")),
    "arith.addi": ("np.sum({0}, axis={axes}, dtype={dtype})", ("0",)),
    "arith.muli": ("np.prod({0}, axis={axes}, dtype={dtype})", ("1",)),
    **dict.fromkeys(("arith.maximumf", "arith.maxf", "arith.maxnumf"), ("np.max({0}, axis={axes})", ("-np.inf",))),
    **dict.fromkeys(("arith.minimumf", "arith.minf", "arith.minnumf"), ("np.min({0}, axis={axes})", ("np.inf",))),
    "arith.maxsi": ("np.max({0}, axis={axes})", ()),
    "arith.minsi": ("np.min({0}, axis={axes})", ()),
}
_REDUCTIONS_OF_BITS = {
    "arith.andi": ("np.all({0}, axis={axes})", ("True",)),
    "arith.ori": ("np.any({0}, axis={axes})", ("False",)),
}
#: Writes the operations of a block; returns the terms of what ends it.
Body = Callable[[Block], list[Term]]


@dataclass(frozen=True, kw_only=True)
class Loops:
    """The loops of a structured operation, and the index of each operand in them, axis by axis, as text: ``d0 * 2 + d1``."""

    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    maps: tuple[tuple[str, ...], ...]
    count: int
    sizes: tuple[str, ...]

    @property
    def inputs(self) -> int:
        return len(self.operands) - len(self.results)

    @property
    def parallel(self) -> list[int]:
        """The loops along which the results vary."""
        named = {int(each) for text in self.maps[self.inputs] for each in _LOOP.findall(text)}
        return sorted(named)

    @property
    def reduced(self) -> list[int]:
        return [loop for loop in range(self.count) if loop not in self.parallel]


def loops_of(one: Operation, dims_of: Callable[[Value], Sequence[str]]) -> Loops:
    """Return the loops of an operation; ``dims_of`` gives the sizes of an operand, as text.

    Raise Untranslatable for an operation that is not known.
    """
    operands, results = tuple(one.operands), tuple(one.operands[len(one.operands) - len(one.results) :])
    text = attribute(one, "indexing_maps")
    if not text and not _WINDOWED.match(one.name):
        # Those of an operation with windows may be the maps of strides that it no longer has.
        text = attribute(one, "linalg.memoized_indexing_maps")
    found = _MAP.findall(text)
    if found:
        maps = tuple(tuple(part.strip() for part in inside.split(",") if part.strip()) for _, inside in found)
        count = len(_LOOP.findall(found[0][0]))
    else:
        maps, count = _named_maps(one)
    if len(maps) != len(operands) or any(each in text for each in ("floordiv", "ceildiv", "mod")):
        raise Untranslatable(f"there is no NumPy for {one.name} with these indexing maps")
    sizes = [""] * count
    for operand, indices in zip(operands, maps, strict=True):
        for axis, index in enumerate(indices):
            loop = _LOOP.fullmatch(index)
            if loop and not sizes[int(loop[1])]:
                sizes[int(loop[1])] = dims_of(operand)[axis]
    if not all(sizes):
        raise Untranslatable(f"there is no NumPy for {one.name}, whose loops have no known size")
    return Loops(operands=operands, results=results, maps=maps, count=count, sizes=tuple(sizes))


def _named_maps(one: Operation) -> tuple[tuple[tuple[str, ...], ...], int]:
    name = one.name.removeprefix("linalg.")
    if name in _PRODUCTS:
        return _from_letters(_PRODUCTS[name].split(" "))
    convolution, pooling = _CONVOLUTION.fullmatch(name), _POOLING.fullmatch(name)
    if convolution is not None:
        depthwise, image, kernel = convolution.groups()
        more = "".join(letter for letter in kernel if letter not in image)
        return _from_letters([image, kernel, image + more if depthwise else image.replace("c", "f")], one)
    if pooling is not None:
        return _from_letters([pooling[1], "".join(filter("dhw".count, pooling[1])), pooling[1]], one)
    ranks = [len(type_of(each.type)[0]) for each in one.operands]
    count = ranks[-1]
    all_loops = [f"d{loop}" for loop in range(count)]
    if name == "transpose":
        order = integers_of(attribute(one, "permutation"))
        return (tuple(f"d{order.index(axis)}" for axis in range(count)), tuple(all_loops)), count
    if name in ("broadcast", "reduce"):
        count = max(ranks)
        all_loops = [f"d{loop}" for loop in range(count)]
        dropped = integers_of(attribute(one, "dimensions"))
        kept = tuple(each for loop, each in enumerate(all_loops) if loop not in dropped)
        return tuple(tuple(all_loops) if rank == count else kept for rank in ranks), count
    if any(rank not in (0, count) for rank in ranks):
        raise Untranslatable(f"there is no NumPy for {one.name}")
    return tuple(tuple(all_loops) if rank else () for rank in ranks), count


def _from_letters(axes: Sequence[str], windows: Operation | None = None) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Return maps by the letters of axes. With ``windows``, the image has those of the filter along ``d``, ``h`` and ``w``."""
    image, kernel, result = axes
    if windows is not None:
        kernel = kernel.translate(str.maketrans("dhw", "zyx"))
    letters = list(dict.fromkeys(result + kernel + image))
    loops = {letter: f"d{loop}" for loop, letter in enumerate(letters)}
    maps = [[loops[letter] for letter in each] for each in (image, kernel, result)]
    if windows is not None:
        spatial = [axis for axis, letter in enumerate(image) if letter in "dhw"]
        steps = zip(spatial, _steps(windows, "strides", spatial), _steps(windows, "dilations", spatial), strict=True)
        for axis, stride, dilation in steps:
            inside = loops[image[axis].translate(str.maketrans("dhw", "zyx"))]
            maps[0][axis] = re.sub(r" \* 1\b", "", f"{loops[image[axis]]} * {stride} + {inside} * {dilation}")
    return tuple(map(tuple, maps)), len(letters)


def _steps(one: Operation, name: str, axes: Sequence[int]) -> list[int]:
    numbers = integers_of(attribute(one, name)) or [1]
    return numbers if len(numbers) == len(axes) else numbers * len(axes)


def structured(writer: Writer, one: Operation, body: Body) -> list[Term]:
    """Write an operation with loops; return its results."""
    loops = loops_of(one, lambda value: writer.terms[value].dims)
    block = one.regions[0][0]
    accumulators = set(block.arguments[loops.inputs :])
    used = {value for inner in block.operations for value in _all_operands(inner)}
    if not loops.reduced or accumulators.isdisjoint(used):
        return _elementwise(writer, loops, block, body)
    return (
        _einsum(writer, loops, block)
        or _reduction(writer, loops, block, body)
        or _python_loop(writer, loops, block, body)
    )


def _elementwise(writer: Writer, loops: Loops, block: Block, body: Body) -> list[Term]:
    """Write a body that does not use the results so far. Of what is reduced, the last one counts."""
    begin = len(writer.lines)
    _bind(writer, loops, block, loops.parallel)
    yielded = body(block)
    for loop in loops.reduced:
        name = f"{writer.loop_prefix}{loop}"
        if re.search(rf"\b{name}\b", "".join([*writer.lines[begin:], *(each.text for each in yielded)])):
            writer.lines.insert(begin, f"{writer.indent}{name} = np.int64({loops.sizes[loop]} - 1)")
    return [
        _result(writer, loops, term, number, writer.terms[value].dims)
        for number, (term, value) in enumerate(zip(yielded, loops.results, strict=True))
    ]


def _bind(writer: Writer, loops: Loops, block: Block, axes: Sequence[int]) -> None:
    """Give the arguments of a body their arrays; those that nothing uses get none."""
    used = {value for one in block.operations for value in _all_operands(one)}
    writer.enter({loop: loops.sizes[loop] for loop in axes})
    for argument, operand, indices in zip(block.arguments, loops.operands, loops.maps, strict=False):
        if argument in used:
            writer.terms[argument] = aligned(writer, writer.terms[operand], indices, axes)


def _all_operands(one: Operation) -> Iterator[Value]:
    return (value for inner in walk(one) for value in inner.operands)


def index_of(writer: Writer, loop: int) -> Term:
    """Return the index of a loop: an array along its axis, or the number of a loop of Python."""
    name = f"{writer.loop_prefix}{loop}"
    if loop not in writer.loops:
        return Term(text=name, element="index")
    axes = ", ".join(":" if each == loop else "None" for each in writer.loops)
    shaped = "" if len(writer.loops) == 1 else f"[{axes}]"
    if loop not in writer.indexed:
        writer.indexed.add(loop)
        writer.line(f"{name} = np.arange({writer.loops[loop]}){shaped}")
    return Term(text=name, element="index", span=frozenset({loop}))


def aligned(writer: Writer, term: Term, indices: Sequence[str], axes: Sequence[int]) -> Term:
    """Return an operand with the loops ``axes`` as its axes. Other loops are loops of Python, by their index."""
    if term.splat or not indices:
        return replace(term, dims=(), splat=False)
    named = [_LOOP.fullmatch(index) for index in indices]
    loops = [int(each[1]) for each in named if each]
    # An axis of size 1 is one of NumPy's, too.
    plain = len(indices) == len(axes) and all(
        index == f"d{axis}" or (index == "0" and size == "1")
        for index, axis, size in zip(indices, axes, term.dims, strict=True)
    )
    if plain and loops:
        return replace(term, dims=(), span=frozenset(loops))
    texts = [_LOOP.sub(rf"{writer.loop_prefix}\1", index) for index in indices]
    varying = [loop for loop in loops if loop in axes]
    if len(set(loops)) < len(loops) or not all(
        each or index.isdigit() for each, index in zip(named, indices, strict=True)
    ):
        used = sorted({int(each) for index in indices for each in _LOOP.findall(index)})
        for loop in used:
            index_of(writer, loop)
        span = frozenset(used) & frozenset(axes)
        return writer.define(f"{term.text}[{', '.join(texts)}]", term.element, span=span)
    text = term.text
    if len(varying) < len(indices):
        kept = [":" if each and int(each[1]) in axes else index for each, index in zip(named, texts, strict=True)]
        text += f"[{', '.join(kept)}]"
    if varying != sorted(varying):
        text += f".transpose{tuple_of([str(varying.index(loop)) for loop in sorted(varying)])}"
    # NumPy itself adds axes in front.
    behind = axes[axes.index(min(varying)) :] if varying else []
    if len(behind) > len(varying):
        text += f"[{', '.join(':' if loop in varying else 'None' for loop in behind)}]"
    return Term(text=text, element=term.element, span=frozenset(varying))


def _result(writer: Writer, loops: Loops, term: Term, number: int, dims: Sequence[str]) -> Term:
    """Return a result of a body that has the parallel loops as its axes, in the order of the result's map."""
    if not term.span:
        # A number, which all elements are.
        return replace(term, dims=tuple(dims), splat=bool(dims))
    parallel = loops.parallel
    indices = loops.maps[loops.inputs + number]
    text = term.text
    if term.span != frozenset(parallel):
        text = f"np.broadcast_to({text}, {tuple_of([loops.sizes[loop] for loop in parallel])})"
    order = [int(each[1]) for index in indices if (each := _LOOP.fullmatch(index))]
    if sorted(order) != parallel or not all(index == "0" or _LOOP.fullmatch(index) for index in indices):
        raise Untranslatable(f"there is no NumPy for a result with the indexing map {tuple_of(indices)}")
    if order != parallel:
        text += f".transpose{tuple_of([str(parallel.index(loop)) for loop in order])}"
    if len(order) < len(indices):
        text += f"[{', '.join('None' if index == '0' else ':' for index in indices)}]"
    if text.isidentifier():
        return replace(term, dims=tuple(dims), span=frozenset())
    return writer.define(text, term.element, dims)


def _combined(loops: Loops, block: Block, number: int) -> tuple[Operation, Value] | None:
    """Return the operation that reduces to a result, and what it adds to the result so far; None if there is no such."""
    if len(block.arguments) < len(loops.operands):
        return None
    argument = block.arguments[loops.inputs + number]
    last = block.operations[-1].operands[number]
    made = next((one for one in block.operations if last in one.results), None)
    used = [value for one in block.operations for value in _all_operands(one) if value in (argument, last)]
    known = _REDUCTIONS_OF_BITS if last.type == "i1" else _REDUCTIONS
    if made is None or made.name not in known or argument not in made.operands or len(used) != 2:
        return None
    left, right = made.operands
    return made, right if left is argument else left


def _reduction(writer: Writer, loops: Loops, block: Block, body: Body) -> list[Term] | None:
    """Reduce by NumPy what the body computes for all loops at once. Return None if the body is no such reduction."""
    pairs = [_combined(loops, block, number) for number in range(len(loops.results))]
    found = [pair for pair in pairs if pair is not None]
    if len(found) < len(pairs) or any(writer.narrow(value.type) for _, value in found):
        return None
    combining = {one for one, _ in found}
    last = replace(block.operations[-1], operands=[value for _, value in found])
    before = [one for one in block.operations[:-1] if one not in combining]
    accumulators = block.arguments[loops.inputs :]
    rest = Block(arguments=block.arguments, operations=[*before, last])
    _bind(writer, loops, rest, range(loops.count))
    results = []
    for number, term in enumerate(body(rest)):
        one, _ = found[number]
        text, accumulator = term.text, accumulators[number]
        if len(term.span) < loops.count:
            text = f"np.broadcast_to({term.typed}, {tuple_of(loops.sizes)})"
        known = _REDUCTIONS_OF_BITS if accumulator.type == "i1" else _REDUCTIONS
        template, neutral = known[one.name]
        axes = loops.reduced[0] if len(loops.reduced) == 1 else tuple(loops.reduced)
        reduced = template.format(text, axes=axes, dtype=DTYPES[term.element])
        results.append(_accumulated(writer, loops, number, reduced, one, neutral))
    return results


def _accumulated(writer: Writer, loops: Loops, number: int, text: str, one: Operation, neutral: Sequence[str]) -> Term:
    """Return a result: what is reduced, and what the output held before unless it changes nothing."""
    value = loops.results[number]
    held = writer.terms[value]
    element = held.element
    span = frozenset(loops.parallel)
    term = writer.define(text, element, span=span)
    if not (held.splat and held.literal and held.text in neutral):
        before = aligned(writer, held, loops.maps[loops.inputs + number], loops.parallel)
        term = translate(writer, one, [before, term])
    if not span:
        return replace(term, dims=held.dims)
    return _result(writer, loops, term, number, held.dims)


def _einsum(writer: Writer, loops: Loops, block: Block) -> list[Term] | None:
    """Write sums of products of two operands as NumPy's. Return None if the body is anything else."""
    combined = _combined(loops, block, 0) if len(loops.results) == 1 else None
    if combined is None or combined[0].name != "arith.addf" or writer.narrow(combined[1].type):
        return None
    producers = {value: one for one in block.operations for value in one.results}
    product = producers.get(combined[1])
    if product is None or product.name != "arith.mulf" or writer.narrow(product.operands[0].type):
        return None
    places = []
    for factor in product.operands:
        widened = producers.get(factor)
        value = widened.operands[0] if widened and widened.name == "arith.extf" else factor
        if value not in block.arguments:
            return None
        places.append(block.arguments.index(value))
    terms = [writer.terms[loops.operands[place]] for place in places]
    if any(term.splat for term in terms):
        return None
    letters = []
    for number, place in enumerate(places):
        indices = loops.maps[place]
        axes = [int(each) for each in _LOOP.findall(" ".join(indices))]
        if not all(map(_LOOP.fullmatch, indices)) or len(set(axes)) < len(axes):
            axes = sorted(set(axes))
            writer.enter({loop: loops.sizes[loop] for loop in axes})
            terms[number] = aligned(writer, terms[number], indices, axes)
        letters.append("".join(_LETTERS[loop] for loop in axes))
    if len({*letters[0], *letters[1]}) < loops.count:
        return None
    pattern = f"{letters[0]},{letters[1]}->{''.join(_LETTERS[loop] for loop in loops.parallel)}"
    text = f'np.einsum("{pattern}", {terms[0].text}, {terms[1].text})'
    if _MATMUL.fullmatch(pattern):
        text = f"{terms[0].text} @ {terms[1].text}"
    return [_accumulated(writer, loops, 0, text, combined[0], _REDUCTIONS["arith.addf"][1])]


def _python_loop(writer: Writer, loops: Loops, block: Block, body: Body) -> list[Term]:
    """Write loops of Python over what is reduced."""
    terms = []
    for value, indices in zip(loops.results, loops.maps[loops.inputs :], strict=True):
        start = aligned(writer, writer.array(value), indices, loops.parallel)
        terms.append(writer.define(start.typed, start.element, span=frozenset(loops.parallel)))
    with ExitStack() as stack:
        for loop in loops.reduced:
            stack.enter_context(writer.block(f"for {writer.loop_prefix}{loop} in np.arange({loops.sizes[loop]}):"))
        _bind(writer, loops, block, loops.parallel)
        writer.terms.update(zip(block.arguments[loops.inputs :], terms, strict=True))
        sizes = tuple_of([loops.sizes[loop] for loop in loops.parallel])
        new = [
            each.typed if len(each.span) == len(loops.parallel) else f"np.broadcast_to({each.typed}, {sizes})"
            for each in body(block)
        ]
        writer.line(f"{', '.join(each.text for each in terms)} = {', '.join(new)}")
    return [
        _result(writer, loops, term, number, writer.terms[value].dims)
        for number, (term, value) in enumerate(zip(terms, loops.results, strict=True))
    ]
