import type { Page } from 'playwright-core';
import { expect } from 'vitest';

/** Several kinds of markup that would set `window.broken`. Each field has its own text, so that shown texts can be distinguished. */
export const hostile = (field: string): string =>
  `${field}"'><img src=x onerror=window.broken="${field}"><svg onload=window.broken=1></title></textarea></script><script>window.broken=1</script>{{7*7}}`;
/** A shorter text, for event names and user IDs. */
export const short = (field: string): string => `${field}"'><img src=x onerror=window.broken=1>`;

/** Checks pages for texts that were rendered as markup, and records which of the texts were shown as text. */
export class MarkupWatch {
  readonly dialogs: string[] = [];
  readonly asText = new Set<string>();

  /** Records every dialog that a script opens from now on. */
  watchDialogs(page: Page): void {
    page.on('dialog', (dialog) => {
      this.dialogs.push(dialog.message());
      void dialog.dismiss();
    });
  }

  async check(page: Page, screen: string): Promise<void> {
    const found = await page.evaluate(() => ({
      broken: (window as unknown as { broken?: unknown }).broken ?? null,
      injected: [...document.querySelectorAll('img[src="x"], svg[onload], [onerror]')].map(
        (element) => element.outerHTML,
      ),
      shown: `${document.body.innerText}\n${[...document.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>('input, textarea')].map(({ value }) => value).join('\n')}`,
    }));
    expect({ screen, broken: found.broken, injected: found.injected }).toEqual({ screen, broken: null, injected: [] });
    for (const [, field] of found.shown.matchAll(/([a-z-]+)\\?"'><img src=x/g)) if (field) this.asText.add(field);
  }

  /** No script ran, and the text of each field was shown. */
  expectTexts(fields: string[]): void {
    expect(this.dialogs).toEqual([]);
    expect([...this.asText].sort()).toEqual(expect.arrayContaining([...fields].sort()));
  }
}
