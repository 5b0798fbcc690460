"""Solve with apt: a fake one, and the real one if the machine has it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.environments.fetch.apt import Asked, is_release, solve, upstream
from mlir_matrix.environments.fetch.apt_sources import Mirrors
from mlir_matrix.environments.lockfiles.debian import DebianPackage
from support.machine import needs

A, B = "a" * 64, "b" * 64
MIRRORS = Mirrors(bases=("http://mirror.invalid/debian",))
FAKE_GET = """#!/bin/sh
echo "$@" >> "$FAKE/calls"
cp "$APT_CONFIG" "$FAKE/apt.conf"
case "$*" in
*update*) [ -e "$FAKE/down" ] && { echo "E: no Release file" >&2; exit 100; }; exit 0 ;;
*download*libx*)
  echo "'http://mirror.invalid/debian/pool/main/l/libx/libx_1~rc_amd64.deb' libx_1~rc_amd64.deb 20 MD5Sum:x" ;;
*download*) cat <<'X'
'http://mirror.invalid/debian/pool/main/t/tool/tool-extra_2.0-1_amd64.deb' tool-extra_1%3a2.0-1_amd64.deb 30 SHA256:c
X
;;
*nothing*) echo "E: Unable to locate package nothing" >&2; exit 100 ;;
*) cat <<'X'
Reading package lists...
'http://mirror.invalid/debian/pool/main/t/tool/tool_2.0-1%2bb1_amd64.deb' tool_1%3a2.0-1+b1_amd64.deb 10\x20
'http://mirror.invalid/debian/pool/main/l/libx/libx_1~rc_amd64.deb' libx_1~rc_amd64.deb 20 MD5Sum:x
X
;;
esac
"""
FAKE_CACHE = f"""#!/bin/sh
case "$*" in
*madison*) cat <<'X'
      tool | 1:2.0-1+b1 | http://mirror.invalid/debian sid-backports/main amd64 Packages
      tool |    1:1.9-1 | http://mirror.invalid/debian sid/main amd64 Packages
      libx |       1~rc | http://mirror.invalid/debian sid/main amd64 Packages
X
;;
*) cat <<'X'
Package: tool
Source: llvm (1:2.0-1)
Version: 1:2.0-1+b1
Installed-Size: 7
Depends: libx
Description: a tool
 with: more
Filename: pool/main/t/tool/tool_2.0-1+b1_amd64.deb
Size: 10
SHA256: {A}

Package: tool-extra
Source: llvm
Version: 1:2.0-1
Filename: pool/main/t/tool/tool-extra_2.0-1_amd64.deb
Size: 30
SHA256: {A}

Package: libx
Version: 1~rc
Filename: pool/other/libx_1~rc_amd64.deb
Size: 20
SHA256: {A}

Package: libx
Version: 1~rc
Installed-Size: 3
Filename: pool/main/l/libx/libx_1~rc_amd64.deb
Size: 20
SHA256: {B}
X
;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs called like apt's, first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (
        ("apt-get", FAKE_GET),
        ("apt-cache", FAKE_CACHE),
        ("apt-config", "#!/bin/sh\necho 'Acquire::http::Proxy \"http://p/\";'\n"),
    ):
        (folder / name).write_text(text.replace("\\x20", " "))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("FAKE", str(folder))
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder


def asked(*packages: str, alone: tuple[str, ...] = (), release: str = "2.0") -> Asked:
    return Asked(packages=packages or ("tool",), alone=alone, suites=("sid-backports", "sid"), release=release)


def test_solution(fake: Path, tmp_path: Path) -> None:
    """Names, versions with epoch, hashes from the index of that very file, bytes, suites."""
    libx, tool, extra = solve(asked(alone=("tool-extra",)), state=tmp_path / "state", mirrors=MIRRORS)
    assert tool == DebianPackage(
        name="tool", version="1:2.0-1+b1", size=10, installed=7168, sha256=A, suite="sid-backports",
        path="pool/main/t/tool/tool_2.0-1+b1_amd64.deb",
    )  # fmt: skip
    assert libx == DebianPackage(
        name="libx", version="1~rc", size=20, installed=3072, sha256=B, suite="sid",
        path="pool/main/l/libx/libx_1~rc_amd64.deb",
    )  # fmt: skip
    assert (extra.name, extra.version, extra.installed) == ("tool-extra", "1:2.0-1", 0)
    calls = (fake / "calls").read_text().splitlines()
    assert "-t sid-backports install -- tool" in calls[1]
    assert "-t sid-backports download -- tool-extra" in calls[2]
    configuration = (fake / "apt.conf").read_text()
    for line in (
        'Dir::Etc::parts "/dev/null"',
        'Check-Valid-Until "false"',
        'http::Proxy "http://p/"',
        'AllowInsecureRepositories "false"',
    ):
        assert line in configuration
    (state,) = (path for path in (tmp_path / "state").iterdir() if path.is_dir())
    assert (state / "status").read_bytes() == b""
    assert "sid-backports main\ndeb [arch=amd64]" in (state / "sources.list").read_text()


