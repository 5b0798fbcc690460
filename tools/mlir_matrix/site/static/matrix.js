"use strict";
const AXES = ["framework", "pipeline", "target", "workload", "release", "host"];
// The order of a zoom.
const FINER = ["workload", "framework", "target", "pipeline", "release", "host"];
const COLORS = ["outcome", "error", "seconds", "age", "since"];
const WORDS = {
  M: "mismatch", L: "lowering failed", C: "code generation failed, or crashed", I: "import or infrastructure failed", R: "run failed",
  T: "timed out", S: "slower", P: "unexpected pass", U: "unsupported", ".": "pass", "-": "not run",
};
// The worst last.
const RANKS = " -.pusrmtlicPSTRMLIUC";
const DEFAULTS = { rows: "pipeline", columns: "target", color: "outcome", text: "", letters: "" };
const wordsOf = (letter) => (/[a-z]/.test(letter) ? `expected: ${WORDS[letter.toUpperCase()]}` : WORDS[letter]);

let tests;
let outcomes;
let ids;
let lower;
// The values of each axis.
const names = {};

async function start() {
  [tests, outcomes] = [await matrix.get("tests"), await matrix.get("latest/outcome")];
  if (!tests) throw new Error("No run is recorded: matrix run makes one; then write the site again.");
  for (const axis of AXES.slice(0, 5)) names[axis] = tests[`${axis}s`];
  ids = tests.framework.map((_, test) => {
    const [framework, pipeline, target, workload, release] = AXES.slice(0, 5).map((axis) => names[axis][tests[axis][test]]);
    return `${framework}/${pipeline}/${target}/${workload}${release && `@${release}`}`;
  });
  lower = ids.map((id) => id.toLowerCase());
  names.release = names.release.map((name) => name || "default");
  names.host = (await matrix.manifest()).series.map(seriesWords);
  for (const [id, choices] of [["rows", AXES], ["columns", AXES], ["color", COLORS]]) {
    byId(id).append(...choices.map((name) => el("option", { value: name }, name)));
  }
  addEventListener("popstate", () => draw().catch(failed));
  return draw();
}

function read() {
  const state = View.read(DEFAULTS);
  for (const id of ["rows", "columns"]) if (!AXES.includes(state[id])) state[id] = DEFAULTS[id];
  if (state.rows === state.columns) state.columns = state.rows === "target" ? "pipeline" : "target";
  if (!COLORS.includes(state.color)) state.color = "outcome";
  return state;
}

const fixedIn = (state) => AXES.filter((axis) => state[`in.${axis}`] !== undefined);
const address = (state) => View.address(state, DEFAULTS);

// Words are all needed, `|` separates alternatives. A word with * or ? is a pattern: of whole names if it has a slash.
function matcher(text) {
  const alternatives = text.toLowerCase().split("|").map((part) => part.split(/\s+/).filter(Boolean).map(pattern));
  const some = alternatives.filter((words) => words.length);
  return (id) => !some.length || some.some((words) => words.every((matches) => matches(id)));
}

