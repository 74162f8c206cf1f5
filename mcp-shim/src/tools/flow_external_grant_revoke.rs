//! `flow_external_grant_revoke`: ends an access of an agent outside.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::flow::request::GrantNamed;

pub(super) const ENTRY: Entry = Entry {
    name: "flow_external_grant_revoke",
    words: words::FLOW_EXTERNAL_GRANT_REVOKE,
    seen_by: SeenBy::Main,
    effect: Effect::Changes { destructive: true, idempotent: true },
    open_world: false,
    schema: || schema::of::<GrantNamed>(&[]),
};
