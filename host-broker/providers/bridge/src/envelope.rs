//! `bridge-v1`: one request on standard input, one envelope on standard output.
//!
//! ```json
//! {"version": 1, "id": "cap_bridge_0123456789abcdef", "namespace": "gog", "method": "invoke", "params": {}}
//! {"version": 1, "id": "cap_bridge_0123456789abcdef", "result": {"output": {}}}
//! ```
//!
//! Source: ash-capabilities, "Bridge Envelope". Stricter than that where the source is silent: no other members, no
//! duplicate keys, no numbers that are none, nothing after the envelope.

use model::{NoRandomness, Random};
use serde_json::{Map, Value, json};
use shared::Provider;
use shared::json::{JsonError, parse};

/// The version that both sides write.
pub const VERSION: u64 = 1;

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// List the definitions of the bridge.
    Definitions,
    /// Do one of these things.
    Invoke,
    /// Begin to link an account.
    AuthBegin,
    /// Link it, with the values that the person brought back.
    AuthComplete,
    /// Say whether the person is done.
    AuthPoll,
}

impl Method {
    /// The word in the request.
    pub fn word(self) -> &'static str {
        match self {
            Self::Definitions => "definitions",
            Self::Invoke => "invoke",
            Self::AuthBegin => "auth_begin",
            Self::AuthComplete => "auth_complete",
            Self::AuthPoll => "auth_poll",
        }
    }
}

/// A fresh id for a request: `cap_bridge_` and 16 hexadecimal digits.
///
/// # Errors
/// [`NoRandomness`].
pub fn fresh_id(ids: &dyn Random) -> Result<String, NoRandomness> {
    let mut bytes = [0; 8];
    ids.fill(&mut bytes)?;
    Ok(format!("cap_bridge_{}", base16ct::lower::encode_string(&bytes)))
}

/// The request, as a line.
pub fn request(id: &str, namespace: &Provider, method: &str, params: &Value) -> Vec<u8> {
    let request = json!({ "version": VERSION, "id": id, "namespace": namespace, "method": method, "params": params });
    format!("{request}\n").into_bytes()
}

/// The answer of a bridge.
#[derive(Debug, Clone, PartialEq)]
pub enum BridgeReply {
    /// A result.
    Result(Map<String, Value>),
    /// A refusal.
    Error {
        /// `capability_auth_required`
        code: String,
        /// Why.
        message: String,
    },
}

/// How an answer breaks the protocol. The messages are for the bridge's author and quote nothing of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// There is none.
    #[error("it wrote nothing on standard output")]
    Empty,
    /// Not strict JSON, or more than one value.
    #[error("its output is not one strict JSON value: {0}")]
    Json(#[from] JsonError),
    /// JSON, but no object.
    #[error("its output is not a JSON object")]
    NotAnObject,
    /// Another version.
    #[error("`version` is not the integer 1")]
    Version,
    /// The answer to something else.
    #[error("`id` is not the request's")]
    Id,
    /// Neither a result nor an error, or both.
    #[error("there must be exactly one of `result` and `error`")]
    NotOneOf,
    /// Something that no envelope has.
    #[error("there is a member that no envelope has")]
    Member,
    /// A result that is no object.
    #[error("`result` is not an object")]
    Result,
    /// An error without code or message.
    #[error("`error` must have a `code` and a `message`, both texts that are not empty, and nothing else")]
    Error,
}

/// Reads the answer to the request of this id.
///
/// # Errors
/// [`Violation`], the first there is.
pub fn read(output: &[u8], id: &str) -> Result<BridgeReply, Violation> {
    if output.iter().all(u8::is_ascii_whitespace) {
        return Err(Violation::Empty);
    }
    let Value::Object(mut envelope) = parse(output)? else { return Err(Violation::NotAnObject) };
    if envelope.remove("version").and_then(|version| version.as_u64()) != Some(VERSION) {
        return Err(Violation::Version);
    }
    if envelope.remove("id").as_ref().and_then(Value::as_str) != Some(id) {
        return Err(Violation::Id);
    }
    let answer = match (envelope.remove("result"), envelope.remove("error")) {
        (Some(Value::Object(result)), None) => BridgeReply::Result(result),
        (Some(_), None) => return Err(Violation::Result),
        (None, Some(error)) => said(error).ok_or(Violation::Error)?,
        (Some(_), Some(_)) | (None, None) => return Err(Violation::NotOneOf),
    };
    if envelope.is_empty() { Ok(answer) } else { Err(Violation::Member) }
}

