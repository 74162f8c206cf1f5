// Runs inside the sandbox: a client and its shim, with nothing but /workspace/ipc between them and the world.
import fs from "node:fs";
import net from "node:net";
import os from "node:os";

const { Client } = await import("/parts/node_modules/@modelcontextprotocol/client/dist/index.mjs");
const { StdioClientTransport } = await import("/parts/node_modules/@modelcontextprotocol/client/dist/stdio.mjs");
let failed = false;
const is = async (name, holds) => {
  try {
    const said = await holds();
    console.log(`ok   sandbox: ${name}${said ? ` (${said})` : ""}`);
  } catch (fault) {
    failed = true;
    console.log(`NOT  sandbox: ${name}: ${String(fault?.message ?? fault).slice(0, 600)}`);
  }
};
const expect = (truth, what) => {
  if (!truth) throw new Error(what);
};

await is("there is no network, and of the host only the group's directory", async () => {
  const outside = Object.values(os.networkInterfaces()).flat().filter((one) => !one.internal);
  expect(outside.length === 0, JSON.stringify(outside));
  const fault = await new Promise((done) => {
    const socket = net.connect({ host: "192.0.2.1", port: 80, timeout: 2000 });
    socket.on("error", done).on("timeout", () => done({ code: "timeout" })).on("connect", () => done(null));
  });
  expect(fault?.code === "ENETUNREACH", `connecting: ${fault?.code}`);
  expect(fs.readdirSync("/workspace").join() === "ipc", fs.readdirSync("/workspace").join());
  let kept = "it could be written";
  try {
    fs.writeFileSync("/workspace/ipc/ext_capabilities.json", "{}");
  } catch (fault) {
    kept = fault.code;
  }
  expect(kept === "EROFS", kept);
});
await is("a client inside completes a call", async () => {
  const client = new Client({ name: "inside", version: "1" }, { versionNegotiation: { mode: "auto" } });
  await client.connect(new StdioClientTransport({ command: "/agent/mcp-shim", env: {} }));
  const result = await client.callTool({ name: "mock__write", arguments: { text: "from inside" } });
  expect(!result.isError, result.content[0].text);
  const refused = await client.callTool({ name: "ext_call", arguments: { provider: "mock", action: "deploy" } });
  expect(refused.structuredContent.code === "level_too_low", refused.content[0].text);
  await client.close();
  return `row ${result._meta["broker/evidence"].seq}`;
});
process.exit(failed ? 1 : 0);
