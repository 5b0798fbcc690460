"""Write ``commands.sh``: the command lines that repeat a test without this program, in the folder of its files.

Programs of a release record their command lines. MLIR's Python bindings have none: they are replaced by the programs of the
nearest release that has some.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from mlir_matrix.actions.mlir.by_programs import (
    ANCHORED,
    CONTRACTS_MARKED_ONLY,
    object_lines,
    pipeline_option,
    with_schedule,
)
from mlir_matrix.actions.runtime.programs import is_before
from mlir_matrix.catalog.releases import nearest_release
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.keys import input_names
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.recipes import Unsupported
from mlir_matrix.expand.routes import Connector, Route
from mlir_matrix.plan.chains import Chains
from mlir_matrix.plan.graph import File, Graph, Input, PlannedAction
from mlir_matrix.plan.levels import COMPILING
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.results.reproducer import SCHEDULE, Lines, commands_of

SCRIPT = "commands.sh"
#: The folder, beside the script, in which the commands run.
_FOLDER = "commands"
#: What ``opt`` reads and writes.
_BETWEEN = {"translated": "kernel.ll", "optimised": "optimised.ll"}


class CommandScripts:
    """Writes the scripts of a run's tests."""

    def __init__(self, session: Session, plan: PlannedTests, done: Mapping[str, Done]) -> None:
        self._session = session
        self._plan = plan
        self._done = done
        self._tests = {test.id: test for test in plan.tests}
        #: Components whose pinned release is MLIR's bindings, and the nearest releases that are programs.
        self._nearest = dict(_nearest_programs(session, plan))
        pins = session.pins
        self._pins = replace(pins, overrides={**pins.overrides, **self._nearest})
        self._connector = Connector(session.catalog, self._pins)
        #: To resolve an environment takes as long as the rest of a script.
        self._environment = cache(replace(session, pins=self._pins).environment)

    def write(self, folder: Path, test: str, kept: Mapping[Input, Path]) -> None:
        """Write the script of a test, and the files that its commands need. Nothing if no program ran. Raise OSError."""
        programs = self._programs(test)
        found = commands_of(
            self._session.catalog,
            self._plan,
            self._done,
            test,
            ActionCache(self._session.home.actions).read_blob,
            kept={ref: f"../{path.name}" for ref, path in kept.items()},
            programs={identifier: lines for identifier, (lines, _) in programs.items()},
        )
        if not found.steps:
            return
        (folder / _FOLDER).mkdir()
        for name, data in found.files.items():
            (folder / _FOLDER / name).write_bytes(data)
        script = folder / SCRIPT
        script.write_text(
            "\n".join([*self._head(test, programs), *self._steps(test, found.steps), ""]), encoding="utf-8"
        )
        script.chmod(0o755)

    def _programs(self, test: str) -> dict[str, tuple[Lines, PlannedAction]]:
        """Return the command lines that do what the bindings did in a test, with the action that would run them."""
        if not self._nearest or test not in self._tests:
            return {}
        wanted: dict[str, list[PlannedAction]] = defaultdict(list)
        for action in self._with_programs(self._tests[test]):
            wanted[action.label].append(action)
        counts = Counter[str]()
        found = {}
        for identifier in self._plan.needed_by(test):
            action = self._plan.graph.actions[identifier]
            if action.params.get("backend") != "bindings" or counts[action.label] >= len(wanted[action.label]):
                continue
            other = wanted[action.label][counts[action.label]]
            counts[action.label] += 1
            if other.params.get("backend") == "programs" and _files(other) == _files(action):
                found[identifier] = self._lines(action, other), other
            if not self._is_ok(identifier):
                # What follows only inherits the failure.
                break
        return found

    def _lines(self, action: PlannedAction, other: PlannedAction) -> Lines:
        """Return what the programs of ``other`` do with the input of an action."""
        ir = input_names(action, self._plan.graph)["ir"]
        target = f"out/{next(iter(action.outputs.values()))}"
        params = other.params
        if other.tool == "passes":
            passes = with_schedule(params["passes"], SCHEDULE if "schedule" in other.inputs else None)
            return [["mlir-opt", ir, pipeline_option(passes, anchored=not self._is_before(ANCHORED)), "-o", target]]
        if other.tool == "object":
            parameters = params["parameters"]
            level = int(parameters.get("opt-level", 2))
            strict = not self._is_before(CONTRACTS_MARKED_ONLY)
            return object_lines(ir, target, level, parameters, _BETWEEN, contracts_marked_only=strict)
        return []

    def _is_before(self, major: int) -> bool:
        """Return whether the nearest programs are older than a major release of LLVM; those of the bindings have its numbers."""
        return any(is_before(release, major) for release in self._nearest.values())

    def _is_ok(self, identifier: str) -> bool:
        return identifier in self._done and self._done[identifier].result.ok

    def _with_programs(self, test: Test) -> Iterable[PlannedAction]:
        """Return the actions of a test's steps by the nearest programs; for steps that these do not have, its own actions."""
        graph = Graph()
        chains = Chains(self._session.catalog, graph, self._pins.reference("numpy"), self._pins)
        artifact = File(0, "ir")
        if test.resolved_step is not None:
            step = self._connector.step_alone(test.resolved_step.name)
            if not isinstance(step, Unsupported):
                runs = self._session.catalog.steps[step.name].runs.get(test.workload, ())
                for values in [run.values for run in runs] or [()]:
                    chains.step(step.name, step, artifact, values)
        elif test.route is not None:
            route = self._connector.route(test.framework, test.pipeline, test.target, test.workload, test.pins)
            if isinstance(route, Unsupported):
                route = self._step_by_step(test.route, test.pins)
            chains.lower(replace(test, route=route), 0, artifact)
        return graph.actions.values()

    def _step_by_step(self, route: Route, pins: str) -> Route:
        """Return a route with the nearest programs in the steps that they have."""
        steps = []
        for step in route.steps:
            found = self._connector.resolved_step(step.name, pins)
            steps.append(step if isinstance(found, Unsupported) else replace(step, resolved_step=found))
        return replace(route, steps=tuple(steps))

    def _head(self, test: str, programs: Mapping[str, tuple[Lines, PlannedAction]]) -> Iterator[str]:
        actions = [self._plan.graph.actions[identifier] for identifier in self._plan.needed_by(test)]
        users = [programs[action.id][1] if action.id in programs else action for action in actions]
        yield "#!/bin/sh"
        yield f"# What {test} does, by the compilers' own programs. It writes to {_FOLDER}/, beside this script."
        if programs:
            names = ", ".join(f"{component} {release}" for component, release in self._nearest.items())
            yield "# The test used MLIR's Python bindings. The nearest release that has programs is"
            yield f"# {names}; what it writes may differ. To install it:"
            for component, release in self._nearest.items():
                yield f"#   matrix toolchain fetch {component}@{release}"
        yield "set -eu"
        yield f'cd "$(dirname "$0")/{_FOLDER}"'
        folders = list(dict.fromkeys(folder for action in users for folder in self._folders(action)))
        if folders:
            yield f"PATH={shlex.quote(':'.join(folders))}:$PATH"
        yield "set -x"

    def _folders(self, action: PlannedAction) -> Iterator[str]:
        """Yield the folders of the programs of an action's environment, installed or not."""
        if action.stage not in COMPILING:
            return
        environment = self._environment(action.environment)
        if not isinstance(environment, ResolvedEnvironment):
            return
        packages = self._session.home.packages
        if action.params.get("backend") == "programs":
            yield from (f"{root}/.matrix/bin" for root in environment.roots(packages))
        for folder in action.params.get("programs", ()):
            yield from (f"{site}/{folder}" for site in environment.sites(packages))

    def _steps(self, test: str, steps: Mapping[str, Iterable[str]]) -> Iterator[str]:
        begun = False
        for identifier in self._plan.needed_by(test):
            action = self._plan.graph.actions[identifier]
            if action.label in steps:
                begun = True
                yield from ("", f"# {action.label}", *steps[action.label])
            elif begun and action.stage in COMPILING and "ir" in action.inputs and self._is_ok(identifier):
                yield from ("", f"# {action.label}: no program does this; what follows reads its kept result.")


def _nearest_programs(session: Session, plan: PlannedTests) -> Iterator[tuple[str, str]]:
    """Yield components whose releases in the plan are bindings, and the nearest release of each that is programs."""
    environments = {
        action.environment for action in plan.graph.actions.values() if action.params.get("backend") == "bindings"
    }
    for environment in sorted(environments):
        for entry, release in session.releases(environment):
            programs = [each.release for each in entry.document.releases if not each.bindings]
            nearest = nearest_release(programs, release.release)
            if release.bindings and nearest is not None:
                yield entry.name, nearest


def _files(action: PlannedAction) -> dict[str, Input]:
    """Return the files of an action's step."""
    return {name: ref for name, ref in action.inputs.items() if isinstance(ref, File) and name != "ir"}
