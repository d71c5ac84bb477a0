// Builds the static files of the package: hashed names, compressed bytes, the manifest, licences, and the budgets of size.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const HERE = import.meta.dirname;
const OUT = join(HERE, '..', 'app', 'api', 'dashboard', 'static');
const MEDIA_TYPES = { '.js': 'text/javascript', '.css': 'text/css', '.woff2': 'font/woff2', '.html': 'text/html', '.txt': 'text/plain', '.svg': 'image/svg+xml' };
// Of compressed bytes (gzip). The tests hold them, too.
const FIRST_SCRIPT_BYTES = 60_000, ALL_SCRIPT_BYTES = 150_000, STYLE_BYTES = 30_000;
const PACKAGES = ['preact', '@preact/signals', '@preact/signals-core', '@fontsource-variable/inter'];

const result = await build({
  absWorkingDir: HERE,
  entryPoints: { app: 'src/main.tsx', reference: 'src/reference/main.tsx', style: 'src/style/index.css' },
  bundle: true,
  minify: true,
  splitting: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  charset: 'utf8',
  legalComments: 'none',
  outdir: OUT,
  entryNames: '[name]-[hash]',
  chunkNames: 'part-[hash]',
  assetNames: '[name]-[hash]',
  loader: { '.woff2': 'file' },
  metafile: true,
  write: false,
  logLevel: 'warning',
});

const files = new Map(result.outputFiles.map((file) => [basename(file.path), Buffer.from(file.contents)]));
const outputs = Object.fromEntries(Object.entries(result.metafile.outputs).map(([path, output]) => [basename(path), output]));
const script = [...files.keys()].find((name) => name.startsWith('app-') && name.endsWith('.js'));
const style = [...files.keys()].find((name) => name.startsWith('style-') && name.endsWith('.css'));
const first = withImports([script, style]);
const reference = withImports([...files.keys()].filter((name) => (name.startsWith('reference-') && name.endsWith('.js')) || name === style || name.endsWith('.woff2')));
reference.add('icon.svg');

files.set('icon.svg', Buffer.from(readFileSync(join(HERE, 'src', 'icon.svg'))));
files.set('licences.txt', Buffer.from(PACKAGES.map((name) => `${name}\n\n${licenceOf(name)}\n`).join(`\n${'-'.repeat(80)}\n\n`)));
files.set('index.html', Buffer.from(page()));

const manifest = { sources: sourceHash(), files: {} };
const written = new Map();
for (const name of [...files.keys()].sort()) {
  const content = files.get(name), isText = extname(name) !== '.woff2';
  const compressed = isText ? gzipSync(content, { level: 9 }) : null;
  manifest.files[name] = { media_type: MEDIA_TYPES[extname(name)], bytes: content.length, gzip_bytes: compressed?.length ?? null, first: first.has(name), reference: reference.has(name) };
  if (!compressed) written.set(name, content);
  else {
    written.set(`${name}.gz`, compressed);
    written.set(`${name}.br`, brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length } }));
  }
}
written.set('manifest.json', Buffer.from(JSON.stringify(manifest, null, 1) + '\n'));

const size = (wanted) => Object.entries(manifest.files).filter(([name, file]) => wanted(name, file)).reduce((sum, [, file]) => sum + file.gzip_bytes, 0);
const firstScript = size((name, file) => name.endsWith('.js') && file.first), allScript = size((name) => name.endsWith('.js')), styles = size((name) => name.endsWith('.css'));
console.log(`script ${firstScript} bytes for the first screen, ${allScript} in all; style ${styles} (gzip)`);
if (firstScript > FIRST_SCRIPT_BYTES || allScript > ALL_SCRIPT_BYTES || styles > STYLE_BYTES) {
  console.error(`Too large: at most ${FIRST_SCRIPT_BYTES}, ${ALL_SCRIPT_BYTES} and ${STYLE_BYTES}.`);
  process.exit(1);
}

rmSync(OUT, { recursive: true, force: true });
mkdirSync(OUT, { recursive: true });
for (const [name, content] of written) writeFileSync(join(OUT, name), content);

function withImports(names) {
  const found = new Set(names);
  // A set may grow while it is walked: so imports of imports are found, too.
  for (const name of found) for (const each of outputs[name]?.imports ?? []) if (each.kind === 'import-statement') found.add(basename(each.path));
  return found;
}

function page() {
  const parts = [...first].filter((name) => name.endsWith('.js') && name !== script);
  const font = [...files.keys()].find((name) => name.endsWith('.woff2'));
  return [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    '<title>Narthex</title>',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<link rel="icon" href="/dashboard/static/icon.svg" type="image/svg+xml">',
    `<link rel="stylesheet" href="/dashboard/static/${style}">`,
    `<link rel="preload" href="/dashboard/static/${font}" as="font" type="font/woff2" crossorigin fetchpriority="low">`, // after the script and the style, which the first content needs
    ...parts.map((name) => `<link rel="modulepreload" href="/dashboard/static/${name}">`),
    `<script type="module" src="/dashboard/static/${script}"></script>`,
    '</head>',
    '<body><div id="app"></div><noscript>The dashboard needs JavaScript. The admin API, /docs and the commands do not.</noscript></body>',
    '</html>',
    '',
  ].join('\n');
}

function licenceOf(name) {
  const folder = join(HERE, 'node_modules', name), file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  return file ? readFileSync(join(folder, file), 'utf8').trim() : `licence: ${JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).license}`;
}

// The same as source_hash() of check_build.py: names, lengths and contents, in the order of names.
function sourceHash() {
  const hash = createHash('sha256'), names = [];
  const walk = (folder) => {
    for (const each of readdirSync(join(HERE, folder))) {
      const path = folder ? `${folder}/${each}` : each;
      if (statSync(join(HERE, path)).isDirectory()) walk(path);
      else names.push(path);
    }
  };
  walk('src');
  names.push('build.mjs', 'package.json', 'package-lock.json', 'tsconfig.json');
  for (const name of names.sort()) {
    const content = readFileSync(join(HERE, name));
    hash.update(`${name}\n${content.length}\n`).update(content);
  }
  return hash.digest('hex');
}
