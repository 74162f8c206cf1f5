//! `ext_result`: the outcome of an earlier call.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::request::ResultRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_result",
    words: words::EXT_RESULT,
    seen_by: SeenBy::All,
    effect: Effect::Reads,
    open_world: false,
    schema: || schema::of::<ResultRequest>(&["timeout_ms"]),
};
