"use strict";
const STATES = ["unexpected", "expected", "undecided"];
const KINDS = ["bad s3", "expected", "none"];
const section = (title, ...children) => el("section", {}, el("h2", {}, title), children);
const percent = (share) => (typeof share === "number" ? `${known(share * 100)} %` : known(share));
const known = (number) => (typeof number === "number" ? grouped(Number(number.toPrecision(4))) : number ?? "");
const words = (series) => seriesWords(manifest.series[series]);
const sideWords = (side) => `${side.role}, ${minute(side.started)}, ${words(side.series)}`;
let manifest;
let catalog;

function table(head, body, label) {
  const heads = head.map((name) => el("th", { scope: "col" }, name));
  const rows = body.map((cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell))));
  return el("div", { class: "scroll", ...region(label) }, el("table", { class: "plain" }, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows)));
}

function run(at) {
  const one = manifest.runs[at];
  return el("span", { title: one.id }, `${minute(one.started)} `, el("code", {}, one.id.slice(0, 12)));
}

function folded(title, text, open) {
  return el("details", { open }, el("summary", {}, title), el("pre", region(title), clean(text, 60000)));
}

// What changed between the last good and the first bad run.
function changed(one) {
  const [before, last] = one.segments.slice(-2);
  if (last?.state !== 0 || before.state !== 1) return "";
  const [good, bad] = [before.last, last.first].map((at) => {
    const { catalogs, version } = manifest.runs[at];
    return [...catalogs.map(({ folder, commit }) => [`${folder} at`, commit.slice(0, 9)]), ["mlir-matrix", version]];
  });
  const old = Object.fromEntries(good);
  const moved = bad.filter(([name, value]) => old[name] !== value).map(([name, value]) => `${name} ${old[name] || "?"} → ${value}`);
  return el("span", { class: "when" }, ` Changed since the last good run: ${moved.join(", ") || "no commit"}.`);
}

function now(cell, one) {
  const last = one.segments[one.segments.length - 1];
  const [outcome, stage, reason] = cell.behaviours[last.behaviour];
  const isBad = last.state === 0;
  const how = `${words(one.series)}: ${outcome}${isBad && stage ? ` at ${stage}` : ""}`;
  return el("li", { class: isBad ? "bad" : "" }, el("b", {}, how), ` since ${minute(manifest.runs[last.first].started)}`, isBad ? `: ${reason}` : "", changed(one));
}

function line(cell, one) {
  const strip = one.segments.map((segment) => {
    const [outcome] = cell.behaviours[segment.behaviour];
    const isPass = outcome === "pass" && segment.state === 1;
    const part = el("span", { class: `cell ${isPass ? "pass" : KINDS[segment.state]}` }, isPass ? "·" : segment.state === 0 ? outcome[0].toUpperCase() : outcome[0]);
    part.style.flexGrow = Math.sqrt(segment.runs);
    return part;
  });
  const body = one.segments.map((segment) => {
    const [outcome, stage, reason] = cell.behaviours[segment.behaviour];
    const how = el("b", { class: segment.state === 0 ? "bad" : "" }, outcome);
    return [how, stage, STATES[segment.state], counted(segment.runs, "run"), run(segment.first), run(segment.last), el("span", { class: "long" }, reason)];
  });
  const label = `Results on ${words(one.series)}`;
  return [el("h3", {}, words(one.series)), el("div", { class: "strip", "aria-hidden": "true" }, strip), table(["outcome", "stage", "", "runs", "from (UTC)", "to", "reason"], body.reverse(), label)];
}

function evidenceOf(evidence) {
  const texts = evidence.sides.flatMap((side) => [["diagnostics", "Diagnostics"], ["log", "Log"], ["commands", "Command lines"]].filter(([key]) => side[key]).map(([key, title]) => folded(`${title} of the ${side.role} run`, side[key], key === "diagnostics")));
  const next = evidence.sides.map((side) => side.entry?.next || side.entry?.repeat).find(Boolean);
  return section("Evidence", next ? el("p", {}, "next: ", el("code", { class: "command" }, next)) : "", texts, evidence.reports.map(([title, text]) => folded(title, text)));
}

