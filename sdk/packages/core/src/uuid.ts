/**
 * Makes UUIDv7 (RFC 9562): time-ordered, and within a millisecond counted upwards, so that ids made by one page sort as they
 * were made and never repeat even where random numbers are poor.
 */
export function uuids(now: () => number, random: (bytes: Uint8Array) => void): () => string {
  let last = 0;
  let count = 0;
  return () => {
    const bytes = new Uint8Array(16);
    random(bytes);
    const time = Math.max(now(), last);
    // Twelve bits: after 4,096 in a millisecond the next one is borrowed.
    if (time > last) {
      last = time;
      count = ((bytes[6]! << 8) | bytes[7]!) & 0x3ff;
    } else if (++count > 0xfff) {
      last += 1;
      count = 0;
    }
    for (let i = 5, rest = last; i >= 0; i--, rest = Math.floor(rest / 256)) bytes[i] = rest % 256;
    bytes[6] = 0x70 | (count >> 8);
    bytes[7] = count & 0xff;
    bytes[8] = 0x80 | (bytes[8]! & 0x3f);
    const hex = bytes.reduce((text, byte) => text + (byte + 256).toString(16).slice(1), '');
    return hex.replace(/(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  };
}
