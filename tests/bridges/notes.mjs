#!/usr/bin/env node
// An example of a bridge: notes that every person has for themselves. Take it as a beginning for your own.
//
// The broker starts it once for each call: one line of JSON comes in on standard input, one envelope leaves on standard
// output, and then it ends. Whatever it says on standard error the operator reads in the log, and no agent does.
//
//   [providers.notes]
//   kind = "bridge"
//   command = ["/path/to/notes.mjs"]
//
//   host-broker provider check notes     says what is wrong with it
//   host-broker provider accept notes    shows what it says it can do, and accepts it

import { createHash, createPublicKey, randomUUID, verify } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const NAMESPACE = "notes";

const definitions = [
  {
    id: "notes.personal",
    description: "Short notes that a person keeps for themselves",
    // About private things, so it may be used in private chats only.
    sensitive: true,
    operations: [
      {
        name: "list",
        description: "All notes of the person, oldest first",
        requires_auth: false,
        input_schema: { type: "object", additionalProperties: false },
        output_schema: {
          type: "object",
          properties: { notes: { type: "array", items: { type: "string" } } },
          required: ["notes"],
          additionalProperties: false,
        },
      },
      {
        name: "add",
        description: "Adds a note",
        requires_auth: false,
        // It changes something, so a caller needs level 2 for it.
        mutating: true,
        input_schema: {
          type: "object",
          properties: { text: { type: "string", minLength: 1, maxLength: 2000 } },
          required: ["text"],
          additionalProperties: false,
        },
        output_schema: { type: "object", properties: { count: { type: "integer" } }, required: ["count"] },
      },
    ],
  },
];

/** A no that the caller is told: one of the codes of capabilities, and why. */
class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const invalid = (message) => new Refusal("capability_invalid_input", message);

/**
 * Who asks. The token is all that says so, so it is verified before anything else is believed: that the broker has signed
 * it, for this bridge, and that its time is not over.
 */
function person(token) {
  if (typeof token !== "string" || token === "") throw invalid("context_token is required");
  const [head, body, signature, ...more] = token.split(".");
  const x = process.env.EXT_CONTEXT_TOKEN_PUBLIC_KEY;
  const denied = new Refusal("capability_access_denied", "context_token cannot be believed");
  try {
    const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
    const signed = Buffer.from(`${head}.${body}`);
    if (more.length > 0 || !verify(null, signed, key, Buffer.from(signature, "base64url"))) throw denied;
    const header = JSON.parse(Buffer.from(head, "base64url"));
    const claims = JSON.parse(Buffer.from(body, "base64url"));
    const now = Date.now() / 1000;
    const good = header.alg === "EdDSA" && claims.aud === NAMESPACE && claims.iat <= now + 30 && now <= claims.exp + 30;
    if (!good) throw denied;
    return claims.sub;
  } catch {
    throw denied;
  }
}

/** Where a person's notes lie: in the one directory that outlives the process. */
function folder(sub) {
  const path = join(process.env.HOME, createHash("sha256").update(sub).digest("hex"));
  mkdirSync(path, { recursive: true, mode: 0o700 });
  return path;
}

const kept = (path) => readdirSync(path).filter((name) => name.endsWith(".txt")).sort();

const operations = {
  list(sub) {
    const path = folder(sub);
    return { notes: kept(path).map((name) => readFileSync(join(path, name), "utf8")) };
  },
  add(sub, { text }) {
    // Each in a file of its own, which is there as a whole or not at all: two calls may run at once, and the broker ends a
    // bridge that is too slow.
    const path = folder(sub);
    const name = join(path, `${String(Date.now()).padStart(15, "0")}-${randomUUID()}`);
    writeFileSync(`${name}.new`, text, { mode: 0o600, flag: "wx" });
    renameSync(`${name}.new`, `${name}.txt`);
    return { count: kept(path).length };
  },
};

function invoke({ capability_id, operation, input_data, context_token }) {
  const sub = person(context_token);
  if (capability_id !== "notes.personal" || !Object.hasOwn(operations, operation)) throw invalid("no such operation");
  return { output: operations[operation](sub, input_data) };
}

function answer(request) {
  if (request.version !== 1) throw invalid("unsupported version");
  if (request.namespace !== NAMESPACE) throw invalid("unsupported namespace");
  switch (request.method) {
    case "definitions":
      return { definitions };
    case "invoke":
      return invoke(request.params ?? {});
    default:
      throw invalid("unsupported method");
  }
}

let id = "";
try {
  const request = JSON.parse(readFileSync(0, "utf8"));
  id = request.id ?? "";
  console.log(JSON.stringify({ version: 1, id, result: answer(request) }));
} catch (error) {
  const { code = "capability_backend_unavailable", message } = error instanceof Refusal ? error : { message: "failed" };
  if (!(error instanceof Refusal)) console.error(error);
  console.log(JSON.stringify({ version: 1, id, error: { code, message } }));
}
