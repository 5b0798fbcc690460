"""What the YAML files in ``toolchains/`` may say: environments, components and their releases, known-good pins."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from mlir_matrix.catalog.models.base import Document, Name, Scalar, Text


class Environment(Document):
    """What an action needs to run (``toolchains/environments/NAME.yaml``): the pins of its components, as a lock."""

    description: Text
    components: tuple[Name, ...] = ()
    """Components whose releases it consists of (``toolchains/components/``). Empty: the interpreter alone."""


Provider = Literal["pypi", "deb", "host", "source"]
Finish = Literal["bazel"]
#: The component whose program patches prefixes.
PATCHER = "patchelf"


_PACKAGE = r"^[a-z0-9{][a-z0-9{}+.-]*$"
_PLACE = r"^[A-Za-z0-9_{][A-Za-z0-9_{}+.-]*(/[A-Za-z0-9_{][A-Za-z0-9_{}+.-]*)*$"
_FILES = r"^[A-Za-z0-9_*][A-Za-z0-9_*+.-]*(/[A-Za-z0-9_*][A-Za-z0-9_*+.-]*)*$"
#: Names of packages, with the places that a release fills.
PackageName = Annotated[StrictStr, Field(pattern=_PACKAGE)]
#: A folder of a prefix, or the name of a program: no part begins with a dot, so none leads out.
ProgramPlace = Annotated[StrictStr, Field(pattern=_PLACE)]
#: Files of an installed package or a prefix, as Bazel's ``glob`` takes them: no part begins with a dot, so none leads out.
UnitFiles = Annotated[StrictStr, Field(pattern=_FILES)]
#: What texts must be that a pattern refuses.
RULES = {
    _PACKAGE: "the name of a Debian package (small letters, digits, '+', '-', '.', and '{major}' or '{minor}')",
    _FILES: "a file of the component's folder, or some, such as 'ziglang/zig' or 'ziglang/lib/**'; "
    "no part of it may begin with a dot",
    _PLACE: "a folder of the prefix such as 'usr/bin', or the name of a program; no part of it may begin with a dot",
}


class Build(Document):
    """How the provider ``source`` makes a release: a commit of a git repository, by CMake and Ninja."""

    repository: Text
    """Anything that ``git fetch`` takes; a path that begins with ``./`` or ``../`` goes from the catalog."""
    folder: StrictStr = "."
    """Folder of the CMakeLists.txt in the repository."""
    options: dict[StrictStr, Scalar] = Field(default={})
    """CMake's cache variables, ``-DNAME=VALUE``; ``${NAME}`` stands for the folder of a variable of ``needs``."""
    targets: tuple[Name, ...] = ()
    """What Ninja builds, programs that are then taken. Empty: everything, and what it installs is taken."""
    needs: dict[Name, dict[StrictStr, StrictStr]] = Field(default={})
    """Components whose releases must be there to build it, and where CMake finds them: variable to folder of the prefix,
    ``{major}`` standing for the first number of that release."""


class Release(Document):
    """One version of a component, and where it comes from."""

    release: Name
    """Begins with the number: ``19.1.7``, ``24.0.0+torch-mlir.20261001``."""
    provider: Provider | None = None
    """Where it differs from the component's."""
    commit: Name | None = None
    """The source that it was made from, where known: a commit or a tag."""
    durability: Literal["permanent", "rolling"] = "permanent"
    """``rolling``: its source replaces it by the next one, and it will vanish from there."""
    carries: tuple[Name, ...] = ()
    """What not every build of the component has: dialects, targets."""
    bindings: StrictStr | None = None
    """Import package in it that carries MLIR's Python bindings (``torch_mlir``, ``mlir``, …)."""
    distributions: dict[Name, Name] = Field(default={})
    """``pypi``: the distributions and their versions. Absent: the component's own, in the version of the release."""
    suites: tuple[Name, ...] = ()
    """``deb``: the suites that have it, the first preferred."""
    version: StrictStr | None = None
    """``deb``: the version's upstream part where it differs from the release."""
    programs: tuple[ProgramPlace, ...] = ()
    """``host``: its programs, where they are not the component's."""
    link: StrictStr | None = None


class Component(Document):
    """Something versioned (``toolchains/components/NAME.yaml``), and its releases in order, the oldest first."""

    description: Text
    link: StrictStr | None = None
    provider: Provider = "pypi"
    """Where releases come from that do not say otherwise."""
    tools: tuple[Name, ...] = ()
    """Programs that it is used for."""
    modules: tuple[StrictStr, ...] = ()
    """Import packages that it is used for."""
    distribution: Name | None = None
    """``pypi``: distribution name where it differs from the component's."""
    packages: tuple[PackageName, ...] = ()
    """``deb``: package names, ``{major}`` and ``{minor}`` standing for the first numbers of the release."""
    alone: tuple[PackageName, ...] = ()
    """``deb``: packages that are taken without what they depend on."""
    without: tuple[PackageName, ...] = ()
    """``deb``: packages that count as installed: neither they are taken nor what only they need."""
    in_place: StrictBool = False
    """``deb``: its programs look for themselves (``/proc/self/exe``), so that no loader can be in front of them. They are
    patched to find the prefix's loader and libraries where it stands, and it cannot be moved."""
    finish: Finish | None = None
    """``deb``, with ``in_place``: what more its programs need to run, by the name of what we do about it."""
    programs: tuple[ProgramPlace, ...] = ()
    """``deb``, ``source``: folders of the prefix that hold its programs. ``host``: their names."""
    reads: dict[Name, Annotated[tuple[UnitFiles, ...], Field(min_length=1)]] = Field(default={})
    """By kind of action, the files that such actions read of it, where these are few of many: actions by Bazel have no
    others. ``*`` stands for part of a name, ``**`` for folders."""
    build: Build | None = None
    """``source``: how it is built."""
    releases: Annotated[tuple[Release, ...], Field(min_length=1)]

    @property
    def needs(self) -> tuple[str, ...]:
        """The components that its releases are made with."""
        return (*(self.build.needs if self.build else ()), *([PATCHER] if self.in_place else []))


class Passed(Document):
    """What a set of pins passed."""

    suite: Name
    as_expected: StrictInt
    """Tests that ended as the suite expects, of all."""
    total: StrictInt
    outcomes: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
    """SHA-256 over the identifiers and outcomes of its tests."""
    date: Annotated[StrictStr, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    """``YYYY-MM-DD``"""


class KnownGood(Document):
    """The default pins (``toolchains/known-good.yaml``) and what they passed."""

    pins: dict[Name, Name]
    environments: dict[Name, dict[Name, Name]] = Field(default={})
    """Environments that keep to releases of their own: those of linkers and code generators."""
    passed: tuple[Passed, ...] = ()
