//! Code written for Go's net/http, over the SDK's transport, as a compiled module with real
//! servers.

use std::collections::BTreeMap;

use duebox_conformance::{Attempt, Module, services};
use duebox_sandbox::Instances;

/// The expected result of each request. The client follows redirects itself, and each hop is
/// checked anew.
const STEPS: [(&str, &str); 13] = [
    ("get {server}/echo", "200 OK at /echo, length 0, by \"GET\" as \"\", 0 cookies: "),
    ("post {server}/echo hello", "by \"POST\" as \"text/plain\", 0 cookies: hello"),
    ("head {server}/bytes/1000", "200 OK at /bytes/1000, length 1000, "),
    ("get {server}/answer/404", "404 Not Found at /answer/404"),
    ("get {server}/answer/303?location={other}/echo", "200 OK at /echo"),
    ("get {server}/answer/200?set-cookie=a%3D1&set-cookie=b%3D2", ", 2 cookies: "),
    ("get {server}/bytes/2000000", "refused: too large: "),
    ("get {server}/answer/302?location={denied}/", "refused: denied: "),
    ("get {denied}/", "refused: denied: "),
    ("get {private}/", "refused: denied: "),
    ("get {closed}/", "refused: unavailable: "),
    ("timeout 60ms", "within 60ms"),
    ("get {server}/never", "refused: late: "),
];

#[test]
fn a_client_of_net_http_works_in_fresh_and_in_warm_instances() {
    let services = services();
    let steps: Vec<String> = STEPS.iter().map(|(step, _)| services.substitute(step)).collect();
    let headers = BTreeMap::from([("script".to_owned(), steps.join("; "))]);
    let attempt = Attempt { headers, ..Attempt::new("") };
    for (snapshot, jobs_each) in [(false, 1), (true, 9)] {
        let instances = Instances { snapshot, jobs_each };
        let module = Module::with_services("std-go", BTreeMap::new(), instances, &services);
        for _ in 0..2 {
            let run = module.run(&attempt);
            assert_eq!((run.verdict(), run.lines.len()), ("ack", STEPS.len()), "{run:#?}");
            for ((step, wanted), line) in STEPS.iter().zip(&run.lines) {
                assert!(line.contains(wanted), "{instances:?}: {step}: {line}");
            }
        }
    }
}
