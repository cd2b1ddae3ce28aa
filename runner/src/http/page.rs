//! `GET /`: the dashboard page, embedded in the binary as written: no build step, and no request to
//! another server.
//!
//! The page contains no data and needs no token; it reads everything from the API. A strict policy
//! prevents scripts of other origins, and text from becoming markup.

#[cfg(test)]
mod colours;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use duebox_sandbox::Digest;

use super::compression::Constant;

/// The content security policy of the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// One file of the page.
struct File {
    path: &'static str,
    kind: &'static str,
    content: &'static str,
}

macro_rules! files {
    ($($path:literal $kind:literal $file:literal)*) => {
        [$(File { path: $path, kind: $kind, content: include_str!(concat!("page/", $file)) }),*]
    };
}

/// All files of the page.
static FILES: [File; 24] = files! {
    "/" "text/html; charset=utf-8" "index.html"
    "/page/page.css" "text/css; charset=utf-8" "page.css"
    "/page/icon.svg" "image/svg+xml" "icon.svg"
    "/page/page.js" "text/javascript; charset=utf-8" "page.js"
    "/page/api.js" "text/javascript; charset=utf-8" "api.js"
    "/page/dom.js" "text/javascript; charset=utf-8" "dom.js"
    "/page/plot.js" "text/javascript; charset=utf-8" "plot.js"
    "/page/heat.js" "text/javascript; charset=utf-8" "heat.js"
    "/page/spark.js" "text/javascript; charset=utf-8" "spark.js"
    "/page/history.js" "text/javascript; charset=utf-8" "history.js"
    "/page/states.js" "text/javascript; charset=utf-8" "states.js"
    "/page/classes.js" "text/javascript; charset=utf-8" "classes.js"
    "/page/failures.js" "text/javascript; charset=utf-8" "failures.js"
    "/page/job.js" "text/javascript; charset=utf-8" "job.js"
    "/page/daemons.js" "text/javascript; charset=utf-8" "daemons.js"
    "/page/schedules.js" "text/javascript; charset=utf-8" "schedules.js"
    "/page/topics.js" "text/javascript; charset=utf-8" "topics.js"
    "/page/topic.js" "text/javascript; charset=utf-8" "topic.js"
    "/page/jobs.js" "text/javascript; charset=utf-8" "jobs.js"
    "/page/browse.js" "text/javascript; charset=utf-8" "browse.js"
    "/page/selection.js" "text/javascript; charset=utf-8" "selection.js"
    "/page/live.js" "text/javascript; charset=utf-8" "live.js"
    "/page/actions.js" "text/javascript; charset=utf-8" "actions.js"
    "/page/keys.js" "text/javascript; charset=utf-8" "keys.js"
};

/// The routes of the page.
pub(super) fn router() -> Router {
    FILES.iter().fold(Router::new(), |router, file| {
        let (tag, content) = (file.tag(), Arc::new(Constant::new(file.content)));
        let answer = async move |headers: HeaderMap| file.answer(&headers, &tag, &content);
        router.route(file.path, get(answer))
    })
}

impl File {
    /// The entity tag of the file's version.
    fn tag(&self) -> String {
        let hex = Digest::of(self.content.as_bytes());
        // Weak, because the same file is sent compressed and uncompressed.
        format!("W/\"{hex}\"")
    }

    /// The response: the file, or 304 if the browser has it.
    fn answer(&self, headers: &HeaderMap, tag: &str, content: &Constant) -> Response {
        let known = headers.get(header::IF_NONE_MATCH).and_then(|known| known.to_str().ok());
        let is_known = known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag));
        let mut answer = match is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => content.response(headers, self.kind),
        };
        let to = answer.headers_mut();
        if let Ok(tag) = HeaderValue::from_str(tag) {
            to.insert(header::ETAG, tag);
        }
        let fixed: [(HeaderName, &'static str); 6] = [
            (header::CACHE_CONTROL, "no-cache"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (header::REFERRER_POLICY, "same-origin"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        ];
        for (name, value) in fixed {
            to.insert(name, HeaderValue::from_static(value));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use duebox_job::FailureClass;

    use super::*;
    use crate::observe::events::EventKind;

    #[test]
    fn the_page_uses_no_other_server_and_turns_no_text_into_markup() {
        for file in &FILES {
            let bare = file.content.replace("http://www.w3.org/2000/svg", "");
            for bad in
                ["://", "innerHTML", "outerHTML", "insertAdjacent", "eval(", "document.write"]
            {
                assert!(!bare.contains(bad), "{} has {bad}", file.path);
            }
        }
        let html = FILES[0].content;
        assert!(!html.contains("<style") && !html.contains(" style=") && !html.contains(" on"));
    }

    /// The words of a list in a script of the page.
    fn words_of(path: &str, list: &str) -> Vec<&'static str> {
        let script = FILES.iter().find(|file| file.path == path).unwrap().content;
        let (_, rest) = script.split_once(&format!("const {list} = [")).unwrap();
        let (words, _) = rest.split_once(']').unwrap();
        words.split(',').map(|word| word.trim().trim_matches('\'')).collect()
    }

    #[test]
    fn the_failure_classes_and_events_of_the_page_are_those_of_the_daemon() {
        let classes = FailureClass::ALL.map(|class| class.name());
        assert_eq!(words_of("/page/classes.js", "CLASSES"), classes);
        assert_eq!(words_of("/page/live.js", "EVENTS"), EventKind::ALL.map(EventKind::word));
    }

    #[test]
    fn a_cached_file_is_not_sent_again() {
        let (file, mut headers) = (&FILES[1], HeaderMap::new());
        let (tag, content) = (file.tag(), Constant::new(file.content));
        let status = |headers: &HeaderMap| file.answer(headers, &tag, &content).status();
        assert_eq!(status(&headers), StatusCode::OK);
        headers.insert(
            header::IF_NONE_MATCH,
            HeaderValue::from_str(&format!("\"x\", {tag}")).unwrap(),
        );
        assert_eq!(status(&headers), StatusCode::NOT_MODIFIED);
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"x\""));
        assert_eq!(status(&headers), StatusCode::OK);
    }
}
