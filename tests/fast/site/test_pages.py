"""What pages say, without a browser."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mlir_matrix.history.documents import Today
from mlir_matrix.site.charts import chart
from mlir_matrix.site.pages import measured, mood, render_pages, static_files, verdict
from support import site_sample
from support.site_pictures import PICTURE, picture


def quiet() -> Today:
    return {**site_sample.today(), "new": [], "still": []}


def rendered(today: Today, **optional: Any) -> dict[str, str]:
    static = {name: f"static/{name}" for name in static_files()}
    return render_pages(today, site_sample.manifest({}), "data/manifest.js", static, **optional)


def test_the_verdict_is_one_sentence() -> None:
    assert verdict(site_sample.today()) == "3 causes make 44 tests fail on 2 of 3 machines; the newest since 04:12."
    assert verdict(quiet()) == "All tests are as expected on 3 machines; the last run began 2026-11-27 05:02."
    undecided = {**quiet(), "trouble": site_sample.today()["new"]}
    assert verdict(undecided) == "No test fails on 3 machines; undecided: 12 tests."
    late = site_sample.today()["still"][1]
    assert verdict({**quiet(), "still": [late]}) == (
        "1 cause makes 16 tests fail on 1 of 3 machines; the newest since 2026-11-12 02:15."
    )
    assert verdict({**quiet(), "machines": []}) == "No run since 2026-11-26 06:00."


def test_what_is_not_decided_is_not_good() -> None:
    before = "1 test failed when last decided, earlier or in quarantine; "
    skipped = {**quiet(), "machines": [{**machine, "tests": 0} for machine in quiet()["machines"]]}
    trouble = {**quiet(), "trouble": site_sample.today()["new"]}
    silent = {**quiet(), "machines": []}
    assert (
        verdict(quiet(), ["t"])
        == f"{before}all others are as expected on 3 machines; the last run began 2026-11-27 05:02."
    )
    assert verdict(skipped) == "No test was decided on 3 machines; the last run began 2026-11-27 05:02."
    assert verdict(silent, ["t"]) == f"{before}no run since 2026-11-26 06:00."
    assert verdict(trouble, ["t"]) == f"{before}no other fails on 3 machines; undecided: 12 tests."
    assert [mood(today) for today in (quiet(), skipped, trouble, silent)] == ["good", "open", "open", "open"]
    assert (mood(quiet(), ["t"]), mood(site_sample.today())) == ("open", "bad")


def test_the_first_page_stays_small_whatever_a_night_brings() -> None:
    cause = site_sample.today()["new"][0]
    many = {
        **cause,
        "title": "x" * 1_000_000,
        "tests": [f"a/b/c/{number}" for number in range(16_000)],
        "globs": ["**" * 9000],
    }
    page = rendered({**quiet(), "new": [many] * 500, "still": [many] * 500})["index.html"]
    assert len(page) < 300_000


def test_pages_have_no_script_of_their_own() -> None:
    """The policy of the pages forbids inline scripts and styles; a browser only reports them."""
    for name, text in rendered(site_sample.today()).items():
        assert "Content-Security-Policy" in text, name
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=(?![^<>]*&gt;)", text), name
        assert "\u202e" not in text, name


def test_the_catalog_stays_small_whatever_workloads_there_are() -> None:
    catalog = site_sample.catalog()
    pages = rendered(quiet(), catalog=catalog)
    assert 'id="step/bufferize"' in pages["catalog.html"]
    assert 'id="workload/' not in pages["catalog.html"]
    assert pages["workloads.html"].count('id="workload/') == len(catalog["parts"]["workload"])


def test_routes_that_nothing_gets_through_are_named() -> None:
    page = rendered(quiet(), unconnected=[("jax", "tosa-loops", "wasm32", "no <step>")])["support.html"]
    assert "1 route that nothing gets through" in page
    assert "<b>jax / tosa-loops / wasm32</b> no &lt;step&gt;" in page


def test_scripts_are_small() -> None:
    files = static_files()
    assert sum(len(data) for name, data in files.items() if name.endswith(".js")) <= 40_000


@pytest.mark.parametrize(
    ("metric", "value", "words"),
    [
        ("seconds", 1.25, "1.25 s"),
        ("seconds", 0.00125, "1.25 ms"),
        ("time_ns", 8123.0, "8.12 µs"),
        ("compile_s", 0.0, "0 ns"),
        ("error", 0.831, "83.1 % of the bound"),
        ("code_bytes", 4096, "4,096 bytes"),
        ("instructions", 123456, "123,456"),
        ("instructions", 1397790, "1,397,790"),
    ],
)
def test_measured_values_have_units(metric: str, value: float, words: str) -> None:
    assert measured(metric, value) == words


def test_a_long_series_keeps_its_peaks() -> None:
    values = [1.0] * 5000
    values[1234] = 9.0
    drawn = chart(values, 4000, 1.0, 1.0, "<label>")
    assert len(drawn) < 5000
    # The peak is at the upper edge.
    assert re.search(r"[\d.]+,4 ", drawn)
    assert "&lt;label&gt;" in drawn


def test_a_series_without_a_change_of_values_is_a_line() -> None:
    assert "nan" not in chart([2.0], 0, 2.0, 2.0, "flat")


def test_the_picture_of_readme_is_drawn_from_the_sample() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture()
    assert PICTURE.stat().st_size <= 40_000