def test_alone_and_needed(fake: Path, tmp_path: Path) -> None:
    """A lock file names each package once."""
    found = solve(asked(alone=("libx",)), state=tmp_path / "state", mirrors=MIRRORS)
    assert [package.name for package in found] == ["libx", "tool"]


def test_keyring(fake: Path, tmp_path: Path) -> None:
    mirrors = replace(MIRRORS, signed_by="/usr/share/keyrings/some.gpg")
    solve(asked(), state=tmp_path / "state", mirrors=mirrors)
    (sources,) = (tmp_path / "state").glob("*/sources.list")
    options = "[arch=amd64 signed-by=/usr/share/keyrings/some.gpg]"
    assert sources.read_text().splitlines()[1] == f"deb {options} http://mirror.invalid/debian sid main"


def test_what_is_left_out(fake: Path, tmp_path: Path) -> None:
    """Counts as installed, each time only what is asked for now."""
    for without in (("doc", "jdk"), ("jdk",)):
        solve(replace(asked(), without=without), state=tmp_path / "state", mirrors=MIRRORS)
        (status,) = (tmp_path / "state").glob("*/status")
        stanzas = status.read_text().rstrip().split("\n\n")
        assert [stanza.splitlines()[:2] for stanza in stanzas] == [
            [f"Package: {name}", "Status: install ok installed"] for name in without
        ]


def test_another_release(fake: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InfrastructureError, match=r"tool is 1:2\.0-1\+b1 \(upstream 2\.0\) in sid-backports and sid, not 2\.1"
    ):
        solve(asked(release="2.1"), state=tmp_path / "state", mirrors=MIRRORS)
    assert solve(asked(release=""), state=tmp_path / "state", mirrors=MIRRORS)


def test_what_is_not_there(fake: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InfrastructureError, match=r"no solution for nothing in .*; apt reports: E: Unable to locate package nothing"
    ):
        solve(asked("nothing"), state=tmp_path / "state", mirrors=MIRRORS)
    (fake / "down").touch()
    with pytest.raises(InfrastructureError, match="apt has no index of sid-backports and sid: E: no Release file"):
        solve(asked(), state=tmp_path / "state", mirrors=MIRRORS)


def test_no_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="no apt-get on PATH"):
        solve(asked(), state=tmp_path / "state", mirrors=MIRRORS)


def test_no_place(fake: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(InfrastructureError, match="the state of apt cannot be written"):
        solve(asked(), state=tmp_path / "state", mirrors=MIRRORS)


@needs("apt-get")
def test_nothing_unsigned(tmp_path: Path) -> None:
    """The real apt refuses an unsigned archive."""
    (tmp_path / "debian/dists/sid/main/binary-amd64").mkdir(parents=True)
    (tmp_path / "debian/dists/sid/main/binary-amd64/Packages").write_text("")
    (tmp_path / "debian/dists/sid/Release").write_text(
        "Origin: Debian\nSuite: sid\nComponents: main\nArchitectures: amd64\n"
    )
    mirrors = Mirrors(bases=((tmp_path / "debian").as_uri(),))
    with pytest.raises(InfrastructureError, match=r"apt has no index of sid: .*(not signed|InRelease|Release)"):
        solve(Asked(packages=("x",), suites=("sid",)), state=tmp_path / "state", mirrors=mirrors)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1:19.1.7-3~deb12u1", "19.1.7"), ("1:11.1.3+ds-1", "11.1.3+ds"), ("2.36-9+deb12u14", "2.36"), ("5.0", "5.0"),
        ("1:24~++20261025103442+7e3c57157096-1~exp1", "24~++20261025103442+7e3c57157096"), ("1:23.1.0~+rc2-1", "23.1.0~+rc2"),
        ("1.0-2-3", "1.0-2"),
    ],
)  # fmt: skip
def test_upstream(version: str, expected: str) -> None:
    assert upstream(version) == expected
    assert is_release(version, expected)


def test_is_release() -> None:
    assert is_release("1:11.1.3+ds-1", "11.1.3")
    assert not is_release("1:23.1.0~+rc2-1", "23.1.0")
    assert not is_release("1:19.1.70-1", "19.1.7")
