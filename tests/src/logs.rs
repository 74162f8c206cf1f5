//! Everything that hosts in this process log, kept in memory so that it can be searched.

use std::io::Write;
use std::sync::{Mutex, Once, PoisonError};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static INIT: Once = Once::new();

/// Begins to listen, once.
pub fn listen() {
    INIT.call_once(|| {
        tracing_subscriber::fmt()
            .with_writer(Memory)
            .with_ansi(false)
            .with_env_filter(EnvFilter::new("host_broker=trace,shared=trace"))
            .init();
    });
}

/// The log so far, of all worlds of this process.
pub fn read<T>(look: impl FnOnce(&[u8]) -> T) -> T {
    look(&LOG.lock().unwrap_or_else(PoisonError::into_inner))
}

struct Memory;

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Memory {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}
