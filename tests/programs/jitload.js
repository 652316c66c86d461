// SPDX-License-Identifier: Apache-2.0
//
// Two JITed functions whose shares are known: hotSum does three times the work of warmSum, and
// the program clocks both. Says `ready <pid>` once both are compiled, works from the first byte
// of its standard input until that ends, then prints the seconds in each as JSON. With a number
// as argument it works for so many seconds instead, and waits for nobody.
"use strict";

const fs = require("fs");

const spent = { hot: 0, warm: 0 };
let total = 0;

function hotSum(count) {
  let sum = 0;
  for (let i = 0; i < count; i++) sum = (sum + i * i) % 1000003;
  return sum;
}

function warmSum(count) {
  let sum = 0;
  for (let i = 0; i < count; i++) sum = (sum + i * i) % 1000003;
  return sum;
}

function cpuSeconds() {
  const used = process.cpuUsage();
  return (used.user + used.system) / 1e6;
}

// No two turns need be of one length: a sampler could keep step with them.
function oneTurn() {
  const part = 5 + Math.floor(Math.random() * 11);
  const began = cpuSeconds();
  for (let i = 0; i < 3 * part; i++) total += hotSum(30000);
  const middle = cpuSeconds();
  for (let i = 0; i < part; i++) total += warmSum(30000);
  spent.hot += middle - began;
  spent.warm += cpuSeconds() - middle;
}

function workUntil(end) {
  while (performance.now() < end) oneTurn();
}

function tell() {
  console.log(JSON.stringify(spent));
}

const seconds = Number(process.argv[2] || 0);
const began = cpuSeconds();
while (cpuSeconds() - began < 1) oneTurn();
spent.hot = spent.warm = 0;
fs.writeSync(1, `ready ${process.pid}\n`);
if (seconds > 0) {
  workUntil(performance.now() + seconds * 1000);
  tell();
} else {
  fs.readSync(0, Buffer.alloc(1));
  let ended = false;
  process.stdin.on("end", () => { ended = true; });
  process.stdin.resume();
  const turns = () => {
    workUntil(performance.now() + 100);
    if (ended) tell();
    else setImmediate(turns);
  };
  turns();
}
