"""Render the pages of a site. What is large, pages fetch themselves: see ``documents``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup

from mlir_matrix.base.text import counted, harmless, minute, shortened
from mlir_matrix.cost.documents import BestDocument
from mlir_matrix.history.documents import Today, TodayCause
from mlir_matrix.history.today import Series
from mlir_matrix.history.today_report import details, first_bad_of
from mlir_matrix.site.charts import chart
from mlir_matrix.site.documents import SiteCatalog, SiteManifest, SiteTrend

#: Pages with their names in the menu; `test` is reached from all others, `workloads` from `catalog`.
MENU = {
    "index": "Today",
    "matrix": "Matrix",
    "support": "Support",
    "trends": "Trends",
    "best": "Best",
    "catalog": "Catalog",
}
PAGES = (*MENU, "test", "workloads")
#: The most causes, changed series and contests of a page, and the most characters of a text in it.
_MOST_CAUSES, _MOST_TRENDS, _MOST_CONTESTS, _LONGEST = 40, 200, 200, 2000
_HERE = Path(__file__).parent
_PERCENT = 100
#: A larger number is shown without decimals.
_MANY = 10_000
_METRICS = {"seconds": "time", "time_ns": "time", "compile_s": "compile time", "code_bytes": "code size"}
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def static_files() -> dict[str, bytes]:
    """Return the style sheet and the scripts by name."""
    return {path.name: path.read_bytes() for path in sorted((_HERE / "static").iterdir())}


def render_pages(
    today: Today, manifest: SiteManifest, manifest_path: str, static: Mapping[str, str], *,
    failing: Collection[str] = (), trends: Sequence[SiteTrend] = (), best: BestDocument | None = None,
    catalog: SiteCatalog | None = None, kinds: str = "", unconnected: Sequence[tuple[str, str, str, str]] = (),
) -> dict[str, str]:  # fmt: skip
    """Return the HTML of each page by the name of its file.

    ``manifest_path`` and the values of ``static`` are paths below the site; ``static`` has a path for each of
    :func:`static_files`. ``failing``: the tests that are bad where they were last decided. ``trends``: the largest first.
    ``kinds``: the graph of kinds as SVG; it has no scripts and no ``style``, which the pages forbid, and no ``role="img"``,
    because it has links: a part is at ``#PART/NAME`` of its page. ``unconnected``: as in ``SiteSupport``.
    """
    environment = _environment()
    common = {"manifest": manifest, "manifest_path": manifest_path, "static": static, "menu": MENU}
    parts = dict(catalog["parts"]) if catalog else {}
    workloads = parts.pop("workload", {})
    contents: dict[str, dict[str, object]] = {
        "index": {
            "today": today, "verdict": verdict(today, failing), "mood": mood(today, failing), "sections": _sections(today),
            "most": _MOST_CAUSES,
        },
        "trends": {"trends": [_trend(each, manifest) for each in trends[:_MOST_TRENDS]], "all": len(trends)},
        "best": {"best": best, "most": _MOST_CONTESTS},
        "support": {"unconnected": unconnected},
        "catalog": {"catalog": catalog, "kinds": kinds, "parts": parts, "workloads": len(workloads)},
        "workloads": {"catalog": catalog, "kinds": "", "parts": {"workload": workloads}},
    }  # fmt: skip
    return {
        f"{page}.html": environment.get_template(f"{page}.html").render(page=page, **common, **contents.get(page, {}))
        for page in PAGES
    }


def mood(today: Today, failing: Collection[str] = ()) -> str:
    """Return ``bad`` if tests fail, ``good`` only if all that are known are as expected, else ``open``."""
    if today["new"] or today["changed"] or today["still"]:
        return "bad"
    return "good" if _is_decided(today) and not today["trouble"] and not failing else "open"


def verdict(today: Today, failing: Collection[str] = ()) -> str:
    """Return in one sentence what is wrong, where, and since when. ``failing``: as for :func:`render_pages`."""
    machines = {machine["host"] for machine in today["machines"]}
    causes = [*today["new"], *today["changed"], *today["still"]]
    tests = {test for cause in causes for test in cause["tests"]}
    earlier = len(set(failing) - tests)
    # Not run since, or in quarantine.
    known = f"{counted(earlier, 'test')} failed when last decided, earlier or in quarantine; " if earlier else ""
    if not machines:
        return f"{known}{'no' if known else 'No'} run since {minute(today['since'])}."
    undecided = {test for cause in today["trouble"] for test in cause["tests"]}
    places = counted(len(machines), "machine")
    if not tests and undecided:
        what = "no other fails" if known else "No test fails"
        return f"{known}{what} on {places}; undecided: {counted(len(undecided), 'test')}."
    if not tests:
        last = minute(max(machine["last_run"] for machine in today["machines"]))
        what = "all others are as expected" if known else "All tests are as expected"
        if not _is_decided(today):
            what = "no test was decided" if known else "No test was decided"
        return f"{known}{what} on {places}; the last run began {last}."
    hosts = {place["host"] for cause in causes for place in cause["places"]}
    words = (
        f"{counted(len(causes), 'cause')} {'makes' if len(causes) == 1 else 'make'} {counted(len(tests), 'test')} fail"
    )
    firsts = [first["first_bad"]["started"] for first in map(first_bad_of, causes) if first]
    newest = max(firsts, default="")
    at = minute(newest)
    if newest[:10] == today["until"][:10]:
        at = at[11:]
    since = f"; the newest since {at}" if newest else ""
    return f"{words} on {len(hosts)} of {counted(len(machines), 'machine')}{since}."


def _is_decided(today: Today) -> bool:
    """Return whether any run of the day decided a test."""
    return any(machine["tests"] for machine in today["machines"])


def _sections(today: Today) -> list[tuple[str, str, list[TodayCause]]]:
    """Return the causes of the day: the name of a section, its heading, and its causes, the most urgent first."""
    return [
        ("new", "Newly failing", today["new"]),
        ("changed", "Failing in another way than before", today["changed"]),
        ("trouble", "Undecided: the infrastructure failed", today["trouble"]),
        ("still", "Failing as before", today["still"]),
        ("fixed", "Fixed", today["fixed"]),
    ]


def _trend(trend: SiteTrend, manifest: SiteManifest) -> dict[str, object]:
    """Return what is shown of a changed series: words, and its chart."""
    change = trend["change"]
    metric = change["metric"]
    before, after = measured(metric, change["before"]), measured(metric, change["after"])
    runs = trend["runs"]
    first = next((index for index, run in enumerate(runs) if run >= change["run"]), len(runs))
    return {
        "test": trend["test"],
        "where": Series(**manifest["series"][trend["series"]]).words,
        "metric": metric,
        "since": minute(manifest["runs"][change["run"]]["started"]),
        "values": f"{before} → {after}",
        "factor": trend["factor"],
        "chart": chart(trend["values"], first, change["before"], change["after"], f"from {before} to {after}"),
    }


def measured(metric: str, value: float) -> str:
    """Return a measured value with its unit: ``1.25 ms``, ``83 % of the bound``."""
    if metric == "error":
        return f"{value * _PERCENT:.3g} % of the bound"
    if metric == "time_ns":
        value, metric = value / 1e9, "seconds"
    if metric in {"seconds", "compile_s"}:
        size, unit = next((each for each in _UNITS if value >= each[0]), _UNITS[-1])
        return f"{value / size:.3g} {unit}"
    if metric == "code_bytes":
        return f"{value:,.0f} bytes"
    return f"{value:,.0f}" if value >= _MANY else f"{value:,.6g}"


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "minute": minute, "measured": lambda value, metric: measured(metric, value), "details": details, "test_url": _test_url,
        "axis_url": _axis_url, "matrix_url": _matrix_url, "since": _since, "shortened": shortened, "count": "{:,}".format,
    }  # fmt: skip
    environment.filters["metric"] = lambda metric: _METRICS.get(metric, metric.replace("_", " "))
    environment.globals |= {"Series": Series, "counted": counted}
    return environment


def _shown(value: object) -> object:
    """Return what a page shows: control characters and those that turn the direction of text are escaped, a long text is cut."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return harmless(value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…")


def _since(cause: TodayCause) -> str:
    """Return when a cause came; empty if nothing is known."""
    first = first_bad_of(cause)
    return minute(first["first_bad"]["started"]) if first else ""


def _test_url(test: str) -> str:
    return f"test.html#{quote(test, safe='')}"


def _axis_url(name: str, axis: str) -> str:
    """Return the matrix of the tests with this framework, pipeline, target or workload."""
    return "matrix.html#" + urlencode({f"in.{axis}": name})


def _matrix_url(globs: Iterable[str]) -> str:
    """Return the matrix of the tests that one of the patterns matches."""
    return "matrix.html#" + urlencode({"rows": "workload", "columns": "pipeline", "text": " | ".join(globs)})
