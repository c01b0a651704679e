//! Who may come in, and what a page may load.
//!
//! On loopback a page of somewhere else could reach the server through the user's browser, by a name that it lets point to
//! 127.0.0.1 (DNS rebinding): so the Host header must name loopback itself and the right port. Elsewhere a token is asked for;
//! a browser gives its cookie to no other name.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::query::Query;

/// Random bytes of a token: 128 bits cannot be guessed.
const TOKEN_BYTES: usize = 16;
/// The cookie that holds the token; of several servers on one host each has its own, by the port.
const COOKIE: &str = "loadline";
/// Nothing but what this server sends; `blob:` for a drawing that the page's script turns into a PNG. The attribute `style` is allowed, for widths of bars in tables; elements are not.
const POLICY: &str = "default-src 'none'; style-src 'self'; style-src-attr 'unsafe-inline'; script-src 'self'; \
                      img-src 'self' blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What must be shown to come in.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Token(..)")
    }
}

impl Token {
    /// A new one, from the system's random numbers.
    ///
    /// # Errors
    /// The system gives none.
    pub fn new() -> std::io::Result<Token> {
        let mut bytes = [0; TOKEN_BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// As it stands in the first address.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Takes the same time wherever the first difference is.
    fn is(&self, shown: &str) -> bool {
        let (own, shown) = (self.0.as_bytes(), shown.as_bytes());
        own.len() == shown.len() && own.iter().zip(shown).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}

/// The rules of one server.
#[derive(Debug)]
pub struct AccessRules {
    address: SocketAddr,
    token: Option<Token>,
}

impl AccessRules {
    /// For a server at this address.
    pub fn new(address: SocketAddr, token: Option<Token>) -> AccessRules {
        AccessRules { address, token }
    }

    fn is_own_name(&self, headers: &HeaderMap) -> bool {
        let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
        let port = self.address.port();
        let names = ["localhost".to_string(), "127.0.0.1".into(), "[::1]".into()];
        let own = std::iter::once(self.address.to_string()).chain(names.map(|name| format!("{name}:{port}")));
        // browsers leave the port of http out
        own.into_iter().any(|own| own == host || port == 80 && own.strip_suffix(":80") == Some(host))
    }

    fn cookie(&self) -> String {
        format!("{COOKIE}-{}", self.address.port())
    }

    fn is_known(&self, token: &Token, headers: &HeaderMap) -> bool {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|text| text.to_str().ok());
        if bearer.and_then(|text| text.strip_prefix("Bearer ")).is_some_and(|shown| token.is(shown)) {
            return true;
        }
        let name = self.cookie();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|text| text.to_str().ok());
        let mut pairs =
            cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(key, shown)| key == name && token.is(shown))
    }

    /// What is answered instead of a page.
    fn refuse(&self, request: &Request) -> Option<Response> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Some(
                (StatusCode::METHOD_NOT_ALLOWED, "pages are read only: GET or HEAD\n").into_response(),
            );
        }
        if self.address.ip().is_loopback() && !self.is_own_name(request.headers()) {
            let text =
                "the Host header names another machine; open the address that `loadline serve` printed\n";
            return Some((StatusCode::MISDIRECTED_REQUEST, text).into_response());
        }
        let token = self.token.as_ref()?;
        if self.is_known(token, request.headers()) {
            return None;
        }
        let query = Query::of(request.uri());
        if query.get("token").is_some_and(|shown| token.is(shown)) {
            // into the cookie, and out of the address line, where it would be copied with it
            let cookie = format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie(), token.text());
            let place = [(header::LOCATION, request.uri().path().to_string()), (header::SET_COOKIE, cookie)];
            return Some((StatusCode::SEE_OTHER, place).into_response());
        }
        let text = "a token is needed: open the address that `loadline serve` printed, or send `Authorization: Bearer TOKEN`\n";
        Some((StatusCode::UNAUTHORIZED, text).into_response())
    }
}

/// Lets a request in or refuses it; says with each answer what the page may load.
pub async fn check_access(State(door): State<Arc<AccessRules>>, request: Request, next: Next) -> Response {
    let mut answer = match door.refuse(&request) {
        Some(refused) => refused,
        None => next.run(request).await,
    };
    let headers = answer.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_by_its_own_names_is_let_in() {
        let door = AccessRules::new("127.0.0.1:8080".parse().unwrap(), None);
        let with =
            |host: &'static str| HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
        for own in ["127.0.0.1:8080", "localhost:8080", "[::1]:8080"] {
            assert!(door.is_own_name(&with(own)), "{own}");
        }
        for other in ["evil.example:8080", "127.0.0.1", "127.0.0.1:81", "localhost.evil.example:8080", ""] {
            assert!(!door.is_own_name(&with(other)), "{other}");
        }
        assert!(!door.is_own_name(&HeaderMap::new()));
    }

    #[test]
    fn tokens_differ_and_are_not_printed() {
        let (one, other) = (Token::new().unwrap(), Token::new().unwrap());
        assert!(one.is(one.text()) && !one.is(other.text()) && !one.is(""));
        assert_eq!(one.text().len(), 2 * TOKEN_BYTES);
        assert!(!format!("{one:?}").contains(one.text()));
    }
}
