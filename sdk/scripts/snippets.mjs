/**
 * Returns the code of a Markdown document: its TypeScript blocks, and the scripts in its HTML blocks with kind `html`. Each is a
 * separate module with the line of the document where it starts.
 */
export function snippets(markdown) {
  const found = [];
  for (const block of markdown.matchAll(/^```(ts|tsx|html)\n([^]*?)^```$/gm)) {
    const [, kind, text] = block;
    const line = (offset) => markdown.slice(0, block.index + offset).split('\n').length + 1;
    if (kind !== 'html') found.push({ line: line(0), kind, text: `${text}\nexport {};\n` });
    else
      for (const script of text.matchAll(/<script>([^]*?)<\/script>/g)) {
        found.push({ line: line(script.index), kind, text: `${script[1]}\nexport {};\n` });
      }
  }
  return found;
}
