// The binary packet: 24 bytes, little endian, then s16le samples (docs/protocol.md).

const HEADER_BYTES = 24;

/** Parse the header and samples of a packet; null for an unknown version or kind. */
export function parsePacket(buffer) {
  const view = new DataView(buffer);
  if (buffer.byteLength < HEADER_BYTES || view.getUint8(0) !== 1 || view.getUint8(1) !== 1) return null;
  return {
    utterance: view.getUint32(4, true),
    take: view.getUint32(8, true),
    seq: view.getUint32(12, true),
    first: Number(view.getBigUint64(16, true)),
    pcm: new Int16Array(buffer, HEADER_BYTES),
    buffer,
    offset: HEADER_BYTES,
  };
}

/** Milliseconds since 1970 on the monotonic clock shared by pages and Workers. */
export const now = () => performance.timeOrigin + performance.now();
