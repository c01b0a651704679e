//! Each view in Chromium: its DOM, a console without errors, keys, colours, phone width, a run followed to its end.
//!
//! The browser is driven by its own protocol through two pipes (`--remote-debugging-pipe`): JSON, ended by NUL. It listens on
//! no port, and its profile lies in a private folder.

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use common::{Home, serve};
use needs::needs;
use serde_json::{Value, json};

struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: Option<String>,
    number: u64,
    /// What went wrong on the page since the last look.
    errors: Vec<String>,
    loaded: bool,
    _folder: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    fn start() -> Browser {
        let folder = tempfile::tempdir().unwrap();
        let [to, from] = ["to", "from"].map(|name| folder.path().join(name));
        assert!(Command::new("mkfifo").args([&to, &from]).status().unwrap().success());
        // root has no sandbox; only pages of this test are opened
        let script = "exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
                      --disable-extensions --disable-background-networking --disable-component-update --no-proxy-server \
                      --user-data-dir=\"$3\" --remote-debugging-pipe about:blank 3<\"$1\" 4>\"$2\"";
        let child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args([&to, &from])
            .arg(folder.path().join("profile"))
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // in the order in which the shell opens them: each waits for the other side
        let to = File::options().write(true).open(to).unwrap();
        let from = BufReader::new(File::open(from).unwrap());
        let mut browser = Browser {
            child,
            to,
            from,
            session: None,
            number: 0,
            errors: Vec::new(),
            loaded: false,
            _folder: folder,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", target);
        browser.session = attached["sessionId"].as_str().map(str::to_string);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}));
        }
        browser
    }

    fn hear(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        let heard: Value = serde_json::from_slice(&bytes).unwrap();
        match heard["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => self.loaded = true,
            "Runtime.exceptionThrown" => self.errors.push(heard["params"].to_string()),
            "Log.entryAdded" if heard["params"]["entry"]["level"] == "error" => {
                self.errors.push(heard["params"]["entry"].to_string());
            }
            "Runtime.consoleAPICalled" if heard["params"]["type"] == "error" => {
                self.errors.push(heard["params"].to_string());
            }
            _ => {}
        }
        heard
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let heard = self.hear();
            if heard["id"] == self.number {
                assert!(heard["error"].is_null(), "{method}: {heard}");
                return heard["result"].clone();
            }
        }
    }

    fn open(&mut self, address: &str) {
        self.loaded = false;
        self.call("Page.navigate", json!({ "url": address }));
        while !self.loaded {
            self.hear();
        }
    }

    /// The value of an expression; of a promise what it comes to.
    fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", asked);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" && key.len() == 1 { key } else { "" };
            self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "text": text }));
        }
    }

    fn assert_quiet(&mut self, what: &str) {
        // an answer comes behind everything that was said before
        self.value("1");
        assert!(self.errors.is_empty(), "{what}: {:#?}", self.errors);
    }
}

#[test]
fn every_view_is_drawn_without_errors() {
    needs!(Chromium);
    let home = Home::with_runs(3);
    let server = serve(&home, &[]);
    let base = format!("http://127.0.0.1:{}", server.port);
    let ids = home.ids();
    let mut browser = Browser::start();
    for (path, selector) in [
        ("/".to_string(), "tr[data-row]"),
        (format!("/runs/{}", ids[0]), "main figure svg"),
        (format!("/runs/{}/counters", ids[0]), "table.sheet td.plain"),
        (format!("/runs/{}/live", ids[0]), "#live[data-ended] tr[data-cell]"),
        (format!("/compare?a={}&b={}", ids[0], ids[1]), "table.sheet tbody tr"),
        (format!("/compare?a={}", ids[0]), "table.sheet td.good"),
        ("/trend".into(), "tr[data-row] a"),
        ("/trend?workload=hog&stack=ext4&every_seconds=0".into(), "main figure svg circle"),
    ] {
        browser.open(&format!("{base}{path}"));
        let drawn = browser.value(&format!(
            "new Promise((done) => {{ const look = () => document.querySelector({selector:?}) !== null \
             ? done(true) : requestAnimationFrame(look); look(); }})"
        ));
        assert_eq!(drawn, true, "{path} has no {selector}");
        assert_eq!(browser.value("document.styleSheets.length"), 2, "{path}");
        browser.assert_quiet(&path);
        // a phone
        let phone = json!({ "width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true });
        browser.call("Emulation.setDeviceMetricsOverride", phone);
        let width = browser.value("document.documentElement.scrollWidth").as_u64().unwrap();
        assert!(width <= 360, "{path} is {width} wide on a phone of 360");
        browser.call("Emulation.clearDeviceMetricsOverride", json!({}));
        // light and dark
        let colours: Vec<Value> = ["light", "dark"]
            .into_iter()
            .map(|scheme| {
                let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
                browser.call("Emulation.setEmulatedMedia", json!({ "features": features }));
                browser.value("getComputedStyle(document.body).backgroundColor")
            })
            .collect();
        assert_ne!(colours[0], colours[1], "{path}");
        browser.assert_quiet(&path);
    }
}

#[test]
fn keys_lead_through_the_list() {
    needs!(Chromium);
    let home = Home::with_runs(3);
    let server = serve(&home, &[]);
    let ids = home.ids();
    let mut browser = Browser::start();
    browser.open(&format!("http://127.0.0.1:{}/", server.port));
    browser.press("j");
    browser.press("j");
    browser.press("k");
    let here = browser.value("document.querySelector('tr.here a').getAttribute('href')");
    assert_eq!(here, format!("/runs/{}", ids[2]), "the newest is the first");
    assert_eq!(browser.value("document.activeElement.getAttribute('href')"), here, "Enter opens it");
    browser.press("?");
    assert_eq!(browser.value("document.querySelector('dialog').open"), true);
    browser.press("?");
    assert_eq!(browser.value("document.querySelector('dialog').open"), false);
    browser.press("/");
    assert_eq!(browser.value("document.activeElement.name"), "q");
    browser.assert_quiet("keys");
}

#[test]
fn a_run_is_watched_to_its_end() {
    needs!(Chromium);
    let home = Home::with_runs(0);
    let mut going = home.begin();
    let server = serve(&home, &[]);
    let mut browser = Browser::start();
    browser.open(&format!("http://127.0.0.1:{}/runs/{}/live", server.port, going.id()));
    let until = |what: &str| {
        format!(
            "new Promise((done) => {{ const live = document.getElementById('live'); \
             const look = () => {{ if ({what}) {{ watch.disconnect(); done(live.textContent); }} }}; \
             const watch = new MutationObserver(look); \
             watch.observe(live, {{ attributes: true, childList: true, subtree: true }}); look(); }})"
        )
    };
    for index in 0..2 {
        going.trial(0, index, 1000);
        going.trial(1, index, 2000);
        let wanted = format!("live.textContent.includes('Running: {} of 12')", 2 * (index + 1));
        let shown = browser.value(&until(&wanted));
        assert!(shown.as_str().unwrap().contains("being run"), "{shown}");
        assert_eq!(browser.value("document.querySelectorAll('#live svg circle').length"), 2 * (index + 1));
    }
    going.finish();
    let shown = browser.value(&until("live.dataset.ended"));
    assert!(shown.as_str().unwrap().contains("Complete: 4 of 12"), "{shown}");
    browser.assert_quiet("a run in progress");
}
