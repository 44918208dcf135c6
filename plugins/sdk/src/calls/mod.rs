//! Calls written as JSON: objects, arrays or arguments behind a header, between markers or bare.

mod object;
mod reader;

use std::sync::Arc;

use crate::scan::Markers;
use crate::syntax::{Enter, IdRule, Opener, Place, Reader, Request, Syntax};
pub(crate) use object::{Object, Outcome};
use reader::JsonReader;

/// A call's name as a header gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The function.
    pub name: String,
    /// The id, if the model wrote one or the format prescribes it.
    pub id: Option<String>,
}

/// Reads a header: its text, the request, and the index that the call would get.
pub type HeaderRule = fn(&str, &Request, u32) -> Option<Named>;

/// Calls written as JSON.
#[derive(Clone, Copy, Debug)]
pub struct JsonCalls {
    /// Literals that open a block. One that ends with `[` opens the array too.
    pub opens: &'static [&'static str],
    /// Literals that count as openers only as the first thing of the answer. What follows is a call only if it names
    /// a declared tool and has arguments; otherwise it is text.
    pub starts: &'static [&'static str],
    /// Literals that close a block. None: the block ends with its JSON.
    pub closes: &'static [&'static str],
    /// A block may end without its closer: text behind complete JSON is no part of it.
    pub closes_optional: bool,
    /// Literals inside a block that mean nothing.
    pub ignored: &'static [&'static str],
    /// Keys of the function's name.
    pub name_keys: &'static [&'static str],
    /// Keys of the arguments.
    pub args_keys: &'static [&'static str],
    /// Key of an id that the model writes.
    pub id_key: Option<&'static str>,
    /// Makes an id where the model wrote none. Without it the gateway does.
    pub make_id: Option<IdRule>,
    /// Each object has one key, the function's name, and its value is the arguments.
    pub name_is_key: bool,
    /// Name and arguments may stand in an object of their own, under the key `function`.
    pub nested: bool,
    /// If the request names the function, a bare object that is no call is its arguments.
    pub bare_arguments: bool,
    /// Calls are a header and then the arguments object. See [`JsonCalls::call_opens`].
    pub header: Option<HeaderRule>,
    /// Literals before a header. None: a header stands right behind a block's opener.
    pub call_opens: &'static [&'static str],
    /// Literals behind a call with a header.
    pub call_closes: &'static [&'static str],
    /// How a grammar writes them.
    pub written: Written,
    /// What a grammar writes as opener instead of the first of `opens`: a template, see [`Written`].
    pub written_open: Option<&'static str>,
}

/// How the calls of a JSON format are written, of all the ways in which they are read. In templates, `~` is optional
/// white space and `#` a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Each object in a block of its own.
    Blocks,
    /// One block with one object, never more.
    Single,
    /// One block, objects with this between them.
    Row(&'static str),
    /// One block with an array.
    Array,
    /// One block; each call is a header and its arguments. The templates stand around the function's name and behind
    /// the arguments.
    Headed {
        /// Before the name.
        before: &'static str,
        /// Between the name and the arguments.
        after: &'static str,
        /// Behind the arguments.
        close: &'static str,
    },
}

impl JsonCalls {
    /// The id of a call: the model's own, else one of the prescribed shape.
    fn id(&self, written: Option<String>, request: &Request, name: &str, index: u32) -> Option<String> {
        written.or_else(|| self.make_id.map(|rule| rule(request, name, index)))
    }

    /// A block may end without a closer.
    fn ends_with_json(&self) -> bool {
        self.closes.is_empty() || self.closes_optional
    }

    /// Objects with `name` and `arguments` (or `parameters`).
    pub const BASE: JsonCalls = JsonCalls {
        opens: &[],
        starts: &[],
        closes: &[],
        closes_optional: false,
        ignored: &[],
        name_keys: &["name"],
        args_keys: &["arguments", "parameters"],
        id_key: None,
        make_id: None,
        name_is_key: false,
        nested: false,
        bare_arguments: false,
        header: None,
        call_opens: &[],
        call_closes: &[],
        written: Written::Blocks,
        written_open: None,
    };
}

/// What readers share.
#[derive(Debug)]
struct Shared {
    spec: &'static JsonCalls,
    /// Literals that count between calls.
    between: Markers,
}

const OPEN: u16 = 0;
const CLOSE: u16 = 1;
const CALL_OPEN: u16 = 2;
const IGNORED: u16 = 3;

/// [`JsonCalls`] compiled for parsing.
#[derive(Debug)]
pub struct JsonSyntax {
    shared: Arc<Shared>,
    openers: Vec<Opener>,
}

impl JsonSyntax {
    /// Compiles the marker sets.
    pub fn new(spec: &'static JsonCalls) -> JsonSyntax {
        let opener = |place| move |text: &&str| Opener { text: (*text).to_owned(), place };
        let mut openers: Vec<Opener> = spec.opens.iter().map(opener(Place::Anywhere)).collect();
        openers.extend(spec.starts.iter().map(opener(Place::Start)));
        let kinds = [
            (spec.opens, OPEN),
            (spec.closes, CLOSE),
            (spec.call_opens, CALL_OPEN),
            (spec.ignored, IGNORED),
            (spec.call_closes, IGNORED),
        ];
        let starts = spec.starts.iter().filter(|text| text.len() > 1).map(|text| (*text, OPEN));
        let between = kinds.iter().flat_map(|(list, id)| list.iter().map(|text| (*text, *id))).chain(starts);
        JsonSyntax { shared: Arc::new(Shared { spec, between: Markers::new(between) }), openers }
    }
}

impl Syntax for JsonSyntax {
    fn openers(&self) -> Vec<Opener> {
        self.openers.clone()
    }

    fn enter(&self, opener: usize, input: &str, _last: bool, _request: &Request) -> Enter {
        let opener = &self.openers[opener];
        let reader = JsonReader::new(Arc::clone(&self.shared), &opener.text, opener.place == Place::Start);
        // A guess reads its opener itself, because the opener may turn out to be text.
        let read = if opener.place == Place::Start { 0 } else { opener.text.len() };
        debug_assert!(input.starts_with(&opener.text));
        Enter::Calls(read, Box::new(reader))
    }

    fn body(&self, named: Option<&str>) -> Option<Box<dyn Reader>> {
        named.is_none().then(|| Box::new(JsonReader::new(Arc::clone(&self.shared), "", false)) as Box<dyn Reader>)
    }

    fn markers(&self) -> Vec<String> {
        let s = self.shared.spec;
        let all = [s.opens, s.starts, s.call_opens, s.call_closes, s.closes, s.ignored];
        all.iter().flat_map(|list| list.iter().map(|text| (*text).to_owned())).collect()
    }
}
