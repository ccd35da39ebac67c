#!/usr/bin/env node
// MiniZinc compiled to WebAssembly, as a command with MiniZinc's own arguments: a second, newer MiniZinc to check the
// models with where only an old one is installed. The npm package `minizinc` holds MiniZinc 2.10 with Gecode, Chuffed, HiGHS
// and COIN-BC inside; made for browsers, it runs in Node as well if given what a web worker has.
//
//     npm install minizinc
//     node scripts/minizinc-wasm.cjs --solver chuffed models/staged.mzn data.dzn
//     node scripts/minizinc-wasm.cjs -c --solver cp-sat.msc models/staged.mzn data.dzn --fzn staged.fzn
//
// The package is looked for in $MINIZINC_WASM (its folder, or its dist/), then in node_modules/ of this checkout.
//
// MiniZinc sees only files copied into its own file system, where they keep their places relative to each other:
//     a file among the arguments        is copied, with all .mzn files in its folder and below if it is a model
//     a .msc file after --solver        is copied, with the library that its "mznlib" names
//     a file that an option writes      is copied back
// There are no other processes in there: a solver outside can be compiled for (-c), not run.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

const ROOT = '/minizinc/'; // where the worker mounts the files it is given, and its working directory
const WRITING_OPTIONS = new Set([
  '--fzn', '--output-fzn-to-file', '--ozn', '--output-ozn-to-file', '-o', '--output-to-file',
]);

function packageFolder() {
  const places = [process.env.MINIZINC_WASM, path.join(__dirname, '..', 'node_modules', 'minizinc')].filter(Boolean);
  const folders = places.flatMap(place => [path.join(place, 'dist'), place]);
  const found = folders.find(folder => fs.existsSync(path.join(folder, 'minizinc-worker.js')));
  if (!found) {
    console.error(`the npm package minizinc is not in ${places.join(' or ')}: npm install minizinc, or set MINIZINC_WASM`);
    process.exit(1);
  }
  return found;
}

/** Name of a file of this machine inside: its absolute path, below ROOT. */
const inside = file => path.resolve(file).split(path.sep).filter(Boolean).join('/').replace(':', '');

/** The files to copy in and out, and the arguments with the names they have inside. */
class Luggage {
  files = {}; // name inside: text
  outputs = {}; // name inside: path on this machine

  pack(file) {
    this.files[inside(file)] = fs.readFileSync(file, 'utf8');
  }

  packModels(folder) {
    for (const entry of fs.readdirSync(folder, {withFileTypes: true})) {
      const file = path.join(folder, entry.name);
      if (entry.isDirectory() && !entry.name.startsWith('.') && entry.name !== 'node_modules') this.packModels(file);
      else if (entry.isFile() && entry.name.endsWith('.mzn')) this.pack(file);
    }
  }

  packSolver(file) {
    const solver = JSON.parse(fs.readFileSync(file, 'utf8'));
    if (solver.mznlib && !solver.mznlib.startsWith('-G')) {
      const library = path.resolve(path.dirname(file), solver.mznlib);
      this.packModels(library);
      solver.mznlib = ROOT + inside(library);
    }
    this.files[inside(file)] = JSON.stringify(solver);
  }

  argument(text, previous) {
    if (WRITING_OPTIONS.has(previous)) {
      this.outputs[inside(text)] = path.resolve(text);
      this.files[inside(text)] = ''; // makes the folder
      return inside(text);
    }
    if (!fs.existsSync(text) || !fs.statSync(text).isFile()) return text;
    if (text.endsWith('.msc')) this.packSolver(text);
    else if (text.endsWith('.mzn')) this.packModels(path.dirname(text));
    else this.pack(text);
    return inside(text);
  }
}

/** Start the package's web worker in a context that looks like one; resolves to a function that runs MiniZinc once. */
async function startWorker(folder) {
  const read = url => fs.readFileSync(path.join(folder, path.basename(new URL(url).pathname)));
  const waiting = {};
  const next = type => new Promise(resolve => (waiting[type] = resolve));
  let listener;
  const context = {
    console, performance, setTimeout, clearTimeout, setInterval, clearInterval, URL, TextDecoder, TextEncoder,
    WebAssembly, Response, Uint8Array, ArrayBuffer, crypto: globalThis.crypto, navigator: {},
    importScripts() {}, // by its presence the worker knows that it is one
    WorkerGlobalScope: function WorkerGlobalScope() {},
    location: new URL('http://localhost/minizinc-worker.js'),
    addEventListener: (type, call) => (listener = call),
    postMessage: message => (waiting[message.type] ?? show)(message),
    fetch: async url => {
      const type = String(url).endsWith('.wasm') ? 'application/wasm' : 'application/octet-stream';
      return new Response(read(url), {headers: {'content-type': type}});
    },
  };
  context.self = context.globalThis = context;
  vm.runInContext(read('http://localhost/minizinc-worker.js').toString(), vm.createContext(context));

  const ready = next('ready');
  listener({data: {wasmURL: 'http://localhost/minizinc.wasm', dataURL: 'http://localhost/minizinc.data'}});
  await ready;
  return data => {
    const exit = next('exit');
    listener({data});
    return exit;
  };
}

/** What the worker says while MiniZinc runs: text, or with --json-stream objects, one a line. */
function show(message) {
  if (message.type === 'stderr') fs.writeSync(2, message.value);
  else fs.writeSync(1, message.type === 'stdout' ? message.value : `${JSON.stringify(message)}\n`);
}

async function main(given) {
  const luggage = new Luggage();
  const args = given.map((text, i) => luggage.argument(text, given[i - 1]));
  const run = await startWorker(packageFolder());
  const end = await run({
    args: args.filter(text => text !== '--json-stream'), // the worker adds it itself
    files: luggage.files,
    outputFiles: Object.keys(luggage.outputs),
    jsonStream: args.includes('--json-stream'),
  });
  if (end.stdout) fs.writeSync(1, end.stdout);
  if (end.stderr ?? end.message) fs.writeSync(2, end.stderr ?? `${end.message}\n`);
  for (const [name, target] of Object.entries(luggage.outputs)) {
    if (end.outputFiles?.[name]) fs.writeFileSync(target, end.outputFiles[name]);
  }
  process.exit(end.code);
}

main(process.argv.slice(2));