fn said(error: Value) -> Option<BridgeReply> {
    let Value::Object(mut error) = error else { return None };
    let mut text = |name: &str| match error.remove(name) {
        Some(Value::String(text)) if !text.trim().is_empty() => Some(text),
        Some(_) | None => None,
    };
    let (code, message) = (text("code")?, text("message")?);
    error.is_empty().then_some(BridgeReply::Error { code, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "cap_bridge_0123456789abcdef";

    fn envelope(rest: &str) -> Vec<u8> {
        format!(r#"{{"version": 1, "id": "{ID}"{rest}}}"#).into_bytes()
    }

    #[test]
    fn a_result_and_an_error_are_read() {
        let result = read(&envelope(r#", "result": {"output": {"n": 1.50}}"#), ID).unwrap();
        assert_eq!(result, BridgeReply::Result(json!({ "output": { "n": 1.50 } }).as_object().unwrap().clone()));
        let error = read(&envelope(r#", "error": {"code": "capability_auth_required", "message": "no account"}"#), ID);
        let (code, message) = ("capability_auth_required".to_owned(), "no account".to_owned());
        assert_eq!(error.unwrap(), BridgeReply::Error { code, message });
        let spaced = [b" \n".to_vec(), envelope(r#", "result": {}"#), b"\n\n".to_vec()].concat();
        assert_eq!(read(&spaced, ID).unwrap(), BridgeReply::Result(Map::new()));
    }

    /// Attack: see `every_misbehaviour_of_a_bridge_has_its_reason_code`.
    #[test]
    fn every_violation_has_its_name() {
        let version = |version: &str| format!(r#"{{"version": {version}, "id": "{ID}", "result": {{}}}}"#).into_bytes();
        for wrong in ["2", "true", "1.0", "\"1\"", "null", "1e0", "-1", "[1]"] {
            assert_eq!(read(&version(wrong), ID), Err(Violation::Version), "{wrong}");
        }
        let cases: [(Vec<u8>, Violation); 17] = [
            (b"".to_vec(), Violation::Empty),
            (b" \n\t".to_vec(), Violation::Empty),
            (b"[]".to_vec(), Violation::NotAnObject),
            (b"{}".to_vec(), Violation::Version),
            (br#"{"version": 1, "result": {}}"#.to_vec(), Violation::Id),
            (br#"{"version": 1, "id": "cap_bridge_0", "result": {}}"#.to_vec(), Violation::Id),
            (envelope(""), Violation::NotOneOf),
            (envelope(r#", "result": {}, "error": {"code": "a", "message": "b"}"#), Violation::NotOneOf),
            (envelope(r#", "result": {}, "error": null"#), Violation::NotOneOf),
            (envelope(r#", "result": []"#), Violation::Result),
            (envelope(r#", "result": null"#), Violation::Result),
            (envelope(r#", "error": "no""#), Violation::Error),
            (envelope(r#", "error": {"code": "", "message": "b"}"#), Violation::Error),
            (envelope(r#", "error": {"code": "a", "message": " "}"#), Violation::Error),
            (envelope(r#", "error": {"code": "a"}"#), Violation::Error),
            (envelope(r#", "error": {"code": "a", "message": "b", "data": 1}"#), Violation::Error),
            (envelope(r#", "result": {}, "log": "x""#), Violation::Member),
        ];
        for (output, violation) in cases {
            assert_eq!(read(&output, ID), Err(violation), "{}", String::from_utf8_lossy(&output));
        }
        let good = envelope(r#", "result": {}"#);
        let no_json = [
            [good.clone(), good.clone()].concat(),
            [good.clone(), b"\nwarning: x".to_vec()].concat(),
            [b"starting\n".to_vec(), good.clone()].concat(),
            envelope(r#", "result": {"n": NaN}"#),
            envelope(r#", "result": {"n": Infinity}"#),
            envelope(r#", "result": {"n": 1e999}"#),
            envelope(r#", "result": {"a": 1, "a": 2}"#),
            envelope(r#", "id": "cap_bridge_0", "result": {}"#),
            envelope(&format!(r#", "result": {{"a": {}1{}}}"#, "[".repeat(200), "]".repeat(200))),
            [good.clone(), vec![0xff]].concat(),
            [vec![0xef, 0xbb, 0xbf], good].concat(),
        ];
        for output in no_json {
            assert!(matches!(read(&output, ID), Err(Violation::Json(_))), "{}", String::from_utf8_lossy(&output));
        }
    }

    #[test]
    fn a_request_is_one_line_with_the_members_of_the_protocol() {
        let namespace: Provider = "gog".parse().unwrap();
        let line = String::from_utf8(request(ID, &namespace, "invoke", &json!({ "text": "a\nb" }))).unwrap();
        assert!(line.ends_with("}\n") && line.matches('\n').count() == 1, "{line}");
        let expected = json!({
            "version": 1, "id": ID, "namespace": "gog", "method": "invoke", "params": { "text": "a\nb" },
        });
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
    }
}
