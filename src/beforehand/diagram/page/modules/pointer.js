// Mouse, pen and fingers: click chooses, dragging moves, the wheel zooms, two fingers pinch.

const SLOP = 5; // px that a click may move.

// `wheel`: whether it may be taken from the page without Ctrl.
export const startPointer = (pane, { pick, hover, nearer, wheel = true }) => {
  const { canvas } = pane;
  const down = new Map(); // Pointer id to its last place.
  let moved = false;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, { ...place(event), start: place(event) });
    if (down.size === 1) moved = false;
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = place(event);
    const before = down.get(event.pointerId);
    if (!before) return hover(pane, now);
    if (down.size === 2) {
      const [other] = [...down].filter(([id]) => id !== event.pointerId).map(([, one]) => one);
      const [was, is] = [before, now].map((one) => Math.max(20, Math.hypot(one.x - other.x, one.y - other.y)));
      pane.zoom(is / was, (now.x + other.x) / 2);
      pane.pan((before.x - now.x) / 2, (before.y - now.y) / 2);
      moved = true;
    } else if (moved || Math.hypot(now.x - before.start.x, now.y - before.start.y) >= SLOP) {
      moved = true;
      canvas.classList.add("dragging");
      hover(pane, null);
      pane.pan(before.x - now.x, before.y - now.y);
    }
    down.set(event.pointerId, { ...now, start: before.start });
  });
  const up = (event) => {
    if (!down.delete(event.pointerId)) return;
    if (down.size) return;
    canvas.classList.remove("dragging");
    if (!moved && event.type === "pointerup") pick(pane, pane.at(place(event).x, place(event).y));
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => hover(pane, null));
  canvas.addEventListener("dblclick", (event) => {
    const { x, y } = place(event);
    if (!pane.at(x, y)) nearer(pane, x);
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!wheel && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey) return;
      event.preventDefault();
      const line = event.deltaMode === 1 ? 18 : event.deltaMode === 2 ? 300 : 1;
      const [dx, dy] = [event.deltaX * line, event.deltaY * line];
      hover(pane, null);
      if (event.shiftKey) pane.pan(dx || dy);
      else if (Math.abs(dx) > Math.abs(dy)) pane.pan(dx);
      else if (event.altKey) pane.pan(0, dy);
      else pane.zoom(Math.exp(-Math.max(-120, Math.min(120, dy)) * (event.ctrlKey || event.metaKey ? 0.008 : 0.0032)), place(event).x);
    },
    { passive: false },
  );
  pane.root.querySelector(".heads").addEventListener(
    "wheel",
    (event) => {
      if (!wheel) return;
      event.preventDefault();
      pane.scroll(event.deltaY * (event.deltaMode === 1 ? 18 : 1));
    },
    { passive: false },
  );
};
