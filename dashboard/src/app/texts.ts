const QUOTED = /[",]|^\s|\s$|^$/;

/** Joins texts with commas; texts that contain a comma or a quote are quoted. */
export function formatList(texts: readonly string[]): string {
  return texts.map((text) => (QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(', ');
}

/** Parses what {@link formatList} writes; empty unquoted parts are dropped. */
export function parseList(line: string): string[] {
  const parts = line.match(/(?:"(?:[^"]|"")*"|[^,])+/g) ?? [];
  return parts
    .map((part) => part.trim())
    .filter(Boolean)
    .map((part) => (/^"(?:[^"]|"")*"$/.test(part) ? part.slice(1, -1).replaceAll('""', '"') : part));
}
