//! The HTTP of stand-ins: one request and one answer on each connection.

use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// A request.
pub(crate) struct Request {
    /// `/api/chat.postMessage`.
    pub(crate) path: String,
    /// The whole head.
    head: String,
    /// The document.
    pub(crate) body: Value,
}

impl Request {
    /// Reads one; `None` if the client sends none with a document.
    pub(crate) fn read(stream: &mut TcpStream) -> Option<Self> {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
            bytes.extend_from_slice(buffer.get(..count)?);
            let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            let head = String::from_utf8(bytes.get(..end)?.to_vec()).ok()?;
            let path = head.split(' ').nth(1)?.to_owned();
            let mut request = Self { path, head, body: Value::Null };
            let length: usize = request.header("content-length")?.parse().ok()?;
            if bytes.len() >= end + 4 + length {
                request.body = serde_json::from_slice(bytes.get(end + 4..)?).ok()?;
                return Some(request);
            }
        }
    }

    /// The value of a header, whose name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// Answers with a document, under a line such as `200 OK`.
pub(crate) fn answer(stream: &mut TcpStream, status: &str, body: &Value) {
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).ok();
}
