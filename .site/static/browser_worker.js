// Python of the page, in a thread of its own: Pyodide, NumPy and lite's wheel, loaded by the first program that runs.
const tell = (message) => self.postMessage(message);
let loaded;

async function load({ core, packages, sums, wheel, wheel_sum, modules }) {
  // Pyodide's files are loaded if they are those of the release; it checks the sums of packages itself. It would
  // wait for ever for one that is not there.
  const fetch = self.fetch;
  self.fetch = async (what, options) => {
    const address = String(what.url ?? what);
    const integrity = address === wheel ? wheel_sum : address.startsWith(core) && sums[address.slice(core.length)];
    try {
      const answer = await fetch(what, integrity ? { ...options, integrity } : options);
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      return answer;
    } catch (error) {
      tell({ failed: `${address}: ${error.message}` });
      throw error;
    }
  };
  const imported = async (name) => {
    const text = await (await self.fetch(core + name)).text();
    const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    return import(address).finally(() => URL.revokeObjectURL(address));
  };
  tell({ state: "loading Python" });
  const [{ loadPyodide }, { default: createPyodideModule }] = await Promise.all(
    ["pyodide.mjs", "pyodide.asm.mjs"].map(imported),
  );
  const python = await loadPyodide({ indexURL: core, packageBaseUrl: packages, createPyodideModule });
  tell({ state: "loading NumPy" });
  await python.loadPackage("numpy", { messageCallback: () => {} });
  tell({ state: "loading lite" });
  python.unpackArchive(await (await self.fetch(wheel)).arrayBuffer(), "wheel");
  self.fetch = fetch;
  for (const [name, text] of Object.entries(modules)) python.FS.writeFile(name, text);
  return python.pyimport("run_cell").run;
}

self.onmessage = async ({ data: { setup, source } }) => {
  try {
    loaded ??= load(setup);
    const run = await loaded;
    tell({ state: "running" });
    const done = run(source, "program", (text) => tell({ told: text }));
    tell({ done: done.toJs() });
    done.destroy();
  } catch (error) {
    tell({ failed: String(error) });
  }
};
