//! `flow_approve`: asks people to make a version canonical.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::flow::request::FlowVersion;

pub(super) const ENTRY: Entry = Entry {
    name: "flow_approve",
    words: words::FLOW_APPROVE,
    seen_by: SeenBy::Main,
    effect: Effect::Changes { destructive: false, idempotent: true },
    open_world: false,
    schema: || schema::of::<FlowVersion>(&[]),
};
