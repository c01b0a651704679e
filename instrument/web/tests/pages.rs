//! Each page over HTTP, what is refused, and how little is read.

mod common;

use common::{Client, Home, serve};

#[test]
fn every_view_is_served() {
    let home = Home::with_runs(3);
    let server = serve(&home, &[]);
    let client = Client::of(&server);
    let ids = home.ids();
    let list = client.get("/");
    assert_eq!(list.status, 200);
    assert!(ids.iter().all(|id| list.body.contains(id.as_str())), "{}", list.body);
    for (path, must_have) in [
        (format!("/runs/{}", ids[0]), "At a glance"),
        ("/runs/last".into(), "Reproduce"),
        (format!("/runs/{}/counters", ids[0]), "disk writes"),
        (format!("/runs/{}/live", ids[0]), "Complete: 12 of 12 trials have a result"),
        (format!("/compare?a={}&b={}", ids[0], ids[1]), "Verdicts"),
        (format!("/compare?a={}", ids[0]), "xfs / ext4"),
        ("/trend".into(), "workload=hog&#38;stack=ext4"),
        ("/trend?workload=hog&stack=ext4&every_seconds=0".into(), "3 points of 3 runs"),
        ("/trend.svg?workload=hog&stack=ext4".into(), "<svg"),
        (format!("/runs/{}/data/cells.csv", ids[0]), "hog"),
        (format!("/runs/{}/data/trials.csv", ids[0]), "hog"),
        (format!("/runs/{}/data/series.csv", ids[0]), "hog"),
        ("/compare".into(), "name=\"b\""),
        ("/assets/figure.js".into(), "data-x"),
        ("/assets/style.css".into(), "--paper"),
        ("/assets/web.js".into(), "EventSource"),
    ] {
        let answer = client.get(&path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(answer.body.contains(must_have), "{path} lacks {must_have}: {}", answer.body);
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("script-src 'self'"),
            "{path}: {policy}"
        );
        let inline = answer.body.contains("<style") || answer.body.contains("<script>");
        assert!(!inline || path.starts_with("/trend.svg"), "{path} has style or script within");
        assert!(
            !answer.body.contains("https://") && !answer.body.contains("src=\"http"),
            "{path} reaches elsewhere"
        );
    }
}

#[test]
fn the_report_is_that_of_the_command() {
    let home = Home::with_runs(1);
    let server = serve(&home, &[]);
    let served = Client::of(&server).get("/runs/last").body;
    let run = home.store().load_run("last").unwrap();
    let page = report::html::page(&run, &[]).unwrap();
    let main = |page: &str| {
        let from = page.find("<main>").unwrap();
        page[from..page.find("</main>").unwrap()].to_string()
    };
    assert_eq!(main(&served), main(&page));
}

#[test]
fn runs_are_filtered() {
    let home = Home::with_runs(3);
    let server = serve(&home, &[]);
    let client = Client::of(&server);
    for (query, found) in [
        ("workload=hog", "3 runs stored"),
        ("workload=nothing", "0 of 3 runs stored"),
        ("stack=xfs", "3 runs stored"),
        ("q=run%201", "1 of 3 runs stored"),
        ("to=2001-01-01", "0 of 3 runs stored"),
        ("from=2001-01-01", "3 runs stored"),
    ] {
        let body = client.get(&format!("/?{query}")).body;
        assert!(body.contains(found), "{query}: {body}");
    }
    for wrong in ["from=yesterday", "page=0", "page=x"] {
        assert_eq!(client.get(&format!("/?{wrong}")).status, 400, "{wrong}");
    }
    let cross = client.get("/?q=%3Cscript%3Ealert(1)%3C/script%3E").body;
    assert!(!cross.contains("<script>alert"), "{cross}");
}

#[test]
fn what_is_no_run_is_refused() {
    let home = Home::with_runs(1);
    std::fs::write(home.path().join("secret"), "do not show").unwrap();
    let server = serve(&home, &[]);
    let client = Client::of(&server);
    for (path, status) in [
        ("/runs/../secret", 404),
        ("/runs/..%2fsecret", 400),
        ("/runs/%2e%2e%2fsecret/live", 400),
        ("/runs/.%2e/events", 400),
        ("/runs/x'%20OR%201=1", 400),
        ("/runs/nosuchrun", 404),
        ("/assets/..%2f..%2fsecret", 404),
        ("/assets/%2fetc%2fpasswd", 404),
        ("/compare?a=../secret", 400),
        ("/compare?b=last", 400),
        ("/runs/last/data/..%2f..%2fsecret", 404),
        ("/runs/last/data/secret", 404),
        ("/trend?workload=nosuch", 404),
        ("/trend?workload=hog&metric=nosuch", 400),
        ("/trend?workload=hog&every_seconds=-1", 400),
        ("/secret", 404),
    ] {
        let answer = client.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert!(!answer.body.contains("do not show"), "{path}");
    }
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(client.ask(method, "/", &[]).status, 405, "{method}");
    }
}

