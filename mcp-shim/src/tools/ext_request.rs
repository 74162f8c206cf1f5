//! `ext_request`: requests access to a provider for a while.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::request::AccessRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_request",
    words: words::EXT_REQUEST,
    seen_by: SeenBy::AccessRequesters,
    effect: Effect::Changes { destructive: false, idempotent: true },
    open_world: false,
    schema: || schema::of::<AccessRequest>(&["timeout_ms"]),
};
