//! The web page, in a headless browser and as HTTP responses.

mod browse;
mod browser;
mod in_browser;
mod live;
mod operator;
mod past;
mod undo;
mod views;
mod walks;
mod wire;
