"""The folder of a test that failed: its IR at every stage, inputs, outputs, golden, log, and how to repeat it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import BUILDING, Done
from mlir_matrix.judge.results import TestResult
from mlir_matrix.plan.graph import File, Input, Produced
from mlir_matrix.plan.planner import Plan
from mlir_matrix.report.error_map import draw_errors
from mlir_matrix.session import Session

_MAKES_PROGRAMS = frozenset({"link"})


def keep_failure(result: TestResult, plan: Plan, done: Mapping[str, Done], session: Session, command: str) -> Path:
    """Lay out everything about a failed test in a folder of its own; returns the folder."""
    folder = session.home.state / "failures" / result.id
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kept = _keep_actions(folder, result.id, plan, done, session)
    last = plan.graph.actions[plan.verdicts[result.id]]
    if result.verdict is not None and last.tool == "judge":
        draw_errors(folder, result.verdict, {name: kept[ref] for name, ref in last.inputs.items() if ref in kept})
    report = result.to_json()
    (folder / "result.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if result.diagnostics:
        (folder / "diagnostics.txt").write_text(result.diagnostics + "\n", encoding="utf-8")
    if result.log:
        (folder / "log.txt").write_text(result.log, encoding="utf-8")
    script = folder / "repeat.sh"
    script.write_text(_from_anywhere(command), encoding="utf-8")
    script.chmod(0o755)
    return folder


def _keep_actions(folder: Path, test: str, plan: Plan, done: Mapping[str, Done], session: Session) -> dict[Input, Path]:
    """Write what the actions of a test read of catalogs and what they made; the files by what they are in the plan."""
    store = ActionCache(session.home.actions)
    number = 0
    kept: dict[Input, Path] = {}
    for identifier in plan.graph.needed_by(plan.verdicts[test]):
        action = plan.graph.actions[identifier]
        if action.tool in BUILDING or identifier not in done:
            continue
        number += 1
        label = identifier.rsplit("-", 1)[0].replace("/", "-")
        for ref in action.inputs.values():
            if isinstance(ref, File):
                kept[ref] = folder / f"{number:02}-{label}-{os.path.basename(ref.path)}"
                _copy(session.catalog.roots[ref.root] / ref.path, kept[ref])
        for name, digest in done[identifier].result.outputs.items():
            try:
                path = folder / f"{number:02}-{label}-{action.outputs[name]}"
                store.copy_blob(digest, str(path))
            except OSError:
                continue
            kept[Produced(identifier, name)] = path
            if action.tool in _MAKES_PROGRAMS:
                path.chmod(0o755)
    return kept


def _from_anywhere(command: str) -> str:
    """A script: the program is that of this checkout, and folders in the command are as they were typed here."""
    words = shlex.split(command)
    launcher = Path(__file__).resolve().parents[2] / "matrix"
    if launcher.is_file():
        words[0] = str(launcher)
    return f"#!/bin/sh\ncd {shlex.quote(os.getcwd())} || exit\nexec {shlex.join(words)}\n"


def _copy(source: Path, destination: Path) -> None:
    try:
        shutil.copyfile(source, destination)
    except OSError:
        return
