"""Use the user's own Python packages of a component (``--pin torch=DIR|FILE``): a virtual environment, a folder, a wheel."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from mlir_matrix.actions.sandbox.root import needed_by
from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import beside, unwritable
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component
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
    found = [(site, name) for site in sites for name in modules if (site / name).is_dir()]
    if not found:
        if virtual and modules:
            advice = f"install it there, or pin the folder that has {modules[0]}/ if it is installed as editable"
            raise UsageError(f"{where}: this virtual environment has no package {' or '.join(modules)}; {advice}")
        return None
    site, module = found[0]
    named = [site.parent.name.removeprefix("python")] if virtual else sorted(_versions(site / module))
    tags = tuple(tag for tag in SUPPORTED if not named or version_of(tag) in named)
    if not tags:
        newest = f"CPython {version_of(SUPPORTED[0])} to {version_of(SUPPORTED[-1])}"
        raise UsageError(
            f"{where}: it is for CPython {', '.join(named)}; environments run on {newest}: build it for one"
        )
    files = sorted(_files(site))
    linked = [real for file in files if not (real := os.path.realpath(file)).startswith(f"{os.path.realpath(site)}/")]
    libraries = sorted(set(_libraries(site / module, site)))
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
        outside=tuple(dict.fromkeys([*linked, *libraries])),
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
            tops = {each.partition("/")[0] for each in archive.namelist()}
    except (OSError, InvalidWheelFilename, zipfile.BadZipFile, StopIteration) as error:
        raise UsageError(f"{where}: it is no wheel: {error or 'it has no METADATA'}") from None
    modules = modules_of(entry.document)
    module = next((each for each in modules if each in tops), "")
    if modules and not module:
        raise UsageError(f"{where}: this wheel of {name} has no package {' or '.join(modules)}")
    tags = tuple(
        tag for tag in SUPPORTED if any(_fits(tag, each.interpreter, each.abi, each.platform) for each in wheel_tags)
    )
    if not tags:
        shown = ", ".join(sorted(map(str, wheel_tags)))
        newest = f"CPython {version_of(SUPPORTED[0])} to {version_of(SUPPORTED[-1])}"
        raise UsageError(f"{where}: it is a wheel for {shown}; this machine takes {newest} on {HOST.platform}")
    sha256 = digest_of(os.path.realpath(pinned))
    kept = artifacts / sha256
    if not kept.exists():
        try:
            artifacts.mkdir(parents=True, exist_ok=True)
            with beside(kept) as scratch:
                os.replace(shutil.copyfile(pinned, scratch / kept.name), kept)
        except OSError as error:
            raise unwritable(f"{pinned} cannot be copied", error) from None
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


def _fits(tag: str, python: str, abi: str, platform: str) -> bool:
    """Return whether an interpreter of this machine can import a wheel with these tags."""
    is_stable = abi == "abi3" and python.startswith("cp3") and int(python[3:] or 0) <= int(tag[3:])
    fits = (python == tag and abi in (tag, "none")) or is_stable or (abi == "none" and python in ("py3", "py2.py3"))
    return fits and (platform == "any" or platform in HOST.wheel_platforms)


def _required(lines: list[str] | tuple[()]) -> Iterator[str]:
    for line in lines:
        with suppress(InvalidRequirement):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                yield canonicalize_name(requirement.name)


def _files(folder: Path) -> Iterator[str]:
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("__pycache__", ".git")]
        yield from (path for name in names if os.path.isfile(path := f"{at}/{name}"))


def _versions(package: Path) -> set[str]:
    """Return the versions of Python that the extension modules of a package are for: ``3.11``."""
    names = (match[1] for file in _files(package) if (match := _EXTENSION.search(file)))
    return {f"{name[0]}.{name[1:]}" for name in names}


def _libraries(package: Path, site: Path) -> Iterator[str]:
    """Yield the libraries that extension modules of a package need outside of its folder."""
    for file in _files(package):
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
            stated += _STATED.findall((site / module / file).read_text(encoding="utf-8", errors="replace"))
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
