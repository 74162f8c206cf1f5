//! Persons: the ones on whose behalf a group calls, as far as a signed token proves them.
//!
//! The directory identifies a group. Only a context token, signed on the host, identifies the person at the other end
//! of its chat. Nothing else that a request says of a person is ever read. [`issuers`] knows the permitted signers,
//! [`token`] the requirements for a token.

pub mod issuers;
pub mod shared_secret;
pub mod token;
