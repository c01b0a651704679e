//! A run in progress, by server-sent events: the part of its page that moves, whenever the store has something new of it.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, State as Given};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use lab::Store;
use lab::store::StoreError;
use record::Study;
use record::deal;
use record::results::Run;
use report::web::{CellSoFar, SoFar};

use crate::State;
use crate::views::{Refusal, id};

/// How often the store is asked whether it has changed. A trial takes seconds: nobody waits noticeably longer.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How far a run is, by its stored trials and its plan.
pub fn so_far(store: &Store, run: &Run) -> Result<SoFar, StoreError> {
    let briefs = store.briefs(&run.id)?;
    let stacks = run.stacks();
    let order =
        Study::from_stored(&run.study).map(|study| deal::order(&study, run.shard)).unwrap_or_default();
    // which trial runs is not stored: it is the first of the plan that has not ended, unless a cell was closed early
    let next =
        order.iter().find(|slot| !briefs.iter().any(|one| (one.cell, one.index) == (slot.cell, slot.index)));
    let planned = |cell: u32| order.iter().filter(|slot| slot.cell == cell).count() as u32;
    let cells = run.cells.iter().map(|cell| CellSoFar {
        cell: cell.id,
        label: cell.label(),
        stack: stacks.iter().position(|stack| *stack == cell.stack).unwrap_or(0),
        trials: briefs
            .iter()
            .enumerate()
            .filter(|(_, one)| one.cell == cell.id)
            .map(|(at, one)| (at, one.status.clone(), one.ops_per_second, one.seconds))
            .collect(),
        planned: if order.is_empty() { run.planned_trials } else { planned(cell.id) },
        is_next: next.is_some_and(|slot| slot.cell == cell.id),
    });
    let planned = if order.is_empty() {
        run.cells.len() as u64 * u64::from(run.planned_trials)
    } else {
        order.len() as u64
    };
    Ok(SoFar {
        cells: cells.collect(),
        planned,
        is_finished: run.finished.is_some(),
        is_extended: store.is_extended(&run.id)?,
    })
}

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
    let run = crate::views::with_index(&state, move |index| Ok(index.store().find(&word)?)).await?;
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
            let looked = crate::views::with_index(&self.state, move |index| {
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
