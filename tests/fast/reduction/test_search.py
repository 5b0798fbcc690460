"""The search: from random programs it keeps what a predicate needs, by candidates that are always well formed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from mlir_matrix.reduction.search import Candidate, Size, reduce, size_of
from mlir_matrix.reduction.tree import Module, Operation, Value, blocks_of, parse, text_of, walk

TENSOR, SCALAR = "tensor<4xf32>", "f32"


def check(operation: Operation, visible: frozenset[Value] = frozenset()) -> None:
    """Assert that operands are defined before their uses, and that functions have the types of their bodies."""
    assert set(operation.operands) <= visible
    for block in blocks_of(operation):
        inside = visible | set(block.arguments)
        for one in block.operations:
            check(one, inside)
            inside |= set(one.results)
    if operation.name == "func.func":
        block = operation.regions[0][0]
        types = [", ".join(each.type for each in values) for values in (block.arguments, block.operations[-1].operands)]
        results = f"({types[1]})" if types[1].count(",") != 0 or not types[1] else types[1]
        assert (
            operation.properties["function_type"].replace(f"-> ({results})", f"-> {results}")
            == f"({types[0]}) -> {results}"
        )


class CountingTester:
    """A predicate on modules, which counts what it is asked and checks each module."""

    def __init__(self, predicate: Callable[[Module], bool]) -> None:
        self.predicate = predicate
        self.asked: list[str] = []

    def first(self, candidates: Iterable[Candidate]) -> Candidate | None:
        for candidate in candidates:
            check(candidate.module.operation)
            self.asked.append(text_of(candidate.module))
            assert text_of(parse(self.asked[-1])) == self.asked[-1]
            if self.predicate(candidate.module):
                return candidate
        return None


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A function of two arguments; operations take and give tensors or scalars; some have a region that sees all before it."""
    values = [("%a", TENSOR), ("%b", SCALAR)]
    lines: list[str] = []

    def add(name: str, operands: list[tuple[str, str]], result: str, body: str = "") -> tuple[str, str]:
        value = (f"%{len(lines)}", result)
        names, types = ", ".join(each[0] for each in operands), ", ".join(each[1] for each in operands)
        lines.append(f'{value[0]} = "{name}"({names}) {body} : ({types}) -> {result}')
        return value

    kinds = draw(st.lists(st.sampled_from([TENSOR, SCALAR]), min_size=3, max_size=25))
    planted = draw(st.integers(0, len(kinds) - 1))
    for number, kind in enumerate(kinds):
        operands = draw(st.lists(st.sampled_from(values), max_size=3))
        if number == planted:
            values.append(add("x.second", [add("x.first", values[:1], TENSOR)], TENSOR))
        inner = draw(st.sampled_from(values))
        body = f'({{ %v = "y.inner"({inner[0]}) : ({inner[1]}) -> {kind} "y.yield"(%v) : ({kind}) -> () }})'
        values.append(add(f"y.{number % 5}", operands, kind, draw(st.sampled_from(["", body]))))
    returned = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    names, types = ", ".join(each[0] for each in returned), ", ".join(each[1] for each in returned)
    body = "\n".join(lines)
    return (
        f'"builtin.module"() ({{ "func.func"() <{{function_type = ({TENSOR}, {SCALAR}) -> ({types}), sym_name = "main"}}> ({{\n'
        f'^bb0(%a: {TENSOR}, %b: {SCALAR}):\n{body}\n"func.return"({names}) : ({types}) -> ()\n}}) : () -> () }}) : () -> ()'
    )


def is_planted(module: Module) -> bool:
    """Return True if x.second takes what x.first gives."""
    first = {value for one in walk(module.operation) if one.name == "x.first" for value in one.results}
    return any(one.name == "x.second" and set(one.operands) & first for one in walk(module.operation))


def outlives(module: Module) -> bool:
    """Return True if a result of @main needs x.second, which needs x.first."""
    operations = list(walk(module.operation))
    needed = set(operations[1].regions[0][0].operations[-1].operands)
    for one in reversed(operations):
        if needed & set(one.results):
            needed |= {value for inner in walk(one) for value in inner.operands}
    return any(one.name == "x.second" and set(one.results) & needed for one in operations) and is_planted(module)


@settings(max_examples=25)
@given(programs())
def test_planted_pair(text: str) -> None:
    tester = CountingTester(is_planted)
    found = reduce(parse(text), tester)
    names = [one.name for one in walk(found.module.operation)]
    assert names == ["builtin.module", "func.func", "x.first", "x.second", "func.return"]
    assert len(found.module.operation.regions[0][0].operations[0].regions[0][0].arguments) == 1
    assert len(tester.asked) < 60 * text.count("\n")


@settings(max_examples=25)
@given(programs().filter(lambda text: outlives(parse(text))))
def test_planted_pair_that_is_returned(text: str) -> None:
    found = reduce(parse(text), CountingTester(outlives))
    assert [one.name for one in walk(found.module.operation)][2:] == ["x.first", "x.second", "func.return"]


@settings(max_examples=25)
@given(programs(), st.integers(0, 2**32))
def test_any_answers(text: str, answers: int) -> None:
    """Whatever a predicate says, the search ends, its candidates shrink, and the same answers give the same text."""
    found = []
    for _ in range(2):
        sizes = []

        def predicate(module: Module, sizes: list[Size] = sizes) -> bool:
            sizes.append(size_of(Candidate(module, "")))
            return answers >> (len(sizes) % 32) & 1 == 1

        found.append((text_of(reduce(parse(text), CountingTester(predicate)).module), sizes))
    assert found[0] == found[1]
