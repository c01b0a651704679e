//! Pages and drawings.

use record::results::Answer;

use crate::judged::{Judged, word};

/// The font of every drawing.
const FONT: &str = "font-family=\"system-ui, sans-serif\" font-size=\"12\"";

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:78rem;margin:2rem auto;padding:0 1rem;color:#222;\
background:#fff}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}.wide{overflow-x:auto}\
table{border-collapse:collapse}th,td{padding:.3rem .6rem;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}\
th:first-child,td:first-child{text-align:left}th small{font-weight:normal}td.long{white-space:normal;text-align:left;max-width:48rem}\
.good{background:#bfe3c0}.middle{background:#f6f1d5}.bad{background:#f3b8b0}.none{color:#777}\
small{color:#555;display:block}svg{max-width:100%;height:auto}";

/// Text within XML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A drawing of a size in pixels.
pub fn drawing(width: usize, height: usize, title: &str, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" {FONT}>\n<title>{}</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n{body}</svg>\n",
        escape(title)
    )
}

/// Lines as a list.
pub fn list(lines: &[String]) -> String {
    let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    format!("<ul>\n{items}</ul>\n")
}

/// A table of claims.
pub fn claims(judged: &[Judged]) -> String {
    let mut body = "<h2>Claims</h2>\n<table><tr><th>claim</th><th>answer</th><th>why</th></tr>\n".to_string();
    for one in judged {
        let class = match one.answer {
            Answer::Reproduced => "good",
            Answer::NotReproduced => "bad",
            Answer::CannotTell => "middle",
        };
        body.push_str(&format!(
            "<tr><td class=\"long\">{}<small>{}</small></td><td class=\"{class}\">{}</td><td class=\"long\">{}</td></tr>\n",
            escape(&one.claim), escape(one.source), word(one.answer), escape(&one.reason)
        ));
    }
    body.push_str("</table>\n");
    body
}

/// One self-contained page around a body.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{}</title><style>{STYLE}</style></head>\n<body>\n{body}</body></html>\n",
        escape(title)
    )
}
