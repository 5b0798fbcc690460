"""Run a module by IREE's programs."""

from __future__ import annotations

import json

from mlir_matrix.actions.api import Action, run_program, timed_by


def run(action: Action) -> None:
    """Call the module's ``main`` with the inputs in order, write its results."""
    inputs = [f"--input=@{action.inputs['arg-' + each['name']]}" for each in action.params["arguments"]]
    outputs = [f"--output=@{action.outputs['out-' + each['name']]}" for each in action.params["results"]]
    words = ["--device=local-sync", f"--module={action.inputs['artifact']}", "--function=main", *inputs]
    run_program("iree-run-module", [*words, *outputs])

    def measure(batch_s: float) -> list[float]:
        options = [f"--benchmark_min_time={batch_s}s", "--benchmark_repetitions=5", "--benchmark_out=times.json"]
        run_program("iree-benchmark-module", [*words, *options])
        with open("times.json", encoding="utf-8") as file:
            found = json.load(file)["benchmarks"]
        unit = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
        return [each["real_time"] * unit[each["time_unit"]] for each in found if each["run_type"] == "iteration"]

    timed_by(action, measure)
