//! Statements that are sent one after the other before the first answer is read.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The answer to a statement: whether it has changed as many rows as it should.
pub(super) type Answer = Result<bool, tokio_postgres::Error>;
/// A statement. Its first poll sends it.
pub(super) type Asked<'c> = Pin<Box<dyn Future<Output = Answer> + 'c>>;

/// The statements of a transaction, in their order.
pub(super) struct Flight<'c>(Vec<(Option<Asked<'c>>, Option<Answer>)>);

impl<'c> Flight<'c> {
    pub(super) fn of(statements: Vec<Asked<'c>>) -> Self {
        Self(statements.into_iter().map(|statement| (Some(statement), None)).collect())
    }

    pub(super) fn add(&mut self, statement: Asked<'c>) {
        self.0.push((Some(statement), None));
    }

    /// Polls each one. Returns whether all are answered.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let mut is_answered = true;
        for (statement, answer) in &mut self.0 {
            let Some(asked) = statement else { continue };
            match asked.as_mut().poll(cx) {
                Poll::Ready(value) => (*statement, *answer) = (None, Some(value)),
                Poll::Pending => is_answered = false,
            }
        }
        is_answered
    }

    /// Sends all statements.
    pub(super) async fn send(&mut self) {
        poll_fn(|cx| {
            self.poll(cx);
            Poll::Ready(())
        })
        .await;
    }

    /// Returns the error of a statement that could not be sent, or that has failed already.
    pub(super) fn failed(&self) -> Option<&tokio_postgres::Error> {
        self.0.iter().find_map(|(_, answer)| answer.as_ref()?.as_ref().err())
    }

    /// Waits for all answers.
    pub(super) async fn answers(mut self) -> Vec<Answer> {
        poll_fn(|cx| if self.poll(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
        self.0.into_iter().filter_map(|(_, answer)| answer).collect()
    }
}
