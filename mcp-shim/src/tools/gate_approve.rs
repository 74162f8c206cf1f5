//! `gate_approve`: opens a gate of a task.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::request::GateRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "gate_approve",
    words: words::GATE_APPROVE,
    seen_by: SeenBy::GateOpeners,
    effect: Effect::Changes { destructive: false, idempotent: false },
    open_world: false,
    schema: || schema::of::<GateRequest>(&[]),
};
