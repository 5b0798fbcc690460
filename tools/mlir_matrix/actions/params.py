"""Types of the parameters of each tool: plans write them, tools read them.

This module holds types alone and runs nothing: it is part of no action's key (``execute/keys``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

#: A value of a step's parameter, as JSON has it.
Scalar = bool | int | float | str
Value = Scalar | list[Scalar]


class NoParams(TypedDict):
    """Of ``link`` and ``magnitudes``."""


class CheckedRun(TypedDict):
    """A RUN line of an IR test."""

    line: int
    #: Of FileCheck.
    options: list[str]


class IrTestParams(TypedDict, total=False):
    """Of ``irtest``."""

    #: The release whose FileCheck judges, ``llvm 22.1.8``. Absent: the one in Python.
    filecheck: str
    #: Absent: one run, without options.
    runs: list[CheckedRun]


class Tensor(TypedDict):
    """An input or output that a workload declares; a size of a kernel's result is None where only the kernel knows it."""

    name: str
    shape: list[int]
    dtype: str
    #: Axes that the IR leaves open.
    dynamic: list[int]
    #: Whether NaN may be right.
    nan: NotRequired[bool]


#: The types that contracts have words for; and the forms of ``@main``.
TypeWord = Literal["tensor", "memref", "memref-layout", "vector", "unranked"]
MainForm = Literal["tensor", "memref", "vtensor", "c-interface"]


class Contract(TypedDict):
    """What IR of a kind is held to (``recipes/kinds/``)."""

    kind: str
    #: Operations; with ``*`` at the end, all that begin so. Absent: it may have any.
    allow: NotRequired[list[str]]
    forbid: NotRequired[list[str]]
    #: Words and types of dialects, ``!torch.tensor``, that it has no value of.
    types: NotRequired[list[str]]
    main: NotRequired[MainForm]
    #: Pass pipelines that change nothing.
    canonical: NotRequired[list[str]]


class BackendParams(TypedDict, total=False):
    """What chooses the backend of a tool on MLIR, and the package of the bindings."""

    backend: Literal["bindings", "programs"]
    bindings: str
    #: That of the kind which the tool gives or emits.
    contract: Contract


class SignatureParams(TypedDict):
    """Of ``reference`` and ``forward_error``; what importers compare a program with."""

    inputs: list[Tensor]
    outputs: list[Tensor]


class ErrorParams(SignatureParams):
    """Of ``forward_error``."""

    #: Whether sums count as by :func:`roundings_of_sum`, and an unknown operation gives infinite bounds instead of a failure.
    likely: NotRequired[bool]


class CostsParams(TypedDict):
    """Of ``costs``."""

    #: Why a cost is not known, by cost.
    absent: dict[str, str]


class InspectParams(TypedDict):
    """Of ``inspect_object``."""

    triple: str

    cpus: list[str]


class DisagreeParams(SignatureParams):
    """Of ``disagree``."""

    #: The number of draws of the inputs.
    draws: int
    #: How far results may be from those of a good compiler, where there is no reference: twice the bounds of the test.
    atol: NotRequired[float]
    rtol: NotRequired[float]


class ImportParams(SignatureParams, BackendParams):
    """What importers compare a program with."""

    dims: dict[str, int]
    #: By input, the dimensions as the workload names them.
    dim_names: dict[str, list[str]]


class CodegenParams(TypedDict, total=False):
    """Of ``compile_jit``; what tools that generate code have in common."""

    parameters: dict[str, Value]


class StepParams(BackendParams, CodegenParams):
    """Of ``check`` and ``object``."""


class ToolParams(StepParams, total=False):
    """Of ``python_file`` and ``command``: what all tools of a catalog get."""

    #: The path of the Python file in its catalog, for messages.
    tool: str
    command: list[str]
    #: Modules that the worker imports ahead.
    preload: list[str]
    #: Folders with programs in the environment's wheels.
    programs: list[str]
    #: The function of the file that is called. Absent: ``run``.
    function: str
    #: The kind that an importer emits; the kind of a step's or target's input.
    kind: str


class JudgesParams(ToolParams):
    """Those of a target that judges, with files beside the program."""

    #: The folder of the program in its catalog.
    folder: str
    #: By input: the path in the catalog.
    beside: dict[str, str]


class PrepareParams(ToolParams):
    """Parameters of the tool that prepares a program in a foreign form."""

    #: The path of its file below the corpus, or its name.
    member: str
    #: The number of the draw of inputs; parameters of a model stay the same.
    draw: int


class PassesParams(StepParams):
    """Of ``passes``."""

    passes: str


class LinkKitParams(TypedDict):
    """Of ``link_kit``."""

    triple: str


class TimingParams(TypedDict):
    """How calls are timed (``runtime/timing``)."""

    #: Seconds of a batch of calls, about.
    batch_s: float
    #: The number of the core to time on; None: the least busy one.
    core: int | None
    #: Any text that no other action has, so that no cache answers.
    nonce: str


