// Files that are dropped on the page or chosen: each is sent by itself, as a stream, with its progress; three at a time. Its row
// then follows the document until it is ready or has failed.

const AT_ONCE = 3;
const POLL = 5000; // ms after which unfinished documents are read again without a report of a change
const MOST = 100; // documents of one question
const drop = document.querySelector("[data-drop]");

if (drop) {
  const list = drop.querySelector("[data-uploads]");
  const chooser = drop.querySelector('input[type="file"]');
  const collection = drop.querySelector('[name="collection"]');
  const waiting = [];
  const followed = new Map(); // id of a document: its row
  let under_way = 0;
  let entered = 0; // elements that a file is dragged over
  let reading = false;

  drop.querySelector("[data-send]").hidden = true;

  chooser.addEventListener("change", () => {
    take([...chooser.files].map((file) => [file.webkitRelativePath || file.name, file]));
    chooser.value = "";
  });
  drop.addEventListener("submit", (event) => event.preventDefault());

  addEventListener("dragenter", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    entered += 1;
    document.body.classList.add("dragging");
  });
  addEventListener("dragleave", () => {
    entered -= 1;
    if (entered <= 0) document.body.classList.remove("dragging");
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", async (event) => {
    event.preventDefault();
    entered = 0;
    document.body.classList.remove("dragging");
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry());
    const files = [...event.dataTransfer.files];
    if (entries.every((entry) => entry)) take((await Promise.all(entries.map(walk))).flat());
    else take(files.map((file) => [file.name, file]));
  });

  async function walk(entry) {
    if (entry.isFile) {
      const file = await new Promise((done, fail) => entry.file(done, fail));
      return [[entry.fullPath.replace(/^\//, ""), file]];
    }
    const reader = entry.createReader();
    const found = [];
    for (;;) { // it gives a hundred at a time
      const some = await new Promise((done, fail) => reader.readEntries(done, fail));
      if (!some.length) break;
      for (const each of some) found.push(...(await walk(each)));
    }
    return found;
  }

  function take(files) {
    for (const [name, file] of files) waiting.push({ name, file, collection: collection.value, line: show(name) });
    next();
  }

  function next() {
    while (under_way < AT_ONCE && waiting.length) {
      under_way += 1;
      send(waiting.shift()).finally(() => { under_way -= 1; next(); });
    }
  }

  function show(name) {
    const line = document.createElement("li");
    const title = document.createElement("span");
    const bar = document.createElement("progress");
    const said = document.createElement("span");
    const note = document.createElement("p");
    title.textContent = name;
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", name);
    said.textContent = "waiting";
    said.setAttribute("role", "status");
    note.hidden = true;
    line.append(title, bar, said, note);
    list.prepend(line);
    return { line, title, bar, said, note };
  }

  function tell(row, word, tone = "", sentence = "") {
    row.said.className = tone;
    row.said.textContent = word;
    row.note.className = tone;
    row.note.textContent = sentence;
    row.note.hidden = !sentence;
  }

  async function send(item, replace = false) {
    if (item.collection === "default" && !drop.dataset.ensured) {
      await fetch("/collections/default", { method: "POST" }); // the upload reports what is wrong, if something is
      drop.dataset.ensured = "yes";
    }
    const { title, bar } = item.line;
    const path = item.name.split("/").map(encodeURIComponent).join("/");
    const request = new XMLHttpRequest();
    request.open("PUT", `/api/collections/${encodeURIComponent(item.collection)}/documents/${path}${replace ? "?replace=true" : ""}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => {
      bar.value = event.total ? event.loaded / event.total : 1;
      tell(item.line, event.loaded < event.total ? `${Math.floor((100 * event.loaded) / event.total)} %` : "storing …");
    });
    return new Promise((done) => {
      request.addEventListener("loadend", () => {
        const answer = read(request.responseText);
        if (request.status === 202) {
          bar.value = 1;
          const link = document.createElement("a");
          link.href = `/documents/${Number(answer.id)}`;
          link.textContent = item.name;
          title.replaceChildren(link);
          item.line.unchanged = answer.unchanged; // the same bytes again: no new version
          if (answer.unchanged) tell(item.line, "unchanged", "good");
          else if (answer.served) tell(item.line, "accepted");
          else tell(item.line, "accepted", "", "No worker is running: start one with penstock worker, or everything with penstock up.");
          followed.set(Number(answer.id), item.line);
          follow();
        } else {
          const sentence = answer.detail || (request.status ? `Refused (${request.status}).` : "The server did not answer.");
          tell(item.line, request.status === 409 ? "exists" : "failed", "bad", sentence);
          if (request.status === 409 && answer.existing) offer(item);
        }
        document.dispatchEvent(new Event("penstock:refresh"));
        done();
      });
      request.send(item.file);
    });
  }

  function offer(item) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "small";
    button.textContent = "Replace";
    button.addEventListener("click", () => { button.remove(); send(item, true); });
    item.line.note.append(" ", button);
  }

  async function follow() {
    if (reading || !followed.size) return;
    reading = true;
    try {
      const answer = await fetch(`/documents/states?ids=${[...followed.keys()].slice(0, MOST).join(",")}`);
      for (const each of answer.ok ? await answer.json() : []) note_state(each);
    } catch {
      // the server is away: the next report of a change tries again
    } finally {
      reading = false;
    }
  }

  function note_state({ id, status, step, skipped, reason }) {
    const row = followed.get(id);
    if (!row) return;
    const word = row.unchanged ? "unchanged" : "ready";
    if (status === "ready") tell(row, skipped ? `${word}, partly readable` : word, "good");
    else if (status === "failed") tell(row, "failed", "bad", reason);
    else if (status === "deleted") tell(row, "deleted");
    else if (status === "processing") tell(row, step ? `processing: ${step}` : "processing");
    if (["ready", "failed", "deleted"].includes(status)) {
      row.bar.hidden = true;
      followed.delete(id);
    }
  }

  document.addEventListener("penstock:changed", follow);
  setInterval(follow, POLL);

  function read(text) {
    try {
      return JSON.parse(text) || {};
    } catch {
      return {};
    }
  }
}