function pattern(word) {
  if (!/[*?{]/.test(word)) return (id) => id.includes(word);
  let depth = 0;
  const source = word.replace(/\*\*\/?|[^]/g, (one) => {
    if (one.startsWith("**")) return ".*";
    if (one === "*") return "[^/]*";
    if (one === "?") return "[^/]";
    if (one === "{") return depth++, "(?:";
    if (one === "}" && depth) return depth--, ")";
    if (one === "," && depth) return "|";
    return one.replace(/[\\^$.+()|[\]{}]/, "\\$&");
  }) + ")".repeat(depth);
  const whole = new RegExp(word.includes("/") ? `^${source}$` : source);
  return (id) => whole.test(id);
}

// Puts each result into its cell of the view.
function gather(state, column) {
  const matches = matcher(state.text);
  const limits = fixedIn(state).map((axis) => [tests[axis], names[axis].indexOf(state[`in.${axis}`])]);
  const chosen = [...ids.keys()].filter((test) => limits.every(([of, value]) => !of || of[test] === value) && matches(lower[test]));
  const width = names[state.columns].length;
  const size = names[state.rows].length * width;
  const [count, bad, test, rank] = [0, 0, 0, 0].map(() => new Int32Array(size));
  const found = { count, bad, test, rank, width, value: new Float64Array(size).fill(NaN), letters: new Int32Array(128), tests: chosen.length };
  const ranks = Array.from({ length: 128 }, (_, code) => Math.max(1, RANKS.indexOf(String.fromCharCode(code))));
  const allowed = ranks.map((_, code) => !state.letters || state.letters.includes(String.fromCharCode(code)));
  outcomes.series.forEach((letters, series) => {
    if (limits.some(([of, value]) => !of && value !== series)) return;
    const [rowOf, columnOf] = [tests[state.rows], tests[state.columns]];
    const codes = column ? column.series[series] : "";
    for (const one of chosen) {
      const letter = letters.charCodeAt(one) & 127;
      if (letter === 32) continue;
      found.letters[letter]++;
      if (!allowed[letter]) continue;
      const key = (rowOf ? rowOf[one] : series) * width + (columnOf ? columnOf[one] : series);
      test[key] = count[key] && test[key] !== one ? -1 : one;
      count[key]++;
      if (letter > 64 && letter < 91) bad[key]++;
      if (ranks[letter] > rank[key]) rank[key] = ranks[letter];
      const code = codes ? codes.charCodeAt(one) - 33 : -1;
      if (code >= 0) found.value[key] = joined(found.value[key], code, state.color);
    }
  });
  return found;
}

function joined(old, code, color) {
  if (color === "seconds") return (old || 0) + 2 ** (code / 4 - 10);
  if (Number.isNaN(old)) return code;
  return color === "since" ? Math.min(old, code) : Math.max(old, code);
}

// Returns a text, what it means, and its place in the scale of colours, from 0 to 6.
function measure(value, color) {
  if (Number.isNaN(value)) return ["", "unknown", "none"];
  if (color === "error") {
    const percent = `${value < 93 ? "" : ">"}${Math.round(value / 0.6)}%`;
    return [percent, `${percent} of the bound`, Math.min(6, Math.floor(value / 10))];
  }
  if (color === "seconds") {
    const text = value >= 90 ? `${Math.round(value / 60)} min` : `${Number(value.toPrecision(2))} s`;
    return [text, text, Math.max(0, Math.min(6, Math.round(Math.log10(value) * 1.5 + 2)))];
  }
  const days = `${value >= 93 ? "93+" : value} d`;
  const step = [1, 3, 7, 14, 30, 60].filter((limit) => value >= limit).length;
  return [days, `${color} ${days}`, color === "age" ? step : 6 - step];
}

function zoomed(state, row, column) {
  const made = { ...state, [`in.${state.rows}`]: row, [`in.${state.columns}`]: column };
  const used = fixedIn(made);
  const free = FINER.filter((axis) => !used.includes(axis) && names[axis].length > 1);
  [made.rows, made.columns] = [free[0] || "workload", free[1] || (free[0] === "host" ? "workload" : "host")];
  return made;
}

function cell(state, found, key, row, column) {
  const [count, bad] = [found.count[key], found.bad[key]];
  if (!count) return null;
  const letter = RANKS[found.rank[key]];
  let kind = { ".": "pass", "-": "none" }[letter] || "expected";
  if (bad) kind = `bad s${bad === count ? 3 : bad * 4 > count ? 2 : 1}`;
  let small = count === 1 ? "" : bad ? `${bad}/${count}` : count;
  let label = `${row}, ${column}: ${wordsOf(letter)}, ${bad} unexpected of ${count}`;
  if (state.color !== "outcome") {
    const [short, long, step] = measure(found.value[key], state.color);
    kind = `v${step}${bad ? " is-bad" : ""}`;
    small = short;
    label += `; ${long}`;
  }
  const href = found.test[key] >= 0 ? testUrl(ids[found.test[key]]) : address(zoomed(state, row, column));
  return el("a", { href, class: `cell ${kind}`, "aria-label": label }, el("b", {}, markOf(letter)), el("small", {}, small));
}

// The rows or columns with results, those with the most that is unexpected first.
function ordered(found, all, isRow) {
  const sums = all.map((name, at) => ({ name, at, count: 0, bad: 0 }));
  found.count.forEach((count, key) => {
    const each = sums[isRow ? Math.floor(key / found.width) : key % found.width];
    each.count += count;
    each.bad += found.bad[key];
  });
  return sums.filter((each) => each.count).sort((a, b) => b.bad - a.bad || b.count - a.count || (a.name < b.name ? -1 : 1));
}

async function draw() {
  const state = read();
  for (const id of ["rows", "columns", "color"]) byId(id).value = state[id];
  if (byId("text") !== document.activeElement) byId("text").value = state.text;
  const column = state.color === "outcome" ? null : await matrix.get(`latest/${state.color}`);
  const found = gather(state, column);
  const [rows, columns] = [ordered(found, names[state.rows], true), ordered(found, names[state.columns], false)];
  const cut = showGrid({
    label: `${state.rows} by ${state.columns}`,
    rows: rows.map((each) => each.name),
    columns: columns.map((each) => each.name),
    cell: (row, at) => cell(state, found, rows[row].at * found.width + columns[at].at, rows[row].name, columns[at].name),
  });
  const counts = [...RANKS.slice(1)].reverse().map((letter) => [letter, found.letters[letter.charCodeAt(0)], wordsOf(letter)]);
  showToggles(counts, state.letters, (letters) => go({ ...state, letters }));
  byId("fixed").replaceChildren(...fixedIn(state).map((axis) => {
    const value = state[`in.${axis}`];
    return el("a", { href: address({ ...state, [`in.${axis}`]: undefined }), "aria-label": `Remove ${axis} ${value}` }, `${axis}: ${value} ×`);
  }));
  const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);
  const missing = state.color !== "outcome" && !column ? ` No run has values of ${state.color}.` : "";
  byId("state").textContent = `${counted(found.tests, "test")}, ${counted(sum(found.count), "result")}, ${grouped(sum(found.bad))} unexpected.${missing}${cut}`;
}

function go(state, isSmall) {
  View.keep(address(state), isSmall);
  draw().catch(failed);
}

byId("color").addEventListener("change", () => go({ ...read(), color: byId("color").value }));
for (const [id, other] of [["rows", "columns"], ["columns", "rows"]]) {
  byId(id).addEventListener("change", () => {
    const state = read();
    const value = byId(id).value;
    // The axis of the other side: both exchange.
    go({ ...state, [other]: state[other] === value ? state[id] : state[other], [id]: value });
  });
}
byId("text").addEventListener("input", () => go({ ...read(), text: byId("text").value }, true));
byId("grid").addEventListener("keydown", (event) => {
  if (event.key === "Escape") history.back();
});
start().catch(failed);
