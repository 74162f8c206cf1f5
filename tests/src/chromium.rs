//! A real browser without a screen, driven through `chromedriver` (`WebDriver`, W3C).

use crate::until;
use base64::Engine as _;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const BROWSER: &str = "/usr/bin/chromium";
const DRIVER: &str = "/usr/bin/chromedriver";
/// The name of an element in `WebDriver`'s documents.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A driver in a process group of its own, and its port; `None` if it has ended without one.
fn driver(home: &Path) -> Option<(Child, u16)> {
    let mut driver = Command::new(DRIVER);
    driver.args(["--port=0"]).env("HOME", home).stdout(Stdio::piped()).stderr(Stdio::null());
    // The browser is in the driver's group, so that it can be ended with it.
    driver.process_group(0);
    let mut driver = driver.spawn().unwrap();
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let port = lines.map_while(Result::ok).find_map(|line| {
        let (_, rest) = line.split_once("successfully on port ")?;
        rest.trim_end_matches('.').parse().ok()
    });
    if port.is_none() {
        driver.wait().unwrap();
    }
    Some((driver, port?))
}

/// The program of the accessibility checker.
fn checker() -> Option<String> {
    let servers = std::env::var_os("EXT_TEST_SERVERS")?;
    std::fs::read_to_string(Path::new(&servers).join("axe/node_modules/axe-core/axe.min.js")).ok()
}

/// A browser with one window.
pub struct Chromium {
    driver: Child,
    port: u16,
    session: String,
    // The telephone's size, if it is one.
    size: Cell<Option<(u32, u32)>>,
    profile: TempDir,
}

