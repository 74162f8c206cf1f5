//! `ext_auth_poll`: how far the linking of an account is.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::auth::AuthPollRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_auth_poll",
    words: words::EXT_AUTH_POLL,
    seen_by: SeenBy::AccountLinkers,
    effect: Effect::Reads,
    open_world: true,
    schema: || schema::of::<AuthPollRequest>(&["timeout_ms"]),
};
