const QUOTED = /[",]|^\s|\s$|^$/;

/** Texts in one line, with commas between; in quotes where one holds a comma itself. */
export function listed(texts: readonly string[]): string {
  return texts.map((text) => (QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(', ');
}

/** The texts of a line as {@link listed} writes it; what is empty and in no quotes is none. */
export function readList(line: string): string[] {
  const parts = line.match(/(?:"(?:[^"]|"")*"|[^,])+/g) ?? [];
  return parts
    .map((part) => part.trim())
    .filter(Boolean)
    .map((part) => (/^"(?:[^"]|"")*"$/.test(part) ? part.slice(1, -1).replaceAll('""', '"') : part));
}
