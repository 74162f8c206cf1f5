//! `flow_deprecate`: ends a version of a flow.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::flow::request::FlowVersion;

pub(super) const ENTRY: Entry = Entry {
    name: "flow_deprecate",
    words: words::FLOW_DEPRECATE,
    seen_by: SeenBy::Main,
    effect: Effect::Changes { destructive: true, idempotent: true },
    open_world: false,
    schema: || schema::of::<FlowVersion>(&[]),
};
