"""What a plan says of timing: a kernel is linked with the driver that measures, and a target without a timer says why."""

from __future__ import annotations

import pytest

from mlir_matrix.environments.session import Session
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.plan.graph import Produced
from mlir_matrix.plan.planner import Planner
from mlir_matrix.plan.run_kernels import BENCH
from mlir_matrix.plan.session import select_tests


@pytest.fixture
def planner(current: Session) -> Planner:
    return Planner(current.catalog, ToleranceResolver(current.catalog).of, current.pins)


def test_a_kernel_is_linked_with_both_drivers(current: Session, planner: Planner) -> None:
    (test,) = select_tests(current, ["mlir/linalg-loops/x86_64/matmul"])
    planner.add(test)
    program = planner.chains.bench(test, planner.chains.compile(test))
    (run,) = (each for each in planner.graph.actions.values() if each.stage == "run")
    kernel = program.inputs["kernel"]
    assert isinstance(kernel, Produced)
    assert kernel.action != run.inputs["kernel"]
    assert program.tool == BENCH
    assert program.params is run.params
    assert program.outputs is run.outputs
    bench = planner.graph.actions[kernel.action]
    assert isinstance(bench.inputs["driver"], Produced)
    assert bench.inputs["driver"].output == "bench"


def test_a_program_of_a_runtime_is_that_of_its_run(current: Session, planner: Planner) -> None:
    (test,) = select_tests(current, ["onnx/onnxruntime/onnxruntime-cpu/matmul"])
    planner.add(test)
    program = planner.chains.bench(test, planner.chains.compile(test))
    (run,) = (each for each in planner.graph.actions.values() if each.stage == "run")
    assert (program.tool, program.environment) == (run.tool, run.environment)
    assert (program.params, program.inputs, program.outputs) == (run.params, run.inputs, run.outputs)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mlir/linalg-loops/x86_64/matmul", ""),
        ("mlir/iree-llvm-cpu/iree-local/matmul", ""),
        ("mlir/linalg-loops/aarch64/matmul", "qemu-aarch64 emulates the target, and times of an emulator say nothing"),
        ("mlir/linalg-loops/wasm32/matmul", "target wasm32 does not time its calls"),
        ("onnx/linalg-loops/x86_64/onnx-nodes:test_abs", "kernels of programs in the form onnx-node are not timed"),
        ("mlir/linalg-gpu/nvptx-sm80/matmul", "target nvptx-sm80 only compiles: there are no outputs"),
    ],
)
def test_targets_without_a_timer_say_why(current: Session, planner: Planner, name: str, reason: str) -> None:
    (test,) = select_tests(current, [name])
    assert planner.chains.without_timer(test).startswith(reason)
    assert bool(planner.chains.without_timer(test)) == bool(reason)
