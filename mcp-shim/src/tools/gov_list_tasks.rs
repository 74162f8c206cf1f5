//! `gov_list_tasks`: lists the governance tasks with their states.

use super::{Effect, Entry, SeenBy};
use crate::render::words;
use crate::schema;
use shared::request::TasksRequest;

pub(super) const ENTRY: Entry = Entry {
    name: "gov_list_tasks",
    words: words::GOV_LIST_TASKS,
    seen_by: SeenBy::Main,
    effect: Effect::Reads,
    open_world: false,
    schema: || schema::of::<TasksRequest>(&[]),
};
