"""Prepare an end-to-end test of torch-mlir: the module that it tests, and what it gives in double.

A test is a function that calls the module with inputs, by a registry and a framework of torch-mlir's own, for which this file
has stand-ins. Of a file with hundreds of tests, the program keeps the statements that one test needs, at their own lines. Its
parameters are constants, as in torch-mlir's own runs. Inputs are what the test passes to the module; each call is a result.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import torch

from mlir_matrix.actions import api
from mlir_matrix.actions.api import Action, ActionFailed, under_test

#: What errors call the program: the path at which actions see it. Results have the user's own path there.
FILE = "in/source.py"
#: The package of torch-mlir that registers and runs tests, and what stands for its names.
FRAMEWORK = "torch_mlir_e2e_test"
STAND_INS = {
    "register_test_case": "lambda module_factory, **_: lambda test: (module_factory, test)",
    "annotate_args": "lambda _: lambda function: function",
    "export": "lambda function: function",
    "TestUtils": "object",
}
#: The first line of a statement at the top of a file: not a comment, nor the end of a statement that began before.
BEGINS = re.compile(r"(?![#)\]}\s]|(?:else|elif|except|finally)\b)")
#: The line with the name of what a function or class defines, after its decorators.
NAMED = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)
#: What the dtypes are in double.
WIDE = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64, torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}  # fmt: skip
WORD = re.compile(r"[A-Za-z_]\w*")

PROGRAM = '''

# What follows was added by the source torch-mlir-e2e.
import random

import numpy
from torch.utils import _pytree as pytree


class _Drawn:
    """Draws inputs as torch-mlir's own TestUtils does."""

    def rand(self, *sizes, low=0.0, high=1.0):
        return torch.empty(sizes).uniform_(low, high)

    def randint(self, *sizes, low=0, high=10, dtype=torch.int64):
        return torch.randint(low, high, sizes, dtype=dtype)

    def nans(self, *sizes):
        return torch.full(sizes, torch.nan)


class _Recorded:
    """Stands for the module in a test, and records what it is called with."""

    def __init__(self, module):
        self._module = module
        self.calls, self.writes, self.changed, self.numbers = [], [], set(), False

    def __getattr__(self, name):
        def call(*args, **kwargs):
            copied = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
            self.calls.append((name, copied))
            given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            versions = [each._version for each in given]
            buffers = {path: each._version for path, each in self._module.named_buffers()}
            returned = getattr(self._module, name)(*args, **kwargs)
            self.writes += [each._version != version for each, version in zip(given, versions)]
            self.changed |= {path for path, each in self._module.named_buffers() if each._version != buffers[path]}
            self.numbers |= any(isinstance(leaf, (bool, int, float)) for leaf in pytree.tree_leaves(returned))
            return returned

        return call


class _Workload(torch.nn.Module):
    """Makes the calls of a test with other inputs; numbers that they return are tensors here."""

    def __init__(self, seed):
        super().__init__()
        factory, test = THE_TEST
        recorded = _Recorded(_seeded(0, factory))
        with torch.no_grad():
            _seeded(seed, lambda: test(recorded, _Drawn()))
        self.test = _seeded(0, factory)
        #: Numbers that depend on data need Dynamo's export, which torch-mlir's own tests use.
        self.strict = recorded.numbers
        self.calls = [name for name, _ in recorded.calls]
        self.writes, self.changed = recorded.writes, recorded.changed
        self.leaves, self.form = pytree.tree_flatten([given for _, given in recorded.calls])

    def forward(self, *tensors):
        # A kernel must not write to its inputs, and has no results but those of the calls.
        given = iter([each.clone() if writes else each for each, writes in zip(tensors, self.writes)])
        filled = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        taken = pytree.tree_unflatten(filled, self.form)
        returned = [self.call(name, *each) for name, each in zip(self.calls, taken)]
        return tuple(_as_tensor(each) for each in pytree.tree_leaves(returned) if each is not None)

    def call(self, name, args, kwargs):
        if name != "forward" or not self.changed:
            return getattr(self.test, name)(*args, **kwargs)
        buffers = {path: self.test.get_buffer(path).clone() for path in self.changed}
        return torch.func.functional_call(self.test, buffers, args, kwargs)


def _seeded(seed, function):
    # Not torch.manual_seed, which formats the stack for each kind of device.
    for each in (random.seed, numpy.random.seed, torch.default_generator.manual_seed):
        each(seed)
    return function()


def _as_tensor(value):
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (bool, torch.SymBool)):
        return torch.ops.aten.scalar_tensor(value, dtype=torch.bool)
    dtype = torch.int64 if isinstance(value, (int, torch.SymInt)) else torch.float64
    return torch.ops.aten.scalar_tensor(value, dtype=dtype)


