// The studio's mark, name and address, for pictures and clips that leave the page.

const MARK = "M3 13h1M8 8v10M13 3v20M18 9v8M23 12v2"; // as in the masthead, in a box of 26
const MARK_BOX = 26;
const NAME = "Streaming-TTS Studio";
const FACE = '"Segoe UI", Inter, Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif';

/** The address of this page, for people: without scheme, settings and key. */
export const shownAddress = ({ host, pathname }) => `${host}${pathname}`.replace(/\/$/, "");

/** Draw the mark and the name from `x`, and the address up to `right`, with their middle at `y`. */
export function drawBrand(paint, { x, right, y, em }, colours, address) {
  const size = 1.5 * em;
  paint.save();
  paint.translate(x, y - size / 2);
  paint.scale(size / MARK_BOX, size / MARK_BOX);
  paint.strokeStyle = colours.accent;
  paint.lineWidth = 2.4;
  paint.lineCap = "round";
  paint.stroke(new Path2D(MARK));
  paint.restore();
  paint.textBaseline = "middle";
  paint.font = `600 ${0.85 * em}px ${FACE}`;
  paint.fillStyle = colours.ink;
  paint.fillText(NAME, x + size + 0.4 * em, y);
  paint.font = `500 ${0.85 * em}px ${FACE}`;
  paint.fillStyle = colours.muted;
  paint.textAlign = "right";
  paint.fillText(address, right, y);
  paint.textAlign = "left";
}
