// What every check needs to know of the home, and how a check is written down. One line each: ok, or NOT with the reason.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

const need = (name) => {
  if (!process.env[name]) throw new Error(`${name} is not set`);
  return process.env[name];
};
export const home = need("CLIENTS_HOME");
export const shim = need("CLIENTS_SHIM");
const broker = need("CLIENTS_BROKER");
const daemon = Number(need("CLIENTS_DAEMON"));

export const ipc = (group) => path.join(home, "ipc", group);
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
/** How often this request has had its effect. */
export const effects = (id) => allEffects().filter((line) => line === id).length;
export const allEffects = () => {
  try {
    return fs.readFileSync(path.join(home, "effects.log"), "utf8").split("\n").filter(Boolean);
  } catch {
    return [];
  }
};
export const waiting = (group) => fs.readdirSync(path.join(ipc(group), "tasks"));
export const grant = (group, provider, level) =>
  execFileSync(broker, ["--home", home, "grant", group, provider, String(level)], { stdio: "pipe" });
/** Approves, as the operator, the action that waits for a group. */
export async function approve(group, action) {
  const list = () => execFileSync(broker, ["--home", home, "approvals", "list", "--json"], { encoding: "utf8" });
  const waits = (asked) => asked.caller === `group:${group}` && asked.action === action;
  const { code } = await until("the approval request", 5000, () => JSON.parse(list()).approvals.find(waits));
  execFileSync(broker, ["--home", home, "approvals", "approve", code], { stdio: "pipe" });
}

/** Runs `during` while the daemon stands still. */
export async function whileTheHostSleeps(during) {
  process.kill(daemon, "SIGSTOP");
  try {
    return await during();
  } finally {
    process.kill(daemon, "SIGCONT");
  }
}

export async function until(what, ms, holds) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await holds();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await sleep(20);
  }
}

export function expect(truth, what) {
  if (!truth) throw new Error(typeof what === "string" ? what : JSON.stringify(what));
}
export function same(left, right) {
  const [a, b] = [JSON.stringify(left), JSON.stringify(right)];
  expect(a === b, `${a?.slice(0, 400)} is not ${b?.slice(0, 400)}`);
}

let failed = false;
/** Writes down whether it holds. What it returns, if anything, is said beside it. */
export async function check(client, name, holds) {
  try {
    const said = await holds();
    console.log(`ok   ${client}: ${name}${said ? ` (${said})` : ""}`);
  } catch (fault) {
    failed = true;
    console.log(`NOT  ${client}: ${name}: ${String(fault?.message ?? fault).replace(/\s+/g, " ").slice(0, 600)}`);
  }
}
export const end = () => process.exit(failed ? 1 : 0);
