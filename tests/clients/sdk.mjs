// The TypeScript SDK against the shim: `node sdk.mjs v1` or `node sdk.mjs v2`.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import path from "node:path";
import {
  allEffects, approve, check, effects, end, expect, grant, ipc, same, shim, sleep, until, waiting, whileTheHostSleeps,
} from "./world.mjs";

const version = process.argv[2];
const group = `ts-${version}`;
const is = (name, holds) => check(`TypeScript SDK ${version}`, name, holds);

// The packages lie outside the tree.
const parts = createRequire(path.join(process.env.CLIENTS_NPM, "package.json"));
const load = (name) => {
  const modern = parts.resolve(name).replace(/\.cjs$/, ".mjs").replace("/dist/cjs/", "/dist/esm/");
  return import(pathToFileURL(modern).href);
};
const speak = {
  async v1() {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
    const { ToolListChangedNotificationSchema } = await load("@modelcontextprotocol/sdk/types.js");
    return {
      revision: "2025-11-25",
      transport: (options) => new StdioClientTransport(options),
      client(onChanged) {
        const client = new Client({ name: "clients", version: "1" });
        client.setNotificationHandler(ToolListChangedNotificationSchema, onChanged);
        return client;
      },
      agreed: (client) => client.transport._protocolVersion ?? client.getNegotiatedProtocolVersion?.() ?? "2025-11-25",
      call: (client, name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
    };
  },
  async v2() {
    const { Client } = await load("@modelcontextprotocol/client");
    const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
    return {
      revision: "2026-07-28",
      transport: (options) => new StdioClientTransport(options),
      client: (onChanged) =>
        new Client(
          { name: "clients", version: "1" },
          { versionNegotiation: { mode: "auto" }, listChanged: { tools: { onChanged, debounceMs: 0 } } },
        ),
      agreed: (client) => client.getNegotiatedProtocolVersion(),
      call: (client, name, args, options) => client.callTool({ name, arguments: args }, options),
    };
  },
};
const sdk = await speak[version]();

async function connect(group) {
  const connection = { changes: 0 };
  connection.client = sdk.client(() => (connection.changes += 1));
  connection.transport = sdk.transport({ command: shim, env: { EXT_IPC_DIR: ipc(group) }, stderr: "pipe" });
  connection.stderr = "";
  connection.transport.stderr?.on("data", (data) => (connection.stderr += data));
  await connection.client.connect(connection.transport);
  connection.pid = connection.transport.pid;
  connection.call = (name, args, options) => sdk.call(connection.client, name, args, options);
  connection.names = async () => (await connection.client.listTools()).tools.map((tool) => tool.name);
  connection.remembered = async () => {
    const { contents } = await connection.client.readResource({ uri: "broker://calls" });
    return JSON.parse(contents[0].text).calls;
  };
  return connection;
}
const alive = (pid) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const text = (result) => result.content[0].text;
const id = (result) => result._meta["broker/request_id"];
const refused = (result, code, words) => {
  expect(result.isError === true, "no error");
  expect(result.structuredContent.code === code, result);
  const said = text(result);
  expect(said.startsWith("External call denied: ") && said.includes(words), said);
};

let here;
await is("connects", async () => {
  here = await connect(group);
  same(sdk.agreed(here.client), sdk.revision);
  expect(here.client.getInstructions().includes("ext_capabilities"), "no instructions");
  return sdk.revision;
});
await is("lists what the group may do, and nothing else", async () => {
  same((await here.names()).sort(), [
    "ext_call", "ext_cancel", "ext_capabilities", "ext_plan", "ext_result", "mock__echo", "mock__leaky",
    "mock__slow", "mock__write",
  ]);
});

if (!here) end();

// Runs beside the rest, because progress takes its time.
const heard = [];
const slow = here.call("mock__slow", {}, { onprogress: (progress) => heard.push(progress), timeout: 20_000 });
slow.catch(() => {});

// Names in the order in which they come back: JSON has none of its own.
const odd = { "": false, deep: [null, { a: [1.5, -7, 9007199254740991] }], text: "größer ✓ 漢字 🦀 \u0000 \u2028 \"\\" };
await is("ext_call brings back what it sent", async () => {
  const result = await here.call("ext_call", { provider: "mock", action: "echo", params: odd });
  expect(!result.isError, text(result));
  same(JSON.parse(text(result)), odd);
  same(result.structuredContent.data, odd);
  expect(result._meta["broker/evidence"].seq > 0, result._meta);
});
await is("null is as good as absent", async () => {
  const none = { provider: "mock", action: "echo", params: null, task_id: null, idempotency_key: null, dry_run: null };
  same(JSON.parse(text(await here.call("ext_call", none))), {});
});
await is("an action's own tool has one effect", async () => {
  const result = await here.call("mock__write", { text: "once" });
  expect(!result.isError, text(result));
  same(effects(id(result)), 1);
});
await is("the same idempotency_key has no second effect", async () => {
  const before = allEffects().length;
  const again = () => here.call("mock__write", { text: "keyed", idempotency_key: `key-${version}` });
  const [first, second] = [await again(), await again()];
  expect(!first.isError && !second.isError, text(second));
  same(allEffects().length, before + 1);
});
await is("half a mebibyte goes through, two are refused", async () => {
  const big = await here.call("mock__write", { text: "x".repeat(512 * 1024) });
  expect(!big.isError, text(big));
  const bigger = await here.call("mock__write", { text: "é".repeat(1024 * 1024) });
  same(bigger.structuredContent.code, "oversized_request");
});
await is("a person approves a plan once, and its calls run in order", async () => {
  const calls = ["first", "second"].map((text) => ({ provider: "mock", action: "write", params: { text } }));
  const plan = here.call("ext_plan", { reason: "To try it.", calls });
  await Promise.race([approve(group, "plan"), plan]);
  const result = await plan;
  expect(!result.isError, text(result));
  const ran = result.structuredContent.data.calls;
  same(ran.map((call) => call.state), ["succeeded", "succeeded"]);
  const ids = ran.map((call) => call.request_id);
  same(allEffects().filter((id) => ids.includes(id)), ids);
});
await is("refusals say why and what to do", async () => {
  const call = (provider, action, params = {}) => here.call("ext_call", { provider, action, params });
  refused(await call("mock", "deploy"), "level_too_low", "Ask the main group's agent");
  refused(await call("other", "read"), "no_grant", "for a grant");
  refused(await call("mock", "nothing"), "unknown_action", "ext_capabilities");
  refused(await call("mock", "write", { text: "" }), "invalid_params", "text");
  refused(await call("mock", "write", { text: 5 }), "invalid_params", "text");
  refused(await here.call("ext_call", { provider: "mock", action: "echo", params: "{}" }), "invalid_params", "JSON object");
  refused(await here.call("ext_call", { provider: "mock" }), "invalid_params", "action");
  refused(await here.call("ext_grant", { group_folder: group, provider: "mock", access_level: 3 }), "main_only", "Only the main group");
});
await is("half an emoji is refused at once, and not passed over", async () => {
  const half = { provider: "mock", action: "echo", params: { text: "🦀".slice(0, 1) } };
  const fault = await here.call("ext_call", half, { timeout: 3000 }).then(() => null, (fault) => fault);
  expect(fault?.code === -32602 && fault.message.includes("nothing was executed"), String(fault));
});
await is("a tool that never was is an error of the protocol", async () => {
  const fault = await here.call("nonsense", {}).then(() => null, (fault) => fault);
  expect(fault?.code === -32602, String(fault));
});

/** Calls, gives up after a while, and says under which name the call was sent: whoever gives up is not told. */
async function abort(name, args, ms) {
  const known = new Set((await here.remembered()).map((call) => call.request_id));
  const stop = new AbortController();
  const call = here.call(name, args, { signal: stop.signal }).then(() => "answered", () => "aborted");
  await sleep(ms);
  stop.abort();
  same(await call, "aborted");
  return until("the shim has let go", 5000, async () =>
    (await here.remembered()).find((call) => !known.has(call.request_id) && call.status),
  );
}
await is("an aborted call that runs is not repeated, and its outcome can be asked for", async () => {
  const last = await abort("mock__slow", { ms: 900 }, 300);
  same([last.action, last.code], ["slow", "no_answer"]);
  const result = await here.call("ext_result", { of: last.request_id });
  expect(!result.isError, text(result));
  same(effects(last.request_id), 1);
});
await is("15 calls at once are each answered under their own name", async () => {
  const many = [...Array(15).keys()];
  const results = await Promise.all(many.map((n) => here.call("mock__echo", { n })));
  same(results.map((result) => result.structuredContent.data?.n), many);
});
await is("a grant on the host changes the list while the client looks on", async () => {
  const before = here.changes;
  grant(group, "other", 1);
  await until("tools/list_changed", 4000, () => here.changes > before);
  expect((await here.names()).includes("other__read"), "no new tool");
  same(JSON.parse(text(await here.call("other__read", { new: true }))), { new: true });
});
await is("the slow call says that it runs, and ends", async () => {
  const result = await slow;
  expect(!result.isError, text(result));
  expect(heard.length >= 1 && heard[0].message.length > 0, "no progress");
  same(effects(id(result)), 1);
  return `${heard.length} × ${heard[0].message}`;
});
// The shim leaves its connection to a host that stands still. No other call may be under way.
await is("an aborted call that the host has not taken never runs", async () => {
  const before = allEffects().length;
  const last = await whileTheHostSleeps(async () => {
    const last = await abort("mock__write", { text: "never" }, 200);
    expect(!waiting(group).includes(`${last.request_id}.json`), waiting(group));
    return last;
  });
  // A host that stands still does not say whether it has taken a call that came over the socket.
  same([last.action, last.code], ["write", "no_answer"]);
  await sleep(300);
  same(effects(last.request_id), 0);
  same(allEffects().length, before);
});
await is("closes quickly, and says nothing on standard error", async () => {
  const started = Date.now();
  await here.client.close();
  const took = Date.now() - started;
  expect(took < 1000, `${took} ms`);
  await until("the shim has ended", 1000, () => !alive(here.pid));
  same(here.stderr, "");
  return `${took} ms`;
});
await is("closes quickly during a call, which is not repeated", async () => {
  const again = await connect(group);
  const before = allEffects().length;
  again.call("mock__slow", { ms: 1000 }).catch(() => {});
  await sleep(200);
  await until("the host has taken it", 2000, () => waiting(group).length === 0);
  const started = Date.now();
  await again.client.close();
  await until("the shim has ended", 1500, () => !alive(again.pid));
  const took = Date.now() - started;
  expect(took < 1500, `${took} ms`);
  await until("its effect", 3000, () => allEffects().length === before + 1);
  return `${took} ms`;
});
if (version === "v2") {
  await is("the main group's agent grants and revokes, and the other client hears it", async () => {
    const [main, guest] = [await connect("main"), await connect("guest")];
    same((await guest.names()).filter((name) => name.includes("__")), []);
    const done = await main.call("ext_grant", { group_folder: "guest", provider: "mock", access_level: 1 });
    expect(!done.isError, text(done));
    await until("the grant is heard", 4000, () => guest.changes === 1);
    same((await guest.names()).filter((name) => name.includes("__")), ["mock__echo", "mock__leaky"]);
    const over = await main.call("ext_grant", { group_folder: "guest", provider: "mock", access_level: 3 });
    expect(over.structuredContent?.status === "pending", `above its ceiling a person is asked: ${text(over)}`);
    same((await guest.names()).filter((name) => name.includes("__")), ["mock__echo", "mock__leaky"]);
    const gone = await main.call("ext_revoke", { group_folder: "guest", provider: "mock" });
    expect(!gone.isError, text(gone));
    await until("the revocation is heard", 4000, () => guest.changes === 2);
    refused(await guest.call("ext_call", { provider: "mock", action: "echo" }), "no_grant", "grant");
    const fault = await guest.call("mock__echo", {}).then(() => null, (fault) => fault);
    expect(fault?.code === -32602 && fault.message.includes("Unknown tool: mock__echo"), String(fault));
    await Promise.all([main.client.close(), guest.client.close()]);
    return text(over).slice(0, 160);
  });
}
end();
