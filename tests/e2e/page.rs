//! The web page, in a headless browser and as HTTP responses.

mod browser;
mod in_browser;
mod views;
mod walks;
mod wire;
