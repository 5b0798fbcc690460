"""Prepare a file with a ``torch.nn.Module``: a program with its parameters as inputs, and what it gives in double.

The module is built once by a seed, its inputs drawn by another. What is expected is the same module in float64, so a wrong
model is not found: oracle and program have one author. A program that is too large for a test is scaled: the largest
whole number of those at the top of the file and in the functions for inputs is divided by 2 (by 4 where the program is 64 times
too large), again and again, with equal numbers in classes. A number stays if the module does not take its inputs with less,
or if less hardly helps. Where none can be made smaller by itself, all that are 8 or more are halved together, then those of
classes and constructors one by one. A program that no longer depends on a buffer or an input is refused.
"""

from __future__ import annotations

import ast
import linecache
import math
import random
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, NamedTuple

import numpy
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action, ActionFailed, under_test

#: The least size that scaling leaves of a number.
LEAST = 2
#: The least number that is halved together with all others that large, where none can be halved by itself, and that equal numbers
#: in classes follow: less is a kernel or a stride, as a rule.
TOGETHER = 8
#: What a smaller number must leave, at most, of what is too large.
HELPS = 0.9
#: The most elements of parameters and inputs of a program that is built at full size.
AFFORDABLE = 2**27
#: How many times as large as asked for a program may stay that cannot be scaled further.
BEYOND = 8
#: Recurrent layers: compilers see their steps, each about so many operators.
RECURRENT = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))
STEP_CALLS = 10
#: The distance between the seeds of two draws of inputs.
DRAW = 1_000_003
#: How many seeds NumPy has.
SEEDS = 2**32
#: What errors call the program: the path at which actions see it. Results have the user's own path there.
FILE = "in/source.py"

#: What makes a file of this form one of the framework's own.
PROGRAM = """

# What follows was added by the source torch-module: the parameters are inputs, too.
def _program():
    import random

    import numpy
    import torch
    from torch.utils import _pytree as pytree

    def seeded(seed):
        for each in (random.seed, numpy.random.seed, torch.manual_seed):
            each(seed)

    seeded({seed})
    {arguments}
    module = {model}(*positional, **named).train({training})
    names = [name for name, _ in (*module.named_parameters(), *module.named_buffers())]
    buffers = {{name for name, _ in module.named_buffers()}}
    seeded({input_seed})
    {inputs}
    leaves, form = pytree.tree_flatten((tuple(positional), named))

    def workload(*tensors):
        given = iter(tensors[len(names):])
        filled = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        # A module may write to its buffers, not to what it is given.
        state = {{name: each.clone() if name in buffers else each for name, each in zip(names, tensors)}}
        returned = torch.func.functional_call(module, state, *pytree.tree_unflatten(filled, form))
        return tuple(each for each in pytree.tree_leaves(returned) if isinstance(each, torch.Tensor))

    return workload


workload = _program()
"""


@dataclass(frozen=True)
class Options:
    """The parameters of this source."""

    model: str
    inputs: str
    arguments: str
    seed: int
    training: bool
    elements: int
    gflops: float
    calls: int


@dataclass
class Built:
    """A module and its inputs."""

    module: torch.nn.Module
    leaves: list[Any]
    form: Any
    #: The statements of the program that make the arguments of the constructor, and of the module.
    statements: tuple[str, str]

    @property
    def state(self) -> dict[str, torch.Tensor]:
        return {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}

    @property
    def tensors(self) -> list[torch.Tensor]:
        return _tensors(self.leaves)

    @property
    def inputs(self) -> list[tuple[str, torch.Tensor]]:
        return [*self.state.items(), *((f"input {at}", each) for at, each in enumerate(self.tensors))]

    def double(self) -> None:
        self.module.double()
        self.leaves = [_doubled(leaf) for leaf in self.leaves]

    def call(self) -> Any:
        positional, named = pytree.tree_unflatten(self.leaves, self.form)
        return self.module(*positional, **named)


