//! Persons: on whose behalf a group asks, as far as a signed token proves it.
//!
//! A group is known from its directory; the person at the other end of its chat only from a context token that somebody
//! on the host has signed. Nothing else that a request says of a person is ever read. [`issuers`] knows who may sign,
//! [`token`] what a token must be.

pub mod issuers;
pub mod shared_secret;
pub mod token;
