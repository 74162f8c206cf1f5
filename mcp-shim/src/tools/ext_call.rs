//! `ext_call`: any action at any provider, by name.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::request::CallRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_call",
    words: words::EXT_CALL,
    seen_by: SeenBy::All,
    effect: Effect::Changes { destructive: true, idempotent: false },
    open_world: true,
    schema: || schema::of::<CallRequest>(&["timeout_ms"]),
};
