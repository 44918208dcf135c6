//! The tagged call being read: what of its arguments has been written.

use crate::coerce;
use crate::emit::Emitter;
use crate::json;
use crate::tools::ToolSet;

/// The call being read.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) keys: Vec<String>,
    /// Something of the object has been written.
    pub(super) opened: bool,
    /// A JSON body gave the arguments.
    pub(super) json: bool,
    /// A wrapper parameter that may turn out to be the arguments: key and raw text.
    pub(super) wrapped: Option<(String, String)>,
}

impl Call {
    pub(super) fn new(name: &str) -> Call {
        Call { name: name.to_owned(), keys: Vec::new(), opened: false, json: false, wrapped: None }
    }

    /// The wrapper was a parameter like any other after all.
    pub(super) fn flush_wrapped(&mut self, out: &mut Emitter) {
        if let Some((key, raw)) = self.wrapped.take() {
            let head = self.head(&key);
            out.args(&(head + &coerce::json_or_text(&raw)));
        }
    }

    /// The call is complete.
    pub(super) fn end(mut self, out: &mut Emitter) {
        let whole = self.wrapped.as_ref().filter(|_| !self.opened).and_then(|(_, raw)| json::object_text(raw));
        match whole {
            Some(arguments) => out.args(&arguments),
            None => {
                self.flush_wrapped(out);
                out.args(if self.opened { "}" } else { "{}" });
            }
        }
        out.end();
    }

    /// What stands before the value of `key`.
    pub(super) fn head(&mut self, key: &str) -> String {
        let mut head = String::with_capacity(key.len() + 8);
        head.push_str(if self.opened { ", \"" } else { "{\"" });
        json::escape_into(key, &mut head);
        head.push_str("\": ");
        self.opened = true;
        head
    }

    /// True if the model gave all that the schema requires.
    pub(super) fn has_required(&self, tools: &ToolSet) -> bool {
        let mut required = tools.get(&self.name).into_iter().flat_map(|t| &t.params).filter(|p| p.required);
        self.json || required.all(|p| self.keys.contains(&p.name))
    }
}
