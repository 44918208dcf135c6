//! Calls written as Python: `[f(a=1, b="x"), g()]`, in markers or as the whole answer.

mod literal;
mod reader;
mod text;

pub use literal::Transcoder;

use std::sync::Arc;

use crate::limit::{limit, window};
use crate::scan::Markers;
use crate::syntax::{Enter, Opener, Place, Reader, Request, Syntax};
use reader::PythonReader;

/// Calls written as Python.
#[derive(Clone, Copy, Debug)]
pub struct PythonCalls {
    /// Literals that open a block.
    pub opens: &'static [&'static str],
    /// Literals that close it. None: the list's bracket does.
    pub closes: &'static [&'static str],
    /// A list without markers counts if it begins with a call of a declared tool.
    pub bare: bool,
    /// Inside markers, objects with a name and arguments count too, as JSON or as Python dicts.
    pub objects: bool,
    /// How a grammar writes them.
    pub written: Written,
}

/// How the calls of a Python format are written, of all the ways in which they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// `[f(a=1), g()]`.
    List,
    /// One call a line.
    Lines,
    /// A list of dicts with `name` and `arguments`.
    Dicts,
}

impl PythonCalls {
    /// A bare list.
    pub const BASE: PythonCalls =
        PythonCalls { opens: &[], closes: &[], bare: true, objects: false, written: Written::List };
}

/// Longest beginning of a bare list that is looked at: bracket, name, parenthesis.
const MAX_HEAD: usize = limit(256);

#[derive(Debug)]
struct Shared {
    spec: &'static PythonCalls,
    closes: Markers,
}

/// [`PythonCalls`] compiled for parsing.
#[derive(Debug)]
pub struct PythonSyntax {
    shared: Arc<Shared>,
    openers: Vec<Opener>,
}

impl PythonSyntax {
    /// Compiles the marker set.
    pub fn new(spec: &'static PythonCalls) -> PythonSyntax {
        let mut openers: Vec<Opener> =
            spec.opens.iter().map(|text| Opener { text: (*text).to_owned(), place: Place::Anywhere }).collect();
        if spec.bare {
            openers.push(Opener { text: "[".to_owned(), place: Place::Anywhere });
        }
        let closes = Markers::new(spec.closes.iter().map(|text| (*text, 0)));
        PythonSyntax { shared: Arc::new(Shared { spec, closes }), openers }
    }
}

impl Syntax for PythonSyntax {
    fn openers(&self) -> Vec<Opener> {
        self.openers.clone()
    }

    fn enter(&self, opener: usize, input: &str, last: bool, request: &Request) -> Enter {
        let reader = |marked| Box::new(PythonReader::new(Arc::clone(&self.shared), marked));
        if let Some(open) = self.shared.spec.opens.get(opener) {
            return Enter::Calls(open.len(), reader(true));
        }
        // `[name(`, and the name is declared: nothing else is a call.
        let (seen, full) = window(&input[1..], MAX_HEAD, last);
        let body = seen.trim_start();
        let name = body.len() - body.trim_start_matches(is_name).len();
        let after = body[name..].trim_start();
        match after.as_bytes().first() {
            None if !full => Enter::Hold,
            Some(b'(') if request.tools.get(&body[..name]).is_some() => Enter::Calls(0, reader(false)),
            _ => Enter::Text,
        }
    }

    fn body(&self, named: Option<&str>) -> Option<Box<dyn Reader>> {
        named.is_none().then(|| Box::new(PythonReader::new(Arc::clone(&self.shared), true)) as Box<dyn Reader>)
    }

    fn markers(&self) -> Vec<String> {
        let s = self.shared.spec;
        s.opens.iter().chain(s.closes).map(|text| (*text).to_owned()).collect()
    }
}

/// What a function's name may consist of.
fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-')
}
