// Two pens with one set of strokes: one draws on a canvas, the other writes SVG. Whatever the scene draws, both can.

export const FONT =
  'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif';

const ruler = document.createElement("canvas").getContext("2d");
const widths = new Map();
const WIDTHS_MAX = 5000;

export const widthOf = (text, size, weight = 400) => {
  const key = `${size} ${weight} ${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size > WIDTHS_MAX) widths.clear();
    ruler.font = `${weight} ${size}px ${FONT}`;
    width = ruler.measureText(text).width;
    widths.set(key, width);
  }
  return width;
};

// As much of the text as fits; empty if only a stump would.
export const fit = (text, room, size, weight = 400) => {
  if (widthOf(text, size, weight) <= room) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (widthOf(`${text.slice(0, middle)}…`, size, weight) <= room) low = middle;
    else high = middle - 1;
  }
  return low >= 3 ? `${text.slice(0, low).trimEnd()}…` : "";
};

const isolated = (text) => (/^[\x20-\x7e…]*$/.test(text) ? text : `\u2068${text}\u2069`);

export class CanvasPen {
  constructor(context) {
    this.context = context;
    for (const name of ["moveTo", "lineTo", "bezierCurveTo", "arc", "rect", "closePath", "roundRect"]) {
      this[name] = context[name].bind(context);
    }
    this.begin = context.beginPath.bind(context);
    this.items = 0; // How much was drawn, for tests and measurements.
  }

  fill(colour, alpha = 1) {
    this.context.globalAlpha = alpha;
    this.context.fillStyle = colour;
    this.context.fill();
    this.context.globalAlpha = 1;
  }

  stroke(colour, { width = 1, dash = [], alpha = 1, round = false } = {}) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.lineCap = round ? "round" : "butt";
    context.setLineDash(dash);
    context.stroke();
    context.globalAlpha = 1;
    context.setLineDash([]);
  }

  text(x, y, text, { size = 11, weight = 400, colour, align = "left", halo = null }) {
    const { context } = this;
    context.font = `${weight} ${size}px ${FONT}`;
    context.textAlign = align;
    context.direction = "ltr";
    const shown = isolated(text);
    if (halo) {
      context.lineWidth = 4;
      context.lineJoin = "round";
      context.strokeStyle = halo;
      context.strokeText(shown, x, y);
    }
    context.fillStyle = colour;
    context.fillText(shown, x, y);
    this.items += 1;
  }

  // What `draw` draws is seen inside this rectangle only.
  clip(x, y, width, height, draw) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }
}

const ESCAPED = { "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;", "'": "&#39;" };
export const escaped = (text) => text.replace(/[<>&"']/g, (one) => ESCAPED[one]);
const round = (value) => String(Math.round(value * 10) / 10 || 0);

export class SvgPen {
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.parts = [];
    this.path = [];
    this.clips = 0;
    this.items = 0;
  }

  begin() {
    this.path = [];
  }

  moveTo(x, y) {
    this.path.push(`M${round(x)} ${round(y)}`);
  }

  lineTo(x, y) {
    this.path.push(`L${round(x)} ${round(y)}`);
  }

  bezierCurveTo(...points) {
    this.path.push(`C${points.map(round).join(" ")}`);
  }

  closePath() {
    this.path.push("Z");
  }

  rect(x, y, width, height) {
    this.path.push(`M${round(x)} ${round(y)}h${round(width)}v${round(height)}h${round(-width)}Z`);
  }

  roundRect(x, y, width, height, radius) {
    const r = Math.min(radius, width / 2, height / 2);
    const turn = `a${round(r)} ${round(r)} 0 0 1 `;
    this.path.push(
      `M${round(x + r)} ${round(y)}h${round(width - 2 * r)}${turn}${round(r)} ${round(r)}v${round(height - 2 * r)}` +
        `${turn}${round(-r)} ${round(r)}h${round(2 * r - width)}${turn}${round(-r)} ${round(-r)}` +
        `v${round(2 * r - height)}${turn}${round(r)} ${round(-r)}Z`,
    );
  }

  // In two halves: SVG cannot draw a whole circle as one arc.
  arc(x, y, r, start, end, backwards = false) {
    const point = (angle) => `${round(x + r * Math.cos(angle))} ${round(y + r * Math.sin(angle))}`;
    const middle = backwards ? start - (start - end) / 2 : start + (end - start) / 2;
    const sweep = backwards ? 0 : 1;
    const begin = this.path.length && !/Z$/.test(this.path.at(-1)) && this.path.at(-1)[0] !== "M" ? "L" : "M";
    const to = (angle) => `A${round(r)} ${round(r)} 0 0 ${sweep} ${point(angle)}`;
    this.path.push(`${begin}${point(start)}${to(middle)}${to(end)}`);
  }

  fill(colour, alpha = 1) {
    if (!this.path.length) return;
    this.parts.push(`<path d="${this.path.join("")}" fill="${colour}"${alpha < 1 ? ` opacity="${round(alpha)}"` : ""}/>`);
  }

  stroke(colour, { width = 1, dash = [], alpha = 1, round: cap = false } = {}) {
    if (!this.path.length) return;
    const more = [
      dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "",
      alpha < 1 ? ` opacity="${round(alpha)}"` : "",
      cap ? ' stroke-linecap="round"' : "",
    ].join("");
    this.parts.push(`<path d="${this.path.join("")}" fill="none" stroke="${colour}" stroke-width="${width}"${more}/>`);
  }

  text(x, y, text, { size = 11, weight = 400, colour, align = "left", halo = null }) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const edge = halo ? ` stroke="${halo}" stroke-width="4" stroke-linejoin="round" paint-order="stroke"` : "";
    this.parts.push(
      `<text x="${round(x)}" y="${round(y)}" font-size="${size}" font-weight="${weight}" fill="${colour}"` +
        ` text-anchor="${anchor}" unicode-bidi="isolate"${edge}>${escaped(text)}</text>`,
    );
  }

  clip(x, y, width, height, draw) {
    this.clips += 1;
    const id = `clip-${this.clips}`;
    const box = `x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"`;
    this.parts.push(`<clipPath id="${id}"><rect ${box}/></clipPath><g clip-path="url(#${id})">`);
    draw();
    this.parts.push("</g>");
  }

  document(title) {
    const size = `width="${round(this.width)}" height="${round(this.height)}"`;
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="0 0 ${round(this.width)} ${round(this.height)}"` +
      ` font-family="${escaped(FONT)}" role="img"><title>${escaped(title)}</title>\n${this.parts.join("\n")}\n</svg>\n`
    );
  }
}