def _doubled(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return leaf.double() if leaf.is_floating_point() else leaf.clone()


def _tensors(tree: Any) -> list[torch.Tensor]:
    """Return the tensors in lists, tuples and dictionaries."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def run(action: Action) -> None:
    """Write the program, its interface, its arguments and what is expected."""
    torch.set_num_threads(1)
    # The fast path of transformers has operators of its own, which no compiler sees.
    torch.backends.mha.set_fastpath_enabled(False)
    # There is no C++ compiler for torch.compile.
    torch.compiler.set_stance("force_eager")
    options = Options(**action.params["parameters"])
    if options.elements <= 0 or options.gflops <= 0:
        raise ActionFailed("'elements' and 'gflops' of the source must be more than 0")
    full = api.read_text(action.inputs["source"], "the program").removeprefix("\ufeff")
    text, scaled = _scaled(full, options)
    if scaled:
        # Before the program runs: whoever reads why it does not must know.
        api.write_json("metrics.json", {"scaled": scaled})
        _check_scaled(full, text, options, scaled)
    draw = int(action.params["draw"])

    def build() -> Built:
        return _build(_module(text), options, draw)

    built = build()
    footer = PROGRAM.format(
        seed=options.seed % SEEDS,
        # Of inputs, the program needs only their form.
        input_seed=_input_seed(options, 0) % SEEDS,
        arguments=built.statements[0],
        model=options.model,
        inputs=built.statements[1],
        training=options.training,
    )
    write_program = api.load(action.inputs["module_outputs.py"], "write_program")
    write_program(action, text + footer, build, action.inputs["error_bounds.py"])


def _module(text: str) -> ModuleType:
    """Execute the text of a file as a module."""
    module = ModuleType("program")
    module.__file__ = FILE
    sys.modules[module.__name__] = module
    # TorchScript reads the source of functions.
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    # As the importer does.
    _seed(0)
    with under_test(any_frame=True):
        exec(compile(text, FILE, "exec"), module.__dict__)
    return module


def _seed(seed: int) -> None:
    # Not torch.manual_seed, which formats the stack for each kind of device: 15 ms.
    for each in (random.seed, numpy.random.seed, torch.default_generator.manual_seed):
        each(seed % SEEDS)


def _named(module: ModuleType, name: str) -> Any:
    found = getattr(module, name, None)
    if found is None:
        raise ActionFailed(f"the file defines no {name}")
    return found


def _build(module: ModuleType, options: Options, draw: int) -> Built:
    """Return the module of a file and the inputs of a draw."""
    kind, inputs = _named(module, options.model), _named(module, options.inputs)
    arguments = getattr(module, options.arguments, None)
    with under_test(any_frame=True):
        _seed(options.seed)
        made = _arguments([] if arguments is None else arguments())
        built = kind(*made.positional, **made.named)
    if not isinstance(built, torch.nn.Module):
        raise ActionFailed(f"{options.model} is no torch.nn.Module")
    if lazy := next((name for name, each in built.named_parameters() if torch.nn.parameter.is_lazy(each)), ""):
        raise ActionFailed(f"the shape of parameter {lazy} is unknown before the module is called")
    with under_test(any_frame=True):
        _seed(_input_seed(options, draw))
        given = inputs()
    if given is None:
        raise ActionFailed(f"{options.inputs} returns None; expected a list of inputs")
    with under_test(any_frame=True):
        taken = _arguments(given, pair=False)
        leaves, form = pytree.tree_flatten((tuple(taken.positional), taken.named))
    called = "[]" if arguments is None else f"{options.arguments}()"
    statements = (made.statement.format(called), taken.statement.format(f"{options.inputs}()"))
    return Built(built.train(options.training), leaves, form, statements)


class Arguments(NamedTuple):
    """Arguments by position and by name, and the statement that makes them of what a function returns."""

    statement: str
    positional: Iterable[Any]
    named: dict[str, Any]


def _arguments(made: Any, *, pair: bool = True) -> Arguments:
    """Return arguments as a function of the program gives them: a list, one by name, or a single one.

    ``pair``: a list and a dictionary are arguments by position and by name.
    """
    match made:
        case dict():
            return Arguments("positional, named = [], {}", [], made)
        case [list() | tuple(), dict()] if pair:
            return Arguments("positional, named = {}", *made)
        case list() | tuple() | Iterator():
            return Arguments("positional, named = {}, {{}}", made, {})
        case _:
            return Arguments("positional, named = [{}], {{}}", [made], {})


def _input_seed(options: Options, draw: int) -> int:
    return options.seed + 1 + draw * DRAW


#: Where numbers are: at the top of the file and in the functions for inputs, in bodies of classes and in constructors, in methods.
TOP, CLASS, METHOD = range(3)
#: What is scaled: where numbers are, and their value. Equal numbers are one size, as a rule.
Key = tuple[int, int]


class Number(NamedTuple):
    """A whole number in a file; ``name`` is the variable or parameter that has it, or the function around it."""

    node: ast.Constant
    name: str
    key: Key


def _scaled(text: str, options: Options) -> tuple[str, str]:
    """Return the text of a program that is small enough, and what scaling replaced: ``n from 8 to 2``."""
    with under_test():
        tree = ast.parse(text, FILE)
    full = _size(text, options)
    if full is None or full.fits(options):
        return text, ""
    numbers = list(_numbers(tree, {options.inputs, options.arguments}))
    now, size = _smaller(text, numbers, full, options)
    changed = [each for each in numbers if now[each.key] != each.key[1]]
    words = ", ".join(dict.fromkeys(f"{each.name} from {each.key[1]} to {now[each.key]}" for each in changed))
    if size.work(options) > BEYOND:
        ends = f"scaling ends at {size} ({words})" if words else "no number in it can be made smaller"
        raise ActionFailed(
            f"the program has {full}; a test has at most {Size(options.elements, 1e9 * options.gflops, options.calls)}; {ends};"
            f" {_serving(text, numbers, options, size, full)} serves"
        )
    return _replaced(text, numbers, now), words


def _smaller(text: str, numbers: Sequence[Number], size: Size, options: Options) -> tuple[dict[Key, int], Size]:
    """Return smaller numbers for a program, as far as they are needed and can be found, and its size with them."""
    now = {number.key: number.key[1] for number in numbers}
    fixed = set[Key]()
    while not size.fits(options):
        for trial in _trials(now, fixed, size.work(options)):
            smaller = _size(_replaced(text, numbers, trial), options)
            if smaller is not None and smaller.helps(size, options):
                now, size = trial, smaller
                break
        else:
            break
    return now, size


def _serving(text: str, numbers: Sequence[Number], options: Options, *sizes: Size) -> str:
    """Return parameters of one of some sizes with which a program is taken; the last size is that of the whole program."""
    for size in sizes[:-1]:
        wider = replace(options, **size.over(options))
        if _smaller(text, numbers, sizes[-1], wider)[1].work(wider) <= BEYOND:
            return size.parameters(options)
    return sizes[-1].parameters(options)


def _trials(now: Mapping[Key, int], fixed: set[Key], work: float) -> Iterator[dict[Key, int]]:
    """Yield smaller numbers in the place of those of a program that is so many times too large.

    A number is left alone once it could not be made smaller by itself, until nothing else can be.
    """
    before = set(fixed)
    top = {key for key in now if key[0] == TOP}
    yield from _alone(now, top - fixed, fixed, work)
    large = {key for key in top if now[key] >= TOGETHER}
    for keys in _with_followers(now, large) if large else ():
        yield _divided(now, keys, 2)
    yield from _alone(now, {key for key in now if key[0] == CLASS} - fixed, fixed, work)
    yield from _alone(now, before, fixed, work)


def _alone(now: Mapping[Key, int], which: set[Key], fixed: set[Key], work: float) -> Iterator[dict[Key, int]]:
    """Yield what makes one number smaller, the largest first."""
    factors = (4, 2) if work > 64 else (2,)
    for key in sorted(which, key=lambda key: (-now[key], key)):
        if now[key] >= 2 * LEAST:
            for factor in factors:
                for keys in _with_followers(now, {key}):
                    yield _divided(now, keys, factor)
        fixed.add(key)


def _with_followers(now: Mapping[Key, int], keys: set[Key]) -> list[set[Key]]:
    """Return numbers with the equal ones in classes, with those outside of methods, and without any."""
    equal = {(now[key], key[1]) for key in keys if now[key] >= TOGETHER}
    follow = {key for key, value in now.items() if (value, key[1]) in equal}
    found = [keys | {key for key in follow if key[0] <= last} for last in (METHOD, CLASS, TOP)]
    return [each for at, each in enumerate(found) if each not in found[:at]]


def _divided(now: Mapping[Key, int], keys: set[Key], factor: int) -> dict[Key, int]:
    return {key: value // factor if key in keys else value for key, value in now.items()}


@dataclass(frozen=True)
class Size:
    """What a program costs."""

    elements: int
    flops: float
    calls: int

    def fits(self, options: Options) -> bool:
        return self.work(options) <= 1

    def helps(self, before: Size, options: Options) -> bool:
        """Return whether what is too large is clearly less than before, and nothing is more."""
        pairs = list(zip(self._parts(options), before._parts(options), strict=True))
        clear = self.fits(options) or any(was > 1 and now <= HELPS * was for now, was in pairs)
        return clear and all(now <= max(was, 1) for now, was in pairs)

    def work(self, options: Options) -> float:
        return max(self._parts(options))

    def _parts(self, options: Options) -> tuple[float, float, float]:
        return self.elements / options.elements, self.flops / options.gflops / 1e9, self.calls / options.calls

    def over(self, options: Options) -> dict[str, Any]:
        """Return the parameters of the source that are too small for it, with values that are not."""
        # In thousandths, rounded up.
        wanted = {"elements": self.elements, "gflops": math.ceil(self.flops / 1e6) / 1e3, "calls": self.calls}
        return {name: value for name, value in wanted.items() if value > getattr(options, name)}

    def parameters(self, options: Options) -> str:
        return f"'with: {{{', '.join(f'{name}: {value}' for name, value in self.over(options).items())}}}'"

    def __str__(self) -> str:
        return (
            f"{self.elements} elements, {self.flops / 1e9:.3g} billion operations and {self.calls} calls of operators"
        )


def _size(text: str, options: Options) -> Size | None:
    """Return what a program costs, without computing it; None where its module does not take its inputs."""
    cost = Cost()
    try:
        with torch.device("meta"), torch.no_grad():
            built = _build(_module(text), options, 0)
            with cost:
                returned = built.call()
            elements = sum(each.numel() for each in (*built.state.values(), *built.tensors, *_tensors(returned)))
    except BaseException:  # noqa: BLE001 - code of others; what is wrong with it shows when it runs
        return None
    return Size(max(elements, cost.largest), cost.operations, cost.calls)


class Cost(TorchFunctionMode):  # type: ignore[misc]
    """Counts the operations of a program, two for each product in a sum, and the elements of its largest result."""

    def __init__(self) -> None:
        super().__init__()
        self.operations, self.largest, self.calls = 0.0, 0, 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        made = _recurrent(args) if name in RECURRENT else function(*args, **(kwargs or {}))
        sizes = [each.numel() for each in _tensors(made)]
        self.largest = max(self.largest, *sizes) if sizes else self.largest
        self.operations += sum(sizes) * _products(name, _tensors(args))
        self.calls += _steps(args) * STEP_CALLS if name in RECURRENT else bool(sizes)
        return made


def _recurrent(args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    """Return what a recurrent layer gives, without its steps, which are many small ones."""
    states = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
    width = states[0].shape[-1] * (2 if args[7] else 1)
    return args[0].new_empty((*args[0].shape[:-1], width)), *states


def _steps(args: Sequence[Any]) -> int:
    """Return how many steps a recurrent layer takes, in all its layers and directions."""
    data, layers, both, batch_first = args[0], args[4], args[7], args[-1]
    return int(layers) * (2 if both else 1) * int(data.shape[1 if batch_first is True and data.dim() == 3 else 0])


def _products(name: str, operands: Sequence[torch.Tensor]) -> float:
    """Return how many operations an element of a result takes, by the name of the function."""
    if len(operands) < 2:
        return 1.0
    first, second = operands[:2]
    match name:
        case "linear" | "einsum":
            return 2.0 * int(first.shape[-1]) if first.dim() else 1.0
        case "matmul" | "mm" | "bmm" | "__matmul__" | "mv" | "dot":
            return 2.0 * int(first.shape[-1])
        case "addmm" | "baddbmm":
            return 2.0 * int(second.shape[-1])
        case "conv1d" | "conv2d" | "conv3d":
            return 2.0 * int(second.numel()) / int(second.shape[0])
        case "conv_transpose1d" | "conv_transpose2d" | "conv_transpose3d":
            return 2.0 * int(second.numel()) / int(second.shape[1])
        case "scaled_dot_product_attention":
            return 4.0 * int(second.shape[-2])
        case _ if name in RECURRENT:
            return 2.0 * sum(int(each.numel()) for each in operands[1:]) / max(int(operands[-1].shape[-1]), 1)
    return 1.0


def _numbers(tree: ast.Module, functions: Collection[str]) -> Iterator[Number]:
    """Yield the whole numbers in assignments at the top of a file, in the functions for inputs and arguments, and in classes."""
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            for each in statement.body:
                if isinstance(each, ast.FunctionDef):
                    yield from _constants(each, each.name, CLASS if each.name == "__init__" else METHOD)
                elif isinstance(each, (ast.Assign, ast.AnnAssign)):
                    yield from _constants(each, "", CLASS)
        elif isinstance(statement, ast.FunctionDef) and statement.name in functions:
            yield from _constants(statement, statement.name, TOP)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            yield from _constants(statement, "", TOP)


def _constants(node: ast.AST, name: str, place: int) -> Iterator[Number]:
    """Yield the whole numbers below a node; ``name`` is that of what is around it."""
    named: list[tuple[ast.AST, str]] = [(each, name) for each in ast.iter_child_nodes(node)]
    match node:
        case ast.Constant(value=int() as value) if type(value) is int and value > 1:
            yield Number(node, name, (place, value))
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            named = [(value, ast.unparse(each)) for each, value in zip(names, values, strict=True)]
        case ast.Assign(targets=[target], value=made) | ast.AnnAssign(target=target, value=ast.expr() as made):
            named = [(made, ast.unparse(target))]
        case ast.keyword(arg=str(argument), value=made):
            named = [(made, argument)]
        case ast.arguments(posonlyargs=first, args=then, defaults=defaults):
            positional = [*first, *then][len(first) + len(then) - len(defaults) :]
            pairs = (*zip(positional, defaults, strict=True), *zip(node.kwonlyargs, node.kw_defaults, strict=True))
            named = [(value, each.arg) for each, value in pairs if value is not None]
    for each, around in named:
        yield from _constants(each, around, place)


def _replaced(text: str, numbers: Sequence[Number], values: Mapping[Key, int]) -> str:
    """Return a text with other values of its numbers."""
    data, begins = text.encode(), [0]
    for line in data.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    spans = [(begins[at.lineno - 1] + at.col_offset, begins[(at.end_lineno or 1) - 1] + (at.end_col_offset or 0), values[key])
             for at, _, key in numbers if values[key] != key[1]]  # fmt: skip
    for start, end, value in sorted(spans, reverse=True):
        data = data[:start] + str(value).encode() + data[end:]
    return data.decode()


#: The shape, the strides and the offset of a part of a tensor.
View = tuple[torch.Size, tuple[int, ...], int]


class Reads(TorchDispatchMode):  # type: ignore[misc]
    """Collects the parts of tensors that operators read, by name; and whether an operator reads a tensor without elements."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self._names = {tensor.untyped_storage()._cdata: name for name, tensor in tensors.items()}
        self._tensors = tensors
        self.views: dict[str, set[View]] = {}
        self.reads_nothing = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for read in [] if function.is_view else _tensors((args, kwargs)):
            self.reads_nothing = self.reads_nothing or not read.numel()
            name = self._names.get(read.untyped_storage()._cdata)
            if name is not None and read.numel():
                part = read if read.dtype == self._tensors[name].dtype else self._tensors[name]
                self.views.setdefault(name, set()).add((part.shape, part.stride(), part.storage_offset()))
        return function(*args, **(kwargs or {}))


def _check_scaled(full: str, text: str, options: Options, scaled: str) -> None:
    """Raise ActionFailed if a scaled program no longer depends on what a buffer or an input holds."""
    try:
        lost = _lost(full, text, options)
    except BaseException:  # noqa: BLE001 - code of others, which may be too large to build; what is wrong with it shows when it runs
        return
    whole = _size(full, options)
    if lost and whole:
        raise ActionFailed(
            f"the program no longer depends on {' and '.join(sorted(lost))} where it is small enough for a test ({scaled}):"
            f" it reads nothing of that, or only equal elements; {whole.parameters(options)} leaves it as it is"
        )


def _lost(full: str, text: str, options: Options) -> list[str]:
    """Return the tensors of which a scaled program reads nothing, or only equal elements, unlike the whole one."""
    (elements, before), (_, after) = (_reads(each, options) for each in (full, text))
    small = _given(text, options)[1]
    lost = [name for name in before.views.keys() & small.keys() if _is_equal(small[name], after.views.get(name, ()))]
    if elements > AFFORDABLE:
        lost = [name for name in lost if name not in after.views]
    elif lost:
        large = _given(full, options)[1]
        lost = [name for name in lost if not _is_equal(large[name], before.views[name])]
    return lost or (["a part of a tensor"] if after.reads_nothing and not before.reads_nothing else [])


def _reads(text: str, options: Options) -> tuple[int, Reads]:
    """Return how many elements a module and its inputs have, and what it reads of these."""
    with torch.device("meta"), torch.no_grad():
        built, given = _given(text, options)
        reads = Reads(given)
        with Cost(), reads:
            built.call()
    return sum(each.numel() for each in (*built.module.parameters(), *given.values())), reads


def _given(text: str, options: Options) -> tuple[Built, dict[str, torch.Tensor]]:
    """Return a module, and the tensors that its author did not draw: buffers, inputs, other attributes and global variables."""
    module = _module(text)
    built = _build(module, options, 0)
    found = {f"global {name}": each for name, each in vars(module).items()}
    for path, part in built.module.named_modules():
        found |= {f"attribute {path}{path and '.'}{name}": each for name, each in vars(part).items()}
    found |= {f"buffer {name}": each for name, each in built.module.named_buffers()}
    found |= {f"input {at}": each for at, each in enumerate(built.tensors)}
    return built, {name: each for name, each in found.items() if isinstance(each, torch.Tensor)}


def _is_equal(tensor: torch.Tensor, views: Collection[View]) -> bool:
    """Return whether all elements of some parts of a tensor are equal."""
    parts = [tensor.as_strided(*view).reshape(-1) for view in views]
    return all(bool((part == parts[0][0]).all()) for part in parts)
