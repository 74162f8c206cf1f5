//! The description of all this for programs, in the form of OpenAPI 3.1: made from the routes and the types that are served.
//!
//! Source: OpenAPI Specification 3.1.1.

use super::agents;
use super::operators::{ROUTES, Route};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::MethodFilter;
use serde_json::{Map, Value, json};
use shared::flow::operations::{self, Effect};
use std::sync::LazyLock;

/// The path of the document, which needs no bearer: it holds no data of any caller.
pub(super) const PLACE: &str = "/api/v1/openapi.json";

/// `GET /api/v1/openapi.json`
pub(super) async fn document() -> Response {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| described().to_string());
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], DOCUMENT.as_str()).into_response()
}

/// The refusals of every request, with their meaning.
const NO: [(&str, &str); 4] = [
    ("401", "No bearer was shown."),
    (
        "403",
        "The bearer is not valid or does not reach so far, the request comes from a page of a browser, or the host name is not served.",
    ),
    ("421", "This is not an address of this host."),
    ("429", "Too much at once; Retry-After says when to ask again."),
];
/// The refusals of requests that reach the broker.
const DECIDED: [(&str, &str); 2] = [
    ("400", "The request is invalid; `error` says where."),
    ("503", "The broker stops, or its ledger cannot be written. The ledger records every effect."),
];
const UNKNOWN: (&str, &str) = ("404", "It does not exist, or this bearer may not see it.");
/// The refusals of requests with a body.
const SENT: [(&str, &str); 2] =
    [("408", "The body took too long to arrive."), ("413", "The body is longer than 256 KiB.")];
/// And of a call.
const CALLED: [(&str, &str); 4] = [
    ("202", "The call waits for an approval, or still runs. Ask for its result at Location."),
    ("409", "The Idempotency-Key was used with other parameters."),
    ("502", "The provider failed, or its outcome is unknown; `code` says which."),
    ("504", "The provider did not answer in time."),
];

fn described() -> Value {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for route in ROUTES {
        let (path, method, described) = operation(&route, &mut schemas);
        let place = paths.entry(path).or_insert_with(|| json!({}));
        if let Some(place) = place.as_object_mut() {
            place.insert(method.to_owned(), described);
        }
    }
    paths.insert(agents::INVOKE.to_owned(), json!({ "post": invoke() }));
    paths.insert(agents::CALLS.to_owned(), json!({ "get": call() }));
    paths.insert(PLACE.to_owned(), json!({ "get": itself() }));
    schemas.insert("Reply".to_owned(), reply());
    schemas.insert("Refusal".to_owned(), refusal());
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "External Access Broker",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Flows, accesses to them for external agents, and the tools that such an access has.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "operator": {
                    "type": "http", "scheme": "bearer",
                    "description": "A token of `host-broker operator-token create`: optk_bearer_…",
                },
                "agent": {
                    "type": "http", "scheme": "bearer",
                    "description": "The bearer that `host-broker flow grant mint` printed: fgrnt_bearer_…",
                },
                "agentBeside": {
                    "type": "apiKey", "in": "header", "name": "X-Flow-External-Bearer",
                    "description": "The same, if a proxy uses Authorization. This header takes precedence.",
                },
            },
        },
    })
}

fn operation(route: &Route, schemas: &mut Map<String, Value>) -> (String, &'static str, Value) {
    let Route { method, path, operation } = *route;
    let (method, has_body) = match method {
        MethodFilter::POST => ("post", true),
        MethodFilter::DELETE => ("delete", false),
        _ => ("get", false),
    };
    let mut schema = Value::Object((*(operation.schema)()).clone());
    hoist(&mut schema, schemas);
    let required: Vec<String> =
        schema.get("required").cloned().map(serde_json::from_value).and_then(Result::ok).unwrap_or_default();
    let members = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let is_in_path = |name: &str| path.contains(&format!("{{{name}}}"));
    let mut parameters = Vec::new();
    let mut body = Map::new();
    for (name, schema) in members {
        let place = match (is_in_path(&name), has_body) {
            (true, _) => "path",
            (false, false) => "query",
            (false, true) => {
                body.insert(name, schema);
                continue;
            }
        };
        let is_required = place == "path" || required.contains(&name);
        parameters.push(json!({ "name": name, "in": place, "required": is_required, "schema": schema }));
    }
    parameters.push(json!({
        "name": "X-Vault-Id", "in": "header", "required": false, "schema": { "type": "string" },
        "description": "The vault of the token. Any other vault is treated as missing.",
    }));
    let more: &[_] = if has_body { &SENT } else { &[] };
    let twice = if let Effect::Changes { idempotent: false, .. } = operation.effect { " Twice makes two." } else { "" };
    let security = if operation.name == operations::FLOW_PROJECT.name {
        json!([{ "operator": [] }, { "agent": [] }, { "agentBeside": [] }])
    } else {
        json!([{ "operator": [] }])
    };
    let mut described = Map::from_iter([
        ("operationId".to_owned(), json!(operation.name)),
        ("summary".to_owned(), json!(operation.title)),
        (
            "description".to_owned(),
            json!(format!("{}{twice} The token needs `{}`.", operation.description, operation.part)),
        ),
        ("parameters".to_owned(), json!(parameters)),
        ("security".to_owned(), security),
        ("responses".to_owned(), responses(replied("Done."), &[&NO, &DECIDED, &[UNKNOWN], more])),
    ]);
    if has_body {
        let required: Vec<_> = required.into_iter().filter(|name| body.contains_key(name)).collect();
        let schema = json!({
            "type": "object", "properties": body, "required": required, "additionalProperties": false,
        });
        let body = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        described.insert("requestBody".to_owned(), body);
    }
    (path.to_owned(), method, Value::Object(described))
}

