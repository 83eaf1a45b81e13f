import { mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Browser, type BrowserContext, type Locator, type Page, chromium } from 'playwright-core';
import { afterAll, beforeAll, expect, inject, vi } from 'vitest';

export const product = inject('product');

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const screenshots = fileURLToPath(new URL('screenshots', import.meta.url));
mkdirSync(screenshots, { recursive: true });

/** CPU slowdown factor for the pages' scripts, to find tests that check too early. */
const SLOWNESS = Number(process.env.E2E_SLOWNESS ?? 1);

let browser: Browser;

/** Starts a browser for the tests of a file. */
export function withBrowser(): void {
  beforeAll(async () => {
    browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox'],
    });
  });
  afterAll(async () => {
    await browser?.close();
  });
}

/** Errors reported by a browser: violations of the Content-Security-Policy, and uncaught errors. */
const browserErrors = new WeakMap<BrowserContext, string[]>();

export async function newContext(options: Parameters<Browser['newContext']>[0] = {}): Promise<BrowserContext> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: 'reduce',
    ...options,
  });
  context.setDefaultTimeout(30_000);
  if (SLOWNESS > 1) context.on('page', (page) => void slowDown(page));
  const errors: string[] = [];
  browserErrors.set(context, errors);
  context.on('console', (message) => {
    if (message.type() === 'error' && /Content Security Policy|Uncaught|React/.test(message.text()))
      errors.push(message.text());
  });
  context.on('weberror', (error) => errors.push(String(error.error())));
  return context;
}

async function slowDown(page: Page): Promise<void> {
  const devTools = await page.context().newCDPSession(page);
  await devTools.send('Emulation.setCPUThrottlingRate', { rate: SLOWNESS });
}

/** Fails if a page violated its policy or had an uncaught error. */
export function expectNoBrowserErrors(context: BrowserContext): void {
  expect(browserErrors.get(context)).toEqual([]);
}

export async function signIn(page: Page, email = product.email, password = product.password): Promise<void> {
  await page.goto(`${product.origin}/`);
  await page.getByLabel('Email').fill(email);
  await page.locator('input[name="password"]').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
}

/** Returns a browser context in which the admin is signed in. */
export async function adminContext(options: Parameters<Browser['newContext']>[0] = {}): Promise<BrowserContext> {
  const context = await newContext(options);
  const page = await context.newPage();
  await signIn(page);
  await page.close();
  return context;
}

/** Signs the admin in for all tests of a file, with one page. */
export function withAdmin(): { context: BrowserContext; page: Page } {
  withBrowser();
  const admin = {} as { context: BrowserContext; page: Page };
  beforeAll(async () => {
    admin.context = await adminContext();
    admin.page = await admin.context.newPage();
  });
  afterAll(async () => {
    await admin.context?.close();
  });
  return admin;
}

export function at(path: string): string {
  return `${product.origin}/p/${product.projectId}/${path}`;
}

/** Opens a screen by its URL and waits until it has loaded. */
export async function open(page: Page, path: string): Promise<void> {
  await page.goto(at(path));
  await settled(page);
}

export async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).first().waitFor();
  await page.waitForFunction(() => document.querySelector('[aria-busy="true"]') === null);
}

/** Saves a screenshot of the whole page, or of the visible part. */
export async function screenshot(page: Page, name: string, fullPage = true): Promise<void> {
  await page.screenshot({ path: join(screenshots, `${name}.png`), fullPage, animations: 'disabled' });
}

interface Violation {
  id: string;
  impact: string | null;
  nodes: Array<{ html: string; failureSummary?: string }>;
}

/** Switches the page to dark mode through the system setting. */
export async function turnDark(page: Page): Promise<void> {
  await page.emulateMedia({ colorScheme: 'dark' });
  // The page reacts to the change asynchronously.
  await page.waitForFunction(() => document.documentElement.dataset.mantineColorScheme === 'dark');
}

/** Fails on serious findings of axe-core. Transitions are ended first: contrast is undefined while colours change. */
export async function expectAccessible(page: Page, name: string): Promise<void> {
  await page.evaluate(async () => {
    const noTransitions = new CSSStyleSheet();
    noTransitions.replaceSync('*, *::before, *::after { transition: none !important; }');
    document.adoptedStyleSheets.push(noTransitions);
    const ending = document.getAnimations().filter(({ effect }) => effect?.getComputedTiming().endTime !== Infinity);
    await Promise.allSettled(ending.map(({ finished }) => finished));
  });
  const found = await page.evaluate<Violation[]>(`(async () => {
    const module = { exports: {} };
    ${axe};
    return (await window.axe.run(document, { resultTypes: ['violations'], iframes: false })).violations;
  })()`);
  const serious = found.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  expect(
    serious.map(
      ({ id, nodes }) =>
        `${name}: ${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary ?? ''}`).join('\n')}`,
    ),
  ).toEqual([]);
}

/** Calls the API with a key, by default with the secret key. */
export async function call<T>(method: string, path: string, body?: object, key = product.secretKey): Promise<T> {
  const answer = await fetch(`${product.origin}/api/v1${path}`, {
    method,
    headers: { 'x-api-key': key, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as T;
}

/** Presses a button that changes data; returns the status of the API's response. */
export async function press(page: Page, name: string): Promise<number> {
  // Previews and estimates are requested automatically.
  const changing = (request: { method(): string; url(): string }) =>
    ['POST', 'PUT', 'DELETE'].includes(request.method()) && !/\/(preview|estimate)$/.test(request.url());
  const [answer] = await Promise.all([
    page.waitForResponse((response) => changing(response.request())),
    page.getByRole('button', { name, exact: true }).click(),
  ]);
  return answer.status();
}

/** Returns the mails in the local mailbox that contain a text. */
export function mails(text: string, { mailDir } = product): string[] {
  return readdirSync(mailDir)
    .map((name) => readFileSync(join(mailDir, name), 'utf8'))
    .filter((mail) => mail.includes(text));
}

/** Returns the token from the invitation that was mailed to an address. */
export function invitationToken(address: string): Promise<string> {
  return eventually(() => {
    const [mail = ''] = mails(address).filter((text) => text.includes('accept-invite'));
    const token = /accept-invite\?token=([0-9a-f]{64})/.exec(
      mail.replaceAll(/=\r?\n/g, '').replaceAll('=3D', '='),
    )?.[1];
    if (token === undefined) throw new Error(`no invitation was mailed to ${address}`);
    return token;
  });
}

export function eventually<T>(check: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(check, { timeout: 30_000, interval: 50 });
}

// The page renders responses and input asynchronously, so these functions retry.

/** Waits until a field has a value. */
export function expectValue(field: Locator, value: string): Promise<void> {
  return eventually(async () => expect(await field.inputValue()).toBe(value));
}

/** Waits until a locator matches `count` elements. */
export function expectCount(locator: Locator, count: number): Promise<void> {
  return eventually(async () => expect(await locator.count()).toBe(count));
}

export function expectDisabled(control: Locator): Promise<void> {
  return eventually(async () => expect(await control.isDisabled()).toBe(true));
}

let names = 0;
/** Returns a unique name. */
export const unique = (name: string): string => `${name} ${Date.now().toString(36)}${names++}`;
