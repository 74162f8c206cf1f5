//! `ext_plan`: several calls in order, after one answer of a person.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::request::PlanRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "ext_plan",
    words: words::EXT_PLAN,
    seen_by: SeenBy::All,
    effect: Effect::Changes { destructive: true, idempotent: false },
    open_world: true,
    schema: || schema::of::<PlanRequest>(&["timeout_ms"]),
};
