// Prints what a program is made of, as CycloneDX 1.5: the crates that are compiled into it, and for the gateway what the
// dashboard's bundle is made of.
//
//   node sbom.mjs CRATE cargo-metadata.json Cargo.lock package-lock.json
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

const [crate, metadataFile, cargoLockFile, packageLockFile] = process.argv.slice(2);
const metadata = JSON.parse(readFileSync(metadataFile, 'utf8'));

/** `name version` to SHA-256, for what comes from a registry. */
function checksums(lock) {
  const field = (block, name) => block.match(new RegExp(`^${name} = "(.*)"$`, 'm'))?.[1];
  const blocks = lock.split('[[package]]').slice(1);
  return new Map(blocks.map((b) => [`${field(b, 'name')} ${field(b, 'version')}`, field(b, 'checksum')]));
}

/** The ids of all packages that are linked into one: what only builds or tests need is left out. */
function linked(root) {
  const nodes = new Map(metadata.resolve.nodes.map((node) => [node.id, node]));
  const [found, open] = [new Set([root]), [root]];
  while (open.length > 0) {
    for (const dependency of nodes.get(open.pop()).deps) {
      const isLinked = dependency.dep_kinds.some((kind) => kind.kind === null);
      if (isLinked && !found.has(dependency.pkg)) {
        found.add(dependency.pkg);
        open.push(dependency.pkg);
      }
    }
  }
  return found;
}

const licensed = (expression) => (expression ? { licenses: [{ expression }] } : {});

function crates(root) {
  const sums = checksums(readFileSync(cargoLockFile, 'utf8'));
  const ids = linked(root.id);
  const others = metadata.packages.filter((p) => ids.has(p.id) && p.id !== root.id);
  return others.map(({ name, version, license }) => {
    const purl = `pkg:cargo/${name}@${version}`;
    const sum = sums.get(`${name} ${version}`);
    const hashes = sum ? { hashes: [{ alg: 'SHA-256', content: sum }] } : {};
    // Older crates separate alternatives by a slash, which is no expression.
    return { type: 'library', 'bom-ref': purl, name, version, purl, ...licensed(license?.replaceAll('/', ' OR ')), ...hashes };
  });
}

function npmPackages() {
  const { packages } = JSON.parse(readFileSync(packageLockFile, 'utf8'));
  const bundled = Object.entries(packages).filter(([path, entry]) => path !== '' && !entry.dev && !entry.optional);
  return bundled.map(([path, { version, license, integrity }]) => {
    const name = path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
    const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
    const sum = integrity?.match(/^sha512-(.+)$/)?.[1];
    const hashes = sum ? { hashes: [{ alg: 'SHA-512', content: Buffer.from(sum, 'base64').toString('hex') }] } : {};
    return { type: 'library', 'bom-ref': purl, name, version, purl, ...licensed(license), ...hashes };
  });
}

const root = metadata.packages.find((p) => p.name === crate && metadata.workspace_members.includes(p.id));
if (!root) throw new Error(`the workspace has no crate ${crate}`);
const all = [...crates(root), ...(crate === 'gateway' ? npmPackages() : [])];
const components = [...new Map(all.map((c) => [c.purl, c])).values()].sort((a, b) => (a.purl < b.purl ? -1 : 1));

// The same parts have the same number.
const digest = createHash('sha256').update(JSON.stringify([crate, root.version, components])).digest('hex');
const serial = digest.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-5$3-8$4-$5');
const bom = {
  bomFormat: 'CycloneDX',
  specVersion: '1.5',
  serialNumber: `urn:uuid:${serial}`,
  version: 1,
  metadata: {
    component: { type: 'application', 'bom-ref': crate, name: crate, version: root.version, ...licensed(root.license) },
  },
  components,
};
console.log(JSON.stringify(bom, null, 1));
