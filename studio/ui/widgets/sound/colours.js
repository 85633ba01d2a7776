// Colour maps that read the same to colour-blind eyes: cividis in the dark, its blues on paper in the light.

const DARK = ["12161d", "0b2350", "2c3e70", "52597a", "76757b", "999072", "beac62", "e4cb4c", "ffea80"];
const LIGHT = ["fbfaf7", "e3e8ee", "bfd0e2", "93b4d4", "6496c3", "3a75ae", "1d5590", "113a6b", "081f40"];

const channels = (hex) => [0, 2, 4].map((k) => parseInt(hex.slice(k, k + 2), 16));

/** 256 RGBA colours as one Uint8ClampedArray [1024]. */
export function palette(isDark) {
  const anchors = (isDark ? DARK : LIGHT).map(channels);
  const out = new Uint8ClampedArray(1024);
  for (let v = 0; v < 256; v++) {
    const place = (v / 255) * (anchors.length - 1);
    const low = Math.min(anchors.length - 2, Math.floor(place));
    for (let c = 0; c < 3; c++) out[4 * v + c] = anchors[low][c] + (place - low) * (anchors[low + 1][c] - anchors[low][c]);
    out[4 * v + 3] = 255;
  }
  return out;
}

export const isDark = () => document.body.classList.contains("dark");
