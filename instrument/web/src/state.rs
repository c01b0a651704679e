//! What every request works with: the state, and answers when there is no page.

use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use lab::store::StoreError;

use crate::access::AccessRules;
use crate::index::Index;
use crate::query::may_be_id;

/// What every request sees.
#[derive(Debug, Clone)]
pub struct State {
    /// What is known of all runs.
    pub index: Arc<Mutex<Index>>,
    /// Who may come in.
    pub door: Arc<AccessRules>,
}

/// Why there is no page.
#[derive(Debug)]
pub enum Refusal {
    /// The address asks for what cannot be.
    BadInput(String),
    /// Nothing is there.
    NotFound(String),
    /// It went wrong here.
    Failed(String),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        match error {
            StoreError::NoSuchRun { .. } => Refusal::NotFound(error.to_string()),
            StoreError::Ambiguous { .. } => Refusal::BadInput(error.to_string()),
            _ => Refusal::Failed(error.to_string()),
        }
    }
}

/// What went wrong here.
pub fn failed(error: impl std::fmt::Display) -> Refusal {
    Refusal::Failed(error.to_string())
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, title, text) = match self {
            Refusal::BadInput(text) => (StatusCode::BAD_REQUEST, "This cannot be asked", text),
            Refusal::NotFound(text) => (StatusCode::NOT_FOUND, "Not here", text),
            Refusal::Failed(text) => (StatusCode::INTERNAL_SERVER_ERROR, "This went wrong", text),
        };
        let page = report::web::message(title, &text).unwrap_or(text);
        (status, Html(page)).into_response()
    }
}

/// What a view gives.
pub type Page = Result<Response, Refusal>;

/// Works with the index in a thread where it may block.
pub async fn with_index<T: Send + 'static>(
    state: &State,
    work: impl FnOnce(&mut Index) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let index = state.index.clone();
    let worked = tokio::task::spawn_blocking(move || {
        // one that panicked has left what it had read; the next look puts it right
        work(&mut index.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    });
    worked.await.map_err(failed)?
}

/// An id as an address has it.
pub fn id(word: &str) -> Result<&str, Refusal> {
    if may_be_id(word) {
        return Ok(word);
    }
    Err(Refusal::BadInput("a run is named by its id, the beginning of it, its name, or last, last~2".into()))
}
