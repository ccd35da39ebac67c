#!/usr/bin/env node
// MiniZinc compiled to WebAssembly, as a command with MiniZinc's own arguments: more solvers where only a few are
// installed. The npm package `minizinc` holds MiniZinc 2.10 with Gecode, Chuffed, HiGHS and COIN-BC inside; made for
// browsers, it runs in Node as well if given what a web worker has. scripts/install_solvers.sh installs both.
//
//     node scripts/minizinc-wasm.cjs --solver chuffed models/staged.mzn data.dzn
//     node scripts/minizinc-wasm.cjs -c --solver cp-sat.msc models/staged.mzn data.dzn --fzn staged.fzn
//
// The package is looked for in $MINIZINC_WASM (its folder, or its dist/), then in node_modules/ beside this file and above.
//
// MiniZinc sees only files copied into its own file system, where they keep their places relative to each other:
//     a file among the arguments        is copied, a model with all that it includes
//     a folder after -I                 is copied, its .mzn files
//     a .msc file after --solver        is copied, with the library that its "mznlib" names
//     a .mpc file                       is copied, with the files that it names
//     a file that an option writes      is copied back
// There are no other processes in there: a solver outside can be compiled for (-c), not run. Neither is there stdin.
//
// MiniZinc runs in a thread. This one ends the process at once on a signal, when its parent has died, and when MiniZinc
// overruns its time limit. With --json-stream solutions are told as they come, otherwise at the end.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const v8 = require('node:v8');
const vm = require('node:vm');
const {Worker, isMainThread, parentPort, workerData} = require('node:worker_threads');

const ROOT = '/minizinc/'; // where the package mounts the files it is given, and its working directory
const HERE = 'http://localhost/'; // where it believes its own files to be
const WRITING_OPTIONS = new Set([
  '--fzn', '--output-fzn-to-file', '--ozn', '--output-ozn-to-file', '--output-paths-to-file', '-o', '--output-to-file',
]);
const FOLDER_OPTIONS = new Set(['-I', '--search-dir']);
const INCLUDE = /\binclude\s*"([^"\\]+)"/g;
const STACK_MIB = 64; // models with long chains of calls need more than a thread's usual 4
const GRACE_MS = 1000; // that MiniZinc may take to end after its time limit, as the native one gives its solvers
const PARENT_MS = 500; // how often this process looks whether its parent lives
const NOT_SOLVING = ['-c', '--compile', '--model-interface-only', '--model-check-only', '-e', '--version', '--solvers-json'];
const KEPT = {'--version': 'version.txt', '--solvers-json': 'solvers.json'}; // answers kept beside this file

function packageFolder() {
  const installed = [__dirname, path.join(__dirname, '..')].map(folder => path.join(folder, 'node_modules', 'minizinc'));
  const places = process.env.MINIZINC_WASM ? [process.env.MINIZINC_WASM] : installed;
  const folders = places.flatMap(place => [path.join(place, 'dist'), place]);
  const found = folders.find(folder => fs.existsSync(path.join(folder, 'minizinc-worker.js')));
  if (!found) fail(`the npm package minizinc is not in ${places.join(' or ')}: sh scripts/install_solvers.sh installs it`);
  return found;
}

/** Write all of a text, whatever the pipe takes at once; nobody reading any more ends the process. */
function write(descriptor, text) {
  let bytes = Buffer.from(text);
  while (bytes.length) {
    try {
      bytes = bytes.subarray(fs.writeSync(descriptor, bytes));
    } catch (error) {
      if (error.code !== 'EAGAIN') process.exit(1);
    }
  }
}

function fail(message) {
  write(2, `${message}\n`);
  process.exit(1);
}

/** Name of a file of this machine inside, below ROOT: its absolute path, written as the package will write it. */
function inside(file) {
  const name = path.resolve(file).split(path.sep).filter(Boolean).join('/').replace(':', '');
  return new URL(`file://${ROOT}${name}`).href.slice(`file://${ROOT}`.length);
}

/** Places of this machine in a text that names them as they are inside. */
const outside = text => (path.sep === '/' ? text.replaceAll(ROOT, '/') : text.replaceAll(ROOT, ''));

