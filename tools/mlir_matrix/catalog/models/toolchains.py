"""What the YAML files in ``toolchains/`` may say: environments, components and their releases, known-good pins."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from mlir_matrix.catalog.models.base import Document, Name, Scalar, Text, matching


class Environment(Document):
    """What an action needs to run (``toolchains/environments/NAME.yaml``): the pins of its components, as a lock."""

    description: Text
    #: Components whose releases it consists of (``toolchains/components/``). Empty: the interpreter alone.
    components: tuple[Name, ...] = ()


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
    """How the provider ``source`` makes a release: a commit of a git repository, by CMake and Ninja."""

    #: Anything that ``git fetch`` takes; a path that begins with ``./`` or ``../`` goes from the catalog.
    repository: Text
    #: Folder of the CMakeLists.txt in the repository.
    folder: StrictStr = "."
    #: CMake's cache variables, ``-DNAME=VALUE``; ``${NAME}`` stands for the folder of a variable of ``needs``.
    options: dict[StrictStr, Scalar] = Field(default={})
    #: What Ninja builds, programs that are then taken. Empty: everything, and what it installs is taken.
    targets: tuple[Name, ...] = ()
    #: Components whose releases must be there to build it, and where CMake finds them: variable to folder of the prefix,
    #: ``{major}`` standing for the first number of that release.
    needs: dict[Name, dict[StrictStr, StrictStr]] = Field(default={})


class Release(Document):
    """One version of a component, and where it comes from."""

    #: Begins with the number: ``19.1.7``, ``24.0.0+torch-mlir.20261001``.
    release: Name
    #: Where it differs from the component's.
    provider: Provider | None = None
    #: The source that it was made from, where known: a commit or a tag.
    commit: Name | None = None
    #: ``rolling``: its source replaces it by the next one, and it will vanish from there.
    durability: Literal["permanent", "rolling"] = "permanent"
    #: What not every build of the component has: dialects, targets.
    carries: tuple[Name, ...] = ()
    #: Import package in it that carries MLIR's Python bindings (``torch_mlir``, ``mlir``, …).
    bindings: StrictStr | None = None
    #: ``pypi``: the distributions and their versions. Absent: the component's own, in the version of the release.
    distributions: dict[Name, Name] = Field(default={})
    #: ``deb``: the suites that have it, the first preferred.
    suites: tuple[Name, ...] = ()
    #: ``deb``: the version's upstream part where it differs from the release.
    version: StrictStr | None = None
    #: ``host``: its programs, where they are not the component's.
    programs: tuple[ProgramPlace, ...] = ()
    link: StrictStr | None = None


class Component(Document):
    """Something versioned (``toolchains/components/NAME.yaml``), and its releases in order, the oldest first."""

    description: Text
    link: StrictStr | None = None
    #: Where releases come from that do not say otherwise.
    provider: Provider = "pypi"
    #: Programs that it is used for.
    tools: tuple[Name, ...] = ()
    #: Import packages that it is used for.
    modules: tuple[StrictStr, ...] = ()
    #: ``pypi``: distribution name where it differs from the component's.
    distribution: Name | None = None
    #: ``deb``: package names, ``{major}`` and ``{minor}`` standing for the first numbers of the release.
    packages: tuple[PackageName, ...] = ()
    #: ``deb``: packages that are taken without what they depend on.
    alone: tuple[PackageName, ...] = ()
    #: ``deb``: packages that count as installed: neither they are taken nor what only they need.
    without: tuple[PackageName, ...] = ()
    #: ``deb``: its programs look for themselves (``/proc/self/exe``), so that no loader can be in front of them. They are
    #: patched to find the prefix's loader and libraries where it stands, and it cannot be moved.
    in_place: StrictBool = False
    #: ``deb``, with ``in_place``: what more its programs need to run, by the name of what we do about it.
    finish: Finish | None = None
    #: ``deb``, ``source``: folders of the prefix that hold its programs. ``host``: their names.
    programs: tuple[ProgramPlace, ...] = ()
    #: By kind of action, the files that such actions read of it, where these are few of many: actions by Bazel have no
    #: others. ``*`` stands for part of a name, ``**`` for folders.
    reads: dict[Name, Annotated[tuple[PackageFiles, ...], Field(min_length=1)]] = Field(default={})
    #: ``source``: how it is built.
    build: Build | None = None
    releases: Annotated[tuple[Release, ...], Field(min_length=1)]

    @property
    def needs(self) -> tuple[str, ...]:
        """The components that its releases are made with."""
        return (*(self.build.needs if self.build else ()), *([PATCHER] if self.in_place else []))


class Passed(Document):
    """What a set of pins passed."""

    suite: Name
    #: Tests that ended as the suite expects, of all.
    as_expected: StrictInt
    total: StrictInt
    #: SHA-256 over the identifiers and outcomes of its tests.
    outcomes: Annotated[StrictStr, matching(r"^[0-9a-f]{64}$", "a SHA-256 of 64 digits 0-9a-f")]
    #: ``YYYY-MM-DD``
    date: Annotated[StrictStr, matching(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "a date YYYY-MM-DD")]


class KnownGood(Document):
    """The default pins (``toolchains/known-good.yaml``) and what they passed."""

    pins: dict[Name, Name]
    #: Environments that keep to releases of their own: those of linkers and code generators.
    environments: dict[Name, dict[Name, Name]] = Field(default={})
    passed: tuple[Passed, ...] = ()


class Containers(Document):
    """How images of environments are made (``containers/images.yaml``); what is in them, the locks of the environments say."""

    #: Number of the user that containers run as, which is also its group's: not root.
    user: Annotated[StrictInt, Field(ge=1, le=65535)] = 10001
    #: Packages that many environments have, as pip and components call them. Their layers come first, in this order, so that
    #: a daemon keeps them once: it shares a layer only where all those below it are the same.
    first: tuple[Name, ...] = ()
    #: Where images are taken from, and with ``--push`` brought to: ``HOST:PORT/FOLDER``. Absent: they are made here.
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
