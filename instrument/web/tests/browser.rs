//! Each view in Chromium: its DOM, a console without errors, keys, colours, phone width, a run followed to its end.
//!
//! The browser is driven by its own protocol through two pipes (`--remote-debugging-pipe`): JSON, ended by NUL. It listens on
//! no port, and its profile lies in a private folder.

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
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

    /// A picture of the page as it is seen, beside the tests' other files: `target/tmp/serve/NAME.png`.
    fn picture(&mut self, name: &str) {
        let taken = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let bytes = BASE64.decode(taken["data"].as_str().unwrap()).unwrap();
        assert!(bytes.starts_with(b"\x89PNG"), "{name}: no PNG");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }

    /// Waits until what was scrolled or moved is on the screen: where the mouse is is told by that.
    fn settle(&mut self) {
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    }

    /// The middle of the first element that fits, moved into sight.
    fn middle(&mut self, selector: &str) -> (f64, f64) {
        self.value(&format!(
            "document.querySelector({selector:?}).scrollIntoView({{ behavior: 'instant', block: 'center' }})"
        ));
        self.settle();
        let found = self.value(&format!(
            "(() => {{ const box = document.querySelector({selector:?}).getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        (found[0].as_f64().unwrap(), found[1].as_f64().unwrap())
    }

    fn mouse(&mut self, kind: &str, (x, y): (f64, f64)) {
        let (button, buttons) = if kind == "mouseMoved" { ("none", 0) } else { ("left", 1) };
        let event =
            json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1, "buttons": buttons });
        self.call("Input.dispatchMouseEvent", event);
        self.settle();
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
    for (name, path, selector) in [
        ("list", "/".to_string(), "tr[data-row]"),
        ("report", format!("/runs/{}", ids[0]), "main figure.handled svg"),
        ("counters", format!("/runs/{}/counters", ids[0]), "table.sheet td.plain"),
        ("live", format!("/runs/{}/live", ids[0]), "#live[data-ended] tr[data-cell]"),
        ("compare", format!("/compare?a={}&b={}", ids[0], ids[1]), "table.verdicts .chip"),
        ("compare-stacks", format!("/compare?a={}", ids[0]), "table.verdicts .chip.good"),
        ("compare-ask", "/compare".into(), "input[name=b]"),
        ("series", "/trend".into(), "tr[data-row] a"),
        ("trend", "/trend?workload=hog&stack=ext4&every_seconds=0".into(), "main figure.handled svg circle"),
        ("missing", "/runs/nosuchrun/live".into(), "p.answer"),
    ] {
        browser.open(&format!("{base}{path}"));
        let drawn = browser.value(&format!(
            "new Promise((done) => {{ const look = () => document.querySelector({selector:?}) !== null \
             ? done(true) : requestAnimationFrame(look); look(); }})"
        ));
        assert_eq!(drawn, true, "{path} has no {selector}");
        assert_eq!(browser.value("document.styleSheets.length"), 2, "{path}");
        // the browser says itself that a page is missing, and of nothing else may it say anything
        if name == "missing" {
            browser.value("1");
            browser.errors.retain(|error| !error.contains("404"));
        }
        browser.assert_quiet(&path);
        browser.picture(name);
        // a phone
        let phone = json!({ "width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": true });
        browser.call("Emulation.setDeviceMetricsOverride", phone);
        let width = browser.value("document.documentElement.scrollWidth").as_u64().unwrap();
        let wide = "[...document.querySelectorAll('body *')].filter((part) => part.getBoundingClientRect().right > 361 && \
                    part.closest('.scroll') === null).map((part) => `${part.tagName}.${part.getAttribute('class')}`).slice(0, 20).join(' ')";
        assert!(width <= 360, "{path} is {width} wide on a phone of 360: {}", browser.value(wide));
        browser.picture(&format!("{name}-phone"));
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
        browser.picture(&format!("{name}-dark"));
        browser.call("Emulation.setEmulatedMedia", json!({ "features": [] }));
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

/// Throughput over time has no more than a second here; percentiles have both axes.
const FIGURE: &str = "section.load .halves figure:nth-child(2) svg";

#[test]
fn figures_are_read_zoomed_and_taken() {
    needs!(Chromium);
    let home = Home::with_runs(1);
    let server = serve(&home, &[]);
    let base = format!("http://127.0.0.1:{}/runs/last", server.port);
    let mut browser = Browser::start();
    browser.open(&base);
    // values under the pointer
    let (x, y) = browser.middle(FIGURE);
    browser.mouse("mouseMoved", (x, y));
    let readout = "document.querySelector('section.load .halves figure:nth-child(2) .readout')";
    let shown = browser.value(&format!("{readout}.innerText"));
    let shown = shown.as_str().unwrap().to_string();
    assert!(shown.contains("ext4: ") && shown.contains("xfs: ") && shown.contains("\u{b5}s"), "{shown}");
    assert!(shown.lines().any(|line| line.starts_with('p') && line.len() > 2), "{shown}");
    browser.picture("figure-hover");
    // a window that is drawn with the mouse is zoomed to
    let ticks = format!(
        "[...document.querySelectorAll({FIGURE:?} + ' .tick')].filter((one) => getComputedStyle(one).display !== 'none').map((one) => one.textContent).join()"
    );
    let before = browser.value(&ticks);
    let curve = format!("document.querySelector({FIGURE:?} + ' path.curve').getAttribute('d')");
    let whole = browser.value(&curve);
    browser.mouse("mousePressed", (x, y - 40.0));
    browser.mouse("mouseMoved", (x + 60.0, y));
    browser.mouse("mouseMoved", (x + 120.0, y + 40.0));
    browser.mouse("mouseReleased", (x + 120.0, y + 40.0));
    let near = browser.value(&ticks);
    assert_ne!(near, before);
    assert_ne!(browser.value(&curve), whole);
    browser.picture("figure-zoom");
    // the address leads to the same window
    let address = browser.value("location.href");
    assert!(address.as_str().unwrap().contains("zoom="), "{address}");
    browser.open(address.as_str().unwrap());
    assert_eq!(browser.value(&ticks), near);
    // keys: whole, nearer, whole
    browser.value(&format!("document.querySelector({FIGURE:?}).focus()"));
    browser.press("0");
    assert_eq!((browser.value(&ticks), browser.value("location.search")), (before.clone(), json!("")));
    browser.press("+");
    assert_ne!(browser.value(&ticks), before);
    browser.press("0");
    assert_eq!(browser.value(&curve), whole);
    browser.press("ArrowRight");
    assert_eq!(browser.value(&format!("{readout}.hidden")), false);
    // a trial is shown in every figure of its load
    let (x, y) = browser.middle("section.load circle.trial.s1.t3");
    browser.mouse("mouseMoved", (x, y));
    // dots lie close together: whichever is meant, its line is lit with it, and nothing else
    let lit = browser.value(
        "(() => { const lit = [...document.querySelectorAll('.lit')]; \
         const trials = new Set(lit.map((part) => [...part.classList].find((name) => /^t\\d+$/.test(name)))); \
         return [lit.length, lit.filter((part) => part.matches('.series.s1')).length, trials.size]; })()",
    );
    let seen = format!(
        "[...document.querySelectorAll('.lit')].map((part) => part.outerHTML.slice(0, 200)).join() + ' under it ' + \
         document.elementFromPoint({x}, {y}).outerHTML.slice(0, 200)"
    );
    assert_eq!(lit, json!([2, 1, 1]), "its dot and its line: {}", browser.value(&seen));
    // a click chooses its stack everywhere, and stands in the address
    browser.mouse("mousePressed", (x, y));
    browser.mouse("mouseReleased", (x, y));
    assert_eq!(browser.value("location.search"), "?pick=xfs");
    let dim = "document.querySelectorAll('section.load svg .s0.dim').length > 0 \
               && document.querySelectorAll('section.load svg .s1.dim').length === 0";
    assert_eq!(browser.value(dim), true);
    browser.picture("figure-pick");
    browser.open(&format!("{base}?pick=ext4"));
    assert_eq!(browser.value(dim), false);
    assert_eq!(browser.value("document.querySelectorAll('section.load svg .s1.dim').length > 0"), true);
    // files
    browser.value("window.given = []; const made = URL.createObjectURL; URL.createObjectURL = (blob) => { window.given.push(blob); return made(blob); }; 1");
    browser.value(&format!(
        "[...document.querySelector({FIGURE:?}).closest('figure').querySelectorAll('.tools button')].find((one) => one.textContent === 'SVG').click()"
    ));
    let svg = browser.value("window.given.pop().text()");
    let svg = svg.as_str().unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("xmlns=") && svg.contains("stroke=\"rgb("), "{svg}");
    assert!(!svg.contains("class="), "{svg}");
    let png = browser.value(&format!(
        "new Promise((done) => {{ [...document.querySelector({FIGURE:?}).closest('figure').querySelectorAll('.tools button')].find((one) => one.textContent === 'PNG').click(); \
         const look = () => {{ const png = window.given.find((one) => one.type === 'image/png'); \
         if (png === undefined) requestAnimationFrame(look); else png.arrayBuffer().then((bytes) => done([...new Uint8Array(bytes).slice(1, 4)])); }}; look(); }})"
    ));
    assert_eq!(png, json!([b'P', b'N', b'G']));
    let data = browser
        .value("fetch(document.querySelector('section.load .tools a').href).then((answer) => answer.text())");
    assert!(data.as_str().unwrap().contains("hog"), "{data}");
    // latency over time: a map for each stack, beside each other, with the figures behind it
    let desk = json!({ "width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": false });
    browser.call("Emulation.setDeviceMetricsOverride", desk);
    let maps = browser.value(
        "[...document.querySelectorAll('figure:has(svg rect.heat)')].map((map) => { const box = map.getBoundingClientRect(); \
         return [map.querySelector('figcaption').textContent, Math.round(box.y)]; })",
    );
    let (ext4, xfs) = (&maps[0], &maps[1]);
    assert_eq!((&ext4[0], &xfs[0], &ext4[1]), (&json!("ext4"), &json!("xfs"), &xfs[1]), "{maps}");
    browser.value("document.querySelector('figure:has(svg rect.heat)').nextElementSibling.remove()");
    let alone = browser.value(
        "(() => { const map = document.querySelector('figure:has(svg rect.heat)'); \
         return map.getBoundingClientRect().width / map.parentElement.getBoundingClientRect().width; })()",
    );
    assert!(alone.as_f64().unwrap() < 0.6, "a map alone takes {alone} of the page");
    browser.value(
        "[...document.querySelectorAll('figure:has(svg rect.heat) .tools button')].find((one) => one.textContent === 'Data').click()",
    );
    let data = browser.value("window.given.pop().text()");
    let data = data.as_str().unwrap();
    assert!(data.starts_with("stack,from_seconds,to_seconds,low_ns,high_ns,operations\next4,0,1,"), "{data}");
    browser.middle("figure svg rect.heat");
    browser.picture("heat-map");
    browser.assert_quiet("figures");
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
    browser.picture("live-going");
    going.finish();
    let shown = browser.value(&until("live.dataset.ended"));
    assert!(shown.as_str().unwrap().contains("Complete: 4 of 12"), "{shown}");
    browser.assert_quiet("a run in progress");
}
