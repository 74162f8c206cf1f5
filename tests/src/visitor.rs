//! Somebody who speaks HTTP to the inbox, byte by byte: a browser's headers unless the test wants others.

use crate::{World, until};
use serde_json::json;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

/// A visitor with at most one cookie.
#[derive(Debug, Clone)]
pub struct Visitor {
    origin: String,
    port: u16,
    /// The cookie of the browser.
    pub cookie: Option<String>,
}

/// The response.
#[derive(Debug, Clone)]
pub struct Page {
    /// The status, 0 if there was no reply.
    pub status: u16,
    /// The head, in lower case up to each colon.
    pub head: Vec<(String, String)>,
    /// The body.
    pub text: String,
}

impl Page {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The value of a form's hidden field.
    pub fn field(&self, name: &str) -> String {
        let mark = format!("name=\"{name}\" value=\"");
        let (_, rest) = self.text.split_once(&mark).unwrap_or_else(|| panic!("no field {name}: {}", self.text));
        rest.split('"').next().unwrap().to_owned()
    }
}

/// Percent-encoded, for a form.
pub fn form(fields: &[(&str, &str)]) -> String {
    let encoded = |text: &str| {
        text.bytes().fold(String::new(), |mut out, byte| {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                out.push(char::from(byte));
            } else {
                write!(out, "%{byte:02X}").unwrap();
            }
            out
        })
    };
    let pair = |(name, value): &(&str, &str)| format!("{}={}", encoded(name), encoded(value));
    fields.iter().map(pair).collect::<Vec<_>>().join("&")
}

impl Visitor {
    /// Somebody who is not signed in.
    pub fn of(world: &World) -> Self {
        let hello = world.command(json!({ "type": "hello" }));
        let url = hello.pointer("/data/web").and_then(|web| web.as_str()).expect("an inbox").to_owned();
        let origin = url.trim_end_matches('/').to_owned();
        let port = origin.rsplit(':').next().unwrap().parse().unwrap();
        Self { origin, port, cookie: None }
    }

    /// Somebody behind a proxy that has this origin and speaks to this port.
    pub fn at(origin: &str, port: u16) -> Self {
        Self { origin: origin.to_owned(), port, cookie: None }
    }

    /// The operator, signed in with a link.
    pub fn signed_in(world: &World) -> Self {
        let mut visitor = Self::of(world);
        let secret = link(world);
        let done = visitor.post("/sign-in/link", &[("secret", &secret)]);
        assert_eq!(done.status, 303, "{done:?}");
        visitor
    }

    /// Where the inbox is.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The host and the port.
    pub fn host(&self) -> &str {
        self.origin.split_once("//").map_or("", |(_, host)| host)
    }

    /// A connection on which nothing was said.
    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap()
    }

    /// Says exactly this, and takes what comes back.
    pub fn say(&self, bytes: &[u8]) -> Page {
        let mut stream = self.connect();
        // Who is turned away early may not be listened to any more.
        stream.write_all(bytes).ok();
        page(stream)
    }

    /// Opens a page.
    pub fn get(&self, path: &str) -> Page {
        self.say(&self.request("GET", path, &[], ""))
    }

    /// Sends a form from a page of the inbox, and keeps the cookie that is set.
    pub fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let origin = self.origin.clone();
        let page = self.say(&self.request("POST", path, &[("Origin", &origin)], &form(fields)));
        if let Some(set) = page.header("set-cookie") {
            let pair = set.split(';').next().unwrap();
            self.cookie = Some(pair.to_owned()).filter(|pair| !pair.ends_with('='));
        }
        page
    }

    /// A request's bytes. A header that is named here replaces the browser's own.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        let named = |name: &str| headers.iter().any(|(found, _)| found.eq_ignore_ascii_case(name));
        let mut add = |name: &str, value: &str| write!(text, "{name}: {value}\r\n").unwrap();
        if !named("Host") {
            add("Host", self.host());
        }
        if let Some(cookie) = self.cookie.as_ref().filter(|_| !named("Cookie")) {
            add("Cookie", cookie);
        }
        if method != "GET" {
            if !named("Content-Length") {
                add("Content-Length", &body.len().to_string());
            }
            if !named("Content-Type") {
                add("Content-Type", "application/x-www-form-urlencoded");
            }
        }
        for (name, value) in headers {
            add(name, value);
        }
        format!("{text}\r\n{body}").into_bytes()
    }

    /// Answers a question as its page would.
    pub fn answer(&mut self, reference: &str, yes: bool, reason: &str) -> Page {
        let shown = self.get(&format!("/approvals/{reference}"));
        let (form, digest) = (shown.field("form"), shown.field("digest"));
        let said = if yes { "yes" } else { "no" };
        let fields = [("form", form.as_str()), ("digest", &digest), ("answer", said), ("reason", reason)];
        self.post(&format!("/approvals/{reference}/answer"), &fields)
    }

    /// Watches for changes of approval requests; gives each line that says something.
    pub fn watch(&self) -> impl Iterator<Item = String> + use<> {
        self.watch_at("/events")
    }

    /// Watches for the changes of a stream; gives each line that says something. There is none if it is refused.
    pub fn watch_at(&self, path: &str) -> impl Iterator<Item = String> + use<> {
        let mut stream = self.connect();
        stream.set_read_timeout(Some(crate::DEADLINE)).unwrap();
        stream.write_all(&self.request("GET", path, &[], "")).unwrap();
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        lines.filter_map(|line| line.strip_prefix("data: ").map(ToOwned::to_owned))
    }
}

/// The secret of a fresh link for the operator.
pub fn link(world: &World) -> String {
    let reply = world.command(json!({ "type": "web_link" }));
    let url = reply.pointer("/data/url").and_then(|url| url.as_str()).unwrap_or_else(|| panic!("{reply}")).to_owned();
    url.split_once("link=").unwrap().1.to_owned()
}

/// The name of the one question that waits.
pub fn reference(world: &World) -> String {
    let sql = "SELECT asked_seq FROM approvals WHERE state = 'waiting'";
    until("the approval request", || Some(format!("ask-{}", world.query(sql).first()?["asked_seq"])))
}

fn page(mut stream: TcpStream) -> Page {
    stream.set_read_timeout(Some(crate::DEADLINE)).unwrap();
    let mut bytes = Vec::new();
    // A connection that is cut is the end of what came.
    stream.read_to_end(&mut bytes).ok();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
    let (head, body) = bytes.split_at(end);
    let head = String::from_utf8_lossy(head).into_owned();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
    let head: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let body = body.get(4..).unwrap_or_default();
    Page { status, head, text: String::from_utf8_lossy(body).into_owned() }
}
