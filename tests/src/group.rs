//! The abilities of a sandbox: read and write files in one directory.

use crate::sender::{Senders, Sent};
use crate::until;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One group's side of its directory.
#[derive(Debug, Clone)]
pub struct Group {
    name: String,
    directory: PathBuf,
    count: Arc<AtomicU64>,
    /// The transport; `None` if the group uses files only.
    senders: Option<Arc<Senders>>,
}

impl Group {
    pub(crate) fn new(name: &str, directory: PathBuf, count: Arc<AtomicU64>, senders: Arc<Senders>) -> Self {
        Self { name: name.to_owned(), directory, count, senders: Some(senders) }
    }

    /// The same group, which uses files over both transports: for tests about the files.
    pub fn by_files(mut self) -> Self {
        self.senders = None;
        self
    }

    /// The group's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Removes `responses/`. The host can write there at the same time, so it is tried until it is gone.
    pub fn remove_responses(&self) {
        let responses = self.directory().join("responses");
        until("the removal", || std::fs::remove_dir_all(&responses).ok());
    }

    /// `ipc/<group>`
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A name in `tasks/`.
    pub fn task(&self, name: &str) -> PathBuf {
        self.directory.join("tasks").join(name)
    }

    /// A name in `responses/`.
    pub fn response(&self, name: &str) -> PathBuf {
        self.directory.join("responses").join(name)
    }

    /// A request id that this world has not used.
    pub fn fresh_id(&self) -> String {
        format!("r-{}", self.count.fetch_add(1, Ordering::SeqCst))
    }

    /// Writes a file into `tasks/` the way a shim does: a temporary name, then a rename.
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let temporary = self.task(&format!(".{}", self.fresh_id()));
        std::fs::write(&temporary, bytes).unwrap();
        std::fs::rename(temporary, self.task(name)).unwrap();
    }

    /// Sends a document over the transport of the tests; one without a `request_id` gets a fresh one. Returns the id.
    pub fn send(&self, mut document: Value) -> String {
        let members = document.as_object_mut().expect("an object");
        let id = members.entry("request_id").or_insert_with(|| self.fresh_id().into()).as_str().unwrap().to_owned();
        let document = document.to_string();
        let by_files = || Sent::AsFile(format!("{id}.json"));
        if let Sent::AsFile(name) =
            self.senders.as_ref().map_or_else(by_files, |senders| senders.send(self, &id, &document))
        {
            self.put(&name, document);
        }
        id
    }

    /// The reply under this id, if it is there; it is taken away, as a shim does.
    pub fn try_reply(&self, id: &str) -> Option<Value> {
        let senders = self.senders.as_deref();
        match senders.map_or(Ok(None), |senders| senders.reply(self, id)) {
            Ok(None) => {}
            Ok(Some(reply)) => return Some(reply),
            Err(document) => self.put(&format!("{id}.json"), document),
        }
        let path = self.response(&format!("{id}.json"));
        let bytes = std::fs::read(&path).ok()?;
        std::fs::remove_file(path).unwrap();
        if let Some(senders) = senders {
            senders.answered(self, id);
        }
        let reply: Value = serde_json::from_slice(&bytes).expect("replies are whole documents");
        assert_eq!(reply.get("request_id").and_then(Value::as_str), Some(id), "{reply}");
        Some(reply)
    }

    /// Waits for the reply under this id.
    pub fn reply(&self, id: &str) -> Value {
        until(&format!("a reply to {id} of {}", self.name), || self.try_reply(id))
    }

    /// Sends a document and waits for its reply.
    pub fn ask(&self, document: Value) -> Value {
        let id = self.send(document);
        self.reply(&id)
    }

    /// Calls an action of the provider `demo`.
    pub fn call(&self, action: &str, params: Value) -> Value {
        self.ask(call(action, params))
    }

    /// The snapshot, as the sandbox sees it now.
    pub fn snapshot(&self) -> Value {
        let path = self.directory.join("ext_capabilities.json");
        until("a snapshot", || serde_json::from_slice(&std::fs::read(&path).ok()?).ok())
    }

    /// How many documents wait in `tasks/`.
    pub fn waiting(&self) -> usize {
        self.names("tasks").len()
    }

    /// The names in one of the directories, without hidden ones.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.join(directory)).unwrap();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    }
}

/// A call of an action of the provider `demo`, without an id.
pub fn call(action: &str, params: Value) -> Value {
    let mut document = json!({ "type": "ext_call", "provider": "demo", "action": action });
    if let Some(members) = document.as_object_mut() {
        members.insert("params".into(), params);
    }
    document
}

/// The document with one more member.
pub fn with(mut document: Value, member: &str, value: impl Into<Value>) -> Value {
    document.as_object_mut().expect("an object").insert(member.to_owned(), value.into());
    document
}

/// The code of a reply, or the status where there is none.
pub fn code(reply: &Value) -> &str {
    reply.get("code").or_else(|| reply.get("status")).and_then(Value::as_str).expect("a reply")
}

/// The sentence of a refusal.
pub fn error(reply: &Value) -> &str {
    reply.get("error").and_then(Value::as_str).unwrap_or_else(|| panic!("no refusal: {reply}"))
}
