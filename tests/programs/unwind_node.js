// SPDX-License-Identifier: Apache-2.0
//
// A load for tests of stacks: JITed code and the runtime's own calling each other (sort, replace,
// JSON, typed arrays), exceptions, promises, timers, files, and the threads that compress, hash and
// collect garbage. Works until it is killed.
"use strict";

const crypto = require("crypto");
const fs = require("fs");
const zlib = require("zlib");
const { promisify } = require("util");

const deflate = promisify(zlib.deflate);
const pbkdf2 = promisify(crypto.pbkdf2);

function fibonacci(n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

function deep(depth) {
  if (depth === 0) throw new RangeError("the bottom");
  try {
    return deep(depth - 1) + 1;
  } catch (error) {
    error.frames = (error.frames || 0) + 1;
    throw error;
  }
}

function exceptions() {
  let caught = 0;
  for (let i = 0; i < 30; i++) {
    try {
      deep(40);
    } catch (error) {
      caught += error.message.length;
    }
  }
  return caught;
}

function* walk(tree) {
  if (tree.left) yield* walk(tree.left);
  yield tree.value;
  if (tree.right) yield* walk(tree.right);
}

function grow(depth) {
  return depth === 0 ? { value: 1 } : { value: depth, left: grow(depth - 1), right: grow(depth - 1) };
}

function sorting() {
  const words = Array.from({ length: 1500 }, (_, i) => String((i * 7919) % 9973));
  words.sort((a, b) => a.length - b.length || a.localeCompare(b));
  return new Map(words.map((word, i) => [word, i])).size;
}

function texts() {
  return "a1 b22 c333 ".repeat(300).replace(/([a-z])(\d+)/g, (_, a, b) => b + a).length;
}

function documents() {
  const data = {};
  for (let i = 0; i < 200; i++) data[`k${i}`] = [i, i / 7, { x: [null, true, "é".repeat(i % 5)] }];
  return Object.keys(JSON.parse(JSON.stringify(data, null, 1))).length;
}

function numbers() {
  const values = new Float64Array(4000);
  for (let i = 0; i < values.length; i++) values[i] = Math.sin(i) * 1e6;
  let big = 1n;
  for (let i = 1n; i < 200n; i++) big *= i;
  return values.sort()[0] + Number(big % 1000n);
}

async function waits() {
  await new Promise((resolve) => setTimeout(resolve, 2));
  await fs.promises.readFile(__filename);
  await Promise.all([deflate(Buffer.alloc(200000, "abcdefgh")), pbkdf2("a", "b", 500, 32, "sha256")]);
}

async function main() {
  for (;;) {
    fibonacci(20);
    exceptions();
    let sum = 0;
    for (const value of walk(grow(9))) sum += value;
    sorting();
    texts();
    documents();
    numbers();
    await waits();
    fs.writeSync(1, "turn\n");
  }
}

main();
