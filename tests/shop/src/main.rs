//! `duebox-shop`: the shop as a program. It prints its origin and runs until it is stopped.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Parser;
use duebox_shop::Shop;

/// Starts a small shop in memory on loopback, for handlers to call.
#[derive(Debug, Parser)]
#[command(name = "duebox-shop")]
struct Args {
    /// Port on 127.0.0.1; 0 chooses a free one
    #[arg(long, default_value_t = 7290)]
    port: u16,
    /// File with the token that every request must send [default: no token is required]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let token = args.token_file.as_deref().map(|path| {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read the token in {}", path.display()))?;
        ensure!(!text.trim().is_empty(), "the token in {} is empty", path.display());
        Ok(text.trim().to_owned())
    });
    let shop = Shop::open(args.port, token.transpose()?).await?;
    let mut out = std::io::stdout();
    writeln!(out, "the shop is open at {}", shop.origin()).context("cannot write to stdout")?;
    out.flush().context("cannot write to stdout")?;
    std::future::pending().await
}
