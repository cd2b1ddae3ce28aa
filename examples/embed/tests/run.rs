//! The example runs, and prints what its README shows.

use duebox_harness::RedisServer;

#[tokio::test]
async fn the_example_prints_what_its_readme_shows() {
    let server = RedisServer::start();
    let mut out = Vec::new();
    duebox_embed_example::run(&server.url(), &mut out).await.unwrap();
    let printed = String::from_utf8(out).unwrap();
    let readme = include_str!("../README.md");
    let (_, rest) = readme.split_once("```text\n").unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    assert_eq!(printed, shown);
}
