//! A headless Chromium, driven through chromedriver by the WebDriver protocol over plain HTTP and JSON. Dropping it
//! ends the browser and the driver.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use duebox_harness::eventually;
use serde_json::{Value, json};

use crate::support::client::ask;

/// The WebDriver key of an element reference.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// WebDriver codes of special keys.
pub(super) const ENTER: &str = "\u{e007}";
pub(super) const ESCAPE: &str = "\u{e00c}";

/// A browser with one window.
pub(super) struct Browser {
    driver: Child,
    /// The driver's stdout. The driver ends when it is closed.
    printed: Lines<BufReader<ChildStdout>>,
    at: SocketAddr,
    session: String,
}

/// How often a driver is started at most.
const STARTS_MAX: usize = 5;

/// The size of a window, and whether the dark theme is set.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) is_dark: bool,
}

pub(super) const DESK: Window = Window { width: 1280, height: 900, is_dark: false };
pub(super) const PHONE: Window = Window { width: 390, height: 844, is_dark: false };

impl Browser {
    /// Starts the driver of a browser. It takes a free port of IPv4 and ends if the same one of IPv6 is not free.
    fn start_driver() -> Option<Self> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("no chromedriver: {error}; run: apt-get install chromium chromium-driver")
            });
        let printed = BufReader::new(driver.stdout.take().unwrap()).lines();
        let at = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut browser = Self { driver, printed, at, session: String::new() };
        let printed = browser.printed.by_ref().map_while(Result::ok);
        let port = printed
            .filter_map(|line| Some(line.rsplit_once("successfully on port ")?.1.to_owned()));
        let port = port.map(|port| port.trim_end_matches('.').to_owned()).next()?;
        browser.at.set_port(port.parse().unwrap());
        Some(browser)
    }

    /// Starts a browser with a desktop window.
    pub(super) fn start() -> Self {
        let started = (0..STARTS_MAX).find_map(|_| Self::start_driver());
        let mut browser = started.expect("chromedriver says its port");
        // Chromium has no sandbox as root, and containers have little shared memory.
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--disable-background-timer-throttling",
            "--disable-backgrounding-occluded-windows",
            "--disable-renderer-backgrounding",
        ];
        let options = json!({ "args": args });
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let made = browser.post("/session", &wanted);
        browser.session = format!("/session/{}", made["sessionId"].as_str().unwrap());
        browser.resize(DESK);
        browser
    }

    /// Sends a command to the driver, which must succeed.
    #[track_caller]
    fn send(&self, line: &str, body: &[u8]) -> Value {
        let answer = ask(self.at, line, &[("content-type", "application/json")], body);
        assert_eq!(answer.status, 200, "{line}: {}", answer.text());
        answer.json()["value"].take()
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        self.send(&format!("POST {}{path}", self.session), body.to_string().as_bytes())
    }

    fn devtools(&self, command: &str, params: Value) {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": params }));
    }

    pub(super) fn resize(&self, window: Window) {
        let Window { width, height, is_dark } = window;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    pub(super) fn go(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// The result of a script.
    #[track_caller]
    pub(super) fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// The result of an asynchronous script.
    #[track_caller]
    pub(super) fn run_later(&self, script: &str) -> Value {
        self.post("/execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Waits until a script returns true.
    #[track_caller]
    pub(super) fn wait(&self, what: &str, script: &str) {
        eventually(what, || self.run(&format!("return Boolean({script})")) == true);
    }

    /// Waits until an element contains this text.
    #[track_caller]
    pub(super) fn reads(&self, selector: &str, text: &str) {
        let script = format!(
            "[...document.querySelectorAll({})].some((node) => node.textContent.includes({}))",
            json!(selector),
            json!(text)
        );
        self.wait(&format!("{selector} says {text:?}"), &script);
    }

    /// Waits until no element matches.
    #[track_caller]
    pub(super) fn is_gone(&self, selector: &str) {
        let script = format!("!document.querySelector({})?.checkVisibility()", json!(selector));
        self.wait(&format!("{selector} is gone"), &script);
    }

    /// Clicks on an element, which must be visible and not covered.
    #[track_caller]
    pub(super) fn click(&self, selector: &str) {
        let there = format!(
            "document.querySelector({0})?.checkVisibility() && !document.querySelector({0}).disabled",
            json!(selector)
        );
        // The element may be redrawn or covered meanwhile; then it is searched again.
        eventually(&format!("{selector} is clicked"), || {
            if self.run(&format!("return Boolean({there})")) != true {
                return false;
            }
            // The driver would scroll it below the header, which covers it.
            let shown = "scrollIntoView({ block: 'center', behavior: 'instant' })";
            self.run(&format!("document.querySelector({})?.{shown}", json!(selector)));
            let found = self.element(selector);
            let line = format!("POST {}/element/{found}/click", self.session);
            ask(self.at, &line, &[("content-type", "application/json")], b"{}").status == 200
        });
    }

    /// Types into an element.
    #[track_caller]
    pub(super) fn write(&self, selector: &str, text: &str) {
        self.wait(selector, &format!("document.querySelector({})", json!(selector)));
        let found = self.element(selector);
        self.post(&format!("/element/{found}/value"), &json!({ "text": text }));
    }

    /// Presses a key, wherever the focus is.
    #[track_caller]
    pub(super) fn press(&self, key: &str) {
        let strokes =
            json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.post("/actions", &json!({ "actions": [keyboard] }));
    }

    /// Drags with the mouse over an element, between these parts of its width.
    #[track_caller]
    pub(super) fn drag(&self, selector: &str, from: f64, to: f64) {
        let script = format!(
            "const node = document.querySelector({}); node.scrollIntoView({{ block: 'center' }}); \
             const box = node.getBoundingClientRect(); return [box.left, box.width, box.top + box.height / 2]",
            json!(selector)
        );
        let place = self.run(&script);
        let [left, width, y] = [0, 1, 2].map(|at| place[at].as_f64().unwrap());
        let to_part = |part: f64| {
            let (x, y) = ((left + width * part) as i64, y as i64);
            json!({ "type": "pointerMove", "duration": 50, "origin": "viewport", "x": x, "y": y })
        };
        let strokes = json!([
            to_part(from),
            { "type": "pointerDown", "button": 0 },
            to_part((from + to) / 2.0),
            to_part(to),
            { "type": "pointerUp", "button": 0 },
        ]);
        let mouse = json!({ "type": "pointer", "id": "mouse", "actions": strokes,
            "parameters": { "pointerType": "mouse" } });
        self.post("/actions", &json!({ "actions": [mouse] }));
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let by = json!({ "using": "css selector", "value": selector });
        self.post("/element", &by)[ELEMENT].as_str().unwrap().to_owned()
    }

    /// The cookies of the page, including those that scripts cannot read.
    pub(super) fn cookies(&self) -> Vec<Value> {
        let cookies = self.send(&format!("GET {}/cookie", self.session), b"");
        cookies.as_array().cloned().unwrap_or_default()
    }

    /// The errors that the browser logged since the last call.
    pub(super) fn complaints(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().cloned().unwrap_or_default();
        entries.iter().filter_map(|entry| entry["message"].as_str().map(str::to_owned)).collect()
    }

    /// Saves a screenshot as `target/page/NAME.png`.
    pub(super) fn keep(&self, name: &str) {
        // A screenshot during a resize may never be delivered.
        let drawn = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))";
        self.run_later(drawn);
        let png = self.send(&format!("GET {}/screenshot", self.session), b"");
        let png = STANDARD.decode(png.as_str().unwrap()).unwrap();
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("target/page");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("{name}.png")), png).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.send(&format!("DELETE {}", self.session), b"");
        } else if !self.session.is_empty() {
            // An error was reported before; the browser must end anyway.
            let end = || ask(self.at, &format!("DELETE {}", self.session), &[], b"");
            drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(end)));
        }
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}
