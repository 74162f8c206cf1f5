//! `gov_list_ext_calls`: lists the latest external calls of all groups.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::request::CallsRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "gov_list_ext_calls",
    words: words::GOV_LIST_EXT_CALLS,
    seen_by: SeenBy::Main,
    effect: Effect::Reads,
    open_world: false,
    schema: || schema::of::<CallsRequest>(&[]),
};
