//! `loadline serve`: stored runs and runs in progress as pages. It reads the store, and writes nothing.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | addresses, and starting the server |
//! | `access` | who may come in: host names, the token, what a page may load |
//! | `index` | what is known of all runs, kept and brought up to date |
//! | `text_cache` | pages that were made and are still true |
//! | `views` | one function for each page |
//! | `live` | what is sent of a run in progress |
//! | `so_far` | how far a run is, by its stored trials and its plan |
//! | `state` | what every request works with, and answers when there is no page |
//! | `query` | what stands behind the `?`, and ids |
//!
//! Crate `report` draws every page; nothing is drawn here. SQLite works in threads of the pool, never in those that serve.

mod access;
mod index;
mod live;
mod query;
mod so_far;
mod state;
mod text_cache;
mod views;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

pub use access::Token;
use index::Index;
use state::State;

/// Records that are unpacked in one go while nobody has asked yet: some milliseconds.
const RECORDS_AHEAD: u64 = 20;
/// Between two of these.
const PAUSE: std::time::Duration = std::time::Duration::from_micros(100);

/// Why the server does not start or goes away.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] lab::store::StoreError),
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}; {}", advice(.address, .source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// Anything else of the system.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// What to type instead.
fn advice(address: &SocketAddr, source: &std::io::Error) -> String {
    let ip = address.ip();
    let any = SocketAddr::new(ip, 0);
    match source.kind() {
        std::io::ErrorKind::AddrInUse => {
            let next = SocketAddr::new(ip, address.port().checked_add(1).unwrap_or(0));
            format!(
                "another program has this port, perhaps a `loadline serve` that still runs: type `loadline serve --listen \
                 {next}`, or `--listen {any}` for any port that is free"
            )
        }
        std::io::ErrorKind::PermissionDenied => {
            format!("ports below 1024 are for root: type `--listen {any}` for any port that is free")
        }
        _ => "is this an address of this machine? `--listen 127.0.0.1:7300` always is".into(),
    }
}

/// How to serve.
#[derive(Debug, Clone)]
pub struct Service {
    /// The home of results.
    pub home: PathBuf,
    /// Where to listen; port 0: any that is free.
    pub listen: SocketAddr,
    /// What must be shown by whoever comes in. Off loopback there has to be one.
    pub token: Option<Token>,
}

impl Service {
    /// Serves until Ctrl-C (or SIGTERM). `ready` hears the address of the first page once it can be had.
    ///
    /// # Errors
    /// See [`WebError`].
    pub fn run(self, ready: impl FnOnce(&str)) -> Result<(), WebError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let served = runtime.block_on(self.serve(ready));
        // streams of runs in progress have no end of their own; nothing is written, so nothing can be cut short
        runtime.shutdown_background();
        served
    }

    async fn serve(self, ready: impl FnOnce(&str)) -> Result<(), WebError> {
        let token = match self.token {
            None if !self.listen.ip().is_loopback() => Some(Token::new()?),
            given => given,
        };
        let failed = |source| WebError::Listen { address: self.listen, source };
        let listener = TcpListener::bind(self.listen).await.map_err(failed)?;
        let address = listener.local_addr()?;
        let index = Index::open(&self.home)?;
        let entrance = match &token {
            Some(token) => format!("http://{address}/?token={}", token.text()),
            None => format!("http://{address}/"),
        };
        let door = Arc::new(access::AccessRules::new(address, token));
        let state = State { index: Arc::new(Mutex::new(index)), door };
        let first = state.index.clone();
        tokio::task::spawn_blocking(move || read_ahead(&first));
        // before anybody knows the address: a script's background job inherits that SIGINT is ignored, and one that came
        // now would be lost
        use tokio::signal::unix::{SignalKind, signal};
        let mut pressed = signal(SignalKind::interrupt())?;
        let mut ending = signal(SignalKind::terminate())?;
        ready(&entrance);
        std::io::stdout().flush()?;
        tokio::select! {
            served = std::future::IntoFuture::into_future(axum::serve(listener, router(state))) => served?,
            _ = pressed.recv() => {}
            _ = ending.recv() => {}
        }
        Ok(())
    }
}

/// Whoever comes first finds read what pages of many runs are made of; what cannot be read is told to whoever asks for it. A
/// little at a time, so that nobody who comes meanwhile waits for all of it.
fn read_ahead(index: &Mutex<Index>) {
    let index = || index.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if index().entries().is_err() || index().past().is_err() {
        return;
    }
    while matches!(index().learn_all(RECORDS_AHEAD), Ok(false)) {
        // a lock that is taken again at once is not given to whoever waits
        std::thread::sleep(PAUSE);
    }
}

/// All addresses. Only GET and HEAD are answered.
fn router(state: State) -> Router {
    Router::new()
        .route("/", get(views::runs))
        .route("/runs/{id}", get(views::run))
        .route("/runs/{id}/counters", get(views::counters))
        .route("/runs/{id}/data/{file}", get(views::data))
        .route("/runs/{id}/live", get(views::live))
        .route("/runs/{id}/events", get(live::events))
        .route("/compare", get(views::compare))
        .route("/trend", get(views::trend))
        .route("/trend.svg", get(views::trend_svg))
        .route("/counts", get(views::counts))
        .route("/assets/{name}", get(views::asset))
        .fallback(views::not_found)
        .layer(axum::middleware::from_fn_with_state(state.door.clone(), access::check_access))
        .with_state(state)
}
