"""Make commands that show the wrong outputs of a test: they print wrong elements beside expected ones, and fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.mlir.interface import ENTRY
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.execute.action_cache import Result
from mlir_matrix.plan.graph import Input, PlannedAction, Produced
from mlir_matrix.plan.planner import PlannedTests

#: Command lines, and the files that they need.
Checks: TypeAlias = tuple[list[list[str]], dict[str, bytes]]
#: The input with the code, by tool that makes kernels.
_KERNELS = {"link": "object", "compile_jit": "ir"}
#: The release of LLVM from which on the runner has a new name. A release that is not pinned is newer.
_LLVM, _RENAMED = re.compile(r"\bllvm=(\d+)"), 20
#: The function of the library, and the end of a module, which calls it.
_CALLER = "call_kernel"
_ENTRY_POINT = f"""\
  llvm.func @{_CALLER}(!llvm.ptr)
  llvm.func @start() {{
    %kernel = llvm.mlir.addressof @{ENTRY} : !llvm.ptr
    llvm.call @{_CALLER}(%kernel) : (!llvm.ptr) -> ()
    llvm.return
  }}
}}
"""
_NUMPY = "import numpy; numpy.testing.assert_allclose(numpy.load('{}'), numpy.load('{}'), {!r}, {!r})"


def call_and_compare(
    plan: PlannedTests, run: PlannedAction, result: Result, names: Mapping[Input, str], data: Callable[[Input], bytes]
) -> Checks:
    """Return commands that call a kernel from a C program; ``names``: those of all files.

    The program is linked with the kernel's object. If MLIR's runner compiles the kernel in memory, the program is a library.
    """
    from mlir_matrix.compare.c_program import ExpectedBytes, c_program  # imports NumPy

    actions = plan.graph.actions
    made = next((actions[each] for each in run.sources if actions[each].tool in _KERNELS), None)
    judge = _judge(plan, run)
    # Some failures, such as unwritten memory, are visible only to the driver.
    is_seen = result.ok or result.outcome["outcome"] in (Outcome.CRASHED, Outcome.TIMED_OUT)
    if made is None or judge is None or "draws" in run.params or not is_seen:
        return [], {}
    bounds = Role.BOUND.among(judge.inputs)
    kernel, in_memory = made.inputs[_KERNELS[made.tool]], made.tool == "compile_jit"
    try:
        arguments = [(each, data(run.inputs[Role.ARGUMENT.of(each["name"])])) for each in run.params["arguments"]]
        results = [
            ExpectedBytes(
                output=each,
                values=data(judge.inputs[Role.EXPECTED.of(each["name"])]),
                bounds=data(bounds[each["name"]]) if each["name"] in bounds else None,
            )
            for each in judge.params["outputs"]
        ]
        text = c_program(ENTRY, arguments, results, data(kernel), caller=_CALLER if in_memory else "")
    except (KeyError, ValueError, EOFError):
        # The golden is stored as a sketch, or a file is lost.
        text = ""
    if not text:
        return [], {}
    if in_memory:
        return _in_memory(run, names[kernel]), {"main.c": text.encode(), "entry.mlir": _ENTRY_POINT.encode()}
    triple = next(str(actions[each].params["triple"]) for each in made.sources if "triple" in actions[each].params)
    return _linked(run, names[kernel], triple), {"main.c": text.encode()}


def _linked(run: PlannedAction, kernel: str, triple: str) -> list[list[str]]:
    """Return commands that link an object with the C program."""
    own = triple.startswith("x86_64-linux")
    compiler = ["cc"] if own else ["python3", "-m", "ziglang", "cc", "-target", triple]
    return [
        # Hide the kernel's own main, which the entry point calls, because C has another main.
        ["objcopy" if own else "llvm-objcopy", f"--keep-global-symbol={ENTRY}", kernel],
        [*compiler, "main.c", kernel, "-lm", "-o", "main"],
        [*run.params.get("runner", ()), "./main"],
    ]


def _in_memory(run: PlannedAction, kernel: str) -> list[list[str]]:
    """Return commands that add the entry point to a module and run it by MLIR's runner."""
    pinned = _LLVM.search(run.environment)
    runner = "mlir-cpu-runner" if pinned and int(pinned[1]) < _RENAMED else "mlir-runner"
    level = run.params.get("parameters", {}).get("opt-level", 2)
    return [
        ["cc", "-shared", "-fPIC", "main.c", "-lm", "-o", "main.so"],
        ["sed", "-i", "-e", "/^}$/{r entry.mlir", "-e", "d}", kernel],
        [runner, "-e", "start", "--entry-point-result=void", f"-O{level}", "--shared-libs=./main.so", kernel],
    ]


def compare_files(
    plan: PlannedTests, run: PlannedAction, names: Mapping[Input, str], data: Callable[[Input], bytes]
) -> Checks:
    """Return commands of NumPy that compare the files which a program wrote."""
    judge, lines, files = _judge(plan, run), list[list[str]](), dict[str, bytes]()
    if judge is None:
        return [], {}
    for output in judge.params["outputs"]:
        name = output["name"]
        actual = Produced(run.id, Role.RESULT.of(name))
        expected = judge.inputs.get(Role.EXPECTED.of(name))
        plain = output["compare"] in ("numeric", "exact") and output["dtype"][:2] not in ("bf", "f8")
        if plain and expected and actual in names and Role.BOUND.of(name) not in judge.inputs:
            bounds = (output["rtol"], output["atol"]) if output["compare"] == "numeric" else (0, 0)
            lines.append(["python3", "-c", _NUMPY.format(names[actual], f"expected-{name}.npy", *bounds)])
            files[f"expected-{name}.npy"] = data(expected)
    return lines, files


def _judge(plan: PlannedTests, run: PlannedAction) -> PlannedAction | None:
    return next((each for each in plan.graph.actions.values() if each.tool == "judge" and run.id in each.sources), None)
