//! `ext_revoke`: ends a group's access to a provider.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::request::RevokeRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_revoke",
    words: words::EXT_REVOKE,
    seen_by: SeenBy::Main,
    effect: Effect::Changes { destructive: true, idempotent: true },
    open_world: false,
    schema: || schema::of::<RevokeRequest>(&[]),
};
