// Colour maps that are safe for colour-blind people: cividis in the dark theme, its blues on paper in the light one.

const DARK = ["12161d", "0b2350", "2c3e70", "52597a", "76757b", "999072", "beac62", "e4cb4c", "ffea80"];
const LIGHT = ["fbfaf7", "e3e8ee", "bfd0e2", "93b4d4", "6496c3", "3a75ae", "1d5590", "113a6b", "081f40"];

const channels = (hex) => [0, 2, 4].map((k) => parseInt(hex.slice(k, k + 2), 16));

/** 256 RGBA colours as one Uint8ClampedArray [1024]. */
export function palette(isDark) {
  const anchors = (isDark ? DARK : LIGHT).map(channels);
  const out = new Uint8ClampedArray(1024);
  for (let v = 0; v < 256; v++) {
    const position = (v / 255) * (anchors.length - 1);
    const low = Math.min(anchors.length - 2, Math.floor(position));
    for (let c = 0; c < 3; c++)
      out[4 * v + c] = anchors[low][c] + (position - low) * (anchors[low + 1][c] - anchors[low][c]);
    out[4 * v + 3] = 255;
  }
  return out;
}

// Blue, neutral, red: distinguishable with any colour vision that separates light from dark and colour from grey.
const LESS = { dark: ["9ecbff", "2f72b8"], light: ["08306b", "4a90c8"] };
const MORE = { dark: ["b8472f", "ffb49e"], light: ["dd7c55", "7a1206"] };
const NONE = { dark: "12161d", light: "fbfaf7" };
const NOTHING = { dark: "1d2530", light: "e4e6e3" };

/** 256 RGBA colours of a difference as one Uint8ClampedArray [1024]: 128 is no difference, 0 is no data. */
export function diverging(isDark) {
  const theme = isDark ? "dark" : "light";
  const anchors = [...LESS[theme], NONE[theme], ...MORE[theme]].map(channels);
  const out = new Uint8ClampedArray(1024);
  for (let v = 0; v < 256; v++) {
    const position = (Math.max(0, v - 1) / 254) * (anchors.length - 1);
    const low = Math.min(anchors.length - 2, Math.floor(position));
    const colour = v
      ? anchors[low].map((from, c) => from + (position - low) * (anchors[low + 1][c] - from))
      : channels(NOTHING[theme]);
    for (let c = 0; c < 3; c++) out[4 * v + c] = colour[c];
    out[4 * v + 3] = 255;
  }
  return out;
}

export const isDark = () => document.body.classList.contains("dark");
