/**
 * Makes UUIDv7 (RFC 9562): time-ordered, and within a millisecond counted upwards, so that ids made by one page sort as they
 * were made and never repeat even where random numbers are poor.
 */
export function uuids(now: () => number, random: (bytes: Uint8Array) => void): () => string {
  // Drawn for 40 ids at a time, and written by a table: thousands of ids in one task must not be felt.
  const pool = new Uint8Array(400);
  const hex = Array.from({ length: 256 }, (_, byte) => (byte + 256).toString(16).slice(1));
  let next = pool.length;
  let last = 0;
  let count = 0;
  const byte = () => pool[next++]!;
  const text = (bytes: number) => {
    let made = '';
    while (bytes--) made += hex[byte()];
    return made;
  };
  return () => {
    if (next >= pool.length) random(pool);
    next %= pool.length;
    const time = Math.max(now(), last);
    const begin = ((byte() << 8) | byte()) & 0x3ff;
    // Twelve bits: after 4,096 in a millisecond the next one is borrowed.
    if (time > last) {
      last = time;
      count = begin;
    } else if (++count > 0xfff) {
      last += 1;
      count = 0;
    }
    const stamp = last.toString(16).padStart(12, '0');
    return `${stamp.slice(0, 8)}-${stamp.slice(8)}-${(0x7000 + count).toString(16)}-${hex[0x80 | (byte() & 0x3f)]}${text(1)}-${text(6)}`;
  };
}
