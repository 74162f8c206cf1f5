//! `ext_auth_begin`: begins to link an account of the person.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::auth::AuthBeginRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_auth_begin",
    words: words::EXT_AUTH_BEGIN,
    seen_by: SeenBy::AccountLinkers,
    effect: Effect::Changes { destructive: false, idempotent: false },
    open_world: true,
    schema: || schema::of::<AuthBeginRequest>(&["timeout_ms"]),
};
