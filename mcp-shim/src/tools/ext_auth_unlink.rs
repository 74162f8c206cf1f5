//! `ext_auth_unlink`: unlinks an account of the person.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::auth::AuthUnlinkRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_auth_unlink",
    words: words::EXT_AUTH_UNLINK,
    seen_by: SeenBy::AccountLinkers,
    effect: Effect::Changes { destructive: true, idempotent: true },
    open_world: false,
    schema: || schema::of::<AuthUnlinkRequest>(&[]),
};
