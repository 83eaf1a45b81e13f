import { mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Browser, type BrowserContext, type Locator, type Page, chromium } from 'playwright-core';
import { afterAll, beforeAll, expect, inject, vi } from 'vitest';

export const product = inject('product');

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const pictures = fileURLToPath(new URL('screenshots', import.meta.url));
mkdirSync(pictures, { recursive: true });

/** How many times slower the pages' scripts run than they could: what looks too early is found by it. */
const SLOWNESS = Number(process.env.E2E_SLOWNESS ?? 1);

let browser: Browser;

/** A browser for the tests of a file. */
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

/** What a browser complained of: what the policy of a page forbade, and what a script did not catch. */
const complaints = new WeakMap<BrowserContext, string[]>();

export async function newContext(options: Parameters<Browser['newContext']>[0] = {}): Promise<BrowserContext> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: 'reduce',
    ...options,
  });
  context.setDefaultTimeout(30_000);
  if (SLOWNESS > 1) context.on('page', (page) => void slowDown(page));
  const heard: string[] = [];
  complaints.set(context, heard);
  context.on('console', (message) => {
    if (message.type() === 'error' && /Content Security Policy|Uncaught|React/.test(message.text()))
      heard.push(message.text());
  });
  context.on('weberror', (error) => heard.push(String(error.error())));
  return context;
}

async function slowDown(page: Page): Promise<void> {
  const devTools = await page.context().newCDPSession(page);
  await devTools.send('Emulation.setCPUThrottlingRate', { rate: SLOWNESS });
}

/** Nothing was forbidden by a page's policy, and no error went uncaught. */
export function expectNoComplaints(context: BrowserContext): void {
  expect(complaints.get(context)).toEqual([]);
}

export async function signIn(page: Page, email = product.email, password = product.password): Promise<void> {
  await page.goto(`${product.origin}/`);
  await page.getByLabel('Email').fill(email);
  await page.locator('input[name="password"]').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
}

/** A context with the admin signed in. */
export async function adminContext(options: Parameters<Browser['newContext']>[0] = {}): Promise<BrowserContext> {
  const context = await newContext(options);
  const page = await context.newPage();
  await signIn(page);
  await page.close();
  return context;
}

/** The admin, signed in for all tests of a file, and a page of theirs. */
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

/** Goes to a screen by its address, and waits until what it shows is there. */
export async function open(page: Page, path: string): Promise<void> {
  await page.goto(at(path));
  await settled(page);
}

export async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).first().waitFor();
  await page.waitForFunction(() => document.querySelector('[aria-busy="true"]') === null);
}

/** Of the whole page, or of what is seen of it. */
export async function picture(page: Page, name: string, fullPage = true): Promise<void> {
  await page.screenshot({ path: join(pictures, `${name}.png`), fullPage, animations: 'disabled' });
}

interface Violation {
  id: string;
  impact: string | null;
  nodes: Array<{ html: string; failureSummary?: string }>;
}

/** The page as one sees it whose system is dark. */
export async function turnDark(page: Page): Promise<void> {
  await page.emulateMedia({ colorScheme: 'dark' });
  // The page hears of it later than this.
  await page.waitForFunction(() => document.documentElement.dataset.mantineColorScheme === 'dark');
}

/** No serious finding of axe-core on what is shown, once it is what it comes to: a colour on its way to another is neither. */
export async function expectAccessible(page: Page, name: string): Promise<void> {
  await page.evaluate(async () => {
    const still = new CSSStyleSheet();
    still.replaceSync('*, *::before, *::after { transition: none !important; }');
    document.adoptedStyleSheets.push(still);
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

/** A call of the API, as a server would make it, or whoever has the key. */
export async function call<T>(method: string, path: string, body?: object, key = product.secretKey): Promise<T> {
  const answer = await fetch(`${product.origin}/api/v1${path}`, {
    method,
    headers: { 'x-api-key': key, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as T;
}

/** Presses a button that changes something; returns the status that the API answers. */
export async function press(page: Page, name: string): Promise<number> {
  // Previews and estimates are asked for by themselves.
  const changing = (request: { method(): string; url(): string }) =>
    ['POST', 'PUT', 'DELETE'].includes(request.method()) && !/\/(preview|estimate)$/.test(request.url());
  const [answer] = await Promise.all([
    page.waitForResponse((response) => changing(response.request())),
    page.getByRole('button', { name, exact: true }).click(),
  ]);
  return answer.status();
}

/** The mails in a local mailbox that hold a text. */
export function mails(text: string, { mailDir } = product): string[] {
  return readdirSync(mailDir)
    .map((name) => readFileSync(join(mailDir, name), 'utf8'))
    .filter((mail) => mail.includes(text));
}

/** The token of the link in the invitation that was mailed to an address. */
export function invitationOf(address: string): Promise<string> {
  return eventually(() => {
    const [mail = ''] = mails(address).filter((text) => text.includes('accept-invite'));
    const token = /accept-invite\?token=([0-9a-f]{64})/.exec(
      mail.replaceAll(/=\r?\n/g, '').replaceAll('=3D', '='),
    )?.[1];
    if (token === undefined) throw new Error(`no invitation to ${address} was mailed`);
    return token;
  });
}

export function eventually<T>(look: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(look, { timeout: 30_000, interval: 50 });
}

// What was answered, or pressed, is drawn a moment later: none of these looks only once.

/** A field holds a value. */
export function expectValue(field: Locator, value: string): Promise<void> {
  return eventually(async () => expect(await field.inputValue()).toBe(value));
}

/** So many of it are there. */
export function expectCount(of: Locator, count: number): Promise<void> {
  return eventually(async () => expect(await of.count()).toBe(count));
}

export function expectDisabled(control: Locator): Promise<void> {
  return eventually(async () => expect(await control.isDisabled()).toBe(true));
}

let names = 0;
/** A name that nobody else has. */
export const unique = (name: string): string => `${name} ${Date.now().toString(36)}${names++}`;
