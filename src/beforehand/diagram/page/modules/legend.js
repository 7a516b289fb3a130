// The signs and what they mean, drawn by the code that draws the diagram.
import { make } from "./dom.js";
import { palette } from "./palette.js";
import { CanvasPen } from "./pen.js";
import { drawArrows, drawEvent } from "./signs.js";

const event = (kind, more = {}) => ({ kind, violation: false, failure: false, ...more });
const sign = (one, role) => (pen, colours) => drawEvent(pen, one, role, 17, 11, 6, colours);
const ITEMS = [
  ["send", sign(event("send"), "plain")],
  ["receive", sign(event("receive"), "plain")],
  ["local event", sign(event("local"), "plain")],
  ["failure", sign(event("local", { failure: true }), "plain")],
  ["violation of an order", sign(event("local", { violation: true }), "plain")],
  ["message", (pen, colours) => drawArrows(pen, [[-4, 4, 36, 18]], "plain", 5, colours, 1)],
  ["inferred message", (pen, colours) => drawArrows(pen, [[-4, 4, 36, 18]], "plain", 5, colours, 1, { dotted: true })],
  ["chosen event", sign(event("send"), "selected")],
  ["its past", sign(event("send"), "past")],
  ["its future", sign(event("send"), "future")],
  ["concurrent with it", sign(event("send"), "concurrent")],
  [
    "cut",
    (pen, colours) => {
      pen.begin();
      pen.moveTo(17, 1);
      pen.lineTo(17, 21);
      pen.stroke(colours.cut, { width: 2.4, dash: [9, 4, 2, 4], round: true });
    },
  ],
];

export const drawLegend = (list) => {
  const colours = palette();
  list.replaceChildren(
    ...ITEMS.map(([text, draw]) => {
      const item = make("li");
      const canvas = make("canvas");
      canvas.width = 68;
      canvas.height = 44;
      canvas.setAttribute("aria-hidden", "true");
      const context = canvas.getContext("2d");
      context.scale(2, 2);
      draw(new CanvasPen(context), { ...colours });
      item.append(canvas, text);
      return item;
    }),
  );
};
