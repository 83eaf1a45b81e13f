'use strict';

const input = document.querySelector('.search input');
const results = document.querySelector('.search ol');
const MAX_RESULTS = 20;
const EXCERPT_CHARACTERS = 140;

/** The index, fetched when the search is used for the first time. */
let index;

const loadIndex = async () => {
  const response = await fetch('/docs/search.json');
  if (!response.ok) throw new Error(`the search index could not be loaded: ${response.status}`);
  const entries = await response.json();
  return entries.map((entry) => ({
    ...entry,
    lower: { page: entry.page.toLowerCase(), heading: entry.heading.toLowerCase(), text: entry.text.toLowerCase() },
  }));
};

/** Every word has to occur; words in titles and headings count more than words in the text. */
const score = ({ lower }, words) => {
  let total = 0;
  for (const word of words) {
    const found = (lower.page.includes(word) ? 6 : 0) + (lower.heading.includes(word) ? 10 : 0) + (lower.text.includes(word) ? 1 : 0);
    if (found === 0) return 0;
    total += found;
  }
  return total;
};

/** Text with each occurrence of a word marked. */
const marked = (text, words) => {
  const lower = text.toLowerCase();
  const fragment = document.createDocumentFragment();
  let from = 0;
  while (from < text.length) {
    const next = words
      .map((word) => ({ at: lower.indexOf(word, from), length: word.length }))
      .filter(({ at }) => at >= 0)
      .sort((a, b) => a.at - b.at)[0];
    if (!next) break;
    fragment.append(text.slice(from, next.at));
    const mark = document.createElement('mark');
    mark.textContent = text.slice(next.at, next.at + next.length);
    fragment.append(mark);
    from = next.at + next.length;
  }
  fragment.append(text.slice(from));
  return fragment;
};

const excerpt = ({ text, lower }, words) => {
  const first = Math.max(0, Math.min(...words.map((word) => lower.text.indexOf(word)).filter((at) => at >= 0), text.length));
  const from = first === text.length ? 0 : Math.max(0, first - 40);
  return (from > 0 ? '…' : '') + text.slice(from, from + EXCERPT_CHARACTERS) + (from + EXCERPT_CHARACTERS < text.length ? '…' : '');
};

const show = (items) => {
  results.replaceChildren(...items);
  results.hidden = items.length === 0;
};

const notice = (text) => {
  const item = document.createElement('li');
  item.className = 'empty';
  item.textContent = text;
  return item;
};

const search = async () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return show([]);
  try {
    index ??= loadIndex();
    const entries = await index;
    const found = entries
      .map((entry) => ({ entry, points: score(entry, words) }))
      .filter(({ points }) => points > 0)
      .sort((a, b) => b.points - a.points)
      .slice(0, MAX_RESULTS);
    if (found.length === 0) return show([notice(`No page contains “${input.value.trim()}”.`)]);
    show(
      found.map(({ entry }) => {
        const link = document.createElement('a');
        link.href = entry.url;
        const title = document.createElement('strong');
        title.append(marked(entry.heading === entry.page ? entry.page : `${entry.page} › ${entry.heading}`, words));
        const text = document.createElement('span');
        text.append(marked(excerpt(entry, words), words));
        link.append(title, text);
        const item = document.createElement('li');
        item.append(link);
        return item;
      }),
    );
  } catch (error) {
    index = undefined;
    show([notice(String(error.message ?? error))]);
  }
};

const move = (step) => {
  const links = [...results.querySelectorAll('a')];
  const next = links.indexOf(document.activeElement) + step;
  if (next < 0) input.focus();
  else links[Math.min(next, links.length - 1)]?.focus();
};

input.hidden = false;
input.addEventListener('input', search);
input.parentElement.addEventListener('keydown', (event) => {
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    event.preventDefault();
    move(event.key === 'ArrowDown' ? 1 : -1);
  } else if (event.key === 'Enter' && event.target === input) {
    results.querySelector('a')?.click();
  } else if (event.key === 'Escape') {
    input.value = '';
    show([]);
    input.focus();
  }
});
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && !event.ctrlKey && !event.metaKey && document.activeElement !== input) {
    event.preventDefault();
    input.focus();
  }
});
document.addEventListener('click', (event) => {
  if (!input.parentElement.contains(event.target)) results.hidden = true;
  else if (event.target === input && results.children.length > 0) results.hidden = false;
});

if (navigator.clipboard) {
  for (const block of document.querySelectorAll('main pre')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Copy';
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(block.querySelector('code').textContent);
      button.textContent = 'Copied';
      setTimeout(() => (button.textContent = 'Copy'), 1500);
    });
    block.append(button);
  }
}
document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest' });
