"use strict";
// A table in which arrow keys move, one stop of the Tab key; and buttons that filter it.
// So many are drawn while a reader types; a button shows more.
const MOST_CELLS = 1500;
const MOST_COLUMNS = 60;
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

// view: label, rows and columns (texts), cell(row, column): an element or null. Returns what is to be said of columns left out.
function showGrid(view) {
  const [place, more] = [byId("grid"), byId("more")];
  const hadFocus = place.contains(document.activeElement);
  const columns = view.columns.slice(0, MOST_COLUMNS);
  const body = el("tbody");
  const heads = columns.map((name) => el("th", { scope: "col" }, el("span", { title: name }, name)));
  const table = el("table", { class: "grid", role: "grid", "aria-label": view.label }, el("thead", {}, el("tr", {}, el("td"), heads)), body);
  let shown = 0;
  function add(count) {
    for (const name of view.rows.slice(shown, shown + count)) {
      const cells = columns.map((_, column) => el("td", {}, view.cell(shown, column)));
      for (const each of cells) if (each.firstChild) each.firstChild.tabIndex = -1;
      body.append(el("tr", {}, el("th", { scope: "row", title: name }, name), cells));
      shown++;
    }
    const left = view.rows.length - shown;
    more.hidden = !left;
    more.textContent = `Show more of ${counted(left, "row")}`;
  }
  more.onclick = () => add(500);
  add(Math.ceil(MOST_CELLS / (columns.length || 1)));
  place.replaceChildren(table);
  const first = body.querySelector(".cell");
  if (first) first.tabIndex = 0;
  if (first && hadFocus) first.focus();
  table.addEventListener("keydown", move);
  table.addEventListener("focusin", (event) => {
    for (const other of table.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
    event.target.tabIndex = 0;
  });
  const cut = view.columns.length - columns.length;
  return cut ? ` ${counted(cut, "more column")}: filter to see them.` : "";
}

function move(event) {
  const from = event.target.closest("td");
  const rows = event.currentTarget.tBodies[0].rows;
  let [row, column] = [from.parentElement.sectionRowIndex, from.cellIndex];
  let [down, right] = STEPS[event.key] || [0, 0];
  if (event.key === "Home") [column, right] = [0, 1];
  else if (event.key === "End") [column, right] = [rows[row].cells.length, -1];
  if ((!down && !right) || event.altKey) return;
  event.preventDefault();
  // Empty cells are passed over.
  do {
    row += down;
    column += right;
  } while (column > 0 && rows[row]?.cells[column] && !rows[row].cells[column].firstChild);
  if (column > 0) rows[row]?.cells[column]?.firstChild?.focus();
}

const markOf = (letter) => ({ ".": "·", "-": "–" })[letter] || letter;

// counts: letter, number, words. The first press shows only this letter, further ones add or remove; choose gets the letters.
function showToggles(counts, chosen, choose) {
  const place = byId("letters");
  const some = counts.filter(([, count]) => count);
  const buttons = some.map(([letter, count, words]) => {
    const isOn = chosen.includes(letter);
    const now = isOn ? chosen.replace(letter, "") : chosen + letter;
    return el("button", { type: "button", "aria-pressed": String(isOn || !chosen), onclick: () => choose(now.length < some.length ? now : "") },
      el("b", {}, markOf(letter)), ` ${words} `, el("span", {}, grouped(count)));
  });
  const at = [...place.children].indexOf(document.activeElement);
  place.replaceChildren(...buttons);
  buttons[at]?.focus();
}
