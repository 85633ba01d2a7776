// Pointer input on the canvas: drag selects, touch drag scrolls, pinch or Ctrl+wheel zooms, click moves the playhead.

const CLICK_PX = 4;
const WHEEL = 0.0022;

/** Attach the listeners of a viewer. */
export function pointed(viewer, signal) {
  const { scene } = viewer;
  const { canvas, axis } = scene;
  const fingers = new Map(); // x by pointer id
  let began = null;

  const positionOf = (e) => {
    const box = canvas.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  };

  canvas.addEventListener(
    "pointerdown",
    (e) => {
      if (e.button !== 0) return;
      const { x, y } = positionOf(e);
      fingers.set(e.pointerId, x);
      try {
        canvas.setPointerCapture(e.pointerId);
      } catch {
        // synthetic pointers cannot be captured
      }
      if (fingers.size > 1)
        viewer.annotationInput?.up(false); // pinch
      else if (viewer.annotationInput?.down(x, y)) return;
      began = fingers.size > 1 ? null : { x, y, ms: axis.ms(x), moved: false };
    },
    signal,
  );

  canvas.addEventListener(
    "pointermove",
    (e) => {
      const { x, y } = positionOf(e);
      if (fingers.size === 2 && fingers.has(e.pointerId)) {
        const [other] = [...fingers].filter(([id]) => id !== e.pointerId).map(([, at]) => at);
        const before = Math.abs(fingers.get(e.pointerId) - other);
        const now = Math.abs(x - other);
        if (before > 8 && now > 8) axis.zoom(now / before, (x + other) / 2);
        fingers.set(e.pointerId, x);
        scene.ask();
      } else if (viewer.annotationInput?.move(x, y)) {
        // a mark is being added or moved
      } else if (began && Math.abs(x - began.x) > CLICK_PX) {
        began.moved = true;
        if (e.pointerType === "touch") {
          axis.pan((fingers.get(e.pointerId) - x) / axis.pxPerMs);
          fingers.set(e.pointerId, x);
          scene.ask();
        } else {
          viewer.select([Math.min(began.ms, axis.ms(x)), Math.max(began.ms, axis.ms(x))]);
        }
      } else if (began === null || e.pointerType !== "touch") {
        viewer.hover(axis.ms(x), y);
      }
    },
    signal,
  );

  const up = (e) => {
    fingers.delete(e.pointerId);
    if (viewer.annotationInput?.up(e.type === "pointerup")) return;
    if (began && !began.moved && e.type === "pointerup") {
      const word = scene.wordAt(began.ms, began.y);
      scene.chosen = word?.i ?? null;
      scene.selection = null;
      viewer.jump(began.ms);
      viewer.hover(began.ms, began.y);
    } else if (began?.moved && e.pointerType !== "touch" && scene.selection) {
      viewer.player.place(scene.selection[0]);
    }
    began = null;
  };
  canvas.addEventListener("pointerup", up, signal);
  canvas.addEventListener("pointercancel", up, signal);

  canvas.addEventListener(
    "dblclick",
    (e) => {
      const { x, y } = positionOf(e);
      if (viewer.annotationInput?.double(x, y)) return;
      const word = scene.wordAt(axis.ms(x), y);
      if (word) viewer.choose(word.i, true);
    },
    signal,
  );

  canvas.addEventListener(
    "wheel",
    (e) => {
      const { x } = positionOf(e);
      const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) ? e.deltaX : e.shiftKey ? e.deltaY : 0;
      if (e.ctrlKey || e.metaKey) axis.zoom(Math.exp(-e.deltaY * WHEEL * 3), x);
      else if (sideways) axis.pan(sideways / axis.pxPerMs);
      else return; // the page scrolls
      e.preventDefault();
      scene.ask();
    },
    { ...signal, passive: false },
  );

  const whole = viewer.find(".whole");
  const slide = (e) => {
    if (!(e.buttons & 1)) return;
    const box = whole.getBoundingClientRect();
    const middle = axis.startMs + ((e.clientX - box.left) / box.width) * (axis.endMs - axis.startMs);
    axis.show(middle - axis.spanMs / 2, middle + axis.spanMs / 2);
    scene.ask();
  };
  whole.addEventListener("pointerdown", slide, signal);
  whole.addEventListener("pointermove", slide, signal);
}
