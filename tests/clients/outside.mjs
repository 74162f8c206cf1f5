// The TypeScript SDK as an agent outside, at /mcp with a bearer: `node outside.mjs v1` or `node outside.mjs v2`.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";
import { check, end, expect, home, same } from "./world.mjs";

const version = process.argv[2];
const is = (name, holds) => check(`TypeScript SDK ${version}, outside`, name, holds);
const broker = (...words) =>
  JSON.parse(execFileSync(process.env.CLIENTS_BROKER, ["--home", home, "--json", ...words], { stdio: "pipe" }));

// The packages lie outside the tree.
const parts = createRequire(path.join(process.env.CLIENTS_NPM, "package.json"));
const load = (name) => {
  const modern = parts.resolve(name).replace(/\.cjs$/, ".mjs").replace("/dist/cjs/", "/dist/esm/");
  return import(pathToFileURL(modern).href);
};
const url = new URL(`http://127.0.0.1:${new URL(broker("status").web).port}/mcp`);
const sdk =
  version === "v1"
    ? { ...(await load("@modelcontextprotocol/sdk/client/index.js")), ...(await load("@modelcontextprotocol/sdk/client/streamableHttp.js")) }
    : await load("@modelcontextprotocol/client");

async function connect(bearer) {
  const options = version === "v1" ? undefined : { versionNegotiation: { mode: "auto" } };
  const client = new sdk.Client({ name: "outside", version: "1" }, options);
  const headers = { Authorization: `Bearer ${bearer}` };
  await client.connect(new sdk.StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  return client;
}
const call = (client, name, args) => client.callTool({ name, arguments: args });

const access = broker("flow", "grant", "mint", "flow_outside", "1.0.0", "--tool", "echo", "--tool", "write");
const client = await connect(access.bearer);
await is("it sees its tools and nothing else", async () => {
  const { tools } = await client.listTools();
  same(tools.map((tool) => tool.name).sort(), ["echo", "ext_cancel", "ext_result", "write"]);
  same(Object.keys(tools.find((tool) => tool.name === "echo").inputSchema.properties), ["text"]);
});
await is("what is fixed is fixed, and what is open is given", async () => {
  const result = await call(client, "echo", { text: "hello" });
  same(result.structuredContent, { to: "us", text: "hello" });
});
await is("nothing else can be given, and no other tool called", async () => {
  const result = await call(client, "echo", { to: "them" });
  expect(result.isError && result.content[0].text.includes("no such parameter"), result);
  same(result.structuredContent.code, "invalid_params");
  const fault = await call(client, "list_everything", {}).then(() => null, (fault) => fault);
  expect(fault && fault.code === -32602 && fault.message.includes("Unknown tool: list_everything"), String(fault));
});
await is("ended is ended, in the middle of a conversation", async () => {
  broker("flow", "grant", "revoke", access.grant.grant_id);
  const result = await call(client, "echo", { text: "x" });
  expect(result.structuredContent?.code === "FLOW_EXTERNAL_GRANT_REVOKED", result);
  same((await client.listTools()).tools, []);
});
await is("without a bearer nobody is served", async () => {
  const fault = await connect(`fgrnt_bearer_${"0".repeat(64)}`).then(() => null, (fault) => fault);
  expect(fault && /401|unauthorized|GRANT/i.test(String(fault)), String(fault));
});
await client.close();
end();
