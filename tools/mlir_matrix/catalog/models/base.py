"""Define the models of the YAML files. Every model is frozen and refuses unknown keys.

A file does not repeat its own name: the name of a workload, step, pipeline, … is that of its file or folder. Sequences
are tuples so that a loaded catalog is a value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from mlir_matrix.actions.params import MainForm, TypeWord
from mlir_matrix.base.names import DEVICE_GLOB_PATTERN, DEVICE_PATTERN, DEVICE_RULE, NAME_LENGTH, NAME_PATTERN
from mlir_matrix.catalog.releases import parse_range

#: By pattern: the rule for texts, for messages.
RULES: dict[str, str] = {}


def matching(pattern: str, rule: str) -> Any:
    """Return a field for texts that match a pattern; others are «not ``rule``»."""
    RULES[pattern] = rule
    return Field(pattern=pattern)


_GLOB_RULE = "a pattern: names with '*', '?', '[a-z]' and '{a,b}', and '/' in those for tests"
Name = Annotated[StrictStr, Field(pattern=NAME_PATTERN, max_length=NAME_LENGTH)]
#: A file of an entry's folder, or of another entry's: ``error_bounds.py``, ``torch-module/error_bounds.py``.
ToolFile = Annotated[
    StrictStr,
    matching(
        rf"^(?:{NAME_PATTERN[1:-1]}/)?{NAME_PATTERN[1:-1]}$", "the name of a file, or FOLDER/FILE of another tool"
    ),
    Field(max_length=2 * NAME_LENGTH),
]
#: A glob over test identifiers, segment by segment: ``pytorch/*/x86_64/mlp``, ``jax/**``.
Glob = Annotated[StrictStr, matching(r"^[A-Za-z0-9_.+*?\[\]{},!/@=:~-]+$", _GLOB_RULE), Field(max_length=400)]
#: A glob over names of one kind: ``linalg-*``.
NameGlob = Annotated[StrictStr, matching(r"^[A-Za-z0-9_.+*?\[\]{},!:-]+$", _GLOB_RULE), Field(max_length=200)]
Text = Annotated[StrictStr, Field(min_length=1, max_length=20_000)]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr
#: The value of a step's parameter: a scalar or a list of scalars.
ParameterValue = Scalar | tuple[Scalar, ...]
RealDtype = Literal["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool"]
#: ``c64`` and ``c128`` are complex, of two f32 and of two f64.
Dtype = RealDtype | Literal["c64", "c128"]
#: A device or a folder of devices: no part begins with a dot, so none leads out.
Device = Annotated[StrictStr, matching(DEVICE_PATTERN, DEVICE_RULE)]
#: The dtypes whose elements are rounded, so that outputs have bounds; complex ones are pairs of floating-point numbers.
FLOATS = frozenset(("f64", "f32", "f16", "bf16", "c64", "c128"))
#: A device, or a glob over devices.
DeviceGlob = Annotated[StrictStr, matching(DEVICE_GLOB_PATTERN, f"{DEVICE_RULE}; or a glob such as '/dev/nvidia*'")]


class Document(BaseModel):
    """Base of all models."""

    # Validators are built at first use, those of models inside others never: this saves start-up time.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def _with_one_group(expression: str) -> str:
    """Check a regular expression that finds names by its only group."""
    try:
        groups = re.compile(expression).groups
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    if groups != 1:
        raise ValueError(f"a regular expression with {groups} groups; expected one, which is the name of a test")
    return expression


#: The dotted name of a module, ``jax.numpy``, or of a function in it, ``jax:devices``.
Module = Annotated[
    StrictStr,
    matching(
        r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*)?$",
        "a module such as 'jax.numpy', or a function such as 'jax:devices'",
    ),
    Field(max_length=200),
]
#: A program of an environment, then its arguments.
Command = Annotated[
    tuple[Annotated[StrictStr, Field(min_length=1, max_length=4_000)], ...], Field(min_length=1, max_length=1_000)
]


#: A glob over paths below a folder: ``*.py``, ``**/test-*.mlir``.
PathGlob = Annotated[
    StrictStr,
    matching(r"^[A-Za-z0-9_.+*?{},/ -]+$", "a path below a folder, with '*', '?', '{a,b}' and '**/'"),
    Field(max_length=400),
]


#: A range of releases: ``>=18,<22``, ``19.1``, ``!=20``; every part must hold, at its own precision.
Range = Text


class Requirement(Document):
    """A requirement on a component of the environment; tests are unsupported under pins that do not meet it."""

    component: Name
    releases: Range | None = None
    """The accepted releases. Absent: all."""
    carries: Name | None = None
    """A feature that the release must have (``carries`` in the component's file), e.g. a dialect that some builds lack."""
    reason: Text


class Conditions(Document):
    """The conditions under which a part of a file applies; all must hold."""

    when: dict[Name, Range] = {}
    """By component: the releases that this part is for."""
    carries: dict[Name, Name] = {}
    """By component: a feature that its release must have."""

    def holds(self, component: str, release: str, carried: Collection[str]) -> bool:
        """Return whether the conditions on one component hold for a release and the features that it carries."""
        wanted, carries = self.when.get(component), self.carries.get(component)
        return (wanted is None or release in parse_range(wanted)) and (carries is None or carries in carried)


#: An operation, or how some begin: ``linalg.*``, ``torch.aten.*``.
OperationGlob = Annotated[
    StrictStr,
    matching(
        r"^(\*|[A-Za-z_][\w$]*\.[\w$.-]*\*?)$",
        "an operation, such as 'linalg.generic', 'linalg.*' or '*'; a '*' is its end",
    ),
    Field(max_length=200),
]
#: A word for types, or a type of a dialect.
TypeName = Annotated[
    StrictStr,
    matching(
        rf"^({'|'.join(get_args(TypeWord))}|![A-Za-z_][\w$]*\.[\w$.]+)$",
        f"one of {', '.join(get_args(TypeWord))}, or a type of a dialect, such as '!torch.tensor'",
    ),
    Field(max_length=200),
]


class Operations(Document):
    """The operations that a kind has: those that are allowed and not forbidden, and ``builtin.module``."""

    allow: tuple[OperationGlob, ...] = ()
    """Absent, here and in what the kind extends: all."""
    forbid: tuple[OperationGlob, ...] = ()


class Types(Document):
    """The types that a kind has."""

    forbid: tuple[TypeName, ...] = ()
    """No operand, result or argument of a block has such a type; an attribute may."""


class CanonicalForm(Conditions):
    """A canonical form for some releases."""

    passes: Text
    """A pass pipeline that changes nothing, as that of a step."""


class Kind(Document):
    """What flows between steps (``recipes/kinds/NAME.yaml``): a level of MLIR, or an object file.

    All keys but the first two are a contract, to which every output of the kind is held (docs/recipes.md).
    """

    description: Text
    file: Name
    """The file name of an artifact of this kind, e.g. ``linalg.mlir``."""
    extends: Name | None = None
    """A kind whose contract holds, too. Operations that it allows are allowed."""
    ops: Operations | None = None
    types: Types = Types()
    main: MainForm | None = None
    """What all arguments and results of ``func.func @main`` are: ranked tensors without an encoding, ranked memrefs with the
    identity layout, or torch's tensors with value semantics. ``c-interface``: the LLVM dialect, with ``_mlir_ciface_main``."""
    canonical: tuple[CanonicalForm, ...] = ()
    """Passes that change nothing: the first that matches the releases of the environment in which the IR was made applies."""


class SourceVariant(Conditions):
    """The form of a workload's source for some releases of the importer's environment."""

    file: Name


#: Numerics attributes, which tolerance layers may match, e.g. ``contraction: "off"`` (in quotes: YAML 1.1 takes off for false).
NumericsAttributes = dict[Name, StrictStr | StrictBool]


class Parameter(Document):
    """A parameter of a tool; ``${name}`` in passes, a schedule or a command is replaced by the value."""

    description: Text
    default: ParameterValue


class Variant(Conditions):
    """The form of a tool for some releases: the keys that differ."""

    command: Command | None = None
    passes: Text | None = None
    schedule: Name | None = None
    patterns: Name | None = None
    parameters: dict[Name, ParameterValue] = {}
    """Other defaults of parameters."""


#: The tools that run a Python file of a catalog, and a command; and FileCheck, all that a target that only compiles needs.
PYTHON_FILE, COMMAND, CHECK = "python_file", "command", "check"


class Tool(Document):
    """What frameworks, steps and targets have in common: the tool that does their work.

    It is a Python file of the folder (``importer.py``, ``tool.py``, ``run.py``), or a program of the environment (``command``).
    """

    command: Command | None = None
    """A program of the environment and its arguments. ``${NAME}`` stands for the path of an input or output, or for the value
    of a parameter; a word with ``${inputs}`` or ``${outputs}`` is repeated for each of them (targets only)."""
    preload: tuple[Module, ...] = ()
    """Modules that a worker imports before it forks actions: those that are slow to import. ``MODULE:FUNCTION`` also calls a
    function of the environment's packages, without arguments, so that actions find its caches filled."""
    files: tuple[ToolFile, ...] = ()
    """Further files that the tool reads: of its folder, or ``ENTRY/FILE`` of another entry of the same section. Each is an input
    with the name of the file."""
    parameters: dict[Name, Parameter] = {}
    requires: tuple[Requirement, ...] = ()
    """Requirements of all variants."""
    variants: tuple[Variant, ...] = ()
    """The first that matches the pinned releases applies. If there are variants and none matches, it is unsupported."""

    @property
    def works_in(self) -> str:
        """The environment in which the tool runs."""
        return str(getattr(self, "environment", "") or getattr(self, "runner_environment", ""))

    def tool_name(self, files: Collection[str]) -> str:
        """Return the tool's module in ``actions/tools``; ``files`` are those of the folder."""
        if self.command or any(variant.command for variant in self.variants):
            return COMMAND
        return (
            PYTHON_FILE if TOOL_FILES[type(self)] in files else getattr(self, "tool", None) or DEFAULT_TOOLS[type(self)]
        )


class Framework(Tool):
    """A front end that turns a workload into MLIR (``matrix/frameworks/NAME/framework.yaml``)."""

    description: Text
    environment: Name = ""
    """The environment (``toolchains/environments/``) in which it runs. Absent: no importer, and files are taken as they are."""
    emits: Annotated[dict[Name, Name], Field(min_length=1)]
    """By kind that this framework can emit, in order of preference: the file in the workload's folder."""
    fixed_shapes: StrictBool = False
    """True if sources spell the sizes of their tensors, so that an import gives no others."""
    numerics: NumericsAttributes = {}
    """Its attributes, e.g. ``math: expansion`` where it expands functions. They override those of a target or a workload."""


class SourceForm(Tool):
    """A form in which others keep programs (``matrix/sources/NAME/source.yaml``); ``prepare.py`` makes it a framework's own.

    Without ``prepare.py`` a program is that file unchanged, and has no inputs: it can be checked, but not run.
    """

    description: Text
    gives: Name
    """The file in a workload's folder that a program stands for, e.g. ``pytorch.py``: frameworks that read it read these."""
    members: Annotated[tuple[PathGlob, ...], Field(min_length=1)]
    """The files that are programs, for example ``*.py``; ``**/`` stands for any folders. A corpus may choose others."""
    tests: Annotated[Text, AfterValidator(_with_one_group)] | None = None
    """A regular expression for files with several tests: its group is the name of one. ``^`` and ``$`` match at lines. A member is
    then ``FILE::NAME``. Absent: a file is one test."""
    environment: Name = ""
    """The environment of ``prepare.py``."""
    oracle: Text | None = None
    """What is expected of a program, and where its bounds come from, for reports."""
    draws: bool = True
    """False if a program has a single set of inputs: an audit takes that one, and a calibration takes no such program."""

    def prepares(self, files: Collection[str]) -> bool:
        """Return whether programs are prepared, and so have inputs; ``files`` are those of the folder."""
        return TOOL_FILES[type(self)] in files


class TensorInput(Document):
    """An input of a workload. A formula and a seed define its elements."""

    shape: tuple[StrictInt | Name, ...]
    """Each entry is a size or the name of a dimension in ``dims``."""
    dtype: Dtype
    formula: Text
    """For example ``uniform(-1, 1) / sqrt(K)``; docs/workload-keys.md lists the functions."""
    seed: StrictInt = 0


class Output(Document):
    """An output of a workload, and how it is compared with its golden."""

    shape: tuple[StrictInt | Name, ...]
    dtype: Dtype
    compare: Literal["numeric", "exact", "order-free"] = "numeric"
    """``numeric`` (within tolerance), ``exact`` (integers, booleans), ``order-free`` (sorted along the last axis)."""
    nan: Text | None = None
    """The reason why NaN is correct in this output. Without a reason, a reference that gives NaN is refused."""
    weak: Text | None = None
    """The reason why the golden may be weak: for example, all zeros are correct. Without a reason, a suite may refuse it."""


class Workload(Document):
    """A program with its inputs and a reference (``matrix/workloads/NAME/workload.yaml``)."""

    description: Text
    source: Name | None = None
    """The form (``matrix/sources/``) in which the program is kept. Its own code then says what its inputs and outputs are."""
    program: Name | None = None
    """With ``source``: the file in the folder. Absent: the only one that can be such a program."""
    parameters: dict[Name, ParameterValue] = Field(default={}, alias="with")
    """With ``source``: values for its parameters."""
    environment: Name | None = None
    """With ``source``: the environment of a target that judges, instead of its own. It has what that one has, and the programs of
    more components."""
    dims: dict[Name, StrictInt] = {}
    """Named dimensions, used in shapes, formulas and tolerances."""
    sizes: dict[Name, Annotated[dict[Name, StrictInt], Field(min_length=1)]] = {}
    """Other sizes by name, e.g. ``bench``: the dimensions that differ from ``dims``. ``--size NAME`` chooses one; its goldens are
    computed."""
    flops: StrictInt | Text | None = None
    """Arithmetic operations on numbers in one call, an expression on dimensions: ``2 * M * N * K``. Absent: counted in the
    structured operations of ``linalg.mlir``."""
    dynamic: tuple[Name, ...] = ()
    """Dimensions that importers leave open (``tensor<?x…>``); the sizes in ``dims`` are those of the test."""
    inputs: dict[Name, TensorInput] = {}
    outputs: dict[Name, Output] = {}
    golden: Literal["kept", "computed"] = "kept"
    """``kept``: the expected outputs are files of ``golden/``. ``computed``: each run computes them by the reference, through
    the action cache; for outputs that are too large to keep."""
    sources: dict[Name, Annotated[tuple[SourceVariant, ...], Field(min_length=1)]] = {}
    """By source file, e.g. ``linalg.mlir``: other files that take its place, where the syntax changes with releases. The first
    that matches the pinned releases applies, else the file itself."""
    absent: dict[Name, Text] = {}
    """Frameworks that cannot express this workload, and why."""
    requires: tuple[Requirement, ...] = ()
    """Requirements on the compilers of all steps on its route."""
    numerics: NumericsAttributes = {}
    """The attributes that it asks for, e.g. ``accumulator: f32``. Those of a target or a pipeline override them."""


class CorpusData(Document):
    """The checkout that has the programs of a corpus. A user names it by ``--data CORPUS=DIR``."""

    url: Text
    """The repository, for errors: ``https://github.com/llvm/torch-mlir``."""
    commit: Annotated[StrictStr, matching(r"^[0-9a-f]{40}$", "a commit of 40 hexadecimal digits")]
    """The commit at which the expectations were made. With another one, a run warns."""


class Corpus(Document):
    """Many programs of one form (``matrix/corpora/NAME/corpus.yaml``). Each member is a workload ``NAME:MEMBER``."""

    description: Text
    source: Name
    """The form (``matrix/sources/``) in which they are kept."""
    data: CorpusData | None = None
    """The programs are in a checkout that a user names. Without it the corpus has no members, and suites of them are not there."""
    folder: Text | None = None
    """The folder with the programs, from the folder that has ``matrix/``; with ``data`` from the checkout. Absent: the members are
    named in ``members.txt`` beside this file, one a line; ``matrix expect NAME --write`` makes that file."""
    members: tuple[PathGlob, ...] = ()
    """Absent: those of the source."""
    beside: tuple[PathGlob, ...] = ()
    """Files that members read, from the folder that has ``matrix/``. Each member's test depends on all of them. Only targets that
    judge take them."""
    parameters: dict[Name, ParameterValue] = Field(default={}, alias="with")
    """Values for parameters of the source."""
    environment: Name | None = None
    """As that of a workload."""
    numerics: NumericsAttributes = {}
    """As that of a workload."""


class Step(Tool):
    """One transformation (``recipes/steps/NAME/step.yaml``), from kinds to a kind."""

    description: Text
    tool: Literal["passes", "check", "object"] | None = None
    """A tool of the package: ``passes`` runs a pass pipeline (and a schedule), ``check`` FileCheck; ``object`` generates code.
    Absent: ``tool.py`` or ``command``, else ``passes``."""
    backend: Literal["programs"] | None = None
    """For ``passes`` and ``object``: ``programs`` if only a release's own programs work. Absent: MLIR's Python bindings if
    the pinned release has them, else its programs."""
    environment: Name
    accepts: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The kinds that it takes."""
    gives: Name | Annotated[dict[Name, Name], Field(min_length=1)] | None = None
    """The kind that it gives, or that by the kind of its input. Absent, here or there: the kind of its input."""
    stage: Literal["lower", "codegen"] = "lower"
    passes: Text | None = None
    """For ``passes``: the pipeline, as in ``mlir-opt --pass-pipeline=builtin.module(…)``, without ``builtin.module``."""
    schedule: Name | None = None
    """For ``passes``: a transform-dialect schedule in the folder; ``transform-interpreter`` in ``passes`` runs it."""
    patterns: Name | None = None
    """For ``passes``: a file of ``pdl.pattern`` in the step's folder. They are applied before the first pass."""
    directives: Name | None = None
    """For ``check``: a file of FileCheck directives in the step's folder that the IR must satisfy."""
    native: StrictBool = False
    """True if the output depends on the machine that runs the step (native code generation)."""
    numerics: NumericsAttributes = {}
    """Its attributes, e.g. ``contraction: fast``, for pipelines with this step among their ``steps``. They override those of a
    framework, a target or a workload."""

    def kind_from(self, kind: str) -> str:
        """Return the kind that it gives for an input of a kind."""
        return (self.gives.get(kind) if isinstance(self.gives, dict) else self.gives) or kind

    def kinds(self) -> dict[str, str]:
        """Return the kind that it gives, by each that it takes."""
        return {kind: self.kind_from(kind) for kind in self.accepts}


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
    """An ordered list of steps (``recipes/pipelines/NAME.yaml``)."""

    description: Text
    entry: Annotated[dict[Name, tuple[Name | StepUse, ...]], Field(min_length=1)]
    """For each kind of input, the steps before ``steps``; the first kind is preferred."""
    steps: tuple[Name | StepUse, ...]
    """The steps that all routes share. Empty: a target takes what the framework emits."""
    codegen: dict[Name, ParameterValue] = {}
    """Values for parameters of a target's code generation steps, e.g. ``opt-level: 2``."""
    numerics: NumericsAttributes = {}
    """Its attributes, e.g. ``contraction: "off"``. They override those of its steps, of a framework, a target or a workload."""
    oracle: Text | None = None
    """Why its results are independent of the compilers under test. ``matrix explain ID --oracles`` then asks it."""

    def route(self, kind: str) -> list[UsedStep]:
        """Return the steps for an entry kind: those of the entry, then those that all entries share."""
        return [*used_steps(self.entry[kind], "entry", kind), *used_steps(self.steps, "steps")]


class Mode(Document):
    """Another form of a target; in identifiers ``TARGET+MODE``, e.g. ``aarch64+contract``."""

    description: Text
    parameters: Annotated[dict[Name, ParameterValue], Field(min_length=1, alias="with")]
    """Values for parameters of the target's codegen steps and of its own tool. They override all others."""
    numerics: NumericsAttributes = {}
    """Its attributes, e.g. ``contraction: fast``. They override those of a pipeline."""
    oracle: Text | None = None
    """As that of a target, which does not hold for its modes."""


class Target(Tool):
    """A machine, an emulator or a runtime that runs artifacts (``matrix/targets/NAME/target.yaml``)."""

    description: Text
    tool: Literal["run", "run_jit"] | None = None
    """A tool of the package: ``run`` links a kernel with the driver and runs the program. ``run_jit`` compiles a kernel in the
    LLVM dialect in memory, by MLIR's runner of the pinned release. Absent: ``run.py`` or ``command``, else ``run``."""
    triple: Name | None = None
    """For ``run`` and ``run_jit``, in Zig's form: architecture, system, C library. A ``run.py`` of a target with a triple gets
    the kernel as a program, linked with the driver."""
    accepts: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The kinds that it runs."""
    codegen: tuple[Name | StepUse, ...] = ()
    """Steps from the end of a pipeline to a kind that it runs; they take ``codegen`` values of the pipeline."""
    machine: tuple[Name, ...]
    """The accepted machines (``uname -m``)."""
    linker_environment: Name = "zig"
    """The environments that link and run."""
    runner_environment: Name = "python"
    runner: tuple[StrictStr, ...] = ()
    """For ``run``: a command that runs programs, e.g. an emulator: a program of the runner's environment, and its options."""
    native: StrictBool = True
    """For ``run.py`` and ``command``: False if results do not depend on the CPU, so that other machines may share them."""
    timed: StrictBool = False
    """True if its ``run.py`` times its calls by ``timed`` or ``timed_by``, where it is asked to."""
    devices: tuple[DeviceGlob, ...] = ()
    """Devices that a kernel needs: ``/dev/kvm``, or a glob, of whose devices it gets all that are granted. Tests are skipped unless
    ``matrix run --device`` grants them."""
    numerics: NumericsAttributes = {}
    """Its attributes, e.g. ``libm: musl``. They override those of a workload."""
    oracle: Text | None = None
    """Why its results are independent of the compilers under test, whichever pipeline leads there."""
    compile_only: Text | None = None
    """The reason why artifacts are compiled and checked, and not run. A ``run.py`` or ``command`` turns an artifact that is not
    text into text: input ``artifact``, output ``out``."""
    directives: Name | None = None
    """For ``compile_only``: a file of FileCheck directives (``// CHECK: …``) in the folder, which each artifact must satisfy."""
    judges: StrictBool = False
    """True if its ``run.py`` judges programs that say themselves what is right, such as tests with ``RUN`` lines: it writes
    ``verdict`` by ``write_verdict``, not outputs."""
    modes: dict[Name, Mode] = {}
    """Other forms of it. Each is a separate target."""
    _mode: tuple[str, Mode] | None = PrivateAttr(default=None)

    @property
    def mode(self) -> tuple[str, Mode] | None:
        """The name and the mode of a target that comes from ``modes`` of another."""
        return self._mode

    def in_modes(self) -> dict[str, Target]:
        """Return a target for each mode, by name."""
        found = {
            name: self.model_copy(update={"modes": {}, "oracle": mode.oracle}) for name, mode in self.modes.items()
        }
        for name, target in found.items():
            target._mode = name, self.modes[name]
        return found

    def tool_name(self, files: Collection[str]) -> str:
        """Return the tool's module in ``actions/tools``; ``files`` are those of the folder."""
        tool = super().tool_name(files)
        return tool if not self.compile_only or tool in (PYTHON_FILE, COMMAND) else CHECK


#: The Python file of a tool.
TOOL_FILES: Mapping[type[Tool], str] = {
    Framework: "importer.py", SourceForm: "prepare.py", Step: "tool.py", Target: "run.py"
}  # fmt: skip
#: What an entry with a tool is, in messages.
TOOL_NOUNS: Mapping[type[Tool], str] = {
    Framework: "framework", SourceForm: "source", Step: "step", Target: "target"
}  # fmt: skip
#: The tool without such a file and without a command.
DEFAULT_TOOLS: Mapping[type[Tool], str] = {Framework: PYTHON_FILE, SourceForm: "", Step: "passes", Target: "run"}


class Match(Document):
    """The conditions of a tolerance layer; all given keys must match. Without keys, it matches everything."""

    workload: tuple[NameGlob, ...] | NameGlob | None = None
    output: tuple[NameGlob, ...] | NameGlob | None = None
    dtype: tuple[RealDtype, ...] | RealDtype | None = None
    """The dtype of the output; of complex numbers that of their parts."""
    target: tuple[NameGlob, ...] | NameGlob | None = None
    numerics: (
        Annotated[dict[Name, tuple[StrictStr | StrictBool, ...] | StrictStr | StrictBool], Field(min_length=1)] | None
    ) = None
    """Numerics attributes of workload, target, framework, step or pipeline, each with a value or a list of accepted values."""
    pipeline: tuple[NameGlob, ...] | NameGlob | None = None
    framework: tuple[NameGlob, ...] | NameGlob | None = None


class Layer(Document):
    """Bounds on an error, with a rationale. An element is correct if |a-e| <= atol + rtol*|e|."""

    match: Match = Field(default_factory=Match)
    atol: StrictInt | StrictFloat | Text
    """Numbers or expressions over the workload's dimensions: ``4*sqrt(K)*eps(f32)``."""
    rtol: StrictInt | StrictFloat | Text
    max_ulp: StrictInt | StrictFloat | Text | None = None
    """An element is also correct within this many representable numbers of the expected value. A number or an expression."""
    derived: StrictBool = False
    """True if the bound of each element is what the error analysis of the reference gives (docs/workloads.md); the others
    then are for elements of which it knows nothing."""
    rationale: Text


class Tolerances(Document):
    """Tolerance layers (``golden/tolerances.yaml`` for all, ``golden/WORKLOAD/tolerances.yaml`` for one)."""

    layers: Annotated[tuple[Layer, ...], Field(min_length=1)]
