"use strict";
addEventListener("error", (event) => { document.body.dataset.error = event.message; });
const text = document.getElementById("text");
const only = document.getElementById("only");
const count = document.getElementById("count");
const rows = [...document.querySelectorAll("#cases tbody tr")];
const words = rows.map((row) => row.textContent.toLowerCase());

function apply() {
  const wanted = text.value.trim().toLowerCase();
  let shown = 0;
  rows.forEach((row, at) => {
    const visible = words[at].includes(wanted) && !(only.checked && row.dataset.passed === "true");
    row.hidden = !visible;
    shown += visible;
  });
  count.textContent = `${shown} of ${rows.length} cases`;
}

// The fragment is the filter, so that a link can name a group or a case.
function follow() {
  text.value = decodeURIComponent(location.hash.slice(1));
  apply();
  if (location.hash) document.getElementById("filter").scrollIntoView();
}

text.addEventListener("input", apply);
only.addEventListener("change", apply);
document.getElementById("filter").addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", follow);
follow();
