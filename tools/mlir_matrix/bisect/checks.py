"""Return commands that show what is wrong with the outputs of a test: they print it beside what is right, and fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from mlir_matrix.actions.runtime.outcomes import Outcome
from mlir_matrix.actions.tools.kernel import ENTRY
from mlir_matrix.execute.action_cache import Result
from mlir_matrix.plan.graph import Action, Input, Produced
from mlir_matrix.plan.planner import Plan

#: Command lines, and the files that they need.
Checks: TypeAlias = tuple[list[list[str]], dict[str, bytes]]
_NUMPY = "import numpy; numpy.testing.assert_allclose(numpy.load('{}'), numpy.load('{}'), {!r}, {!r})"


def call_and_compare(
    plan: Plan, run: Action, result: Result, names: Mapping[Input, str], data: Callable[[Input], bytes]
) -> Checks:
    """Return commands that link an object, the driver's input, with a C program which calls it; ``names``: those of all files."""
    from mlir_matrix.compare.c_program import Expected, c_program  # imports NumPy

    actions = plan.graph.actions
    link = next((actions[each] for each in run.sources if actions[each].tool == "link"), None)
    judge = _judge(plan, run)
    # What the driver complains of, such as memory that nobody has written, no other program sees.
    is_seen = result.ok or result.outcome["outcome"] in (Outcome.CRASHED, Outcome.TIMED_OUT)
    if link is None or judge is None or "draws" in run.params or not is_seen:
        return [], {}
    try:
        arguments = [(each, data(run.inputs[f"arg-{each['name']}"])) for each in run.params["arguments"]]
        results = [
            Expected(
                output=each,
                values=data(judge.inputs[f"expected-{each['name']}"]),
                bounds=data(judge.inputs[f"bound-{each['name']}"]) if f"bound-{each['name']}" in judge.inputs else None,
            )
            for each in judge.params["outputs"]
        ]
        text = c_program(ENTRY, arguments, results, data(link.inputs["object"]))
    except (KeyError, ValueError, EOFError):
        # A golden of which only a sketch is kept, or a file that is lost.
        text = ""
    if not text:
        return [], {}
    kernel = names[link.inputs["object"]]
    triple = next(str(actions[each].params["triple"]) for each in link.sources if "triple" in actions[each].params)
    own = triple.startswith("x86_64-linux")
    compiler = ["cc"] if own else ["python3", "-m", "ziglang", "cc", "-target", triple]
    lines = [
        # The entry point calls the kernel's own main, which is not C's.
        ["objcopy" if own else "llvm-objcopy", f"--keep-global-symbol={ENTRY}", kernel],
        [*compiler, "main.c", kernel, "-lm", "-o", "main"],
        [*run.params.get("runner", ()), "./main"],
    ]
    return lines, {"main.c": text.encode()}


def compare_files(plan: Plan, run: Action, names: Mapping[Input, str], data: Callable[[Input], bytes]) -> Checks:
    """Return commands of NumPy that compare the files which a program wrote."""
    judge, lines, files = _judge(plan, run), list[list[str]](), dict[str, bytes]()
    if judge is None:
        return [], {}
    for output in judge.params["outputs"]:
        name, actual = output["name"], Produced(run.id, f"out-{output['name']}")
        expected = judge.inputs.get(f"expected-{name}")
        plain = output["compare"] in ("numeric", "exact") and output["dtype"][:2] not in ("bf", "f8")
        if plain and expected and actual in names and f"bound-{name}" not in judge.inputs:
            bounds = (output["rtol"], output["atol"]) if output["compare"] == "numeric" else (0, 0)
            lines.append(["python3", "-c", _NUMPY.format(names[actual], f"expected-{name}.npy", *bounds)])
            files[f"expected-{name}.npy"] = data(expected)
    return lines, files


def _judge(plan: Plan, run: Action) -> Action | None:
    return next((each for each in plan.graph.actions.values() if each.tool == "judge" and run.id in each.sources), None)
