"""Define the models of ``toolchains/`` and ``containers/``: environments, components, releases, pins, images."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from mlir_matrix.catalog.models.base import Document, Name, Scalar, Text, matching


class Environment(Document):
    """The components that an action needs (``toolchains/environments/NAME.yaml``)."""

    description: Text
    components: tuple[Name, ...] = ()
    """Its components (``toolchains/components/``). Empty: the interpreter alone."""


Provider = Literal["pypi", "deb", "host", "source"]
Finish = Literal["bazel"]
#: The component whose program patches prefixes.
PATCHER = "patchelf"


#: Names of packages, with ``{major}`` and ``{minor}`` for numbers of the release.
PackageName = Annotated[
    StrictStr,
    matching(
        r"^[a-z0-9{][a-z0-9{}+.-]*$",
        "the name of a Debian package (small letters, digits, '+', '-', '.', and '{major}' or '{minor}')",
    ),
]
#: A folder of a prefix, or the name of a program: no part begins with a dot, so none leads out.
ProgramPlace = Annotated[
    StrictStr,
    matching(
        r"^[A-Za-z0-9_{][A-Za-z0-9_{}+.-]*(/[A-Za-z0-9_{][A-Za-z0-9_{}+.-]*)*$",
        "a folder of the prefix such as 'usr/bin', or the name of a program; no part of it may begin with a dot",
    ),
]
#: Files of a package, as Bazel's ``glob`` takes them: no part begins with a dot, so none leads out.
PackageFiles = Annotated[
    StrictStr,
    matching(
        r"^[A-Za-z0-9_*][A-Za-z0-9_*+.-]*(/[A-Za-z0-9_*][A-Za-z0-9_*+.-]*)*$",
        "a file of the component's folder, or some, such as 'ziglang/zig' or 'ziglang/lib/**'; "
        "no part of it may begin with a dot",
    ),
]


class Build(Document):
    """How the provider ``source`` builds a release: from a commit of a git repository, by CMake and Ninja or a command."""

    repository: Text
    """An address for ``git fetch``; a path that begins with ``./`` or ``../`` is relative to the catalog."""
    folder: StrictStr = "."
    """The folder of the CMakeLists.txt in the repository."""
    pins: dict[Name, StrictStr] = Field(default={})
    """Components that go with each commit, by a path in it: a file whose first word is their release, tag or commit, or a
    submodule. ``matrix integrate`` moves them together."""
    patches: StrictStr | None = None
    """A folder of the catalog: its files ``*.patch`` are applied to each commit, in the order of their names."""
    options: dict[StrictStr, Scalar] = Field(default={})
    """CMake's cache variables, ``-DNAME=VALUE``; ``${NAME}`` stands for the folder of a variable of ``needs``."""
    targets: tuple[Name, ...] = ()
    """The programs that Ninja builds; a commit needs to have one of them. Empty: it builds everything and installs it."""
    command: Text | None = None
    """Instead of CMake and Ninja: a command that ``sh`` runs in a checkout, where it may write. It installs programs in
    ``$PREFIX/bin`` by ``$JOBS`` processes; ``needs`` are variables of its environment."""
    network: StrictBool = False
    """Whether the build itself uses the network, beside git. The operator has to allow that: ``--allow-network-builds``."""
    timeout: Annotated[StrictInt, Field(ge=1)] | None = None
    """The seconds after which a command of the build is ended. Absent: never; four hours for the commits of a bisection."""
    needs: dict[Name, dict[StrictStr, StrictStr]] = Field(default={})
    """Components that the build needs, each with CMake's variables for folders of its prefix; ``{major}`` stands for the first
    number of its release."""


class Release(Document):
    """One version of a component, and its provider."""

    release: Name
    """The name begins with the number: ``19.1.7``, ``24.0.0+torch-mlir.20261001``."""
    provider: Provider | None = None
    """Absent: the component's."""
    commit: Name | None = None
    """The source that it was built from, if known: a commit or a tag."""
    durability: Literal["permanent", "rolling"] = "permanent"
    """``rolling``: its source replaces it by the next one, and it will vanish from there."""
    carries: tuple[Name, ...] = ()
    """Features that some builds of the component lack: dialects, targets."""
    bindings: StrictStr | None = None
    """The import package of MLIR's Python bindings in it (``torch_mlir``, ``mlir``, …)."""
    distributions: dict[Name, Name] = Field(default={})
    """``pypi``: the distributions and their versions. Absent: the component's own with the version of the release."""
    suites: tuple[Name, ...] = ()
    """``deb``: the Debian suites that have it, the first preferred."""
    version: StrictStr | None = None
    """``deb``: the upstream part of the version, if it differs from the release."""
    programs: tuple[ProgramPlace, ...] = ()
    """``host``, ``source``: its programs, as for the component. Absent: the component's."""
    link: StrictStr | None = None


