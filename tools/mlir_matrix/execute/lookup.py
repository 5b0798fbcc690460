"""Compute the keys of actions, find cached results, and cache new ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mlir_matrix.actions.contract import WorkResponse
from mlir_matrix.actions.runtime.child import REQUEST_FILE
from mlir_matrix.actions.runtime.collect import damaged, may_be_cached
from mlir_matrix.base.digest import digest_file
from mlir_matrix.base.errors import CatalogError
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.execute.action_cache import ActionCache, Result
from mlir_matrix.execute.c_libraries import CLibraries
from mlir_matrix.execute.folders import Prepared, collect
from mlir_matrix.execute.job import Done, Task, infra_error, inherited_failure
from mlir_matrix.execute.keys import Read, action_key, input_names
from mlir_matrix.plan.graph import BUILDING, File, Graph, PlannedAction, Produced


class Lookup:
    """Finds and caches results for one run. It reads each source file and each result once."""

    def __init__(
        self,
        graph: Graph,
        roots: Sequence[Path],
        store: ActionCache,
        *,
        memory_mb: int,
        libraries: CLibraries | None = None,
    ) -> None:
        """``libraries``: installed C libraries, which are results too."""
        self._graph = graph
        self._roots = roots
        self._store = store
        self._memory_mb = memory_mb
        self._libraries = libraries
        #: The digest is None if an optional file is absent.
        self._files: dict[File, tuple[Path, str | None]] = {}
        self._known: dict[str, Result] = {}

    def prepare(self, action: PlannedAction, environment: str, done: Mapping[str, Done]) -> Prepared:
        """Return the inputs of an action and its key. ``environment`` is a digest; ``done`` has the action's sources."""
        names = input_names(action, self._graph)
        reads = []
        for name, ref in action.inputs.items():
            if isinstance(ref, Produced):
                reads.append(Read(name, names[name], done[ref.action].result.outputs[ref.output], None))
                continue
            path, digest = self._file(ref)
            if digest is not None:
                reads.append(Read(name, names[name], digest, path))
        return Prepared(action_key(action, reads, environment=environment), action, tuple(reads))

    def _file(self, ref: File) -> tuple[Path, str | None]:
        known = self._files.get(ref)
        if known is None:
            path, digest = self._roots[ref.root] / ref.path, None
            try:
                digest = digest_file(path)
            except OSError as error:
                if not ref.optional:
                    raise CatalogError(f"{ref.path}: cannot be read: {error.strerror}") from error
            known = self._files[ref] = (path, digest)
        return known

    def find(self, prepared: Prepared) -> Result | None:
        """Return the cached result of an action, or None."""
        key = prepared.key
        known = self._known.get(key) or self._store.find(key) or self._installed(prepared)
        if known is None or (known.ok and known.outputs.keys() != prepared.action.outputs.keys()):
            return None
        if not known.ok and known.memory_mb < self._memory_mb:
            # The action may succeed with more memory.
            return None
        self._known[key] = known
        return known

    def _installed(self, prepared: Prepared) -> Result | None:
        """Return the result of an action whose C library is installed, after adding it to the store."""
        found = self._libraries.find(prepared.action) if self._libraries else None
        if found is not None:
            # On a full disk the run continues without an entry.
            with suppress(OSError):
                self._keep(prepared.key, found)
        return found

    def _keep(self, key: str, result: Result) -> None:
        known = self._known[key] = replace(result, memory_mb=self._memory_mb)
        self._store.keep(key, known)

    def take(self, task: Task, folder: str, answer: WorkResponse, *, is_first: bool = True) -> Done:
        """Return the end of an answered task, and cache its result. Raise DamagedFolderError.

        ``is_first``: whether it was the first action of its process. A failure of any other is not cached.
        """
        action = task.action
        if answer.trouble:
            if not os.access(f"{folder}/{REQUEST_FILE}", os.R_OK):
                raise damaged(folder, action.stage, f"its {REQUEST_FILE} cannot be read")
            return infra_error(action, answer.trouble)
        changed = task.environment.changed_build()
        if changed:
            return infra_error(action, f"{changed} changed during the run; run it again")
        try:
            result = collect(folder, action, answer.usage, self._store)
            if not result.ok and action.tool in BUILDING:
                outcome = result.outcome
                return infra_error(action, outcome["reason"], outcome.get("diagnostics", ""))
            if may_be_cached(result.outcome) and (result.ok or is_first):
                self._keep(task.prepared.key, result)
                if self._libraries:
                    self._libraries.keep(action, result)
        except OSError as error:
            return infra_error(action, f"the machine failed: {error}")
        return Done(result=result, cached=False, executed=True)

    def relied(self) -> set[str]:
        """Return the files of the store that found results depend on."""
        return {file for key, result in self._known.items() for file in self._store.files(key, result)}

    def forget_results(self) -> None:
        """Forget all results: a blob in the store is damaged."""
        self._known.clear()


def cached_result(
    graph: Graph,
    last: str,
    *,
    roots: Sequence[Path],
    environments: Mapping[str, ResolvedEnvironment | UnavailableEnvironment],
    store: ActionCache,
) -> Result | None:
    """Return the cached result of an action; None if a run would execute anything."""
    return cached_results(graph, [last], roots=roots, environments=environments, store=store).get(last)


def cached_results(
    graph: Graph,
    names: Iterable[str],
    *,
    roots: Sequence[Path],
    environments: Mapping[str, ResolvedEnvironment | UnavailableEnvironment],
    store: ActionCache,
) -> dict[str, Result]:
    """Return the cached results of actions, without those for which a run would execute anything."""
    lookup = Lookup(graph, roots, store, memory_mb=0)
    done: dict[str, Done] = {}
    wanted = dict.fromkeys(names)
    for name in dict.fromkeys(needed for each in wanted for needed in graph.needed_by(each)):
        action = graph.actions[name]
        environment = environments[action.environment]
        if not isinstance(environment, ResolvedEnvironment) or not all(source in done for source in action.sources):
            continue
        known = inherited_failure(action, done)
        if known is None:
            found = lookup.find(lookup.prepare(action, environment.digest, done))
            if found is None:
                continue
            known = Done(result=found, cached=True)
        done[name] = known
    return {name: done[name].result for name in wanted if name in done}
