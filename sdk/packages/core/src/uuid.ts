/**
 * Makes UUIDv7 (RFC 9562): time-ordered, and within a millisecond counted upwards, so that ids made by one page sort as they
 * were made and never repeat even where random numbers are poor.
 */
export function uuids(now: () => number, random: (bytes: Uint8Array) => void): () => string {
  let last = 0;
  let count = 0;
  return () => {
    const bytes = new Uint8Array(10);
    random(bytes);
    const time = Math.max(now(), last);
    // Twelve bits: after 4,096 in a millisecond the next one is borrowed.
    if (time > last) {
      last = time;
      count = ((bytes[8]! << 8) | bytes[9]!) & 0x3ff;
    } else if (++count > 0xfff) {
      last += 1;
      count = 0;
    }
    bytes[0] = 0x80 | (bytes[0]! & 0x3f);
    const hex = bytes.reduce((text, byte) => text + (byte + 256).toString(16).slice(1), last.toString(16).padStart(12, '0') + (0x7000 + count).toString(16));
    return hex.slice(0, 32).replace(/(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  };
}
