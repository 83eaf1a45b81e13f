/** Query parameters of a URL. They are untrusted input, so every value is validated. */
type Raw = Record<string, unknown>;

export function textParam(raw: Raw, name: string): string | undefined {
  const value = raw[name];
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return typeof value === 'string' && value !== '' ? value.slice(0, 300) : undefined;
}

export function enumParam<T extends string>(raw: Raw, name: string, allowed: readonly T[]): T | undefined {
  return allowed.find((each) => each === raw[name]);
}

export function pageParam(raw: Raw): number | undefined {
  const value = Number(raw.page);
  return Number.isInteger(value) && value > 1 && value <= 10_000 ? value : undefined;
}
