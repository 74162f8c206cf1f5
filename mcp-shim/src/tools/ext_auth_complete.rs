//! `ext_auth_complete`: links the account with the values that the person brought back from the provider's page.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::auth::AuthCompleteRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_auth_complete",
    words: words::EXT_AUTH_COMPLETE,
    seen_by: SeenBy::AccountLinkers,
    effect: Effect::Changes { destructive: false, idempotent: false },
    open_world: true,
    schema: || schema::of::<AuthCompleteRequest>(&["timeout_ms"]),
};