const isFile = file => fs.existsSync(file) && fs.statSync(file).isFile();

/** The files to copy in and out, and the arguments with the names they have inside. */
class Luggage {
  files = {}; // name inside: text
  outputs = {}; // name inside: path on this machine

  pack(file, text = fs.readFileSync(file, 'utf8')) {
    this.files[inside(file)] = text;
    return text;
  }

  /** A model and what it includes, as far as that is no file of MiniZinc's own. */
  packModel(file) {
    if (inside(file) in this.files) return;
    for (const [, name] of this.pack(file).matchAll(INCLUDE)) {
      const included = path.resolve(path.dirname(file), name);
      if (isFile(included)) this.packModel(included);
    }
  }

  /** All models in a folder and below. */
  packFolder(folder) {
    for (const entry of fs.readdirSync(folder, {withFileTypes: true})) {
      const file = path.join(folder, entry.name);
      if (entry.isDirectory() && !entry.name.startsWith('.') && entry.name !== 'node_modules') this.packFolder(file);
      else if (entry.isFile() && entry.name.endsWith('.mzn')) this.packModel(file);
    }
  }

  packSolver(file) {
    const solver = JSON.parse(fs.readFileSync(file, 'utf8'));
    if (solver.mznlib && !solver.mznlib.startsWith('-G')) {
      const library = path.resolve(path.dirname(file), solver.mznlib);
      this.packFolder(library);
      solver.mznlib = ROOT + inside(library);
    }
    this.pack(file, JSON.stringify(solver));
  }

  /** A parameter file: options and their values, paths in it relative to its folder. */
  packParameters(file) {
    const translated = (value, option) => {
      if (Array.isArray(value)) return value.map(item => translated(item, option));
      return typeof value === 'string' ? this.argument(value, option, path.dirname(file)) : value;
    };
    const given = Object.entries(JSON.parse(fs.readFileSync(file, 'utf8')));
    const dashed = key => (key.startsWith('-') ? key : key.length === 1 ? `-${key}` : `--${key}`);
    this.pack(file, JSON.stringify(Object.fromEntries(given.map(([key, value]) => [key, translated(value, dashed(key))]))));
  }

  /** An argument as it must be inside, with the option before it; relative paths begin in `folder`. */
  argument(text, previous, folder = '.') {
    const file = path.resolve(folder, text);
    const name = () => (folder === '.' ? '' : ROOT) + inside(file);
    if (WRITING_OPTIONS.has(previous)) {
      this.outputs[inside(file)] = file;
      this.files[inside(file)] = ''; // makes the folder
      return name();
    }
    if (FOLDER_OPTIONS.has(previous) && fs.existsSync(file)) {
      this.packFolder(file);
      return name();
    }
    if (!isFile(file)) return text;
    if (text.endsWith('.msc')) this.packSolver(file);
    else if (text.endsWith('.mpc')) this.packParameters(file);
    else if (text.endsWith('.mzn') || text.endsWith('.mzc')) this.packModel(file);
    else this.pack(file);
    return name();
  }
}

/** Start the package's web worker in a context that looks like one; resolves to a function that runs MiniZinc once. */
async function startWorker(folder) {
  const read = url => fs.readFileSync(path.join(folder, path.basename(new URL(url).pathname)));
  const waiting = {};
  const next = type => new Promise(resolve => (waiting[type] = resolve));
  let listener;
  const context = {
    console: {...console, error: complain}, performance, setTimeout, clearTimeout, setInterval, clearInterval,
    URL, TextDecoder, TextEncoder, WebAssembly, Response, Uint8Array, ArrayBuffer, crypto: globalThis.crypto, navigator: {},
    importScripts() {}, // by its presence the worker knows that it is one
    WorkerGlobalScope: function WorkerGlobalScope() {},
    location: new URL(`${HERE}minizinc-worker.js`),
    addEventListener: (type, call) => (listener = call),
    postMessage: message => (waiting[message.type] ?? show)(message),
    fetch: async url => {
      const type = String(url).endsWith('.wasm') ? 'application/wasm' : 'application/octet-stream';
      return new Response(read(url), {headers: {'content-type': type}});
    },
  };
  context.self = context.globalThis = context;
  vm.runInContext(read(`${HERE}minizinc-worker.js`).toString(), vm.createContext(context));

  const ready = next('ready');
  listener({data: {wasmURL: `${HERE}minizinc.wasm`, dataURL: `${HERE}minizinc.data`}});
  await ready;
  return data => {
    const exit = next('exit');
    listener({data});
    return exit;
  };
}

