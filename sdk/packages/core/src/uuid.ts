/**
 * Creates UUIDv7 (RFC 9562) that count upwards within a millisecond. IDs of one page sort in their order of creation, and never
 * repeat even with poor random numbers.
 */
export function uuids(now: () => number, random: (bytes: Uint8Array) => void): () => string {
  // Random bytes are drawn for 40 IDs at a time and formatted with a table, to create thousands of IDs in one task without delay.
  const pool = new Uint8Array(400);
  const hex = Array.from({ length: 256 }, (_, byte) => (byte + 256).toString(16).slice(1));
  let next = pool.length;
  let last = 0;
  let count = 0;
  const byte = () => pool[next++]!;
  const text = (bytes: number) => {
    let result = '';
    while (bytes--) result += hex[byte()];
    return result;
  };
  return () => {
    if (next >= pool.length) random(pool);
    next %= pool.length;
    const time = Math.max(now(), last);
    const start = ((byte() << 8) | byte()) & 0x3ff;
    // The counter has twelve bits: after 4,096 IDs in a millisecond the next millisecond is used.
    if (time > last) {
      last = time;
      count = start;
    } else if (++count > 0xfff) {
      last += 1;
      count = 0;
    }
    const stamp = last.toString(16).padStart(12, '0');
    return `${stamp.slice(0, 8)}-${stamp.slice(8)}-${(0x7000 + count).toString(16)}-${hex[0x80 | (byte() & 0x3f)]}${text(1)}-${text(6)}`;
  };
}
