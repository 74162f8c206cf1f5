//! `ext_auth_list`: lists the person's accounts at a capability.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::auth::AuthListRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_auth_list",
    words: words::EXT_AUTH_LIST,
    seen_by: SeenBy::AccountLinkers,
    effect: Effect::Reads,
    open_world: false,
    schema: || schema::of::<AuthListRequest>(&[]),
};
