"""Use the user's own Python packages of a component (``--pin torch=DIR|FILE``): a virtual environment, a folder, a wheel."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from mlir_matrix.actions.sandbox.root import needed_by
from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import UsageError
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.download import WantedFile, adopt
from mlir_matrix.environments.interpreter import SUPPORTED, version_of
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.machine import HOST
from mlir_matrix.environments.own_packages import OWN_MARK, OwnPackages, OwnWheel, names_of
from mlir_matrix.environments.source.confined import confined_version

_EXTENSION = re.compile(r"\.cpython-(3\d+)-[^/]*\.so$")
_STATED = re.compile(r"^__version__\b[^=\n]*=\s*[\"']([^\"']+)", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
#: How far above a folder of packages the programs of its build tree may be.
_LEVELS = 4
_SHARED = ("/", "/usr", "/usr/local")
_PYTHONS = f"CPython {version_of(SUPPORTED[0])} to {version_of(SUPPORTED[-1])}"


def modules_of(component: Component) -> list[str]:
    """Return the import packages that a component may have."""
    bindings = (release.bindings for release in reversed(component.releases) if release.bindings)
    return list(dict.fromkeys([*component.modules, *bindings]))


def is_virtual(folder: str) -> bool:
    """Return whether a folder is a virtual environment."""
    return os.path.isfile(f"{folder}/pyvenv.cfg")


def find_packages(
    entry: Entry[Component], where: str, pinned: str, digest_of: Callable[[str], str]
) -> OwnPackages | None:
    """Return the packages of a component in a virtual environment or a folder; None if the folder has none.

    ``digest_of`` returns the digest of a file without links. Raise UsageError for another Python, and if no version is stated.
    """
    modules = modules_of(entry.document)
    virtual = is_virtual(pinned)
    sites = sorted(Path(pinned).glob("lib/python3.*/site-packages")) if virtual else [Path(pinned)]
    found = [(site, name) for site in sites for name in modules if (site / _path(name)).is_dir()]
    if not found:
        if virtual and modules:
            advice = f"install it there, or pin the folder that has {_path(modules[0])}/ if it is installed as editable"
            raise UsageError(f"{where}: this virtual environment has no package {' or '.join(modules)}; {advice}")
        return None
    site, module = found[0]
    files, outside = _walk(site)
    of_module = [file for file in files if file.startswith(f"{site / _path(module)}/")]
    named = [site.parent.name.removeprefix("python")] if virtual else sorted(_versions(of_module))
    tags = tuple(tag for tag in SUPPORTED if not named or version_of(tag) in named)
    if not tags:
        raise UsageError(
            f"{where}: it is for CPython {', '.join(named)}; environments run on {_PYTHONS}: build it for one"
        )
    libraries = sorted(set(_libraries(of_module, site)))
    contents = [[os.path.relpath(file, site), digest_of(os.path.realpath(file))] for file in files]
    contents += [[os.path.basename(file), digest_of(os.path.realpath(file))] for file in libraries]
    number = _number(entry, where, site, module)
    # Another component may have the same folder.
    digest = digest_value([entry.name, contents])
    return OwnPackages(
        component=entry.name,
        release=f"{number}{OWN_MARK}{digest[:8]}",
        where=where,
        pinned=pinned,
        folder=str(site),
        tags=tags,
        distributions=frozenset(canonicalize_name(name) for name, _ in _distributions(site)),
        outside=tuple(dict.fromkeys([*outside, *libraries])),
        module=module,
        digest=digest,
    )


def find_wheel(
    entry: Entry[Component], where: str, pinned: str, digest_of: Callable[[str], str], artifacts: Path
) -> OwnWheel:
    """Return a wheel and copy it into ``artifacts``. Raise UsageError if it is no wheel of the component for this machine."""
    if not os.path.isfile(pinned):
        raise UsageError(f"{where}: there is no such file")
    try:
        name, version, _, wheel_tags = parse_wheel_filename(os.path.basename(pinned))
        with zipfile.ZipFile(pinned) as archive:
            metadata = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
            stated = HeaderParser().parsestr(archive.read(metadata).decode("utf-8", "replace"))
            names = archive.namelist()
    except (
        OSError, InvalidWheelFilename, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, StopIteration,
    ) as error:  # fmt: skip
        raise UsageError(f"{where}: it is no wheel: {error or 'it has no METADATA'}") from None
    modules = modules_of(entry.document)
    module = next((each for each in modules if any(name.startswith(f"{_path(each)}/") for name in names)), "")
    if modules and not module:
        raise UsageError(f"{where}: this wheel of {name} has no package {' or '.join(modules)}")
    tags = tuple(tag for tag in SUPPORTED if not wheel_tags.isdisjoint(_taken_by(tag)))
    if not tags:
        shown = ", ".join(sorted(map(str, wheel_tags)))
        raise UsageError(f"{where}: it is a wheel for {shown}; this machine takes {_PYTHONS} on {HOST.platform}")
    sha256 = digest_of(os.path.realpath(pinned))
    adopt(WantedFile(name=pinned, sha256=sha256), Path(pinned), Artifacts(artifacts))
    return OwnWheel(
        component=entry.name,
        release=f"{version.base_version}{OWN_MARK}{digest_value([entry.name, sha256])[:8]}",
        where=where,
        pinned=pinned,
        tags=tags,
        package=WheelPackage(name=name, version=str(version), hashes=(sha256,), size=os.path.getsize(pinned)),
        requires=tuple(_required(stated.get_all("Requires-Dist") or ())),
        module=module,
    )


def _taken_by(tag: str) -> Iterator[Tag]:
    """Yield the tags of wheels that an interpreter of this machine takes."""
    version, platforms = (3, int(tag.removeprefix("cp3"))), HOST.wheel_platforms
    yield from cpython_tags(version, [tag], platforms)
    yield from compatible_tags(version, tag, platforms)


def _path(module: str) -> str:
    """Return the folder of an import package: ``iree/compiler``."""
    return module.replace(".", "/")


def _required(lines: list[str] | tuple[()]) -> Iterator[str]:
    for line in lines:
        with suppress(InvalidRequirement):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                yield canonicalize_name(requirement.name)


def _walk(folder: Path) -> tuple[list[str], list[str]]:
    """Return the files in a folder, with those behind its links, and what the links name outside of it; both sorted."""
    files, outside = list[str](), set[str]()
    inside = f"{os.path.realpath(folder)}/"
    seen: set[str] = set()
    for at, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(at)
        # Links may form a circle.
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", ".git"))
        found = [f"{at}/{name}" for name in names if os.path.isfile(f"{at}/{name}")]
        files += found
        for path in [*found, *(f"{at}/{name}" for name in folders)]:
            if os.path.islink(path) and not os.path.realpath(path).startswith(inside):
                # Not its end: an action needs the links on the way, too.
                outside.add(os.path.join(real, os.readlink(path)))
    return sorted(files), sorted(outside)


def _versions(files: Iterable[str]) -> set[str]:
    """Return the versions of Python that extension modules are for: ``3.11``."""
    names = (match[1] for file in files if (match := _EXTENSION.search(file)))
    return {f"{name[0]}.{name[1:]}" for name in names}


def _libraries(files: Iterable[str], site: Path) -> Iterator[str]:
    """Yield the libraries that extension modules need outside of a folder."""
    for file in files:
        if _EXTENSION.search(file):
            paths = set(needed_by(file)) - {file}
            yield from (path for path in paths if not path.startswith((f"{site}/", f"{os.path.realpath(site)}/")))


def _distributions(site: Path) -> Iterator[tuple[str, str]]:
    """Yield names and versions of the distributions in a folder."""
    for path in sorted(site.glob("*.dist-info")):
        name, _, version = path.name.removesuffix(".dist-info").partition("-")
        yield name, version


def _number(entry: Entry[Component], where: str, site: Path, module: str) -> str:
    """Return the version of a package: that of its distribution, of its source, or of programs in its build tree."""
    own = names_of(entry)
    stated = [version for name, version in _distributions(site) if canonicalize_name(name) in own]
    for file in ("version.py", "_version.py", "__init__.py"):
        with suppress(OSError):
            stated += _STATED.findall((site / _path(module) / file).read_text(encoding="utf-8", errors="replace"))
    above = [folder for folder in [site, *site.parents][: _LEVELS + 1] if str(folder) not in _SHARED]
    programs = (folder / "bin" / name for folder in above for name in entry.document.tools)
    built = next((program for program in programs if os.access(program, os.X_OK)), None)
    if built is not None:
        stated = re.findall(r"\bversion (\S+)", confined_version(str(built), str(built.parent.parent)))
    number = next((match[0] for version in stated if (match := _NUMBER.match(version))), None)
    if number is None:
        raise UsageError(
            f'{where}: {module} states no version, neither by a .dist-info folder nor by __version__ = "…"'
        )
    return number