impl Chromium {
    /// Starts one; `None`, with the reason printed, where there is none.
    pub fn start() -> Option<Self> {
        if let Some(missing) = [BROWSER, DRIVER].into_iter().find(|program| !Path::new(program).exists()) {
            crate::skipped(&format!("there is no {missing}; apt-get install chromium chromium-driver"));
            return None;
        }
        let profile = tempfile::Builder::new().prefix("broker-chromium-").tempdir().unwrap();
        // The driver takes its port for one family of addresses first; another program may have it for the other one.
        let (driver, port) = (0..5).find_map(|_| driver(profile.path())).expect("a driver that listens");
        let mut browser = Self { driver, port, session: String::new(), size: Cell::new(None), profile };
        let data = format!("--user-data-dir={}", browser.profile.path().join("profile").display());
        let options = json!({ "binary": BROWSER, "args": [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-dev-shm-usage", "--window-size=1280,900",
            // It speaks to this machine only.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE *.localhost, EXCLUDE 127.0.0.1",
            data,
        ] });
        let wanted = json!({ "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" } });
        let made = browser.call("POST", "/session", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        browser.session = format!("/session/{}", made.get("sessionId").and_then(Value::as_str).expect("a session"));
        Some(browser)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_call(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    fn try_call(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(crate::DEADLINE)).unwrap();
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).unwrap() > 2 {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).unwrap();
        let mut answer: Value = serde_json::from_slice(&bytes).expect("a WebDriver document");
        let value = answer.get_mut("value").map(Value::take).expect("a value");
        if value.get("error").is_some() { Err(value) } else { Ok(value) }
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("{}{path}", self.session), body)
    }

    /// Opens an address.
    pub fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// Where it is.
    pub fn url(&self) -> String {
        self.call("GET", &format!("{}/url", self.session), &Value::Null).as_str().unwrap().to_owned()
    }

    /// The result of a function's body.
    pub fn script(&self, body: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": body, "args": [] }))
    }

    /// Waits until an expression is true.
    pub fn wait(&self, expression: &str) {
        let body = json!({ "script": format!("return Boolean({expression})"), "args": [] });
        // While a page is being left there is nothing to ask.
        let path = format!("{}/execute/sync", self.session);
        until(expression, || (self.try_call("POST", &path, &body).ok()? == json!(true)).then_some(()));
    }

    /// Waits until the page says this.
    pub fn wait_for(&self, words: &str) {
        self.wait(&format!("document.body?.innerText.includes({})", json!(words)));
    }

    /// Clicks what a selector finds.
    pub fn click(&self, selector: &str) {
        let found = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        let id = found.get(ELEMENT).and_then(Value::as_str).expect("an element");
        self.post(&format!("/element/{id}/click"), &json!({}));
    }

    /// Presses keys, one after the other; `\u{e007}` is Enter.
    pub fn press(&self, keys: &str) {
        let stroke = |key: char| [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })];
        let strokes: Vec<Value> = keys.chars().flat_map(stroke).collect();
        self.post("/actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": strokes }] }));
    }

    fn devtools(&self, command: &str, params: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": params }))
    }

    /// Is a telephone of this size, in dots of the page.
    pub fn telephone(&self, width: u32, height: u32) {
        self.size.set(Some((width, height)));
        self.resize(width, height);
    }

    /// Is a window on a desk again.
    pub fn desk(&self) {
        self.size.set(None);
        self.devtools("Emulation.clearDeviceMetricsOverride", &json!({}));
        self.wait("innerWidth > 1000");
    }

    fn resize(&self, width: u32, height: u32) {
        let mobile = self.size.get().is_some();
        let scale = if mobile { 2 } else { 1 };
        let params = json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": mobile });
        self.devtools("Emulation.setDeviceMetricsOverride", &params);
    }

    /// Prefers dark pages, or light ones.
    pub fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// The findings of an accessibility checker on the page: WCAG 2.2, levels A and AA, and its best practices.
    /// `None`, with the reason printed, where the checker is not installed.
    pub fn barriers(&self) -> Option<Vec<String>> {
        let Some(checker) = checker() else {
            crate::skipped("the accessibility checker is not installed; run `. .ci/install`");
            return None;
        };
        self.script(&checker);
        let run = "const done = arguments[arguments.length - 1]; \
                   axe.run(document, { resultTypes: ['violations'] }).then(found => done(found.violations.map(rule => \
                   `${rule.id}: ${rule.help}: ${rule.nodes.map(node => node.html).join(' | ')}`)), \
                   fault => done([String(fault)]))";
        let found = self.post("/execute/async", &json!({ "script": run, "args": [] }));
        Some(serde_json::from_value(found).expect("a list of sentences"))
    }

    /// The complaints of the browser.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({ "type": "browser" }));
        log.as_array().unwrap().iter().map(|entry| entry["message"].to_string()).collect()
    }

    /// Keeps a picture of the whole page, where `EXT_TEST_SCREENSHOTS` names a directory.
    pub fn picture(&self, name: &str) {
        if let Some(folder) = std::env::var_os("EXT_TEST_SCREENSHOTS") {
            self.take(Path::new(&folder), name);
        }
    }

    /// Renews a picture in `docs/images`, where `UPDATE_DOCS` is set.
    pub fn picture_of_documents(&self, name: &str) {
        if std::env::var_os("UPDATE_DOCS").is_some() {
            self.take(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/images"), name);
        }
    }

    fn take(&self, folder: &Path, name: &str) {
        // A browser draws only what is in sight, so all of it must be.
        let size = self.script("return [innerWidth, Math.min(6000, document.documentElement.scrollHeight)]");
        let dots =
            |index: usize| size.get(index).and_then(Value::as_u64).and_then(|dots| u32::try_from(dots).ok()).unwrap();
        self.resize(dots(0), dots(1));
        let taken = self.devtools("Page.captureScreenshot", &json!({ "format": "png" }));
        match self.size.get() {
            Some((width, height)) => self.resize(width, height),
            None => self.desk(),
        }
        let picture = taken.get("data").and_then(Value::as_str).expect("a picture");
        let bytes = base64::engine::general_purpose::STANDARD.decode(picture).unwrap();
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The driver ends the browser that it has started, if it can.
        if !self.session.is_empty() {
            self.try_call("DELETE", &self.session, &json!({})).ok();
        }
        kill_process_group(Pid::from_child(&self.driver), Signal::KILL).ok();
        self.driver.wait().ok();
    }
}
