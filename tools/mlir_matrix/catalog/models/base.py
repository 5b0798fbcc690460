"""What the YAML files may say. Every model is frozen and refuses unknown keys.

Names of things are not repeated inside their files: the name of a workload, step, pipeline, … is the name of its file
or folder. Sequences are tuples so that a loaded catalog is a value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from mlir_matrix.catalog.releases import parse_range
from mlir_matrix.names import DEVICE_PATTERN, DEVICE_RULE, NAME_LENGTH, NAME_PATTERN

#: By pattern: the rule for texts, for messages.
RULES: dict[str, str] = {}


def matching(pattern: str, rule: str) -> Any:
    """Return a field for texts that match a pattern; others are «not ``rule``»."""
    RULES[pattern] = rule
    return Field(pattern=pattern)


_GLOB_RULE = "a pattern: names with '*', '?', '[a-z]' and '{a,b}', and '/' in those for tests"
Name = Annotated[StrictStr, Field(pattern=NAME_PATTERN, max_length=NAME_LENGTH)]
#: A glob over test identifiers, segment by segment: ``pytorch/*/x86_64/mlp``, ``jax/**``.
Glob = Annotated[StrictStr, matching(r"^[A-Za-z0-9_.+*?\[\]{},!/@=:~-]+$", _GLOB_RULE), Field(max_length=400)]
#: A glob over names of one kind: ``linalg-*``.
NameGlob = Annotated[StrictStr, matching(r"^[A-Za-z0-9_.+*?\[\]{},!-]+$", _GLOB_RULE), Field(max_length=200)]
Text = Annotated[StrictStr, Field(min_length=1, max_length=20_000)]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr
#: The value of a step's parameter: a scalar or a list of scalars.
ParameterValue = Scalar | tuple[Scalar, ...]
Dtype = Literal["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"]
Outcome = Literal[
    "unsupported", "skipped", "import-failed", "lower-failed", "codegen-failed", "run-failed",
    "mismatch", "pass", "crashed", "timed-out", "infra-error",
]  # fmt: skip
#: A device or a folder of devices: no part begins with a dot, so none leads out.
Device = Annotated[StrictStr, matching(DEVICE_PATTERN, DEVICE_RULE)]
#: The dtypes of floating point.
FLOATS = frozenset(("f64", "f32", "f16", "bf16"))
Stage = Literal["import", "lower", "codegen", "run", "judge"]


class Document(BaseModel):
    """Base of everything that a YAML file can hold."""

    # Validators are built at first use: those of models inside others never are, which saves start-up time.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Kind(Document):
    """What flows between steps (``recipes/kinds/NAME.yaml``): MLIR at a level, or no longer MLIR."""

    description: Text
    #: The file name under which an artifact of this kind is kept for people to read, e.g. ``linalg.mlir``.
    file: Name


#: Which releases of a component: ``>=18,<22``, ``19.1``, ``!=20``; every part must hold, at the precision that it gives.
Range = Text


class Requirement(Document):
    """What something needs of a component that its environment holds; where the pin has it not, tests are unsupported."""

    component: Name
    #: The releases that will do. Absent: all.
    releases: Range | None = None
    #: What the release must carry (``carries`` in the component's file), e.g. a dialect that not all builds have.
    carries: Name | None = None
    reason: Text


class Framework(Document):
    """How a workload becomes MLIR (``matrix/frameworks/NAME.yaml``)."""

    description: Text
    #: The module of ``mlir_matrix.actions`` that does it.
    tool: Name
    #: Environment (``toolchains/environments/``) in which it runs.
    environment: Name
    #: File in the workload's folder for each kind that this framework can emit, in order of preference.
    emits: Annotated[dict[Name, Name], Field(min_length=1)]
    #: True where sources hold the sizes of their tensors, so that they cannot be imported for other sizes.
    fixed_shapes: StrictBool = False


class Tensor(Document):
    """An input of a workload. Its elements come from a formula and a seed, so that anyone can make any of them."""

    #: Each entry is a size or the name of a dimension in ``dims``.
    shape: tuple[StrictInt | Name, ...]
    dtype: Dtype
    #: ``uniform(-1, 1) / sqrt(K)``; functions and their meaning are in docs/recipe-author.md.
    formula: Text
    seed: StrictInt = 0


class Output(Document):
    """An output of a workload and how it is compared with its golden."""

    shape: tuple[StrictInt | Name, ...]
    dtype: Dtype
    #: ``numeric`` (within tolerance), ``exact`` (integers, booleans), ``order-free`` (sorted along the last axis).
    compare: Literal["numeric", "exact", "order-free"] = "numeric"
    #: Why NaN is right in this output, where the reference gives it. Without a reason a reference that gives NaN is refused.
    nan: Text | None = None
    #: Why a golden may be weak here: all zeros, say, are right and would pass. Without a reason a suite may refuse it.
    weak: Text | None = None


#: Facts about numerics, on which tolerance layers may match, e.g. ``contraction: "off"`` (in quotes: YAML 1.1 takes off for false).
NumericsAttributes = dict[Name, StrictStr | StrictBool]


class Workload(Document):
    """A program with its inputs and a reference (``matrix/workloads/NAME/workload.yaml``)."""

    description: Text
    #: Named dimensions, used in shapes, formulas and tolerances.
    dims: dict[Name, StrictInt] = {}
    #: Dimensions that the ingress must leave open (``tensor<?x…>``); the sizes in ``dims`` are those of the test.
    dynamic: tuple[Name, ...] = ()
    inputs: Annotated[dict[Name, Tensor], Field(min_length=1)]
    outputs: Annotated[dict[Name, Output], Field(min_length=1)]
    #: ``kept``: the expected outputs are files of ``golden/``. ``computed``: each run takes them from the reference, through the
    #: action cache; for outputs that are too large to keep.
    golden: Literal["kept", "computed"] = "kept"
    #: Frameworks in which this cannot be expressed, and why.
    absent: dict[Name, Text] = {}
    #: What the compilers on its route must be, whichever step they are used in.
    requires: tuple[Requirement, ...] = ()
    #: What it asks for, e.g. ``accumulator: f32``. What a target or a pipeline states counts instead.
    numerics: NumericsAttributes = {}


class Parameter(Document):
    """A knob of a step; ``${name}`` in its passes and schedule is replaced by the value."""

    description: Text
    default: ParameterValue


class Variant(Document):
    """What a step does under some releases: the keys that differ from the step's own."""

    #: Component to the releases for which this holds.
    when: dict[Name, Range] = {}
    #: Component to what its release must carry for this to hold.
    carries: dict[Name, Name] = {}
    passes: Text | None = None
    schedule: Name | None = None
    patterns: Name | None = None

    def holds(self, component: str, release: str, carried: Collection[str]) -> bool:
        """Whether it holds as far as one component goes, for a release and what that carries."""
        wanted, carries = self.when.get(component), self.carries.get(component)
        return (wanted is None or release in parse_range(wanted)) and (carries is None or carries in carried)


