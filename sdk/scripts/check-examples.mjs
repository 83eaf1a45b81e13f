// Checks the examples and every snippet of the documents against the built packages: types, and a bundle.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { snippets } from './snippets.mjs';

const root = '..';
// Inside this workspace, so that packages are resolved as in an app.
const build = 'checked';
rmSync(build, { recursive: true, force: true });

/** Files with snippets. */
const documents = [
  ...readdirSync(`${root}/docs`)
    .filter((name) => name.startsWith('sdk-'))
    .map((name) => `docs/${name}`),
  ...['web', 'browser', 'react-native'].map((name) => `sdk/packages/${name}/README.md`),
  'README.md',
];

const run = (command, ...args) => execFileSync('npx', ['--no-install', command, ...args], { stdio: 'inherit' });

/** One TypeScript program per way to use the SDK: modules import it, scripts use the global of the script tag. */
const directories = { modules: `${build}/snippets/modules`, scripts: `${build}/snippets/scripts` };
for (const directory of Object.values(directories)) mkdirSync(directory, { recursive: true });
let count = 0;
const writeSnippets = (document, markdown) => {
  const found = snippets(markdown);
  // Every document has snippets; otherwise the path or the pattern is wrong.
  if (!found.length) throw new Error(`${document}: no snippets`);
  for (const { line, kind, text } of found) {
    const script = kind === 'html';
    writeFileSync(
      `${script ? directories.scripts : directories.modules}/${document.replace(/[^\w-]+/g, '_')}_${line}.${script ? 'ts' : kind}`,
      text,
    );
    count++;
  }
};
for (const document of documents) writeSnippets(document, readFileSync(`${root}/${document}`, 'utf8'));
writeSnippets('examples/plain', `\`\`\`html\n${readFileSync(`${root}/examples/plain/index.html`, 'utf8')}\n\`\`\``);

writeFileSync(`${directories.scripts}/browser.d.ts`, readFileSync('scripts/snippets.d.ts'));
writeFileSync(`${directories.modules}/expo.d.ts`, readFileSync('scripts/expo.d.ts'));
for (const directory of Object.values(directories)) {
  writeFileSync(
    `${directory}/tsconfig.json`,
    JSON.stringify({
      compilerOptions: {
        target: 'ES2022',
        module: 'ESNext',
        moduleResolution: 'Bundler',
        lib: ['ES2023', 'DOM', 'DOM.Iterable'],
        types: [],
        jsx: 'react-jsx',
        strict: true,
        // An app has one version.
        paths: { '@react-navigation/native': ['../../../node_modules/react-navigation-7'] },
        skipLibCheck: true,
        noEmit: true,
      },
      include: ['.'],
    }),
  );
  run('tsc', '-p', directory);
}

for (const name of ['vite-react', 'expo']) {
  cpSync(`${root}/examples/${name}`, `${build}/${name}`, {
    recursive: true,
    filter: (path) => !/(node_modules|dist|\.expo)$/.test(path),
  });
  if (name === 'expo') writeFileSync(`${build}/${name}/app/expo.d.ts`, readFileSync('scripts/expo.d.ts'));
  run('tsc', '-p', `${build}/${name}`);
}
run('vite', 'build', `${build}/vite-react`, '--logLevel', 'warn');
const files = readdirSync(`${build}/vite-react/dist`);
if (!files.includes('rekindle-sw.js')) throw new Error('the built shop has no service worker');
console.log(`examples: three, and ${count} snippets`);
