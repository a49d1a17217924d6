// Keeps a page current while it is open: when the server reports a change, the page is fetched again, and the difference is
// put in place. Without this script every page works the same when it is loaded again.

const AGAIN = 1000; // ms between two fetches, at least
const SETTLED = 1600; // ms after a change the page is fetched once more: an answer that is shared may be that old
const ANYWAY = 20000; // ms after which it is fetched without a report: ages grow

const state = document.querySelector("[data-live-state]");
let last = 0;
let planned = 0;
let settling = 0;
let fetching = false;

function plan(wait) {
  if (document.hidden || planned) return;
  planned = setTimeout(refresh, Math.max(wait, last + AGAIN - Date.now()));
}

async function refresh() {
  planned = 0;
  if (fetching) return plan(AGAIN);
  fetching = true;
  last = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "manual" });
    if (answer.type === "opaqueredirect") return location.reload(); // the session is over
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const place of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(place.id);
      if (other) morph(place, other);
    }
    show_ages();
  } catch {
    say("off"); // the server is away; the stream reports when it is back
  } finally {
    fetching = false;
  }
}

// Makes `here` like `there`, node by node: what is the same stays, with its focus, its ticks and its scroll.
function morph(here, there) {
  if (here.hasAttribute("data-keep")) return;
  for (const { name, value } of [...there.attributes]) {
    if (here.getAttribute(name) !== value && name !== "open") here.setAttribute(name, value);
  }
  for (const { name } of [...here.attributes]) {
    if (!there.hasAttribute(name) && name !== "open") here.removeAttribute(name);
  }
  if (here === document.activeElement && here.matches("input, select, textarea")) return;
  const wanted = [...there.childNodes];
  let child = here.firstChild;
  for (const next of wanted) {
    const same = child && child.nodeType === next.nodeType && child.nodeName === next.nodeName && key(child) === key(next);
    if (same) {
      if (child.nodeType === Node.ELEMENT_NODE) morph(child, next);
      else if (child.nodeValue !== next.nodeValue) child.nodeValue = next.nodeValue;
      child = child.nextSibling;
      continue;
    }
    const known = key(next) && [...here.children].find((each) => key(each) === key(next));
    if (known) {
      here.insertBefore(known, child);
      morph(known, next);
    } else {
      here.insertBefore(document.importNode(next, true), child);
    }
  }
  while (child) {
    const after = child.nextSibling;
    child.remove();
    child = after;
  }
}

function key(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") || node.id || "" : "";
}

function say(word) {
  if (!state) return;
  state.dataset.state = word;
  state.textContent = word === "on" ? "Live" : "Connecting …";
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

function show_ages() {
  for (const each of document.querySelectorAll("time[data-ago]")) {
    const distance = (Date.now() - Date.parse(each.dateTime)) / 1000;
    const [size, unit] = UNITS.find(([seconds]) => Math.abs(distance) >= seconds) || [1, "s"];
    const length = `${Math.round(Math.abs(distance) / size)} ${unit}`;
    const said = Math.abs(distance) < 1 ? "now" : distance > 0 ? `${length} ago` : `in ${length}`;
    if (each.textContent !== said) each.textContent = said;
  }
}

if (document.querySelector("[data-live]")) {
  const stream = new EventSource("/api/events");
  let first = true;
  stream.addEventListener("changed", () => {
    say("on");
    // The first comes with the connection: the page is as old as that, except for shared counts.
    if (!first) plan(0);
    first = false;
    document.dispatchEvent(new Event("penstock:changed"));
    clearTimeout(settling);
    settling = setTimeout(() => plan(0), SETTLED);
  });
  stream.addEventListener("error", () => { first = false; say("off"); });
  addEventListener("pagehide", () => stream.close());
  document.addEventListener("visibilitychange", () => { if (!document.hidden) plan(0); });
  document.addEventListener("penstock:refresh", () => plan(0));
  setInterval(() => plan(0), ANYWAY);
}
setInterval(show_ages, 5000);

// -- keys: / goes to the search box, and a tick box in a table's head ticks all --

addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const box = document.querySelector('main input[type="search"]');
  if (!box) return;
  event.preventDefault();
  box.focus();
  box.select();
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-tick-all]")) {
    for (const each of document.querySelectorAll("[data-tick]")) each.checked = event.target.checked;
  }
  if (event.target.matches("[data-tick-all], [data-tick]")) count_ticks();
});

function count_ticks() {
  const count = document.querySelectorAll("[data-tick]:checked").length;
  for (const each of document.querySelectorAll("[data-needs-ticks]")) each.disabled = count === 0;
  const said = document.querySelector("[data-ticks]");
  if (said) said.textContent = count ? `${count} chosen` : "";
}

const here = document.querySelector("nav [aria-current]");
if (here) here.scrollIntoView({ block: "nearest", inline: "center" }); // on a phone the pages are a row that scrolls

// -- images of pages: one that cannot be drawn gives way to a sentence, a thumbnail to nothing; a click enlarges --

document.addEventListener("error", (event) => {
  if (event.target.matches?.("img[data-thumb]")) event.target.remove();
  if (!event.target.matches?.("img[data-sheet]")) return;
  const note = document.createElement("p");
  note.className = "empty little";
  note.textContent = "This page cannot be drawn.";
  event.target.closest(".sheet").replaceChildren(note);
}, true);

document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-enlarge]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const dialog = document.createElement("dialog");
  const form = document.createElement("form");
  const button = document.createElement("button");
  const image = document.createElement("img");
  dialog.className = "enlarged";
  dialog.setAttribute("aria-label", "Enlarged page");
  form.method = "dialog";
  button.textContent = "Close";
  form.append(button);
  image.src = link.href;
  image.alt = link.querySelector("img").alt.replace("; enlarge", "");
  dialog.append(form, image);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (inner) => { if (inner.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
});

const passage = document.getElementById("passage");
if (passage) passage.scrollIntoView({ block: "center" });

if (document.querySelector("[data-tick]")) count_ticks();