class Step(Document):
    """One focused recipe (``recipes/steps/NAME/step.yaml``): from kinds to a kind."""

    description: Text
    #: Module of ``mlir_matrix.actions``: ``passes`` runs a pass pipeline (and a schedule), ``check`` is FileCheck.
    tool: Name = "passes"
    #: For ``passes`` and ``object``: ``programs`` where only a release's own programs will do. Absent: MLIR's Python bindings where
    #: the pinned release has some, else its programs.
    backend: Literal["programs"] | None = None
    environment: Name
    #: Kinds that it takes.
    accepts: Annotated[tuple[Name, ...], Field(min_length=1)]
    #: Kind that it gives. Absent: the kind that came in.
    gives: Name | None = None
    stage: Literal["lower", "codegen"] = "lower"
    #: For ``passes``: the pipeline, as ``mlir-opt --pass-pipeline=builtin.module(…)`` takes it, without the wrapper.
    passes: Text | None = None
    #: For ``passes``: a transform-dialect schedule in the folder, which ``transform-interpreter`` in ``passes`` runs.
    schedule: Name | None = None
    #: For ``passes``: a file of ``pdl.pattern`` in the step's folder, which are applied before the first pass.
    patterns: Name | None = None
    #: For ``check``: a file of FileCheck directives in the step's folder that the IR must satisfy.
    directives: Name | None = None
    parameters: dict[Name, Parameter] = {}
    #: True where the output depends on the machine that runs the step (native code generation).
    native: StrictBool = False
    #: What the step needs, whichever variant.
    requires: tuple[Requirement, ...] = ()
    #: By release of a component; the first that holds counts. Given any, a release that none holds for is unsupported.
    variants: tuple[Variant, ...] = ()


class StepUse(Document):
    """A step in a pipeline, with values for its parameters."""

    step: Name
    parameters: dict[Name, ParameterValue] = Field(default={}, alias="with")


