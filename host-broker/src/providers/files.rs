//! `files`: changes to a group's workspace, proposed first and applied once a person has seen them.
//!
//! The sandbox owns the workspace and is hostile: it may plant links, pipes and devices, swap directories and edit
//! files at every moment. So every path is a parsed [`path::WorkspacePath`], looked at under the operator's
//! [`rules::PathRules`] and reached only through a [`workspace::Workspace`], the handle of one directory.
//!
//! A change is known completely before anybody is asked: [`patch`] makes a [`change::ChangeSet`] of a patch and of what
//! the files are now, [`diff`] shows all of it, and [`apply`] makes it true, all of it or nothing, if the files still are
//! what they were.

pub mod path;
pub mod rules;
pub mod workspace;
pub mod record;
pub mod change;
pub mod patch;
pub mod diff;
pub mod apply;
