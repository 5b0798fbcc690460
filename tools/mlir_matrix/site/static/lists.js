"use strict";
// Filters lists that are in the page: <input data-filter="SELECTOR">.
for (const input of document.querySelectorAll("[data-filter]")) {
  const items = [...document.querySelectorAll(input.dataset.filter)];
  const texts = items.map((item) => item.textContent.toLowerCase());
  const status = input.closest(".controls").querySelector("[role=status]");
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    items.forEach((item, at) => {
      item.hidden = !words.every((word) => texts[at].includes(word));
      shown += !item.hidden;
    });
    status.textContent = words.length ? `${shown} of ${items.length}` : "";
  };
  input.addEventListener("input", filter);
}