function outputs(sides) {
  const found = sides.flatMap((side) => {
    const all = side.entry?.verdict?.outputs || [];
    const body = all.map((one) => [one.name, one.outcome, known(one.wrong), known(one.elements), known(one.max_abs), percent(one.error_used), one.where || one.character || one.reason]);
    const pictures = (side.pictures || []).map(([name, path]) => el("figure", {}, el("figcaption", {}, `error map of ${name}`), el("img", { src: path, alt: `Error map of ${name}` })));
    if (!all.length && !pictures.length) return [];
    return [el("h3", {}, sideWords(side)), table(["output", "verdict", "wrong", "of", "largest error", "of its bound", "where"], body, `Outputs, ${side.role}`), el("div", { class: "plots" }, pictures)];
  });
  return found.length ? section("Outputs", found) : null;
}

function sizeOf(stage) {
  if (!stage) return "not reached";
  return stage.bytes ? `${grouped(stage.bytes)} bytes` : "not kept here";
}

function stages(sides, test, view) {
  const all = new Map(sides.flatMap((side, at) => side.stages.map((stage) => [`${at} ${stage.step}`, { side, stage }])));
  if (!all.size) return section("IR of each step", el("p", {}, "No IR is kept of this test: matrix ir makes it."));
  const steps = [...new Set(sides.flatMap((side) => side.stages.map(({ step }) => step)))];
  const [good, bad] = ["good", "bad"].map((role) => sides.findIndex((side) => side.role === role));
  const isBoth = good >= 0 && bad >= 0;
  const at = (side, step) => all.get(`${side} ${step}`)?.stage;
  const differs = (step) => isBoth && at(good, step)?.digest !== at(bad, step)?.digest;
  const place = el("div", { role: "status" });
  const selects = ["left", "right"].map((name) => el("select", { "aria-label": name, id: name, onchange: () => compare(true) }, [...all].map(([key, { side, stage }]) => el("option", { value: key }, `${side.role}: after ${stage.step}`))));

  // With one side only, a step is compared with the one before.
  function choose(step) {
    const before = steps[Math.max(0, steps.indexOf(step) - 1)];
    selects[0].value = isBoth && at(good, step) ? `${good} ${step}` : `${Math.max(good, bad)} ${before}`;
    selects[1].value = `${isBoth ? bad : Math.max(good, bad)} ${step}`;
  }

  async function compare(isChosen) {
    if (isChosen) history.replaceState(null, "", `#${encodeURIComponent(test)}&${new URLSearchParams(selects.map(({ id, value }) => [id, value]))}`);
    const picked = selects.map(({ value }) => all.get(value)?.stage);
    try {
      const texts = await Promise.all(picked.map((stage) => (stage?.document ? matrix.get(stage.document) : null)));
      if (texts.every((text) => text !== null)) place.replaceChildren(diffTable(...texts, `IR after ${picked[0].step} and after ${picked[1].step}`));
      else place.replaceChildren(`This site does not have both texts: matrix ir ${test} makes them.`);
    } catch (error) {
      place.replaceChildren(error.message);
    }
  }

  const body = steps.map((step) => {
    const sizes = sides.map((_, side) => sizeOf(at(side, step)));
    const pick = () => (choose(step), compare(true));
    return [step, ...sizes, el("button", { type: "button", "aria-label": `Compare after ${step}`, onclick: pick }, !isBoth ? "compare" : differs(step) ? "≠ compare" : "= compare")];
  });
  choose(steps.find(differs) || steps[steps.length - 1]);
  for (const select of selects) if (all.has(view.get(select.id))) select.value = view.get(select.id);
  compare();
  return section("IR of each step", table(["step", ...sides.map(sideWords), ""], body, "Steps"), el("p", { class: "controls" }, selects), place);
}

function part(kind, name) {
  const url = catalog?.parts[kind]?.[name]?.url || "";
  return url.startsWith("https://") ? el("a", { href: url, rel: "noreferrer" }, name) : name;
}

