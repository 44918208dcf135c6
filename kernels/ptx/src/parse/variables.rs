//! Variables of module and kernel: shared, local, and the module's tables with their contents.

use std::collections::HashMap;

use super::tokens::{Reader, Token, wrong};
use super::{module_address, signed_literal};
use crate::PtxError;
use crate::ir::{Operand, Special};
use crate::types::Type;

/// One declaration.
#[derive(Debug)]
pub(super) struct Variable<'a> {
    pub(super) name: &'a str,
    pub(super) ty: Type,
    pub(super) align: usize,
    pub(super) bytes: usize,
    /// `name[]`: as much as the launch gives.
    open: bool,
}

impl<'a> Variable<'a> {
    /// Reads `.align N .type name[N]`, after the word of the space.
    pub(super) fn read(reader: &mut Reader<'a, '_>) -> Result<Self, PtxError> {
        let (mut ty, mut align) = (None, None);
        while let Some(Token::Word(word)) = reader.peek() {
            let Some(directive) = word.strip_prefix('.') else { break };
            reader.next();
            match directive {
                "align" if ty.is_none() => align = Some(signed_literal(reader)? as usize),
                // What the pointer of a parameter points to.
                "align" => drop(signed_literal(reader)?),
                "ptr" | "global" | "shared" | "const" | "local" => {}
                name => ty = Some(Type::parse(name).ok_or_else(|| wrong(reader.line(), format!("no type `.{name}`")))?),
            }
        }
        let ty = ty.ok_or_else(|| wrong(reader.line(), "a variable without type"))?;
        let name = reader.word()?;
        let (mut bytes, mut open) = (ty.bytes(), false);
        while reader.take('[') {
            if reader.take(']') {
                open = true;
                continue;
            }
            bytes *= signed_literal(reader)? as usize;
            reader.expect(']')?;
        }
        Ok(Self { name, ty, align: align.unwrap_or(ty.bytes()).max(1), bytes, open })
    }
}

/// All variables that a body can name.
#[derive(Debug, Default)]
pub(super) struct Variables<'a> {
    places: HashMap<&'a str, Operand>,
    pub(super) shared_bytes: usize,
    pub(super) local_bytes: usize,
    /// Contents of the module's variables.
    pub(super) contents: Vec<u8>,
}

impl<'a> Variables<'a> {
    /// Takes a declaration of `.shared`, `.local`, `.global` or `.const`.
    pub(super) fn declare(&mut self, space: &str, reader: &mut Reader<'a, '_>) -> Result<(), PtxError> {
        let variable = Variable::read(reader)?;
        let place = match space {
            ".shared" if variable.open => Operand::Special(Special::DynamicSharedAt),
            ".shared" => Operand::Immediate(reserve(&mut self.shared_bytes, &variable)),
            ".local" => Operand::Immediate(reserve(&mut self.local_bytes, &variable)),
            _ => {
                let at = self.contents.len().next_multiple_of(variable.align);
                self.contents.resize(at + variable.bytes, 0);
                if reader.take('=') {
                    initialise(&variable, reader, &mut self.contents[at..])?;
                }
                Operand::Immediate(module_address(at))
            }
        };
        self.places.insert(variable.name, place);
        Ok(())
    }

    pub(super) fn find(&self, name: &str) -> Option<Operand> {
        self.places.get(name).cloned()
    }
}

fn reserve(end: &mut usize, variable: &Variable<'_>) -> u64 {
    let at = end.next_multiple_of(variable.align);
    *end = at + variable.bytes;
    at as u64
}

fn initialise(variable: &Variable<'_>, reader: &mut Reader<'_, '_>, to: &mut [u8]) -> Result<(), PtxError> {
    let size = variable.ty.bytes();
    let mut places = to.chunks_exact_mut(size);
    while reader.peek().is_some() {
        if reader.take('{') || reader.take('}') || reader.take(',') {
            continue;
        }
        let line = reader.line();
        let value = signed_literal(reader)?;
        let place = places.next().ok_or_else(|| wrong(line, format!("too many values for `{}`", variable.name)))?;
        place.copy_from_slice(&value.to_le_bytes()[..size]);
    }
    Ok(())
}
