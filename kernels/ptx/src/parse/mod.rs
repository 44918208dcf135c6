//! Reading a module: its kernels' places and its variables. A kernel's body is read when it is asked for.

mod arithmetic;
mod body;
mod decode;
mod operands;
mod tokens;
mod variables;
mod warp;

use std::collections::BTreeMap;

use crate::ir::{Kernel, Parameter};
use crate::{PtxError, memory};
use tokens::{Reader, Token, tokens, wrong};
use variables::{Variable, Variables};

/// A module's text and what was found in it.
#[derive(Debug)]
pub struct Module {
    text: String,
    /// Entry names and their order in the text.
    entries: Vec<String>,
}

/// What a body needs of its module.
#[derive(Debug, Default)]
struct Outline<'a, 't> {
    entries: BTreeMap<&'a str, Entry<'a, 't>>,
    variables: Variables<'a>,
}

#[derive(Debug)]
struct Entry<'a, 't> {
    parameters: &'t [tokens::Placed<'a>],
    body: &'t [tokens::Placed<'a>],
}

impl Module {
    /// Reads a module's outline.
    ///
    /// # Errors
    /// [`PtxError::Text`] where the text is no PTX.
    pub fn parse(text: &str) -> Result<Self, PtxError> {
        let tokens = tokens(text)?;
        let outline = outline(&tokens)?;
        let entries = outline.entries.keys().map(|name| (*name).to_owned()).collect();
        Ok(Self { text: text.to_owned(), entries })
    }

    /// Names of the kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(String::as_str)
    }

    /// Makes a kernel ready to run.
    ///
    /// # Errors
    /// [`PtxError::NoKernel`], or [`PtxError::Text`] for what is not interpreted.
    pub fn kernel(&self, name: &str) -> Result<Kernel, PtxError> {
        let tokens = tokens(&self.text)?;
        let outline = outline(&tokens)?;
        let entry = outline.entries.get(name).ok_or_else(|| PtxError::NoKernel(name.to_owned()))?;
        let (names, parameters) = parameters(entry.parameters)?;
        let mut body = body::Body::new(outline.variables, names);
        body.read(&mut Reader::new(entry.body))?;
        body.finish(name, parameters)
    }
}

fn outline<'a, 't>(tokens: &'t [tokens::Placed<'a>]) -> Result<Outline<'a, 't>, PtxError> {
    let mut reader = Reader::new(tokens);
    let mut outline = Outline::default();
    while reader.peek().is_some() {
        let line = reader.line();
        match reader.word()? {
            ".version" | ".target" | ".address_size" | ".file" | ".loc" => reader.skip_line(line),
            ".visible" | ".weak" | ".extern" => {}
            ".entry" => {
                let name = reader.word()?;
                reader.expect('(')?;
                let parameters = reader.until_closed('(', ')')?;
                reader.until('{')?;
                let body = reader.until_closed('{', '}')?;
                outline.entries.insert(name, Entry { parameters, body });
            }
            ".func" => {
                reader.until('{')?;
                reader.until_closed('{', '}')?;
            }
            ".section" => {
                reader.until('{')?;
                reader.until_closed('{', '}')?;
            }
            space @ (".shared" | ".global" | ".const") => {
                outline.variables.declare(space, &mut Reader::new(reader.until(';')?))?;
            }
            other => return Err(wrong(line, format!("`{other}` is not known here"))),
        }
    }
    Ok(outline)
}

/// Names with their places in parameter memory.
type Names<'a> = Vec<(&'a str, usize)>;

fn parameters<'a>(tokens: &[tokens::Placed<'a>]) -> Result<(Names<'a>, Vec<Parameter>), PtxError> {
    let mut reader = Reader::new(tokens);
    let (mut names, mut all, mut end) = (Vec::new(), Vec::new(), 0usize);
    while reader.peek().is_some() {
        let word = reader.word()?;
        if word != ".param" {
            return Err(wrong(reader.line(), format!("`.param` is expected, not `{word}`")));
        }
        let variable = Variable::read(&mut reader)?;
        let offset = end.next_multiple_of(variable.align);
        names.push((variable.name, offset));
        all.push(Parameter { offset, bytes: variable.bytes });
        end = offset + variable.bytes;
        if !reader.take(',') && reader.peek().is_some() {
            return Err(wrong(reader.line(), "`,` is expected between parameters"));
        }
    }
    Ok((names, all))
}

/// A literal: integers, and floats by their bits.
fn literal(text: &str, line: u32) -> Result<u64, PtxError> {
    let digits = text.trim_end_matches('U');
    let hex = |d: &str| u64::from_str_radix(d, 16).ok();
    let value = if let Some(d) = digits.strip_prefix("0f").or(digits.strip_prefix("0F")) {
        hex(d).filter(|_| d.len() == 8)
    } else if let Some(d) = digits.strip_prefix("0d").or(digits.strip_prefix("0D")) {
        hex(d).filter(|_| d.len() == 16)
    } else if let Some(d) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        hex(d)
    } else {
        digits.parse().ok()
    };
    value.ok_or_else(|| wrong(line, format!("`{text}` is no number")))
}

/// The tokens of a number with its sign.
fn signed_literal(reader: &mut Reader<'_, '_>) -> Result<u64, PtxError> {
    let negative = reader.take('-');
    let line = reader.line();
    match reader.next() {
        Some(Token::Number(text)) => {
            let value = literal(text, line)?;
            Ok(if negative { value.wrapping_neg() } else { value })
        }
        other => Err(wrong(line, format!("a number is expected, not {other:?}"))),
    }
}

/// Where the module's variables are; see [`memory::MODULE_WINDOW`].
const fn module_address(offset: usize) -> u64 {
    memory::MODULE_WINDOW + offset as u64
}