class UsedStep(NamedTuple):
    """A step of a pipeline or target: its place in the file, its name, the values of its parameters."""

    keys: tuple[str | int, ...]
    name: str
    parameters: Mapping[str, ParameterValue]


def used_steps(uses: Sequence[Name | StepUse], *keys: str) -> list[UsedStep]:
    """Return the steps of the list at ``keys`` in a file."""
    return [
        UsedStep((*keys, index), use.step, use.parameters)
        if isinstance(use, StepUse)
        else UsedStep((*keys, index), use, {})
        for index, use in enumerate(uses)
    ]


class Pipeline(Document):
    """An end-to-end recipe (``recipes/pipelines/NAME.yaml``)."""

    description: Text
    #: For each kind that may come in, the steps that bring it to where ``steps`` begins; order is preference.
    entry: Annotated[dict[Name, tuple[Name | StepUse, ...]], Field(min_length=1)]
    #: The steps that all routes share.
    steps: Annotated[tuple[Name | StepUse, ...], Field(min_length=1)]
    #: Values for parameters of the steps by which a target generates code, e.g. ``opt-level: 2``.
    codegen: dict[Name, ParameterValue] = {}
    #: What it does, e.g. ``contraction: "off"``. It counts before what a target or a workload states.
    numerics: NumericsAttributes = {}

    def route(self, kind: str) -> list[UsedStep]:
        """Return the steps for an entry kind: those of the entry, then those that all entries share."""
        return [*used_steps(self.entry[kind], "entry", kind), *used_steps(self.steps, "steps")]


class Target(Document):
    """Where code runs (``matrix/targets/NAME.yaml``)."""

    description: Text
    #: Module of ``mlir_matrix.actions`` that runs a kernel: ``run``, which is linked with the driver to a program, or ``run_jit``,
    #: in the LLVM dialect, which MLIR's runner of the pinned release compiles in memory.
    tool: Literal["run", "run_jit"] = "run"
    #: As Zig names it: architecture, system, C library.
    triple: Name
    #: Kinds that it can run.
    accepts: Annotated[tuple[Name, ...], Field(min_length=1)]
    #: Steps that bring what pipelines end in to a kind that it runs; they take ``codegen`` values of the pipeline.
    codegen: tuple[Name | StepUse, ...] = ()
    #: What the machine must be (``uname -m``).
    machine: tuple[Name, ...]
    #: The environments that link and run.
    linker_environment: Name = "zig"
    runner_environment: Name = "python"
    #: Command that runs a program, where this machine does not by itself: a program of the runner's environment, its options.
    runner: tuple[StrictStr, ...] = ()
    #: What a kernel needs below /dev, e.g. ``/dev/kvm``. Tests are skipped where ``matrix run --device`` does not grant it.
    devices: tuple[Device, ...] = ()
    #: What it has, e.g. ``libm: musl``. It counts before what a workload states.
    numerics: NumericsAttributes = {}


class Match(Document):
    """What a tolerance layer applies to; all given keys must match. None given: everything."""

    workload: tuple[NameGlob, ...] | NameGlob | None = None
    output: tuple[NameGlob, ...] | NameGlob | None = None
    dtype: tuple[Dtype, ...] | Dtype | None = None
    target: tuple[NameGlob, ...] | NameGlob | None = None
    #: Facts that workload, target or pipeline state, each with its value or a list of values that will do.
    numerics: (
        Annotated[dict[Name, tuple[StrictStr | StrictBool, ...] | StrictStr | StrictBool], Field(min_length=1)] | None
    ) = None
    pipeline: tuple[NameGlob, ...] | NameGlob | None = None
    framework: tuple[NameGlob, ...] | NameGlob | None = None


class Layer(Document):
    """Bounds on an error, and why they are what they are. An element is right when |a-e| <= atol + rtol*|e|."""

    match: Match = Field(default_factory=Match)
    #: Numbers or expressions over the workload's dimensions: ``4*sqrt(K)*eps(f32)``.
    atol: StrictInt | StrictFloat | Text
    rtol: StrictInt | StrictFloat | Text
    #: Right, too, is what is at most so many numbers of the dtype away from the expected value. A number or an expression.
    max_ulp: StrictInt | StrictFloat | Text | None = None
    rationale: Text


class Tolerances(Document):
    """Tolerance layers (``golden/tolerances.yaml`` for all, ``golden/WORKLOAD/tolerances.yaml`` for one)."""

    layers: Annotated[tuple[Layer, ...], Field(min_length=1)]
