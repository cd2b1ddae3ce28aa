//! Runs the example on the Redis whose address is the first argument, or on the local one.

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    duebox_embed_example::run(&url, &mut std::io::stdout()).await
}