class Component(Document):
    """Software with releases (``toolchains/components/NAME.yaml``), the oldest release first."""

    description: Text
    link: StrictStr | None = None
    provider: Provider = "pypi"
    """The provider of releases without one of their own."""
    tools: tuple[Name, ...] = ()
    """The programs that actions use."""
    modules: tuple[StrictStr, ...] = ()
    """The import packages that actions use."""
    distribution: Name | None = None
    """``pypi``: the name of the distribution, if it differs from the component's."""
    packages: tuple[PackageName, ...] = ()
    """``deb``: package names; ``{major}`` and ``{minor}`` stand for the first numbers of the release."""
    alone: tuple[PackageName, ...] = ()
    """``deb``: packages that are installed without their dependencies."""
    without: tuple[PackageName, ...] = ()
    """``deb``: packages that count as installed: neither they nor dependencies of them alone are installed."""
    in_place: StrictBool = False
    """``deb``: its programs find themselves by ``/proc/self/exe``, so that no loader can be in front of them. They are patched
    with the final paths of the prefix's loader and libraries, and the prefix cannot be moved."""
    finish: Finish | None = None
    """``deb``, with ``in_place``: a further patch that its programs need."""
    programs: tuple[ProgramPlace, ...] = ()
    """``deb``, ``source``: folders of the prefix that hold its programs. ``host``: their names."""
    reads: dict[Name, Annotated[tuple[PackageFiles, ...], Field(min_length=1)]] = Field(default={})
    """By tool, the files that its actions read, if these are few of many: under Bazel, actions have no others. ``*`` stands
    for part of a name, ``**`` for folders."""
    build: Build | None = None
    """``source``: how it is built."""
    goes_with: tuple[Name, ...] = Field(default=(), alias="goes-with")
    """Components whose releases move with those of this one: `matrix toolchain roll` tries them together."""
    releases: Annotated[tuple[Release, ...], Field(min_length=1)]

    @property
    def needs(self) -> tuple[str, ...]:
        """The components that its releases are built with."""
        return (*(self.build.needs if self.build else ()), *([PATCHER] if self.in_place else []))


class AddedReleases(Document):
    """Releases that a catalog adds to a component of an earlier catalog (a file of that component's name)."""

    releases: Annotated[tuple[Release, ...], Field(min_length=1)]


class Passed(Document):
    """The results of a suite under a set of pins."""

    suite: Name
    as_expected: StrictInt
    """The number of tests with the expected outcome, of ``total``."""
    total: StrictInt
    outcomes: Annotated[StrictStr, matching(r"^[0-9a-f]{64}$", "a SHA-256 of 64 digits 0-9a-f")]
    """SHA-256 over the identifiers and outcomes of its tests."""
    date: Annotated[StrictStr, matching(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "a date YYYY-MM-DD")]
    """``YYYY-MM-DD``"""


class KnownGood(Document):
    """The default pins (``toolchains/known-good.yaml``), and the results of suites under them."""

    pins: dict[Name, Name]
    environments: dict[Name, dict[Name, Name]] = Field(default={})
    """Environments with releases of their own: those of linkers and code generators."""
    passed: tuple[Passed, ...] = ()


class Containers(Document):
    """How images of environments are built (``containers/images.yaml``); the lock files define their content."""

    user: Annotated[StrictInt, Field(ge=1, le=65535)] = 10001
    """The number of the user, and of the group, that containers run as: not root."""
    first: tuple[Name, ...] = ()
    """Packages of many environments, by their names in pip and components. Their layers come first, in this order, so that a
    daemon stores them once: it shares a layer only if all layers below are equal."""
    registry: (
        Annotated[
            StrictStr,
            matching(
                r"^[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9][a-z0-9._-]*)*$",
                "a registry, such as 'registry.example.com:5000/ci', without 'https://'",
            ),
        ]
        | None
    ) = None
    """The registry that images are pulled from, and with ``--push`` pushed to: ``HOST:PORT/FOLDER``. Absent: built here."""
