// What is on the screen as a file: the scene drawn once more, by a pen that writes SVG or on a larger canvas.
import { NAME } from "./lanes.js";
import { CanvasPen, SvgPen, escaped } from "./pen.js";
import { palette } from "./palette.js";
import { drawScene } from "./scene.js";
import { visible } from "./text.js";

const HEADS = 168; // For the names of the lanes, which are not part of the canvas on the page.

const drawWhole = (pen, pane) => {
  const view = pane.view();
  const colours = palette();
  pen.begin();
  pen.rect(0, 0, view.width + HEADS, view.height);
  pen.fill(colours.paper);
  shifted(pen, HEADS, () => pen.clip(0, 0, view.width, view.height, () => drawScene(pen, view)));
  for (const row of view.lanes) {
    const y = row.y - view.top;
    if (y < 30) continue;
    const name = pane.lanes.short(row.name, HEADS - 40);
    const half = row.folded ? 9 : 13;
    pen.begin();
    pen.roundRect(10, y - half, HEADS - 18, half * 2, half);
    pen.fill(colours.tag);
    pen.stroke(colours.tagBorder);
    const look = { size: row.folded ? 11 : NAME, weight: 600, colour: colours.ink, align: "center" };
    entitled(pen, row.name, () => pen.text(10 + (HEADS - 18) / 2, y + 4.5, name, look));
  }
};

// In a file the whole name is shown where one points at it.
const entitled = (pen, name, draw) => {
  if (pen instanceof SvgPen) pen.parts.push(`<g><title>${escaped(visible(name, 400))}</title>`);
  draw();
  if (pen instanceof SvgPen) pen.parts.push("</g>");
};

const shifted = (pen, dx, draw) => {
  if (pen instanceof SvgPen) {
    pen.parts.push(`<g transform="translate(${dx} 0)">`);
    draw();
    pen.parts.push("</g>");
    return;
  }
  pen.context.save();
  pen.context.translate(dx, 0);
  draw();
  pen.context.restore();
};

const titleOf = (pane) => {
  const { execution, events } = pane.overview;
  return `${visible(execution || "Space-time diagram", 120)}: ${events} events`;
};

export const svgOf = (pane) => {
  const pen = new SvgPen(pane.camera.width + HEADS, pane.camera.height);
  drawWhole(pen, pane);
  return pen.document(titleOf(pane));
};

export const pngOf = (pane, scale = 2) => {
  const canvas = document.createElement("canvas");
  canvas.width = Math.round((pane.camera.width + HEADS) * scale);
  canvas.height = Math.round(pane.camera.height * scale);
  const context = canvas.getContext("2d", { alpha: false });
  context.scale(scale, scale);
  drawWhole(new CanvasPen(context), pane);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large"))), "image/png");
  });
};

const save = (blob, name) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

export const startExporting = (app) => {
  const menu = app.byId("export-menu");
  app.byId("export-link").hidden = !app.whole; // The address is the whole page's.
  menu.addEventListener("beforetoggle", () => {
    const box = app.byId("export").getBoundingClientRect();
    menu.style.inset = `${box.bottom + 6}px ${Math.max(4, document.documentElement.clientWidth - box.right - 60)}px auto auto`;
  });
  app.byId("export-svg").addEventListener("click", () => {
    save(new Blob([svgOf(app.pane)], { type: "image/svg+xml" }), "diagram.svg");
    menu.hidePopover?.();
  });
  app.byId("export-png").addEventListener("click", async () => {
    menu.hidePopover?.();
    try {
      save(await pngOf(app.pane), "diagram.png");
    } catch (error) {
      app.say(error.message, { wrong: true });
    }
  });
  app.byId("export-link").addEventListener("click", async () => {
    menu.hidePopover?.();
    try {
      await navigator.clipboard.writeText(app.link());
      app.say("The link to this view is on the clipboard.");
    } catch {
      app.say(`The link to this view is the address of this page: ${app.link()}`);
    }
  });
};
