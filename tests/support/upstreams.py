"""Repositories of a compiler in shell that downstreams integrate, with breaks, and with patches that they carry."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.downstream import Downstream

#: A compiler in shell: each part is a file, so that a change of one does not conflict with another.
TOOL = """\
#!/bin/sh
dir=$(dirname "$0")/../share/tool
case "$1" in
  --version) echo tool 1.0; exit ;;
  --help) echo "OPTIONS:"; sed "s/^/  --/" "$dir/options"; exit ;;
  --*) grep -qx -e "${1#--}" "$dir/options" || { echo "tool: Unknown command line argument '$1'." >&2; exit 1; }; shift ;;
esac
for out; do :; done
for part in "$dir"/*.part; do . "$part" "$1" "$out"; done
"""
BUILD = (
    'mkdir -p "$PREFIX/bin" "$PREFIX/share/tool" && sh check && cp tool "$PREFIX/bin/" && chmod +x "$PREFIX/bin/tool" '
    '&& cp options *.part "$PREFIX/share/tool/"'
)
COMPONENT = """\
description: A tool of many commits.
provider: source
tools: [tool]
build:
  repository: {repository}
  command: '{build}'
releases:
  - {{release: "1.0+git.{short}", commit: {first}, programs: [bin]}}
"""
STEP = """\
description: What the tool makes of it.
environment: tool
accepts: [linalg]
gives: linalg
command: [tool, --fold-parts, "${ir}", "${out}"]
"""


@dataclass
class Upstream:
    """A repository that is made commit by commit."""

    folder: Path
    files: dict[str, str] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        """Return the output of git, which knows no person and no settings of the machine."""
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": "x@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
            **{f"GIT_{who}_DATE": f"{1_700_000_000 + 60 * len(self.commits)} +0000" for who in ("AUTHOR", "COMMITTER")},
        }  # fmt: skip
        done = subprocess.run(["git", "-C", str(self.folder), *words], env=environment, check=True, capture_output=True)
        return done.stdout.decode()

    def commit(self, subject: str, files: Mapping[str, str | None] = {}) -> str:
        """Commit changed files; None removes one. Return the commit."""
        for name, text in files.items():
            path = self.folder / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        self.commits.append(self.git("rev-parse", "HEAD").strip())
        return self.commits[-1]

    def patch(self, subject: str, files: Mapping[str, str], number: int = 1) -> tuple[str, str]:
        """Return the name and the text of a patch that changes files of the present commit, which stays."""
        self.commit(subject, files)
        words = ("format-patch", "-1", "--stdout", "--full-index", "--start-number", str(number))
        text = self.git(*words)
        self.git("reset", "-q", "--hard", "HEAD~1")
        self.commits.pop()
        return f"{number:04}-{subject.replace(' ', '-')}.patch", text


def write_catalog(
    catalog: Downstream, upstream: Upstream, tests: Sequence[str], *, patches: Mapping[str, str] = {}
) -> None:
    """Write a catalog with the tool at its first commit, whose suite ``all`` has a test for each part."""
    first = upstream.commits[0]
    text = COMPONENT.format(repository=upstream.folder, build=BUILD, first=first, short=first[:12])
    if patches:
        text = text.replace("releases:", "  patches: patches\nreleases:")
    catalog.write("toolchains/components/tool.yaml", text)
    catalog.write("toolchains/environments/tool.yaml", "description: The tool\ncomponents: [tool]\n")
    catalog.write("toolchains/known-good.yaml", f'pins: {{tool: "1.0+git.{first[:12]}"}}\n')
    catalog.write("recipes/steps/tool/step.yaml", STEP)
    catalog.write("matrix/suites/all.yaml", "description: all\nsteps: [tool]\n")
    for test in tests:
        catalog.write(f"recipes/steps/tool/tests/{test}.mlir", f"module {{}} // CHECK: {test}: right\n")
    for name, patch in patches.items():
        catalog.write(f"patches/{name}", patch)
