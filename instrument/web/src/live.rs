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
    /// The store's version when the run was read last.
    version: Option<i64>,
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
    let watch = Watch { state, run, sent: None, version: None, ended: Ended::No };
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
            let (run, last) = (self.run.clone(), self.version);
            let looked = with_index(&self.state, move |index| {
                let store = index.store();
                let version = store.data_version()?;
                // a process that was killed changes nothing in the store
                if last == Some(version) && store.is_extended(&run)? {
                    return Ok(None);
                }
                Ok(Some((version, so_far(store, &store.head(&run)?)?)))
            });
            let Ok(looked) = looked.await else {
                // deleted meanwhile, or the store is gone
                self.ended = Ended::Said;
                return Some(Event::default().event("end").data("the run cannot be read any more"));
            };
            let Some((version, so_far)) = looked else {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            };
            self.version = Some(version);
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
