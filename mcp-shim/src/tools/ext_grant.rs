//! `ext_grant`: gives a group access to a provider.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::request::GrantRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_grant",
    words: words::EXT_GRANT,
    seen_by: SeenBy::Main,
    effect: Effect::Changes { destructive: true, idempotent: true },
    open_world: false,
    schema: || schema::of::<GrantRequest>(&["timeout_ms"]),
};
