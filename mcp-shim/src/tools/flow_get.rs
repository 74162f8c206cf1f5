//! `flow_get`: reads a flow.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::flow::request::FlowNamed;

pub(super) const ENTRY: Entry = Entry {
    name: "flow_get",
    words: words::FLOW_GET,
    seen_by: SeenBy::Main,
    effect: Effect::Reads,
    open_world: false,
    schema: || schema::of::<FlowNamed>(&[]),
};