/** What the worker says while MiniZinc runs: text, or with --json-stream objects, one a line. */
function show(message) {
  if (message.type === 'stderr') write(2, outside(message.value));
  else if (message.type === 'stdout') write(1, message.value);
  else {
    const places = [message, ...(Array.isArray(message.stack) ? message.stack : [])].map(item => item.location);
    for (const place of places) {
      if (place?.filename && path.sep === '/' && !place.filename.startsWith('/')) place.filename = `/${place.filename}`;
    }
    write(1, `${JSON.stringify(message)}\n`);
  }
}

/** An error of the WebAssembly itself, such as memory that is used up: its first line. */
function complain(error) {
  write(2, `MiniZinc (WebAssembly) failed: ${String(error?.message ?? error).split('\n')[0]}\n`);
}

/** MiniZinc, in the thread. */
async function runMiniZinc(given) {
  const luggage = new Luggage();
  const args = given.map((text, i) => luggage.argument(text, given[i - 1]));
  const run = await startWorker(packageFolder());
  const end = await run({
    args: args.filter(text => text !== '--json-stream'), // the worker adds it itself
    files: luggage.files,
    outputFiles: Object.keys(luggage.outputs),
    jsonStream: args.includes('--json-stream'),
  });
  if (end.stdout) write(1, end.stdout);
  if (end.stderr) write(2, outside(end.stderr));
  for (const [name, target] of Object.entries(luggage.outputs)) {
    if (end.outputFiles?.[name]) fs.writeFileSync(target, end.outputFiles[name]);
  }
  parentPort.postMessage(end.code < 0 ? 1 : end.code);
}

/** The answer kept beside this file for a question that has always the same, if there is one. */
function keptAnswer(given) {
  const questions = given.filter(text => !['--json-stream', '--allow-multiple-assignments'].includes(text));
  const file = questions.length === 1 && KEPT[questions[0]] && path.join(__dirname, KEPT[questions[0]]);
  return file && !process.env.MINIZINC_WASM && isFile(file) ? fs.readFileSync(file) : null;
}

/** The milliseconds after --time-limit, if it is there. */
function timeLimit(given) {
  const at = given.findIndex(text => text === '--time-limit' || text === '--solver-time-limit');
  const limit = at < 0 ? NaN : Number(given[at + 1]);
  return Number.isFinite(limit) && limit > 0 ? limit : null;
}

/** Most of a short run is V8 optimizing code that is not used again; a long one deserves it, but later than by default. */
function tuneCompiler(given) {
  v8.setFlagsFromString(given.some(text => NOT_SOLVING.includes(text)) ? '--liftoff-only' : '--wasm-tiering-budget=1000000000');
}

function main(given) {
  const kept = keptAnswer(given);
  if (kept) {
    write(1, kept);
    process.exit(0);
  }
  for (const [signal, status] of [['SIGINT', 130], ['SIGTERM', 143], ['SIGHUP', 129]]) {
    process.on(signal, () => process.exit(status));
  }
  const parent = process.ppid;
  setInterval(() => process.ppid === parent || process.exit(1), PARENT_MS);
  const limit = timeLimit(given);
  if (limit !== null) setTimeout(() => process.exit(0), Math.min(limit + GRACE_MS, 2 ** 31 - 1));
  tuneCompiler(given);
  const thread = new Worker(__filename, {workerData: given, resourceLimits: {stackSizeMb: STACK_MIB}});
  thread.on('message', code => process.exit(code));
  thread.on('error', error => fail(`MiniZinc (WebAssembly) failed: ${String(error.message).split('\n')[0]}`));
  thread.on('exit', code => process.exit(code || 1));
}

if (isMainThread) main(process.argv.slice(2));
else runMiniZinc(workerData);
