//! `flow_external_grant_mint`: gives an agent outside access to a flow and some tools.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::flow::request::GrantMint;

pub(super) const ENTRY: Entry = Entry {
    name: "flow_external_grant_mint",
    words: words::FLOW_EXTERNAL_GRANT_MINT,
    seen_by: SeenBy::Main,
    effect: Effect::Changes { destructive: false, idempotent: false },
    open_world: false,
    schema: || schema::of::<GrantMint>(&[]),
};
