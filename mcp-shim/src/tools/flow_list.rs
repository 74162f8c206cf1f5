//! `flow_list`: lists flows.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::flow::request::FlowList;

pub(super) const ENTRY: Entry = Entry {
    name: "flow_list",
    words: words::FLOW_LIST,
    seen_by: SeenBy::Main,
    effect: Effect::Reads,
    open_world: false,
    schema: || schema::of::<FlowList>(&[]),
};
