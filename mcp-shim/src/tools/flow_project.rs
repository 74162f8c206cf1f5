//! `flow_project`: renders a flow for a harness.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::flow::request::FlowProject;

pub(super) const ENTRY: Entry = Entry {
    name: "flow_project",
    words: words::FLOW_PROJECT,
    seen_by: SeenBy::Main,
    effect: Effect::Reads,
    open_world: false,
    schema: || schema::of::<FlowProject>(&[]),
};
