//! The output: one line of JSON for each message, and for each batch.

use rmcp::model::JsonRpcMessage;
use rmcp::model::ServerJsonRpcMessage;
use serde_json::Value;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;

/// The other end; nothing after it was closed.
pub(super) struct Output<W>(Arc<Mutex<Option<W>>>);

/// A message as the specification wants it: an error without an id has the id `null`, which the SDK leaves away.
pub(super) fn value(message: &ServerJsonRpcMessage) -> io::Result<Value> {
    let mut value = serde_json::to_value(message)?;
    if let (JsonRpcMessage::Error(_), Some(members)) = (message, value.as_object_mut()) {
        members.entry("id").or_insert(Value::Null);
    }
    Ok(value)
}

impl<W: AsyncWrite + Send + Unpin + 'static> Output<W> {
    pub(super) fn new(writer: W) -> Self {
        Self(Arc::new(Mutex::new(Some(writer))))
    }

    /// Writes a line. Lines that are written at the same time come one after the other.
    pub(super) fn write(&self, line: &Value) -> impl Future<Output = io::Result<()>> + Send + 'static + use<W> {
        let bytes = format!("{line}\n").into_bytes();
        let lock = Arc::clone(&self.0);
        async move {
            let mut writer = lock.lock().await;
            let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            writer.write_all(&bytes).await?;
            writer.flush().await
        }
    }

    /// Writes nothing more. Does not wait for a line that the client does not read.
    pub(super) fn close(&self) {
        if let Ok(mut writer) = self.0.try_lock() {
            drop(writer.take());
        }
    }
}
