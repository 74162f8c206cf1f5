//! `task_create`: makes a governance task.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::request::TaskRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "task_create",
    words: words::TASK_CREATE,
    seen_by: SeenBy::Main,
    effect: Effect::Changes { destructive: false, idempotent: false },
    open_world: false,
    schema: || schema::of::<TaskRequest>(&[]),
};
