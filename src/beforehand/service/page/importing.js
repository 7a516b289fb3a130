// A file dropped on the page, or chosen, becomes a history to look at. The service reads it; it is not stored.
import { isAborted } from "./errors.js";
import { plural, visible } from "./text.js";

const BYTES_MAX = 64 * 2 ** 20; // The service may allow less, and says so.

export const startImporting = (app) => {
  const veil = app.byId("veil");
  const input = app.byId("file");
  let depth = 0;
  const carriesFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

  addEventListener("dragenter", (event) => {
    if (!carriesFiles(event)) return;
    depth += 1;
    veil.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (!carriesFiles(event)) return;
    depth = Math.max(0, depth - 1);
    veil.hidden = depth === 0;
  });
  addEventListener("dragover", (event) => {
    if (carriesFiles(event)) event.preventDefault();
  });
  addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    veil.hidden = true;
    take([...event.dataTransfer.files]);
  });
  app.byId("import").addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    take([...input.files]);
    input.value = "";
  });

  const take = async (files) => {
    if (files.length !== 1) return app.say("Drop one file at a time.", { wrong: true });
    const [file] = files;
    if (file.size > BYTES_MAX) {
      const text = `${visible(file.name, 80)} is larger than 64 MB: make a history directory with “beforehand analyze”.`;
      return app.say(text, { wrong: true });
    }
    app.say(`Reading ${visible(file.name, 80)} …`);
    try {
      const made = await app.api.post("/api/imports", await file.arrayBuffer(), { parameters: { name: file.name } });
      app.sources.set(made.source, file.name);
      await app.open({ source: made.source, execution: null, axis: null });
      const rejected = made.rejected ? `, ${plural(made.rejected, "line")} rejected` : "";
      const found = made.findings?.length ? `: ${visible(made.findings[0], 200)}` : "";
      app.say(`${visible(file.name, 80)} (${made.format}): ${plural(made.events, "event")}${rejected}${found}`);
    } catch (error) {
      if (!isAborted(error)) app.say(`${visible(file.name, 80)}: ${error.message}`, { wrong: true });
    }
  };
};
