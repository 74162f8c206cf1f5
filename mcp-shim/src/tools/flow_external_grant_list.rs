//! `flow_external_grant_list`: lists the accesses of agents outside.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::flow::request::GrantList;

pub(super) const ENTRY: Entry = Entry {
    name: "flow_external_grant_list",
    words: words::FLOW_EXTERNAL_GRANT_LIST,
    seen_by: SeenBy::Main,
    effect: Effect::Reads,
    open_world: false,
    schema: || schema::of::<GrantList>(&[]),
};