function route(one) {
  if (!one) return section("Route", el("p", {}, "No catalog here has this test: matrix explain shows its route."));
  const steps = one.steps.map(([step, kind], at) => el("li", {}, part(at ? "step" : "framework", step), " → ", part("kind", kind)));
  const facts = { "no route": [one.unsupported], missing: [one.missing], workload: [one.position], expected: one.expectation, quarantine: one.quarantine };
  const shown = Object.entries(facts).filter(([, parts]) => parts?.[0]).map(([name, parts]) => [el("dt", {}, name), el("dd", {}, parts.join(" · "))]);
  const bounds = one.bounds.map((bound) => [bound.output, bound.dtype, bound.bound, el("ul", {}, bound.layers.map(([where, why]) => el("li", {}, el("code", {}, where), ` ${why}`)))]);
  const pins = Object.entries(one.environments).map(([name, releases]) => [name, Object.entries(releases).map((pair) => pair.join(" ")).join(", ")]);
  return section("Route", el("ol", {}, steps), el("dl", {}, shown), bounds.length ? table(["output", "type", "bound", "who states it"], bounds, "Bounds") : "", table(["environment", "releases"], pins, "Environments"));
}

function plot(title, values, changes) {
  const numbers = values.filter((value) => value !== null);
  if (numbers.length < 2) return "";
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const x = (at) => (4 + at * 232 / (values.length - 1)).toFixed(1);
  const y = (value) => (44 - (value - low) * 40 / (high - low || 1)).toFixed(1);
  const points = values.map((value, at) => (value === null ? "" : `${x(at)},${y(value)}`)).join(" ");
  const marks = changes.filter((at) => at >= 0).map((at) => el("path", { class: "change", d: `M${x(at)} 0V48` }));
  const caption = `${title}: last ${known(numbers[numbers.length - 1])}, from ${known(low)} to ${known(high)}`;
  return el("figure", {}, el("figcaption", {}, caption), el("svg", { class: "chart", viewBox: "0 0 240 48", role: "img", "aria-label": caption }, el("polyline", { class: "values", points }), marks));
}

function costs(one) {
  const at = (metric) => one.changes.filter((change) => change.metric === metric).map((change) => one.runs.findIndex((run) => run >= change.run));
  const plots = [plot("seconds of its actions", one.ms.map((ms) => ms / 1000), at("seconds")), plot("error, % of the bound", one.error.map((used) => (used === null ? null : used * 100)), at("error"))];
  const exact = one.costs.map(([run_, values]) => [run(run_), "exact", Object.entries(values).map(([name, value]) => `${name} ${known(value)}`).join(", ")]);
  const changes = one.changes.map((change) => [run(change.run), "certain change", `${change.metric} ${known(change.before)} → ${known(change.after)}`]);
  const body = [...exact, ...changes];
  return [el("h3", {}, words(one.series)), el("div", { class: "plots" }, plots), body.length ? table(["from (UTC)", "", "costs"], body, `Costs on ${words(one.series)}`) : ""];
}

async function show() {
  const [name, ...rest] = location.hash.slice(1).split("&");
  const test = decodeURIComponent(name);
  const [framework, pipeline, target, ...last] = test.split("/");
  byId("name").textContent = document.title = clean(test || "Test", 300);
  manifest = await matrix.manifest();
  const cellName = [framework, pipeline, target].join("/");
  const [cell, routes, evidence] = await Promise.all(["cell", "routes"].map((kind) => matrix.get(`${kind}/${cellName}`)).concat(matrix.get(`evidence/${test}`)));
  catalog = await matrix.get("catalog");
  const own = (found) => (found && Object.hasOwn(found.tests, test) ? found.tests[test] : null);
  const [lines, routeOf] = [own(cell) || [], own(routes)];
  if (!lines.length && !routeOf) {
    byId("test").replaceChildren();
    byId("state").replaceChildren(test ? "The history has no result of this test. Others are in the " : "No test is named. Choose one in the ", el("a", { href: "matrix.html" }, "matrix"), ".");
    return;
  }
  const workload = last.join("/");
  const elsewhere = `matrix.html#${new URLSearchParams({ rows: "framework", columns: "pipeline", text: workload })}`;
  byId("state").replaceChildren(el("ul", { class: "now" }, lines.map((one) => now(cell, one))), el("a", { href: elsewhere }, `${workload} elsewhere`));
  byId("test").replaceChildren(...[
    evidence && evidenceOf(evidence),
    section("History", lines.map((one) => line(cell, one))),
    evidence && outputs(evidence.sides),
    stages(evidence?.sides || [], test, new URLSearchParams(rest.join("&"))),
    route(routeOf),
    section("Costs", lines.map(costs), el("p", { class: "when" }, "matrix run --cost counts what a test costs.")),
  ].filter(Boolean));
}

addEventListener("popstate", () => show().catch(failed));
show().catch(failed);
