//! A shim's part of a call, over the socket and as files, without a shim's own time.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use shared::RequestId;
use shared::frame::{self, Decoder, Kind, ShimHello};
use shared::mailbox::{self, Directory, RESPONSES, SOCKET, TASKS};
use shared::snapshot::PROTOCOL;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time after which there is no reply any more.
const TIMEOUT: Duration = Duration::from_secs(60);

fn request(id: &str, action: &str) -> Vec<u8> {
    let document = json!({
        "type": "ext_call", "request_id": id, "provider": "mock", "action": action, "params": { "a": 1 },
    });
    document.to_string().into_bytes()
}

fn check(reply: &[u8]) -> anyhow::Result<()> {
    let reply: Value = serde_json::from_slice(reply)?;
    if reply.get("status").and_then(Value::as_str) == Some("executed") {
        return Ok(());
    }
    bail!("a call was not executed: {reply}")
}

/// A connection.
pub(super) struct BySocket {
    stream: UnixStream,
    decoder: Decoder,
    count: u64,
}

impl BySocket {
    pub(super) fn connect(mailbox: &Path) -> anyhow::Result<Self> {
        let path = mailbox.join(SOCKET);
        let stream = UnixStream::connect(&path).with_context(|| format!("cannot connect to {}", path.display()))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut client = Self { stream, decoder: Decoder::of_replies(), count: 0 };
        let hello = frame::of(Kind::Hello, &ShimHello { protocols: vec![PROTOCOL.to_owned()] })?;
        client.stream.write_all(&hello)?;
        Ok(client)
    }

    fn send(&mut self, action: &str) -> anyhow::Result<()> {
        self.count += 1;
        let id = format!("bench-socket-{}", self.count);
        Ok(self.stream.write_all(&frame::encode(Kind::Request, &request(&id, action))?)?)
    }

    fn reply(&mut self) -> anyhow::Result<()> {
        let mut buffer = [0; 16 * 1024];
        loop {
            while let Some(frame) = self.decoder.take()? {
                match frame.kind {
                    Kind::Reply => return check(&frame.document),
                    Kind::Goodbye => bail!("the daemon ends the connection"),
                    Kind::Hello | Kind::Request | Kind::Progress | Kind::Changed | Kind::Withdraw | Kind::Withdrawn => {
                    }
                }
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => bail!("the daemon has closed the connection"),
                Ok(read) => self.decoder.push(buffer.get(..read).unwrap_or_default()),
                // A process that is stopped and goes on is interrupted in a read with a deadline (`signal(7)`).
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// One call.
    pub(super) fn call(&mut self, action: &str) -> anyhow::Result<()> {
        self.send(action)?;
        self.reply()
    }

    /// So many calls, with some in flight at once.
    pub(super) fn calls(&mut self, action: &str, calls: u32, in_flight: u32) -> anyhow::Result<()> {
        for number in 0..calls + in_flight {
            if number >= in_flight {
                self.reply()?;
            }
            if number < calls {
                self.send(action)?;
            }
        }
        Ok(())
    }
}

/// The directories of a mailbox. As a shim does, it uses the file of its last request again.
pub(super) struct ByFiles {
    tasks: Directory,
    responses: Directory,
    count: u64,
    // The file of the last request, which the host has taken.
    spare: Option<String>,
}

impl ByFiles {
    pub(super) fn open(mailbox: &Path) -> anyhow::Result<Self> {
        let root = Directory::open(mailbox)?;
        Ok(Self { tasks: root.open_dir(TASKS)?, responses: root.open_dir(RESPONSES)?, count: 0, spare: None })
    }

    /// One call. It looks for the reply without a pause, so no notice of the kernel is part of the time.
    pub(super) fn call(&mut self, action: &str) -> anyhow::Result<()> {
        self.count += 1;
        let id: RequestId = format!("bench-files-{}", self.count).parse()?;
        let (task, reply, began) = (mailbox::reusable_name(&id), mailbox::reply_name(&id), Instant::now());
        let bytes = request(id.as_str(), action);
        match self.spare.take() {
            Some(spare) => {
                self.tasks.rewrite(&spare, &bytes)?;
                self.tasks.rename(&spare, &task)?;
            }
            None => self.tasks.write(&task, &bytes, 0o644)?,
        }
        while self.responses.look(&reply).is_none() {
            if began.elapsed() > TIMEOUT {
                bail!("the daemon does not answer");
            }
            std::thread::yield_now();
        }
        let read = self.responses.read_reply(&reply, shared::limits::REPLY_BYTES_MAX);
        self.responses.remove(&reply)?;
        self.spare = Some(mailbox::spare_name(&id));
        check(&read.map_err(|error| anyhow::anyhow!("{error}"))?.bytes)
    }
}
