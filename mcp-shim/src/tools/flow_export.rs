//! `flow_export`: gives a flow as one document.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::flow::request::FlowNamed;

pub(super) const ENTRY: Entry = Entry {
    name: "flow_export",
    words: words::FLOW_EXPORT,
    seen_by: SeenBy::Main,
    effect: Effect::Reads,
    open_world: false,
    schema: || schema::of::<FlowNamed>(&[]),
};
