// Keeps a page true while it is open: when the server says that something has changed, the page is asked for again, and what
// is different in it is put in place. Without this script every page works the same, when it is loaded again.

const AGAIN = 1000; // ms between two looks, at least
const SETTLED = 1600; // ms after a change there is one more look: what is read once a second for all may be that old
const ANYWAY = 20000; // ms after which it looks without being told: ages grow

const state = document.querySelector("[data-live-state]");
let last = 0;
let planned = 0;
let settling = 0;
let looking = false;

function plan(wait) {
  if (document.hidden || planned) return;
  planned = setTimeout(look, Math.max(wait, last + AGAIN - Date.now()));
}

async function look() {
  planned = 0;
  if (looking) return plan(AGAIN);
  looking = true;
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
    tell_ages();
  } catch {
    say("off"); // the server is away; the stream says when it is back
  } finally {
    looking = false;
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

function tell_ages() {
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
    // The first comes with the connection: the page is as old as that, but for counts that nobody waited for.
    if (!first) plan(0);
    first = false;
    clearTimeout(settling);
    settling = setTimeout(() => plan(0), SETTLED);
  });
  stream.addEventListener("error", () => { first = false; say("off"); });
  addEventListener("pagehide", () => stream.close());
  document.addEventListener("visibilitychange", () => { if (!document.hidden) plan(0); });
  document.addEventListener("penstock:look", () => plan(0));
  setInterval(() => plan(0), ANYWAY);
}
setInterval(tell_ages, 5000);

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

for (const each of document.querySelectorAll("img[data-sheet]")) {
  each.addEventListener("error", () => {
    const said = document.createElement("p");
    said.className = "empty little";
    said.textContent = "This page cannot be drawn.";
    each.replaceWith(said);
  });
}
if (document.querySelector("[data-tick]")) count_ticks();
