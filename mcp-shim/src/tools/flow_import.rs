//! `flow_import`: proposes a flow from elsewhere.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::flow::Bundle;

pub(super) const ENTRY: Entry = Entry {
    name: "flow_import",
    words: words::FLOW_IMPORT,
    seen_by: SeenBy::Main,
    effect: Effect::Changes { destructive: false, idempotent: true },
    open_world: false,
    schema: || schema::of::<Bundle>(&[]),
};
