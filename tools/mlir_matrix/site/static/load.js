"use strict";
// Data are scripts that call matrix.put, because a page from a disk may not fetch files.
const matrix = (() => {
  const SCHEMA = "mlir-matrix/site/v1";
  const AGAIN = ": write the site again.";
  const documents = new Map();

  function entry(name) {
    if (!documents.has(name)) {
      const made = {};
      made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
      made.promise.catch(() => {});
      documents.set(name, made);
    }
    return documents.get(name);
  }

  function put(name, value) {
    if (name !== "manifest" || value.schema === SCHEMA) entry(name).resolve(value);
    else entry(name).reject(new Error(`The data are ${clean(value.schema)}, this page shows ${SCHEMA}${AGAIN}`));
  }

  // Resolves to null if the site has no such document.
  async function get(name) {
    const { files } = await manifest();
    if (!Object.hasOwn(files, name)) return null;
    const wanted = entry(name);
    if (!wanted.asked) {
      wanted.asked = true;
      const script = document.createElement("script");
      const broken = () => wanted.reject(new Error(`${script.getAttribute("src")} is missing or cut short${AGAIN}`));
      script.src = files[name];
      script.onerror = broken;
      // It has called put by then, or it is not whole.
      script.onload = broken;
      document.head.append(script);
    }
    return wanted.promise;
  }

  const manifest = () => entry("manifest").promise;
  addEventListener("load", () => entry("manifest").reject(new Error(`The manifest is missing or cut short${AGAIN}`)));
  return { put, get, manifest };
})();

// Control characters, and those that turn the direction of text, are shown as what they are.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

function clean(text, longest = 4000) {
  const whole = String(text);
  const cut = whole.length > longest ? `${whole.slice(0, longest)} … (${grouped(whole.length)} characters)` : whole;
  return cut.replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// Makes an element; texts among the children are texts, never markup.
function el(name, attributes, ...children) {
  const svg = ["svg", "polyline", "path"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, key === "href" ? value : clean(value));
  }
  for (const child of children.flat(3)) if (child != null && child !== "") made.append(child instanceof Node ? child : clean(child));
  return made;
}

const byId = (id) => document.getElementById(id);
const testUrl = (test) => `test.html#${encodeURIComponent(test)}`;
const minute = (time) => time.slice(0, 16).replace("T", " ");
const grouped = (number) => number.toLocaleString("en");
const counted = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;
const seriesWords = (series) => (series.pins ? `${series.host} (${series.pins})` : series.host);
// What scrolls can have the focus, so that keys scroll it.
const region = (label) => ({ tabindex: 0, role: "region", "aria-label": label });
function failed(error) {
  byId("state").textContent = clean(error.message);
  byId("state").className = "warning";
}

// The state of a view is in the address, without what is as by default.
const View = {
  read: (defaults) => ({ ...defaults, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) }),
  address: (state, defaults) => `#${new URLSearchParams(Object.entries(state).filter(([key, value]) => value !== undefined && value !== defaults[key]))}`,
  keep: (address, isSmall) => history[isSmall ? "replaceState" : "pushState"](null, "", address),
};
addEventListener("submit", (event) => event.preventDefault());

// A skip link must not change the address, which is the state of a view.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});

// A reader must not take an old page for today's.
(() => {
  const days = Math.floor((Date.now() - Date.parse(document.querySelector(".built time").dateTime)) / 86400000);
  const stale = byId("stale");
  stale.hidden = !(days >= 2);
  stale.textContent = `This page is ${days} days old.`;
})();
