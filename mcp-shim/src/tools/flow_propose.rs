//! `flow_propose`: proposes a version of a flow.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::flow::Bundle;

pub(super) const ENTRY: Entry = Entry {
    name: "flow_propose",
    words: words::FLOW_PROPOSE,
    seen_by: SeenBy::Main,
    effect: Effect::Changes { destructive: false, idempotent: true },
    open_world: false,
    schema: || schema::of::<Bundle>(&[]),
};
