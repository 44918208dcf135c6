//! A kernel's body: scopes of registers and labels, guards, statements.

use std::collections::HashMap;

use super::tokens::{Reader, Token, wrong};
use super::variables::Variables;
use super::{Names, decode, operands, signed_literal};
use crate::PtxError;
use crate::ir::{Instruction, Kernel, Op, Operand, Parameter};

/// Registers and labels of a block in braces; inline assembly opens its own.
#[derive(Debug, Default)]
struct Scope<'a> {
    registers: HashMap<String, usize>,
    labels: HashMap<&'a str, usize>,
    /// Branches to labels that had not been seen: instruction, operand, label, line.
    waiting: Vec<(usize, usize, &'a str, u32)>,
}

#[derive(Debug)]
pub(super) struct Body<'a> {
    variables: Variables<'a>,
    parameters: Names<'a>,
    scopes: Vec<Scope<'a>>,
    registers: usize,
    code: Vec<Instruction>,
}

impl<'a> Body<'a> {
    pub(super) fn new(variables: Variables<'a>, parameters: Names<'a>) -> Self {
        Self { variables, parameters, scopes: vec![Scope::default()], registers: 0, code: Vec::new() }
    }

    pub(super) fn read(&mut self, reader: &mut Reader<'a, '_>) -> Result<(), PtxError> {
        while let Some(token) = reader.peek() {
            match token {
                Token::Sign('{') => {
                    reader.next();
                    self.scopes.push(Scope::default());
                }
                Token::Sign('}') => {
                    reader.next();
                    self.close_scope(reader.line())?;
                }
                Token::Sign(';') => drop(reader.next()),
                Token::Word(word) if word.starts_with('.') => self.directive(reader)?,
                Token::Word(label) if reader.peek_after(1) == Some(&Token::Sign(':')) => {
                    let at = self.code.len();
                    if let Some(scope) = self.scopes.last_mut() {
                        scope.labels.insert(label, at);
                    }
                    reader.next();
                    reader.next();
                }
                _ => self.instruction(reader)?,
            }
        }
        while !self.scopes.is_empty() {
            self.close_scope(reader.line())?;
        }
        Ok(())
    }

    /// Resolves the scope's branches; what it does not know may be a label outside.
    fn close_scope(&mut self, line: u32) -> Result<(), PtxError> {
        let scope = self.scopes.pop().ok_or_else(|| wrong(line, "`}` without `{`"))?;
        for (instruction, operand, label, line) in scope.waiting {
            if let Some(&at) = scope.labels.get(label) {
                self.code[instruction].operands[operand] = Operand::Label(at);
            } else if let Some(outer) = self.scopes.last_mut() {
                outer.waiting.push((instruction, operand, label, line));
            } else {
                return Err(wrong(line, format!("`{label}` is neither a label nor a variable")));
            }
        }
        Ok(())
    }

    fn directive(&mut self, reader: &mut Reader<'a, '_>) -> Result<(), PtxError> {
        let line = reader.line();
        match reader.word()? {
            ".reg" => self.declare_registers(&mut Reader::new(reader.until(';')?)),
            space @ (".shared" | ".local") => self.variables.declare(space, &mut Reader::new(reader.until(';')?)),
            ".pragma" => reader.until(';').map(drop),
            ".loc" | ".file" => {
                reader.skip_line(line);
                Ok(())
            }
            other => Err(wrong(line, format!("`{other}` is not interpreted"))),
        }
    }

    /// `.b32 %r<10>` or `.b32 a, b`.
    fn declare_registers(&mut self, reader: &mut Reader<'a, '_>) -> Result<(), PtxError> {
        reader.word()?;
        loop {
            let name = reader.word()?;
            if reader.take('<') {
                let count = signed_literal(reader)?;
                reader.expect('>')?;
                (0..count).for_each(|i| self.new_register(format!("{name}{i}")));
            } else {
                self.new_register(name.to_owned());
            }
            if !reader.take(',') {
                return Ok(());
            }
        }
    }

    fn new_register(&mut self, name: String) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.registers.insert(name, self.registers);
            self.registers += 1;
        }
    }

    fn instruction(&mut self, reader: &mut Reader<'a, '_>) -> Result<(), PtxError> {
        let line = reader.line();
        let guard = if reader.take('@') {
            let wanted = !reader.take('!');
            let name = reader.word()?;
            Some((self.register(name).ok_or_else(|| wrong(line, format!("no register `{name}`")))?, wanted))
        } else {
            None
        };
        let opcode = reader.word()?;
        let op = decode::opcode(opcode).map_err(|why| wrong(line, why))?;
        let mut rest = Reader::new(reader.until(';')?);
        let operands = if op == Op::Nop { Vec::new() } else { operands::list(self, &mut rest)? };
        decode::check(op, &operands).map_err(|why| wrong(line, format!("`{opcode}`: {why}")))?;
        self.code.push(Instruction { line, opcode: opcode.to_owned(), guard, op, operands });
        Ok(())
    }

    pub(super) fn register(&self, name: &str) -> Option<usize> {
        self.scopes.iter().rev().find_map(|s| s.registers.get(name).copied())
    }

    /// What a bare name means; a label is filled in when its scope ends.
    pub(super) fn name(&mut self, name: &'a str, operand: usize, line: u32) -> Operand {
        if let Some(register) = self.register(name) {
            return Operand::Register(register);
        }
        if let Some((_, offset)) = self.parameters.iter().find(|(n, _)| *n == name) {
            return Operand::Immediate(*offset as u64);
        }
        if let Some(place) = self.variables.find(name) {
            return place;
        }
        let instruction = self.code.len();
        if let Some(scope) = self.scopes.last_mut() {
            scope.waiting.push((instruction, operand, name, line));
        }
        Operand::Label(usize::MAX)
    }

    pub(super) fn finish(self, name: &str, parameters: Vec<Parameter>) -> Result<Kernel, PtxError> {
        Ok(Kernel {
            name: name.to_owned(),
            code: self.code,
            parameters,
            registers: self.registers,
            shared_bytes: self.variables.shared_bytes,
            local_bytes: self.variables.local_bytes,
            variables: self.variables.contents,
        })
    }
}
