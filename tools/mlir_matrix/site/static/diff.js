"use strict";
// Compares two texts line by line, and words in changed lines.
const MOST_EDITS = 1500;
const CONTEXT = 3;
const MOST_LINES = 2000;
const LONGEST_LINE = 1200;

// Myers: the shortest edit, as pairs of equal indices. Null if it needs too many edits.
function equalPairs(a, b, most) {
  let start = 0;
  let [endA, endB] = [a.length, b.length];
  while (start < endA && start < endB && a[start] === b[start]) start++;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) endA--, endB--;
  const middle = shortest(a.slice(start, endA), b.slice(start, endB), most);
  const pairs = [];
  for (let at = 0; at < start; at++) pairs.push([at, at]);
  for (const [left, right] of middle) pairs.push([left + start, right + start]);
  for (let at = 0; at < a.length - endA; at++) pairs.push([endA + at, endB + at]);
  return pairs;
}

function shortest(a, b, most) {
  if (!a.length || !b.length) return [];
  const limit = Math.min(a.length + b.length, most);
  const ends = new Int32Array(2 * limit + 3);
  const trace = [];
  for (let edits = 0; edits <= limit; edits++) {
    trace.push(ends.slice(limit - edits, limit + edits + 3));
    for (let line = -edits; line <= edits; line += 2) {
      const down = line === -edits || (line !== edits && ends[limit + line] < ends[limit + line + 2]);
      let x = down ? ends[limit + line + 2] : ends[limit + line] + 1;
      while (x < a.length && x - line < b.length && a[x] === b[x - line]) x++;
      ends[limit + line + 1] = x;
      if (x >= a.length && x - line >= b.length) return walked(trace, a.length, b.length);
    }
  }
  return [];
}

function walked(trace, x, y) {
  const pairs = [];
  for (let edits = trace.length - 1; edits >= 0; edits--) {
    const ends = trace[edits];
    const line = x - y;
    const at = (other) => ends[other + edits + 1];
    const down = line === -edits || (line !== edits && at(line - 1) < at(line + 1));
    const from = down ? line + 1 : line - 1;
    const [oldX, oldY] = edits ? [at(from), at(from) - from] : [0, 0];
    while (x > oldX && y > oldY) pairs.push([--x, --y]);
    [x, y] = [oldX, oldY];
  }
  return pairs.reverse();
}

// Rows of [left index or -1, right index or -1, is equal].
function rowsOf(a, b) {
  const rows = [];
  let [left, right] = [0, 0];
  for (const [nextLeft, nextRight] of [...equalPairs(a, b, MOST_EDITS), [a.length, b.length]]) {
    while (left < nextLeft || right < nextRight) rows.push([left < nextLeft ? left++ : -1, right < nextRight ? right++ : -1, false]);
    if (nextLeft < a.length) rows.push([left++, right++, true]);
  }
  return rows;
}

// The words of a line, marked where the other line lacks them.
function marked(line, other, mark) {
  const [words, others] = [line, other].map((text) => text.match(/\w+|\s+|./gu) || []);
  const kept = new Set(equalPairs(words, others, 200).map(([at]) => at));
  return words.map((text, at) => (kept.has(at) ? text : el(mark, {}, text)));
}

function cells([left, right, isEqual], a, b) {
  const side = (at, line, other, mark) => {
    if (at < 0) return [el("td", { class: "number" }), el("td", { class: "gap" })];
    const isMarked = !isEqual && other !== undefined && line.length + other.length < LONGEST_LINE;
    return [el("td", { class: "number" }, at + 1), el("td", { class: isEqual ? "" : mark }, isMarked ? marked(line, other, mark) : clean(line, LONGEST_LINE))];
  };
  return el("tr", {}, side(left, a[left], b[right], "del"), side(right, b[right], a[left], "ins"));
}

// A table with both texts side by side; equal parts are folded.
function diffTable(leftText, rightText, label) {
  const [a, b] = [leftText, rightText].map((text) => text.replace(/\n$/, "").split("\n"));
  const rows = rowsOf(a, b);
  const near = new Uint8Array(rows.length);
  rows.forEach(([, , equal], at) => {
    if (!equal) near.fill(1, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
  });
  const changed = rows.filter(([, , equal]) => !equal).length;
  const body = el("tbody");
  const fold = (...children) => el("tr", { class: "fold" }, el("td", { colspan: 4 }, children));
  for (let at = 0; at < rows.length; at++) {
    if (body.childElementCount >= MOST_LINES) {
      body.append(fold("More lines differ: matrix ir shows them."));
      break;
    }
    let end = at;
    while (end < rows.length && !near[end]) end++;
    if (changed && end - at > 1) {
      const hidden = rows.slice(at, end);
      const open = () => row.replaceWith(...hidden.slice(0, MOST_LINES).map((each) => cells(each, a, b)));
      const row = fold(el("button", { type: "button", onclick: open }, counted(hidden.length, "equal line")));
      body.append(row);
      at = end - 1;
    } else body.append(cells(rows[at], a, b));
  }
  const caption = el("caption", {}, changed ? `${counted(changed, "line")} of ${grouped(rows.length)} differ.` : "Both are equal.");
  return el("div", { class: "scroll diff", ...region(label) }, el("table", {}, caption, body));
}
