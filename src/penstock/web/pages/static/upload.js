// Files that are dropped on the page or chosen: each is sent by itself, as a stream, with its progress; three at a time.

const AT_ONCE = 3;
const drop = document.querySelector("[data-drop]");

if (drop) {
  const list = drop.querySelector("[data-uploads]");
  const chooser = drop.querySelector('input[type="file"]');
  const collection = drop.querySelector('[name="collection"]');
  const waiting = [];
  let under_way = 0;
  let depth = 0;

  drop.querySelector("[data-send]").hidden = true;

  chooser.addEventListener("change", () => {
    take([...chooser.files].map((file) => [file.webkitRelativePath || file.name, file]));
    chooser.value = "";
  });
  drop.addEventListener("submit", (event) => event.preventDefault());

  addEventListener("dragenter", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    depth += 1;
    document.body.classList.add("dragging");
  });
  addEventListener("dragleave", () => {
    depth -= 1;
    if (depth <= 0) document.body.classList.remove("dragging");
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", async (event) => {
    event.preventDefault();
    depth = 0;
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
    title.textContent = name;
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", name);
    said.textContent = "waits";
    said.setAttribute("role", "status");
    line.append(title, bar, said);
    list.prepend(line);
    return { line, title, bar, said };
  }

  function send(item, replace = false) {
    const { title, bar, said } = item.line;
    const path = item.name.split("/").map(encodeURIComponent).join("/");
    const request = new XMLHttpRequest();
    request.open("PUT", `/api/collections/${encodeURIComponent(item.collection)}/documents/${path}${replace ? "?replace=true" : ""}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => {
      bar.value = event.total ? event.loaded / event.total : 1;
      said.className = "";
      said.textContent = event.loaded < event.total ? `${Math.floor((100 * event.loaded) / event.total)} %` : "is kept …";
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
          said.className = "good";
          said.textContent = answer.unchanged ? "unchanged: it is there already" : answer.served ? "accepted" : "accepted; no worker runs";
        } else {
          said.className = "bad";
          said.textContent = answer.detail || (request.status ? `Refused (${request.status}).` : "The server did not answer.");
          if (request.status === 409 && answer.existing) offer(item);
        }
        document.dispatchEvent(new Event("penstock:look"));
        done();
      });
      request.send(item.file);
    });
  }

  function offer(item) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "small";
    button.textContent = "Replace it";
    button.addEventListener("click", () => { button.remove(); send(item, true); });
    item.line.said.append(" ", button);
  }

  function read(text) {
    try {
      return JSON.parse(text) || {};
    } catch {
      return {};
    }
  }
}
