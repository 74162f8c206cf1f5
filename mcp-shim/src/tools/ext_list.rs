//! `ext_list`: lists grants.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::request::ListRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_list",
    words: words::EXT_LIST,
    seen_by: SeenBy::Main,
    effect: Effect::Reads,
    open_world: false,
    schema: || schema::of::<ListRequest>(&[]),
};
