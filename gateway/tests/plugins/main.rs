//! The plugin host against plugins that are hostile, broken, or replaced at the worst moment.

mod faults;
mod folder;
mod guest;
mod neighbours;
mod refusal;
mod reload;

use sluicegate::plugins::{Event, Registry, Settings, Stream, StreamConfig};

/// A registry with the plain guest loaded.
fn registry(settings: Settings) -> Registry {
    let registry = Registry::new(settings).expect("the engine runs here");
    registry.load("letters", guest::plain()).expect("the plain guest loads");
    registry
}

fn open(registry: &Registry) -> Stream {
    registry.pin("letters").expect("the format is there").open(&StreamConfig::default(), None).expect("it opens")
}

/// All content of these events.
fn content(events: &[Event]) -> String {
    events
        .iter()
        .filter_map(|event| match event {
            Event::Content(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}
