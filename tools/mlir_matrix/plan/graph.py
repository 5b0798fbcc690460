"""Define actions and their graph: the files and outputs that each reads, its tool, and its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.base.digest import digest_bytes, digest_value

K = TypeVar("K")
V = TypeVar("V")


def cached(cache: dict[K, V], key: K, make: Callable[[], V]) -> V:
    """Return the value of a key, the same object each time; make it the first time."""
    if key not in cache:
        cache[key] = make()
    return cache[key]


@dataclass(frozen=True, slots=True)
class File:
    """A file of a catalog: the number of the root (0 is this repository), and the path below it.

    An ``optional`` one may be absent; the action then runs without it.
    """

    root: int
    path: str
    optional: bool = False

    def shown(self, roots: Sequence[Path]) -> str:
        """Return its path for a message: relative in this repository, else in full."""
        return f"{roots[self.root]}/{self.path}" if self.root else self.path


class ActionId(NamedTuple):
    """The identifier of an action by its parts; as text ``import/pytorch/mlp-0123456789abcdef``."""

    label: str
    #: Of all that the action is; with ``#NUMBER`` for a copy.
    digest: str

    @classmethod
    def parse(cls, text: str) -> ActionId:
        label, _, digest = text.rpartition("-")
        return cls(label, digest)

    def __str__(self) -> str:
        return f"{self.label}-{self.digest}"


@dataclass(frozen=True, slots=True)
class Produced:
    """An output of another action."""

    action: str
    output: str


Input = File | Produced


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAction:
    """One hermetic command. Its ``id`` follows from its structure. Its key also follows from the bytes of its inputs."""

    id: str
    tool: str
    stage: Stage
    environment: str
    params: Mapping[str, Any]
    inputs: Mapping[str, Input]
    #: Output name to file name.
    outputs: Mapping[str, str]
    #: Identifiers of the actions that this one waits for, each once.
    sources: tuple[str, ...]
    #: The digest of ``params``.
    params_digest: str
    #: True if the output depends on the machine's CPU.
    native: bool = False

    @property
    def label(self) -> str:
        """Its identifier without the digest: ``link``, ``run/mlp``."""
        return ActionId.parse(self.id).label

    @property
    def files(self) -> Iterator[str]:
        """The paths of the catalog's files that it reads."""
        return (ref.path for ref in self.inputs.values() if isinstance(ref, File))


@dataclass(slots=True)
class Graph:
    """Actions, each after those whose outputs it reads."""

    actions: dict[str, PlannedAction] = field(default_factory=dict)
    #: Digests of parameter objects by identity. The object is kept, so that no other object gets the same identity.
    _params: dict[int, tuple[Mapping[str, object], str]] = field(default_factory=dict)

    def _params_digest(self, params: Mapping[str, object]) -> str:
        known = self._params.get(id(params))
        if known is None:
            known = self._params[id(params)] = (params, digest_value(params))
        return known[1]

    def add(
        self,
        label: str,
        *,
        tool: str,
        stage: Stage,
        environment: str,
        params: Mapping[str, object],
        inputs: Mapping[str, Input],
        outputs: Mapping[str, str],
        native: bool = False,
    ) -> str:
        """Add an action, unless the graph has the same one, and return its identifier.

        ``params`` and ``outputs`` are not copied, so that many actions share one object.
        """
        params_digest = self._params_digest(params)
        # Names have neither spaces nor newlines, so joining them is unambiguous.
        words = [tool, stage, environment, params_digest, "native" if native else ""]
        sources: dict[str, None] = {}
        for name, ref in inputs.items():
            if isinstance(ref, Produced):
                words += (name, ref.action, ref.output)
                sources[ref.action] = None
            else:
                words += (name, str(ref.root), ref.path)
        for name, path in outputs.items():
            words += (name, path)
        digest = digest_bytes("\n".join(words).encode())[:16]
        # As ActionId has it, whose making takes ten times as long.
        identifier = f"{label}-{digest}"
        if identifier not in self.actions:
            self.actions[identifier] = PlannedAction(
                id=identifier,
                tool=tool,
                stage=stage,
                environment=environment,
                params=params,
                inputs=inputs,
                outputs=outputs,
                sources=tuple(sources),
                params_digest=params_digest,
                native=native,
            )
        return identifier

    def needed_by(self, last: str) -> list[str]:
        """Return ``last`` and all actions that it needs, sources first."""
        seen: set[str] = set()
        order: list[str] = []
        stack = [(last, False)]
        while stack:
            identifier, expanded = stack.pop()
            if expanded:
                order.append(identifier)
            elif identifier not in seen:
                seen.add(identifier)
                stack.append((identifier, True))
                stack.extend((source, False) for source in self.actions[identifier].sources)
        return order


def compiler_params(action: PlannedAction) -> dict[str, Any]:
    """Return the parameters of an action that choose its compiler: bindings or programs."""
    return {key: action.params[key] for key in ("backend", "bindings") if key in action.params}


def add_print(graph: Graph, ir: Input, by: PlannedAction, label: str = "print") -> str:
    """Add the action that prints IR as the compiler of another action does, and return it.

    Its outputs are ``generic``, which other releases read, and ``custom``.
    """
    return graph.add(
        label,
        tool="reprint",
        stage=by.stage,
        environment=by.environment,
        params=compiler_params(by),
        inputs={"ir": ir},
        outputs={"generic": "generic.mlir", "custom": "custom.mlir"},
    )


#: Tools that build the program's own libraries. They have longer limits than tests, and their failures are infra-errors.
BUILDING = frozenset({"link_kit"})
