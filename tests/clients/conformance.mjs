// The protocol's own conformance suite for servers, at /mcp with a bearer: `node conformance.mjs`.
import { execFile, execFileSync } from "node:child_process";
import { createServer, request } from "node:http";
import path from "node:path";
import { check, end, expect, home, sleep } from "./world.mjs";

const broker = (...words) =>
  JSON.parse(execFileSync(process.env.CLIENTS_BROKER, ["--home", home, "--json", ...words], { stdio: "pipe" }));
const tools = ["echo", "write", "test_simple_text", "test_error_handling"].flatMap((tool) => ["--tool", tool]);
const access = broker("flow", "grant", "mint", "flow_outside", "1.0.0", ...tools);
const { port } = new URL(broker("status").web);

// The suite cannot be told a bearer, nor how fast one may be used: both is seen to on the way, and nothing else is changed.
let turn = Promise.resolve();
const way = createServer(async (from, to) => {
  await (turn = turn.then(() => sleep(100)));
  const headers = { ...from.headers, authorization: `Bearer ${access.bearer}` };
  const onward = request({ host: "127.0.0.1", port, method: from.method, path: from.url, headers }, (answer) => {
    to.writeHead(answer.statusCode, answer.headers);
    answer.pipe(to);
  });
  onward.on("error", () => to.destroy());
  from.pipe(onward);
});
await new Promise((done) => way.listen(0, "127.0.0.1", done));
const url = `http://127.0.0.1:${way.address().port}/mcp`;

// It asks Node for a function that only newer ones have, for something else than servers.
const hook = `export async function load(url, context, next) {
  const loaded = await next(url, context);
  if (!url.endsWith("/conformance/dist/index.js")) return loaded;
  return { ...loaded, source: String(loaded.source).replace(/globSync as [\\w$]+,/, "") };
}`;
const quoted = (code) => `data:text/javascript,${encodeURIComponent(code)}`;
const before = quoted(`import { register } from "node:module"; register(${JSON.stringify(quoted(hook))});`);
const suite = path.join(process.env.CLIENTS_NPM, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const expected = path.join(import.meta.dirname, "conformance.yml");
const run = (...words) =>
  new Promise((done) => {
    const command = ["--import", before, suite, "server", "--url", url, "--expected-failures", expected, ...words];
    if (process.env.CLIENTS_OUT) command.push("-o", process.env.CLIENTS_OUT);
    execFile(process.execPath, command, { timeout: 110_000 }, (failed, out, err) => done({ failed, said: out + err }));
  });

for (const [revision, ...words] of [
  ["2025-11-25", "--suite", "all", "--spec-version", "2025-11-25"],
  ["2026-07-28", "--requirements", "2026-07-28"],
]) {
  await check("Conformance", `what ${revision} demands of servers, except what is listed`, async () => {
    const { failed, said } = await run(...words);
    if (process.env.CLIENTS_VERBOSE) console.error(said);
    expect(!failed, said.slice(said.lastIndexOf("=== SUMMARY")));
    return said.match(/Total: .*/)?.[0];
  });
}
way.close();
end();
