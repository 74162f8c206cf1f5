//! Programs that try to go round the types of a call's life: none of them compiles.
//!
//! They hold: no effect without durable intent, no intent without authorization, no authorization older than its
//! transaction, no secret without intent, no reply without evidence.

#[test]
fn nothing_goes_round_the_stages_of_a_call() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