workload = _Workload(0)
'''


class Built:
    """A workload with the inputs of a draw."""

    def __init__(self, workload: Any) -> None:
        self.workload = workload
        self.tensors = [leaf for leaf in workload.leaves if isinstance(leaf, torch.Tensor)]

    @property
    def state(self) -> dict[str, torch.Tensor]:
        return {**dict(self.workload.named_parameters()), **dict(self.workload.named_buffers())}

    @property
    def inputs(self) -> list[tuple[str, torch.Tensor]]:
        return [(f"input {at}", each) for at, each in enumerate(self.tensors)]

    def double(self) -> None:
        self.workload.double()
        self.tensors = [each.to(WIDE.get(each.dtype, each.dtype), copy=True) for each in self.tensors]

    def call(self) -> Any:
        return self.workload(*self.tensors)


def run(action: Action) -> None:
    """Write the program, its interface, its arguments and what is expected."""
    torch.set_num_threads(1)
    file, _, test = str(action.params["member"]).partition("::")
    text = api.read_text(action.inputs["source"], "the program").removeprefix("\ufeff")
    program = program_of(text, file, test) + PROGRAM.replace("THE_TEST", test)
    module = _module(program)
    draw = int(action.params["draw"])

    def build() -> Built:
        with under_test(any_frame=True):
            built = Built(module._Workload(draw))
        if not built.workload.calls:
            raise ActionFailed(f"{test} does not call the module")
        return built

    write_program = api.load(action.inputs["module_outputs.py"], "write_program")
    write_program(action, program, build, action.inputs["error_bounds.py"])


def _module(text: str) -> ModuleType:
    """Execute a program as the importer does."""
    module = ModuleType("program")
    module.__file__ = FILE
    sys.modules[module.__name__] = module
    with under_test(any_frame=True):
        exec(compile(text, FILE, "exec"), module.__dict__)
    return module


class Statement(NamedTuple):
    """A statement at the top of a file: the number of its first line, its text, and the names that it defines."""

    line: int
    text: str
    names: Sequence[str]


def program_of(text: str, file: str, test: str) -> str:
    """Return the statements that a test needs, each at its own line. Raise ActionFailed."""
    try:
        kept = _needed(list(_by_lines(text)), test)
    except SyntaxError:
        # Lines that look like statements are part of one, such as of a text.
        with under_test(any_frame=True):
            kept = _needed(list(_by_syntax(text)), test)
    if not kept:
        raise ActionFailed(f"{file} has no test {test}")
    lines = [""] * (kept[-1].line + kept[-1].text.count("\n"))
    for statement in kept:
        own = statement.text.split("\n")
        lines[statement.line - 1 : statement.line - 1 + len(own)] = own
    if not lines[0]:
        lines[0] = f"# {test} of {file}, at its own lines, without what it does not need."
    return "\n".join(lines) + "\n"


def _by_lines(text: str) -> Iterator[Statement]:
    """Yield the statements at the top of a file: what begins at the margin. Parsing 8,000 lines takes some 0.1 s."""
    lines = text.split("\n")
    starts = [at for at, line in enumerate(lines) if line and BEGINS.match(line)]
    # A decorator belongs to what it decorates.
    starts = [at for index, at in enumerate(starts) if not index or lines[starts[index - 1]][0] != "@"]
    for at, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        own = "\n".join(lines[at:end]).rstrip()
        yield Statement(at + 1, own, _names(own))


def _by_syntax(text: str) -> Iterator[Statement]:
    for node in ast.parse(text, FILE).body:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        own = "\n".join(text.split("\n")[first - 1 : node.end_lineno])
        yield Statement(first, own, _names(own))


def _names(text: str) -> list[str]:
    """Return the names that a statement defines. Raise SyntaxError."""
    if text.startswith(("@", "def ", "class ", "async ")):
        found = NAMED.search(text)
        return [found[1]] if found else []
    names: list[str] = []
    for node in ast.walk(ast.parse(text, FILE)):
        match node:
            case ast.alias():
                names.append(node.asname or node.name.partition(".")[0])
            case ast.FunctionDef() | ast.ClassDef():
                names.append(node.name)
            case ast.Name(ctx=ast.Store()):
                names.append(node.id)
    return names


def _needed(statements: Sequence[Statement], test: str) -> list[Statement]:
    """Return the statements that define a test, and those that define the names in any of them. Raise SyntaxError."""
    defined: dict[str, list[Statement]] = {}
    for statement in statements:
        for name in statement.names:
            defined.setdefault(name, []).append(statement)
    kept: dict[int, Statement] = {}
    waiting = [test, "torch"] if test in defined else []
    seen = set(waiting)
    while waiting:
        for statement in defined.get(waiting.pop(), ()):
            if statement.line not in kept:
                kept[statement.line] = _stand_in(statement)
                new = set(WORD.findall(kept[statement.line].text)) - seen
                seen |= new
                waiting += new
    for statement in kept.values():
        ast.parse(statement.text, FILE)
    return [kept[line] for line in sorted(kept)]


def _stand_in(statement: Statement) -> Statement:
    """Return a statement, or what stands for an import of torch-mlir's own framework."""
    if not statement.text.startswith(f"from {FRAMEWORK}"):
        return statement
    node, *others = ast.parse(statement.text).body
    if others or not isinstance(node, ast.ImportFrom):
        raise ActionFailed(
            f"line {statement.line} has more than an import of {FRAMEWORK}; put that on a line of its own"
        )
    if unknown := [each.name for each in node.names if each.name not in STAND_INS]:
        raise ActionFailed(f"nothing stands for {', '.join(unknown)} of {node.module}; known: {', '.join(STAND_INS)}")
    made = [f"{each.asname or each.name} = {STAND_INS[each.name]}" for each in node.names]
    return statement._replace(text="; ".join(made) + "\n" * statement.text.count("\n"))
