//! The real binary over pipes, spoken to in raw JSON-RPC lines; the host is played by the test itself, which knows
//! nothing but the documented directory protocol. Nothing here depends on how long anything takes.

// Always set here; it tells the lints that what the tests share is test code too.
#[cfg(test)]
mod shim {
    mod commands;
    mod conversation;
    mod granting;
    mod harness;
    mod json;
    mod linking;
    mod messages;
    mod replies;
    mod waiting;
}
