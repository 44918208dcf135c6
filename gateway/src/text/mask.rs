//! Keeps text of the conversation apart from a template's own text while a template engine mixes the two.
//!
//! A Jinja template is free to trim, cut, join and compare the conversation's strings, so marks around them would break
//! templates or get lost. Instead, the characters of those strings with which a control token could begin or end are
//! exchanged for private-use characters before rendering, one for one. Lengths, white space, letters and digits stay, so
//! templates behave as before; a control token found in the rendered text was then spelled by the template alone. Afterwards
//! the characters are put back.
//!
//! Two cases need more than first and last characters: a spelling that begins or ends with a letter, and a template
//! that writes `<` + name + `>` around a name such as `/think`.

use std::cell::RefCell;
use std::collections::HashSet;

use super::controls::Controls;
use super::prompt::Prompt;

/// First code point of the supplementary private-use planes.
const PRIVATE_USE: u32 = 0xF_0000;
/// Last one.
const PRIVATE_USE_END: u32 = 0x10_FFFD;

fn is_private(c: char) -> bool {
    c as u32 >= PRIVATE_USE
}

/// The exchange of one rendering.
#[derive(Debug)]
pub(super) struct Mask<'a> {
    controls: &'a Controls,
    template: &'a str,
    /// [`Controls::completed_by`] the template.
    names: &'a HashSet<Box<str>>,
    /// Private-use stand-in of each character of the controls' alphabet, same order, ascending; the last one more is the end
    /// mark.
    stand_ins: Vec<char>,
    /// Private-use characters that the conversation itself holds.
    seen: RefCell<HashSet<char>>,
}

impl<'a> Mask<'a> {
    /// A mask whose stand-ins do not occur in the template. `None` when there are no private-use characters left.
    pub(super) fn new(controls: &'a Controls, template: &'a str, names: &'a HashSet<Box<str>>) -> Option<Self> {
        Self::without(controls, template, names, HashSet::new())
    }

    /// A mask like this one that avoids every character it has seen.
    pub(super) fn elsewhere(&self) -> Option<Self> {
        Self::without(self.controls, self.template, self.names, self.seen.take())
    }

    fn without(
        controls: &'a Controls,
        template: &'a str,
        names: &'a HashSet<Box<str>>,
        seen: HashSet<char>,
    ) -> Option<Self> {
        let mut taken: HashSet<char> = template.chars().filter(|&c| is_private(c)).collect();
        taken.extend(&seen);
        let wanted = controls.alphabet().len() + 1;
        let free = (PRIVATE_USE..=PRIVATE_USE_END).filter_map(char::from_u32).filter(|c| !taken.contains(c));
        let stand_ins: Vec<char> = free.take(wanted).collect();
        (stand_ins.len() == wanted).then_some(Self { controls, template, names, stand_ins, seen: RefCell::new(seen) })
    }

    /// Whether a covered string held one of the stand-ins, so that putting back would change it.
    pub(super) fn collides(&self) -> bool {
        self.seen.borrow().iter().any(|c| self.stand_ins.binary_search(c).is_ok())
    }

    /// A character that occurs nowhere else, to mark a place in the rendered text.
    pub(super) fn end_mark(&self) -> char {
        self.stand_ins[self.stand_ins.len() - 1]
    }

    /// The conversation's string as the template may see it.
    pub(super) fn cover(&self, text: &str) -> String {
        let mut covered: HashSet<usize> = HashSet::new();
        covered.extend(self.controls.find(text).iter().map(|range| range.start));
        let trimmed = text.trim();
        if self.names.contains(trimmed) {
            covered.insert(text.len() - text.trim_start().len());
        }
        let mut out = String::with_capacity(text.len());
        for (at, c) in text.char_indices() {
            if is_private(c) {
                self.seen.borrow_mut().insert(c);
            }
            let hide = self.controls.is_edge(c) || (!covered.is_empty() && covered.contains(&at));
            out.push(if hide { self.stand_in(c) } else { c });
        }
        out
    }

    fn stand_in(&self, c: char) -> char {
        self.controls.alphabet().binary_search(&c).map_or(c, |at| self.stand_ins[at])
    }

    fn original(&self, c: char) -> char {
        if !is_private(c) {
            return c;
        }
        let at = self.stand_ins.binary_search(&c).ok();
        at.and_then(|at| self.controls.alphabet().get(at).copied()).unwrap_or(c)
    }

    /// The rendered text with its characters put back and the template's control tokens marked.
    pub(super) fn uncover(&self, rendered: &str) -> Prompt {
        let mut prompt = Prompt::default();
        let mut end = 0;
        for range in self.controls.find(rendered) {
            prompt.push_plain(&self.restore(&rendered[end..range.start]));
            prompt.push_special(&rendered[range.clone()]);
            end = range.end;
        }
        prompt.push_plain(&self.restore(&rendered[end..]));
        prompt
    }

    fn restore(&self, text: &str) -> String {
        text.chars().map(|c| self.original(c)).collect()
    }
}
