//! Law 1 for what no format writes: broken wire text gives the same events however it is cut, in an order that keeps the
//! other laws.

use proptest::prelude::*;
use proptest::sample::Index;

use crate::assemble::Message;
use crate::chunking;

/// Longest text that is also fed character by character.
const BY_POINTS: usize = 3000;
/// Beyond the limits that parsers have for suffixes, names, headers and withheld values.
const LENGTHS: [usize; 4] = [80, 300, 1100, 4200];

/// One thing that goes wrong.
#[derive(Clone, Debug)]
enum Break {
    /// So many characters are missing.
    Lost(Index, usize),
    /// A marker of the format stands where none belongs.
    Marker(Index, Index),
    /// A marker is missing.
    NoMarker(Index),
    /// Half a marker.
    Half(Index, Index),
    Text(Index, &'static str),
    /// One character, many times.
    Run(Index, char, usize),
    /// A piece comes twice.
    Twice(Index, usize),
    /// The name between quotes or behind an equals sign is gone.
    Nameless,
}

/// What goes wrong with one text.
#[derive(Clone, Debug)]
pub(crate) struct Breaks {
    breaks: Vec<Break>,
    /// Text behind calls is kept, so that it is seen.
    keep_text: bool,
}

/// Structure that the engines look for.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "'",
    "\\",
    ",",
    ":",
    "=",
    "<",
    ">",
    "</",
    "/>",
    "\n",
    "{\"",
    "\"}",
    "**",
    "null",
    "{'a'",
    "f(",
    "\"\"",
    "{\"name\": \"\", \"arguments\": {}}",
    "name=\"\"",
    " behind ",
];

pub(crate) fn breaks() -> impl Strategy<Value = Breaks> {
    let place = any::<Index>;
    let one = prop_oneof![
        2 => (place(), 1usize..12).prop_map(|(at, n)| Break::Lost(at, n)),
        2 => (place(), place()).prop_map(|(at, of)| Break::Marker(at, of)),
        2 => place().prop_map(Break::NoMarker),
        1 => (place(), place()).prop_map(|(at, of)| Break::Half(at, of)),
        4 => (place(), proptest::sample::select(PIECES)).prop_map(|(at, text)| Break::Text(at, text)),
        1 => (place(), proptest::sample::select(vec!['a', ' ', '\n', '"', '{', 'é']), proptest::sample::select(&LENGTHS[..]))
            .prop_map(|(at, c, n)| Break::Run(at, c, n)),
        1 => (place(), 1usize..40).prop_map(|(at, n)| Break::Twice(at, n)),
        1 => Just(Break::Nameless),
    ];
    (proptest::collection::vec(one, 1..5), any::<bool>()).prop_map(|(breaks, keep_text)| Breaks { breaks, keep_text })
}

impl Breaks {
    /// Options of the parser.
    pub(crate) fn options(&self) -> String {
        if self.keep_text { r#"{"after_calls":"content"}"#.to_owned() } else { String::new() }
    }

    /// `text`, broken, with something behind it.
    pub(crate) fn of(&self, text: &str, markers: &[String]) -> String {
        let mut text = format!("{text} and on");
        for step in &self.breaks {
            step.apply(&mut text, markers);
        }
        text
    }
}

impl Break {
    fn apply(&self, text: &mut String, markers: &[String]) {
        let place = |text: &str, index: &Index| text.floor_char_boundary(index.index(text.len() + 1));
        let end = |text: &str, at: usize, n: usize| text.ceil_char_boundary((at + n).min(text.len()));
        let marker = |index: &Index| if markers.is_empty() { "" } else { &markers[index.index(markers.len())] };
        match self {
            Break::Lost(at, n) => {
                let at = place(text, at);
                text.replace_range(at..end(text, at, *n), "");
            }
            Break::Marker(at, of) => text.insert_str(place(text, at), marker(of)),
            Break::NoMarker(of) => {
                let marker = marker(of);
                if let Some(at) = text.rfind(marker) {
                    text.replace_range(at..at + marker.len(), "");
                }
            }
            Break::Half(at, of) => {
                let marker = marker(of);
                text.insert_str(place(text, at), &marker[..marker.floor_char_boundary(marker.len() / 2)]);
            }
            Break::Text(at, piece) => text.insert_str(place(text, at), piece),
            Break::Run(at, c, n) => text.insert_str(place(text, at), &c.to_string().repeat(*n)),
            Break::Twice(at, n) => {
                let at = place(text, at);
                let piece = text[at..end(text, at, *n)].to_owned();
                text.insert_str(at, &piece);
            }
            Break::Nameless => {
                let after = |head: &str| text.find(head).map(|at| at + head.len());
                let name = after("name=\"").or_else(|| after("\"name\": \"")).or_else(|| after("\"name\":\""));
                if let Some(at) = name.or_else(|| after("to=")).or_else(|| after("=")) {
                    let end = text[at..].find(['"', '>', '<', ' ', '\n']).map_or(text.len(), |n| at + n);
                    text.replace_range(at..end, "");
                }
            }
        }
    }
}

/// `text` in chunks gives what it gives as a whole. `Err` says what differs, or the law that is broken.
pub(crate) fn check(
    text: &str,
    sizes: &[usize],
    parse: impl Fn(&[&str]) -> Result<Message, String>,
) -> Result<(), String> {
    let lawful = |chunks: &[&str]| parse(chunks).map_err(|error| format!("{error}\nof broken {text:?}"));
    let whole = lawful(&chunking::whole(text))?;
    let mut ways = vec![chunking::by_sizes(text, sizes)];
    if text.len() <= BY_POINTS {
        ways.push(chunking::points(text));
    }
    for chunks in ways {
        let got = lawful(&chunks)?;
        if got != whole {
            return Err(format!("broken {text:?} in {chunks:?} gives\n{got:?}\nand whole\n{whole:?}"));
        }
    }
    Ok(())
}
