// The examples and every snippet of the documents, against the packages as they are built: types, and a bundle.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { snippets } from './snippets.mjs';

const root = '..';
// Inside this workspace, so that the packages are found as an app finds them.
const build = 'checked';
rmSync(build, { recursive: true, force: true });

/** What shows code. */
const documents = [
  ...readdirSync(`${root}/docs`)
    .filter((name) => name.startsWith('sdk-'))
    .map((name) => `docs/${name}`),
  ...['web', 'browser', 'react-native'].map((name) => `sdk/packages/${name}/README.md`),
  'README.md',
];

const run = (command, ...args) => execFileSync('npx', ['--no-install', command, ...args], { stdio: 'inherit' });

/** One program of types for each way to get at the SDK: modules import it, and scripts have what the script tag has made. */
const places = { modules: `${build}/snippets/modules`, scripts: `${build}/snippets/scripts` };
for (const place of Object.values(places)) mkdirSync(place, { recursive: true });
let count = 0;
const lay = (document, markdown) => {
  const found = snippets(markdown);
  // Each document about an SDK shows how it is used, or this looks in the wrong place.
  if (!found.length) throw new Error(`${document}: no snippets`);
  for (const { line, kind, text } of found) {
    const script = kind === 'html';
    writeFileSync(
      `${script ? places.scripts : places.modules}/${document.replace(/[^\w-]+/g, '_')}_${line}.${script ? 'ts' : kind}`,
      text,
    );
    count++;
  }
};
for (const document of documents) lay(document, readFileSync(`${root}/${document}`, 'utf8'));
lay('examples/plain', `\`\`\`html\n${readFileSync(`${root}/examples/plain/index.html`, 'utf8')}\n\`\`\``);

writeFileSync(`${places.scripts}/place.d.ts`, readFileSync('scripts/snippets.d.ts'));
writeFileSync(`${places.modules}/expo.d.ts`, readFileSync('scripts/expo.d.ts'));
for (const place of Object.values(places)) {
  writeFileSync(
    `${place}/tsconfig.json`,
    JSON.stringify({
      compilerOptions: {
        target: 'ES2022',
        module: 'ESNext',
        moduleResolution: 'Bundler',
        lib: ['ES2023', 'DOM', 'DOM.Iterable'],
        types: [],
        jsx: 'react-jsx',
        strict: true,
        // As an app has it, which has one version.
        paths: { '@react-navigation/native': ['../../../node_modules/react-navigation-7'] },
        skipLibCheck: true,
        noEmit: true,
      },
      include: ['.'],
    }),
  );
  run('tsc', '-p', place);
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