class PeaksParams(TypedDict):
    """Of ``peaks``."""

    triple: str
    cpu: str
    buffers: dict[str, int]
    number: int


class RunParams(CodegenParams):
    """Of ``run`` and ``run_jit``."""

    arguments: list[Tensor]
    results: list[Tensor]
    #: A program of the environment and its options, put before the executable.
    runner: NotRequired[list[str]]
    #: Of /dev, what the worker grants.
    devices: NotRequired[list[str]]
    repeat: NotRequired[int]
    draws: NotRequired[list[int]]
    #: Present if a target's own tool is to time its calls.
    timing: NotRequired[TimingParams]


class TimePairsParams(RunParams):
    """Of ``time_pairs``."""

    pairs: int


class RunToolParams(RunParams, ToolParams):
    """Of what runs a target's artifacts."""


class InputTensor(TypedDict):
    """An input that is made from a formula."""

    name: str
    shape: list[int]
    dtype: str
    formula: str
    seed: int


class InputsParams(TypedDict):
    """Of ``inputs``."""

    inputs: list[InputTensor]
    dims: dict[str, int]


class SketchOutput(TypedDict):
    """An output, and how it is compared."""

    name: str
    shape: list[int]
    dtype: str
    compare: str


class SketchParams(TypedDict):
    """Of ``sketch``."""

    outputs: list[SketchOutput]


class DifferenceOutput(Tensor):
    """An output, how it is compared, and whether its golden is a sketch."""

    sketch: bool
    compare: str


class DifferenceParams(TypedDict):
    """Of ``golden_difference``."""

    inputs: list[Tensor]
    outputs: list[DifferenceOutput]


class Bounds(TypedDict):
    """What the errors of an output may be."""

    atol: float
    rtol: float
    #: The same as the layer wrote it.
    atol_text: str
    rtol_text: str
    max_ulp: NotRequired[float]
    max_ulp_text: NotRequired[str | None]
    #: Position of the layer of tolerances that wins.
    layer: str
    rationale: str
    #: True if the bound of each element comes with what is expected, where one is known.
    derived: NotRequired[bool]


class JudgedOutput(SketchOutput, Bounds):
    """An output with the bounds that it is held to."""

    #: The reason if a trivial output may pass.
    weak_reason: NotRequired[str]


class JudgeParams(TypedDict):
    """Of ``judge`` and ``weak``."""

    outputs: list[JudgedOutput]


class ProgramJudgeParams(JudgeParams):
    """Of ``judge`` for a program whose interface is a file: no ``outputs``, and the bounds of each dtype."""

    bounds: dict[str, Bounds]


class AuditParams(JudgeParams):
    """Of ``audit``."""

    #: As of :class:`ProgramJudgeParams`.
    bounds: NotRequired[dict[str, Bounds]]
    kind: str
    draws: list[int]
    mutations: NotRequired[list[str]]
    arguments: NotRequired[list[str]]


class Scale(TypedDict):
    """Multiply all elements."""

    kind: Literal["scale"]
    factor: float


class Permute(TypedDict):
    """Apply the same permutation along some axes."""

    kind: Literal["permute"]
    axes: list[int]


class Slice(TypedDict):
    """Take a part of an axis."""

    kind: Literal["slice"]
    axis: int
    start: int
    stop: int


Op = Scale | Permute | Slice


class TransformInput(TypedDict):
    """An input, and what is done to it."""

    name: str
    dtype: str
    op: Op


class TransformParams(TypedDict):
    """Of ``transform``."""

    inputs: list[TransformInput]


class ResizeParams(TypedDict):
    """Of ``resize``."""

    #: By size in the types of a program, the other one.
    sizes: dict[str, int]


class RelateParams(TypedDict):
    """Of ``relate``."""

    #: The property in words.
    relation: str
    outputs: list[JudgedOutput]
    #: As of :class:`ProgramJudgeParams`.
    bounds: NotRequired[dict[str, Bounds]]
    #: By output, how the other run's is transformed before the comparison.
    ops: Mapping[str, Op]
    #: By output, the axis along which the parts of a batch are joined.
    join: dict[str, int]
    #: How many there are; 1 for a run that is whole.
    parts: int
    #: Whether both are one and the same run.
    same: bool


class SameIrParams(BackendParams):
    """Of ``same_ir``."""

    #: The property in words.
    relation: str
    #: The name of the other cell.
    other: str
    #: Whether both come from one action.
    same: bool


class MutateParams(TypedDict):
    """Of ``mutate``; without ``mutation`` it counts sites."""

    bindings: NotRequired[str]
    mutation: NotRequired[str]
    site: NotRequired[int]


class FusedParams(TypedDict):
    """``fused``: requests of actions, to run one after the other."""

    actions: list[dict[str, Any]]
