import type { Page } from 'playwright-core';
import { expect } from 'vitest';

/** Markup of many kinds at once, which would set a mark; each field has its own, so that what is drawn can be told apart. */
export const hostile = (field: string): string =>
  `${field}"'><img src=x onerror=window.broken="${field}"><svg onload=window.broken=1></title></textarea></script><script>window.broken=1</script>{{7*7}}`;
/** As short as names of events and people have to be. */
export const short = (field: string): string => `${field}"'><img src=x onerror=window.broken=1>`;

/** Looks at pages on which texts that are markup may have been taken for it, and keeps in mind which of them stood there as texts. */
export class Watch {
  readonly dialogs: string[] = [];
  readonly asText = new Set<string>();

  /** From now on a dialog that a script opens is noted. */
  over(page: Page): void {
    page.on('dialog', (dialog) => {
      this.dialogs.push(dialog.message());
      void dialog.dismiss();
    });
  }

  async look(page: Page, screen: string): Promise<void> {
    const found = await page.evaluate(() => ({
      broken: (window as unknown as { broken?: unknown }).broken ?? null,
      made: [...document.querySelectorAll('img[src="x"], svg[onload], [onerror]')].map((element) => element.outerHTML),
      shown: `${document.body.innerText}\n${[...document.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>('input, textarea')].map(({ value }) => value).join('\n')}`,
    }));
    expect({ screen, broken: found.broken, made: found.made }).toEqual({ screen, broken: null, made: [] });
    for (const [, field] of found.shown.matchAll(/([a-z-]+)\\?"'><img src=x/g)) if (field) this.asText.add(field);
  }

  /** No script ran, and each of these fields was seen. */
  expectTexts(fields: string[]): void {
    expect(this.dialogs).toEqual([]);
    expect([...this.asText].sort()).toEqual(expect.arrayContaining([...fields].sort()));
  }
}
