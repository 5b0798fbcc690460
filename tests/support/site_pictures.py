"""Draw what a site looks like: the picture of README, and screenshots.

``PYTHONPATH=tools:tests python -m support.site_pictures`` writes ``docs/site.svg``, and the screenshots of all pages, light and
dark, narrow and wide, to ``build/screenshots``, which Git ignores.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from mlir_matrix.plan.session import open_session
from mlir_matrix.site.pages import MENU, verdict
from support import site_sample
from support.browser import Scheme, chromium, open_view, window
from support.site_sample import FAILING, FRAMEWORKS, PIPELINES, TARGETS, WORKLOADS

_ROOT = Path(__file__).parents[2]
PICTURE = _ROOT / "docs" / "site.svg"
_VIEWS = {**{name: f"{name}.html" for name in MENU}, "test": f"test.html#{quote(FAILING, safe='')}"}
_LEFT, _TOP, _WIDTH, _HEIGHT = 122, 148, 26, 18
_SHORT = ("x86", "arm", "riscv", "wasm")
#: Outcomes with the classes of their cells; others pass.
_CLASSES = {"M": "bad", "L": "bad", "C": "bad", "l": "expected", "-": "none"}
_STYLE = """\
text { font: 12px ui-sans-serif, system-ui, "DejaVu Sans", sans-serif; fill: #16191d; }
.small { font-size: 9px; text-anchor: middle; }
.verdict { font-size: 17px; font-weight: 700; fill: #a93400; }
.quiet, .none { fill: #565e69; }
.letter { text-anchor: middle; font-weight: 700; }
.row { text-anchor: end; }
.page { fill: #ffffff; stroke: #d5d9df; }
.bar { fill: #a93400; }
rect.pass { fill: #dbeaf5; }
rect.bad { fill: #a93400; }
text.bad { fill: #ffffff; }
rect.expected { fill: none; stroke: #565e69; stroke-dasharray: 3 2; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9ed; }
  .verdict { fill: #ff9a66; }
  .quiet, .none { fill: #a2abb7; }
  .page { fill: #13161a; stroke: #363d47; }
  .bar, rect.bad { fill: #ff8b4d; }
  text.bad { fill: #1f0a00; }
  rect.pass { fill: #1c3244; }
  rect.expected { stroke: #a2abb7; }
}
"""


def picture() -> str:
    """Return the verdict of a morning above the matrix of its tests: workloads by pipelines and targets."""
    today = site_sample.today()
    cause = today["new"][0]
    columns = [(p, t) for p in range(len(PIPELINES)) for t in range(len(TARGETS))]
    width, height = _LEFT + len(columns) * _WIDTH + 16, _TOP + len(WORKLOADS) * _HEIGHT + 16
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">',
        f'<title id="title">{escape(verdict(today))}</title>',
        f"<style>\n{_STYLE}</style>",
        f'<rect class="page" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="6"/>',
        '<rect class="bar" x="16" y="16" width="6" height="30"/>',
        f'<text class="verdict" x="32" y="38">{escape(verdict(today))}</text>',
        f'<text x="32" y="68">{len(cause["tests"])} tests: {escape(cause["title"])}</text>',
        f'<text class="quiet" x="32" y="86">{escape(cause["next"])}</text>',
    ]
    for at, name in enumerate(PIPELINES):
        x = _LEFT + at * len(TARGETS) * _WIDTH + 2
        lines.append(f'<text x="{x}" y="{_TOP - 24}">{name}</text>')
        lines += [
            f'<text class="quiet small" x="{x + index * _WIDTH + 11}" y="{_TOP - 6}">{target}</text>'
            for index, target in enumerate(_SHORT)
        ]
    for row, workload in enumerate(WORKLOADS):
        y = _TOP + row * _HEIGHT
        lines.append(f'<text class="row" x="{_LEFT - 8}" y="{y + 13}">{workload}</text>')
        for column, (p, t) in enumerate(columns):
            letters = {site_sample.letter((f, p, t, row), series) for f in range(len(FRAMEWORKS)) for series in (0, 1)}
            worst = next((letter for letter in "MCLl" if letter in letters), ".")
            kind, x = _CLASSES.get(worst, "pass"), _LEFT + column * _WIDTH
            lines.append(f'<rect class="{kind}" x="{x + 1}" y="{y + 1}" width="{_WIDTH - 2}" height="{_HEIGHT - 2}"/>')
            if worst != ".":
                lines.append(f'<text class="letter {kind}" x="{x + _WIDTH / 2}" y="{y + 13}">{worst}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _screenshots(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as made, chromium(open_session()) as browser:
        site_sample.write(Path(made) / "site")
        windows: list[tuple[Scheme, int]] = [("light", 1600), ("dark", 1600), ("light", 375), ("dark", 375)]
        for scheme, width in windows:
            context = window(browser, scheme, width)
            for name, view in _VIEWS.items():
                # A page of its own for each, because a change of the hash alone does not load a page.
                page = context.new_page()
                open_view(page, Path(made) / "site", view)
                page.screenshot(path=folder / f"{name}-{scheme}-{width}.png", full_page=True)
                page.close()
            context.close()


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    _screenshots(_ROOT / "build" / "screenshots")
