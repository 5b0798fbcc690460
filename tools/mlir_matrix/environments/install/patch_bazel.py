"""Patch Debian's Bazel to run from a prefix, without a network and independent of any Bazel of the machine.

The package finds its list of jars, its rc file and its Java by paths that begin with ``/usr`` and ``/etc``. It also lacks
modules that Bazel's own tools depend on, which other builds of Bazel download from a registry.
"""

from __future__ import annotations

import os
import shlex
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.catalog.releases import number
from mlir_matrix.environments.installed.prefix import OURS, Prefix, PrefixProgram

_BASE = "usr/share/bazel"
#: The list of the server's jars that are in other packages.
_CLASSPATH = f"{_BASE}/bazel_classpath_debian_depends.txt"
_OURS = f"{OURS}/bazel"
#: Modules in Debian packages, by folder.
_PACKAGED = {
    "bazel_features": "tools/features", "bazel_skylib": "tools/skylib", "platforms": "tools/platforms",
    "rules_cc": "rules/cc", "rules_java": "rules/java", "rules_license": "rules/license", "rules_proto": "rules/proto",
    "rules_python": "rules/python",
}  # fmt: skip
#: Modules that Bazel's own tools name but our builds do not use. Empty modules are enough.
_EMPTY = ("apple_support", "buildozer", "protobuf", "zlib")
#: Bazel's own tools use an extension of the module buildozer.
_EXTENSION = """\
\"\"\"Stands in for the extension by which Bazel's tools find buildozer, which nobody calls.\"\"\"

def _nothing_impl(repository_ctx):
    repository_ctx.file("BUILD.bazel", "")

_nothing = repository_rule(implementation = _nothing_impl)

def _buildozer_binary_impl(module_ctx):
    _nothing(name = "buildozer_binary")

buildozer_binary = module_extension(implementation = _buildozer_binary_impl)
"""


def finish(root: Path, place: str, prefix: Prefix) -> tuple[Prefix, set[str]]:
    """Finish the prefix in ``root`` that will be at ``place``; return its new description and the changed files."""
    java = _java(root)
    jars = _closure(root, _listed(root))
    (root / _CLASSPATH).write_text("".join(f"{place}/{jar}\n" for jar in jars), encoding="utf-8")
    for name in _EMPTY:
        _write(root, f"modules/{name}/MODULE.bazel", f'module(name = "{name}")\n')
        _write(root, f"modules/{name}/BUILD.bazel", "")
    _write(root, "modules/buildozer/buildozer_binary.bzl", _EXTENSION)
    _write(root, "bazelrc", "".join(f"{line}\n" for line in _rc(place)))
    _write(root, "bazel", _launcher(place, prefix.programs["bazel"].path, java))
    (root / _OURS / "bazel").chmod(0o755)
    programs = {**prefix.programs, "bazel": PrefixProgram(path=f"{_OURS}/bazel", loaded=False)}
    return replace(prefix, programs=programs), {_CLASSPATH}


def _rc(place: str) -> Iterator[str]:
    yield "# For machines without a network: every module that Bazel itself needs is here."
    yield "startup --trust_install_base"
    # A lock file does not contain overridden modules, and Bazel would write one that is valid only on this machine.
    yield "common --lockfile_mode=off"
    if Path("/tmp") in Path(place).parents:  # noqa: S108 - it is compared
        yield "# Sandboxes have a /tmp of their own, and what Bazel brings along is in it."
        yield f"build --sandbox_add_mount_pair={place}"
    for name, folder in _PACKAGED.items():
        yield f"common --override_module={name}={place}/{_BASE}/{folder}"
    for name in _EMPTY:
        yield f"common --override_module={name}={place}/{_OURS}/modules/{name}"


def _launcher(place: str, program: str, java: str) -> str:
    options = [
        "--nosystem_rc",
        f"--bazelrc={place}/{_OURS}/bazelrc",
        f"--install_base={place}/{_BASE}",
        f"--server_javabase={place}/{java}",
    ]
    return f"""\
#!/bin/sh
# Starts this prefix's Bazel, with its own Java, rc file and modules and none of the machine's.
exec {shlex.join([f"{place}/{program}", *options])} "$@"
"""


def _write(root: Path, name: str, text: str) -> None:
    path = root / _OURS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _java(root: Path) -> str:
    """Return the folder of the newest Java, which runs the server."""
    found = [path.parents[1] for path in (root / "usr/lib/jvm").glob("*/bin/java") if not path.parents[1].is_symlink()]
    if not found:
        raise InfrastructureError("the packages have no Java in usr/lib/jvm; add a JRE to the lock file")
    newest = max(found, key=lambda folder: (number(folder.name.removeprefix("java-")), folder))
    return newest.relative_to(root).as_posix()


def _listed(root: Path) -> list[str]:
    try:
        lines = (root / _CLASSPATH).read_text(encoding="utf-8").split()
    except OSError:
        raise InfrastructureError(f"the packages have no {_CLASSPATH}, which is part of Debian's Bazel") from None
    return [_inside(line) for line in lines]


def _closure(root: Path, jars: Iterable[str]) -> Iterator[str]:
    """Yield jars and those that their manifests name, each once. Skip missing ones, which belong to optional packages.

    The list must have all of them, because the server ignores the manifests of jars.
    """
    todo, seen = list(jars), set[str]()
    while todo:
        jar = todo.pop(0)
        if jar not in seen and (root / jar).is_file():
            seen.add(jar)
            yield jar
            todo += _named(root, jar)


def _named(root: Path, jar: str) -> Iterator[str]:
    """Yield the jars in the ``Class-Path`` of a jar's manifest."""
    try:
        with zipfile.ZipFile(root / jar) as archive:
            text = archive.read("META-INF/MANIFEST.MF").decode("utf-8", "replace")
    except KeyError:
        return
    except (OSError, zipfile.BadZipFile) as error:
        raise InfrastructureError(f"{jar} cannot be read: {error}") from None
    # A line that begins with a space continues the previous one.
    for line in text.replace("\r\n", "\n").replace("\n ", "").splitlines():
        key, _, value = line.partition(":")
        if key.lower() == "class-path":
            yield from (_inside(str(PurePosixPath("/", jar).parent / word)) for word in value.split())


def _inside(path: str) -> str:
    """Return an absolute path relative to the prefix; ``..`` cannot leave it."""
    return os.path.normpath("/" + path).lstrip("/")
