"use strict";
const WORDS = { x: "wrong", f: "fails", w: "weak", u: "unknown", n: "not run", "-": "cannot", c: "compiles", y: "yes" };
const KINDS = { x: "bad s3", f: "bad s2", w: "expected", "-": "expected", c: "pass", y: "pass" };
const DEFAULTS = { by: "workload", row: "", column: "", answers: "" };

function go(state, isSmall) {
  View.keep(View.address(state, DEFAULTS), isSmall);
  draw().catch(failed);
}

function matching(text, names) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return [...names.keys()].filter((at) => words.every((word) => names[at].toLowerCase().includes(word)));
}

function explain(title, hole) {
  const said = [el("p", {}, el("b", {}, title))];
  if (hole) {
    said.push(el("p", {}, hole.reason, hole.missing ? ` Missing: ${hole.missing}.` : ""));
    said.push(el("p", { class: "when" }, hole.stage ? `decided by ${hole.stage} ` : "", hole.position ? `at ${hole.position} ` : "", hole.test ? el("a", { href: testUrl(hole.test) }, hole.test) : ""));
  }
  byId("reason").replaceChildren(...said);
}

async function draw() {
  const state = View.read(DEFAULTS);
  for (const id of ["by", "row", "column"]) if (byId(id) !== document.activeElement) byId(id).value = state[id];
  const support = await matrix.get(`support/${state.by}`);
  byId("grid").replaceChildren();
  if (!support) {
    byId("state").textContent = "This site has no such table: matrix report html with a catalog makes it.";
    return;
  }
  const routes = support.columns.map((parts) => parts.join(" / "));
  const answerOf = (row, column) => support.answers[row][column];
  const isWanted = (answer) => answer !== " " && (!state.answers || state.answers.includes(answer));
  const inRoute = matching(state.column, routes);
  const inRow = matching(state.row, support.rows);
  const all = inRow.flatMap((row) => inRoute.map((column) => answerOf(row, column)));
  const counts = Object.keys(WORDS).map((letter) => [letter, all.filter((answer) => answer === letter).length, WORDS[letter]]);
  const rows = inRow.filter((row) => inRoute.some((column) => isWanted(answerOf(row, column))));
  const columns = inRoute.filter((column) => rows.some((row) => isWanted(answerOf(row, column))));
  const cut = showGrid({
    label: `${state.by}s by routes`,
    rows: rows.map((row) => support.rows[row]),
    columns: columns.map((column) => routes[column]),
    cell: (rowAt, columnAt) => {
      const [row, column] = [rows[rowAt], columns[columnAt]];
      const answer = answerOf(row, column);
      if (!isWanted(answer)) return null;
      const title = `${support.rows[row]} through ${routes[column]}: ${WORDS[answer] || answer}`;
      const show = () => explain(title, support.holes[`${row} ${column}`]);
      return el("button", { type: "button", class: `cell ${KINDS[answer] || "none"}`, "aria-label": title, onfocus: show, onclick: show }, el("b", {}, markOf(answer)));
    },
  });
  showToggles(counts, state.answers, (answers) => go({ ...state, answers }));
  byId("state").textContent = `${counted(rows.length, state.by)}, ${counted(columns.length, "route")}.${cut}`;
}

for (const id of ["by", "row", "column"]) byId(id).addEventListener("input", () => go({ ...View.read(DEFAULTS), [id]: byId(id).value }, true));
addEventListener("popstate", () => draw().catch(failed));
draw().catch(failed);
