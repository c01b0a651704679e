//! A run in progress, by server-sent events: the part of its page that moves, whenever the store has something new of it.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, State as Given};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::so_far::so_far;
use crate::state::{Refusal, State, id, with_index};

/// How often the store is asked whether it has changed. A trial takes seconds: nobody waits noticeably longer.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What a stream remembers between two events.
struct Watch {
    state: State,
    run: String,
    sent: Option<String>,
    ended: Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    No,
    /// It is to be said.
    Now,
    Said,
}

/// The stream: `progress` with the part of the page whenever it has changed, `end` when nothing more will come.
pub async fn events(Given(state): Given<State>, Path(word): Path<String>) -> Result<Response, Refusal> {
    let word = id(&word)?.to_string();
    let run = with_index(&state, move |index| Ok(index.store().find(&word)?)).await?;
    let watch = Watch { state, run, sent: None, ended: Ended::No };
    let stream = stream::unfold(watch, |mut watch| async move {
        let event = watch.next().await?;
        Some((Ok::<_, Infallible>(event), watch))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()).into_response())
}

impl Watch {
    /// The next event, as soon as there is one; none behind the end.
    async fn next(&mut self) -> Option<Event> {
        match self.ended {
            Ended::Said => return None,
            Ended::Now => {
                self.ended = Ended::Said;
                return Some(Event::default().event("end").data("no more"));
            }
            Ended::No => {}
        }
        loop {
            let run = self.run.clone();
            let looked = with_index(&self.state, move |index| {
                let run = index.store().head(&run)?;
                Ok(so_far(index.store(), &run)?)
            });
            let Ok(so_far) = looked.await else {
                // deleted meanwhile, or the store is gone
                self.ended = Ended::Said;
                return Some(Event::default().event("end").data("the run cannot be read any more"));
            };
            if so_far.is_finished || !so_far.is_extended {
                self.ended = Ended::Now;
            }
            let part = report::web::progress(&so_far).ok()?;
            if self.sent.as_ref() != Some(&part) {
                self.sent = Some(part.clone());
                return Some(Event::default().event("progress").data(part));
            }
            if self.ended == Ended::Now {
                self.ended = Ended::Said;
                return Some(Event::default().event("end").data("no more"));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