#[test]
fn what_users_wrote_is_text_on_every_page() {
    let home = Home::with_title("<img src=x onerror=alert(1)>\"'&");
    let server = serve(&home, &[]);
    let client = Client::of(&server);
    for path in [
        "/",
        "/runs/last",
        "/runs/last/live",
        "/runs/last/counters",
        "/compare?a=last",
        "/trend",
        "/runs/%3Cimg%3E",
        "/?q=%22%3E%3Cimg%20src=x%3E",
        "/?from=%3Cimg%20src=x%3E",
        "/trend?workload=%3Cimg%20src=x%3E",
    ] {
        let body = client.get(path).body;
        assert!(!body.contains("<img"), "{path}: {body}");
    }
    assert!(
        client.get("/").body.contains("&lt;img src=x") || client.get("/").body.contains("&#60;img src=x")
    );
}

#[test]
fn a_port_in_use_says_what_to_type() {
    let home = Home::with_runs(0);
    let server = serve(&home, &[]);
    let listen = std::net::SocketAddr::from(([127, 0, 0, 1], server.port));
    let service = web::Service { home: home.path().to_path_buf(), listen, token: None };
    let error = service.run(|address| panic!("listens on {address}")).unwrap_err().to_string();
    let needed = format!("loadline serve --listen 127.0.0.1:{}", server.port + 1);
    assert!(error.contains(&needed) && error.contains("`--listen 127.0.0.1:0`"), "{error}");
}

#[test]
fn other_names_are_refused_on_loopback() {
    let home = Home::with_runs(1);
    let server = serve(&home, &[]);
    let client = Client::of(&server);
    let port = client.port();
    assert_eq!(client.ask_as(&format!("evil.example:{port}"), "GET", "/", &[]).status, 421);
    assert_eq!(client.ask_as(&format!("localhost:{port}"), "GET", "/", &[]).status, 200);
}

#[test]
fn a_token_is_needed_off_loopback() {
    let home = Home::with_runs(1);
    let server = serve(&home, &["0.0.0.0:0"]);
    let client = Client::of(&server);
    let token = server.token.clone().expect("off loopback there is a token");
    assert_eq!(client.get("/").status, 401);
    assert_eq!(client.get("/assets/style.css").status, 401);
    assert_eq!(client.get("/?token=0123456789abcdef0123456789abcdef").status, 401);
    let entered = client.get(&format!("/?token={token}"));
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")));
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let inside = client.ask("GET", "/", &[&format!("Cookie: {cookie}")]);
    assert_eq!(inside.status, 200);
    assert!(!inside.body.contains(&token), "the token is in no page");
    assert_eq!(client.ask("GET", "/", &[&format!("Authorization: Bearer {token}")]).status, 200);
}

/// No time is asserted: what is counted is what makes it quick.
#[test]
fn of_thousands_of_runs_each_study_is_read_once() {
    const RUNS: usize = 5_000;
    let home = Home::with_small_runs(RUNS);
    let server = serve(&home, &[]);
    let client = Client::of(&server);
    for _ in 0..3 {
        let body = client.get("/?stack=xfs&page=7").body;
        assert!(body.contains("5000 runs stored"), "{body}");
        assert_eq!(body.matches("<tr data-row>").count(), 100);
    }
    assert_eq!(client.get("/counts").body, "opened 1\nlists 1\nheads 0\ncounted 0\n");
    home.add_small_run();
    assert!(client.get("/").body.contains("5001 runs stored"));
    assert_eq!(client.get("/counts").body, "opened 1\nlists 2\nheads 0\ncounted 1\n");
    let oldest = home.ids().remove(0);
    home.store().delete(&oldest).unwrap();
    assert!(client.get("/").body.contains("5000 runs stored"));
    assert!(client.get("/counts").body.contains("heads 0\n"));
}

/// An older loadline stores runs without what their studies ask.
#[test]
fn of_an_older_store_one_record_of_each_study_is_read() {
    let home = Home::with_small_runs(3);
    let store = rusqlite::Connection::open(home.path().join("loadline.db")).unwrap();
    store.execute(&format!("DROP TABLE asked_studies_{}", analysis::trend::ASKS_VERSION), []).unwrap();
    let server = serve(&home, &[]);
    let client = Client::of(&server);
    for _ in 0..2 {
        assert_eq!(client.get("/?stack=xfs").body.matches("<tr data-row>").count(), 3);
        assert!(client.get("/trend").body.contains("hog"));
    }
    assert_eq!(client.get("/counts").body, "opened 1\nlists 1\nheads 1\ncounted 0\n");
}

#[test]
fn a_run_in_progress_is_followed_to_its_end() {
    let home = Home::with_runs(0);
    let mut going = home.begin();
    let server = serve(&home, &[]);
    let client = Client::of(&server);
    let path = format!("/runs/{}/events", going.id());
    let mut events = client.events(&path);
    let first = events.next();
    assert!(first.contains("event: progress") && first.contains("Running: 0 of 12"), "{first}");
    assert!(first.contains("being run"), "{first}");
    going.trial(0, 0, 1000);
    let second = events.next();
    assert!(
        second.contains("Running: 1 of 12") && second.contains("1/6") && second.contains("<svg"),
        "{second}"
    );
    going.finish();
    let mut last = events.next();
    while !last.contains("event: end") {
        assert!(last.contains("event: progress"), "{last}");
        last = events.next();
    }
}
