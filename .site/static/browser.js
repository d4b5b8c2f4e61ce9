// Runs the programs of a page: one worker has Python, and what it tells goes below the program that was run.
document.addEventListener("DOMContentLoaded", () => {
  const MOST = 200_000; // characters that a program may print
  const here = (path) => new URL(path, document.baseURI).href;
  const found = document.getElementById("browser-setup");
  const setup = JSON.parse(found.textContent);
  for (const place of ["core", "packages", "wheel"]) setup[place] = here(setup[place]);
  const cells = [...document.querySelectorAll("div.cell")].map((root) => ({
    code: root.querySelector("textarea"), button: root.querySelector("button.run"), state: root.querySelector(".state"),
    reset: root.querySelector("button.reset"), output: root.querySelector(".output"),
  }));
  let worker, running, since;

  function show(kind, text) {
    const last = running.output.lastElementChild;
    if (kind === "svg") {
      const image = new Image();
      image.alt = new DOMParser().parseFromString(text, "image/svg+xml").querySelector("title")?.textContent ?? "drawing";
      image.src = `data:image/svg+xml,${encodeURIComponent(text)}`; // an image runs no script
      return running.output.append(image);
    }
    const block = last?.className === kind ? last : document.createElement("pre");
    block.className = kind;
    if (block.textContent.length < MOST) block.append(text.slice(0, MOST));
    running.output.append(block);
  }

  function end(said, failed) {
    running.state.textContent = said;
    running.state.classList.toggle("failed", failed);
    for (const cell of cells) cell.button.disabled = false;
    running.button.textContent = "Run";
    running = undefined;
  }

  function stop(said, failed) { // Python ends with its worker; the next run starts anew
    worker?.terminate();
    worker = undefined;
    end(said, failed);
  }

  function start() {
    worker = new Worker(here(found.dataset.worker), { type: "module" });
    worker.onerror = (event) => running && stop(`It did not load: ${event.message ?? "no worker"}`, true);
    worker.onmessage = ({ data }) => {
      if (!running) return;
      if (data.state) {
        running.state.textContent = data.state;
        since = performance.now();
      } else if (data.failed) stop(`It did not load: ${data.failed}`, true);
      else if (data.told) show("told", data.told);
      else {
        const [kind, text] = data.done;
        if (kind !== "nothing") show(kind, text);
        const seconds = ((performance.now() - since) / 1000).toFixed(1);
        end(kind === "error" ? `an error after ${seconds} s` : `${seconds} s`, kind === "error");
      }
    };
  }

  function run(cell) {
    if (location.protocol === "file:") {
      cell.state.textContent = "A browser runs this from a server only: python -m http.server -d FOLDER";
      return;
    }
    if (running) return;
    running = cell;
    cell.output.replaceChildren();
    cell.state.classList.remove("failed");
    for (const other of cells) other.button.disabled = other !== cell;
    cell.button.textContent = "Stop";
    cell.state.textContent = "running";
    since = performance.now();
    if (!worker) start();
    worker.postMessage({ setup, source: cell.code.value });
  }

  for (const cell of cells) {
    cell.button.addEventListener("click", () => (running === cell ? stop("stopped", false) : run(cell)));
    cell.reset.addEventListener("click", () => (cell.code.value = cell.code.defaultValue));
    cell.code.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        run(cell);
      } else if (!event.shiftKey && !event.isComposing) { // a new line begins where this one does
        const line = cell.code.value.slice(0, cell.code.selectionStart).split("\n").pop();
        const indent = line.match(/^ */)[0] + (line.trimEnd().endsWith(":") ? "    " : "");
        if (indent && document.execCommand("insertText", false, `\n${indent}`)) event.preventDefault();
      }
    });
  }
});
