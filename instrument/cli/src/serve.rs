//! `serve`: stored runs and runs in progress as pages.

use std::net::SocketAddr;

use clap::Args;
use web::{Service, Token, WebError};

use crate::console::{self, Exit, bad_input};
use crate::options::Options;

/// Options of `serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is ever written. Elsewhere than on loopback each visitor has to show the token that is in the address it prints; the
connection is not encrypted: for a network that others use too, `ssh -L` is better.

Examples:
  loadline serve                               http://127.0.0.1:7300/, for this machine only
  loadline serve --listen 127.0.0.1:0 --token  any free port; other users of this machine are kept out
  loadline serve --home /shared/results --listen 0.0.0.0:7300

Ctrl-C ends it.")]
pub struct Serve {
    /// Where to listen; port 0: any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7300")]
    pub listen: SocketAddr,
    /// Ask for a token on loopback too
    #[arg(long)]
    pub token: bool,
}

/// Serves until it is interrupted.
pub fn serve(options: &Options, arguments: &Serve) -> anyhow::Result<Exit> {
    let token = arguments.token.then(Token::new).transpose()?;
    let service = Service { home: crate::run::home(options)?, listen: arguments.listen, token };
    let served = service.run(|address| {
        // a reader that went away does not end the service
        let _ = console::print(&format!("{address}\nCtrl-C ends it."));
    });
    match served {
        Ok(()) => Ok(Exit::Done),
        Err(error @ (WebError::Store(_) | WebError::Listen { .. })) => Err(bad_input(error)),
        Err(error) => Err(error.into()),
    }
}