fn invoke() -> Value {
    let header = |name: &str, kind: &str, description: &str| json!({ "name": name, "in": "header", "required": false, "schema": { "type": kind }, "description": description });
    json!({
        "operationId": "invoke",
        "summary": "Call a tool",
        "description": "Calls a tool of the access. Which parameters it takes is in the list of tools at /mcp.",
        "parameters": [
            { "name": "tool_id", "in": "path", "required": true, "schema": { "type": "string" } },
            header("X-Flow-Grant-Id", "string", "The access, if it is to be made sure that the bearer is of this one."),
            header("Idempotency-Key", "string", "The same key with the same parameters is the same call."),
            header("Prefer", "string", "wait=10: the longest wait, in seconds (RFC 7240)."),
        ],
        "requestBody": { "required": false, "content": { "application/json": { "schema": { "type": "object" } } } },
        "security": [{ "agent": [] }, { "agentBeside": [] }],
        "responses": responses(replied("Executed."), &[&NO, &DECIDED, &[UNKNOWN], &SENT, &CALLED]),
    })
}

fn call() -> Value {
    json!({
        "operationId": "call_result",
        "summary": "Get the outcome of a call",
        "description": "The reply of a call that was not over when it was answered with 202.",
        "parameters": [
            { "name": "request_id", "in": "path", "required": true, "schema": { "type": "string" } },
            { "name": "Prefer", "in": "header", "required": false, "schema": { "type": "string" } },
        ],
        "security": [{ "agent": [] }, { "agentBeside": [] }],
        "responses": responses(replied("Executed."), &[&NO, &DECIDED, &[UNKNOWN], &CALLED]),
    })
}

fn itself() -> Value {
    let content = json!({ "application/json": { "schema": { "type": "object" } } });
    let this = json!({ "description": "This.", "content": content });
    json!({ "operationId": "openapi", "summary": "This document", "security": [], "responses": responses(this, &[&NO]) })
}

fn of_schema(schema: &str, description: &str) -> Value {
    let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

fn replied(description: &str) -> Value {
    of_schema("Reply", description)
}

fn responses(done: Value, others: &[&[(&str, &str)]]) -> Value {
    let other = |(status, meaning): &(&str, &str)| {
        ((*status).to_owned(), of_schema(if *status == "202" { "Reply" } else { "Refusal" }, meaning))
    };
    let others = others.iter().flat_map(|some| some.iter()).map(other);
    std::iter::once(("200".to_owned(), done)).chain(others).collect::<Map<_, _>>().into()
}

/// Returns the schema of `shared::Reply`, as far as it concerns the clients here.
fn reply() -> Value {
    json!({
        "type": "object",
        "required": ["request_id", "status", "timestamp"],
        "properties": {
            "request_id": { "type": "string" },
            "status": { "enum": ["executed", "pending", "failed", "timeout"] },
            "data": { "description": "The result." },
            "summary": { "type": "string" },
            "error": { "type": "string" },
            "code": { "type": "string" },
            "timestamp": { "type": "string", "format": "date-time" },
            "approval": {
                "type": "object",
                "required": ["ref", "expires_at"],
                "properties": { "ref": { "type": "string" }, "expires_at": { "type": "string", "format": "date-time" } },
            },
            "retry_after_ms": { "type": "integer" },
            "notices": { "type": "array", "items": { "type": "string" } },
            "evidence": { "type": "object", "description": "The row of the ledger that this rests on." },
        },
    })
}

fn refusal() -> Value {
    json!({
        "type": "object",
        "required": ["status", "error"],
        "properties": {
            "status": { "enum": ["denied", "failed", "timeout"] },
            "code": { "type": "string", "description": "One of `host-broker reason-codes`." },
            "error": { "type": "string" },
            "request_id": { "type": "string" },
            "timestamp": { "type": "string", "format": "date-time" },
            "retry_after_ms": { "type": "integer" },
            "evidence": { "type": "object" },
        },
    })
}

/// Puts the definitions of a schema where this document has them.
fn hoist(schema: &mut Value, schemas: &mut Map<String, Value>) {
    if let Some(Value::Object(definitions)) = schema.as_object_mut().and_then(|members| members.remove("$defs")) {
        for (name, mut definition) in definitions {
            rename(&mut definition);
            schemas.insert(name, definition);
        }
    }
    rename(schema);
}

fn rename(value: &mut Value) {
    if let Some(members) = value.as_object_mut() {
        if let Some(Value::String(place)) = members.get_mut("$ref") {
            *place = place.replace("#/$defs/", "#/components/schemas/");
        }
        members.values_mut().for_each(rename);
    } else if let Some(items) = value.as_array_mut() {
        items.iter_mut().for_each(rename);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every reference in it.
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_operation_is_described_once_with_all_that_it_takes() {
        let document = described();
        let paths = document["paths"].as_object().unwrap();
        let all: Vec<&Value> = paths.values().flat_map(|place| place.as_object().unwrap().values()).collect();
        for operation in operations::ALL {
            let found: Vec<_> = all.iter().filter(|found| found["operationId"] == operation.name).collect();
            let [found] = found.as_slice() else { panic!("{}", operation.name) };
            let schema = (operation.schema)();
            for name in schema["properties"].as_object().unwrap().keys() {
                let parameters = found["parameters"].as_array().unwrap();
                let is_parameter = parameters.iter().any(|parameter| parameter["name"] == name.as_str());
                let body = &found["requestBody"]["content"]["application/json"]["schema"]["properties"];
                assert!(is_parameter != body.get(name).is_some(), "{}: {name}", operation.name);
            }
        }
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 50);
        for reference in found {
            let place = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(place).is_some(), "{reference}");
        }
    }
}
