//! Operands of an instruction.

use super::body::Body;
use super::signed_literal;
use super::tokens::{Reader, Token, wrong};
use crate::PtxError;
use crate::ir::{Compare, Operand, Special};

/// Reads operands that commas separate, to the end.
pub(super) fn list<'a>(body: &mut Body<'a>, reader: &mut Reader<'a, '_>) -> Result<Vec<Operand>, PtxError> {
    let mut operands = Vec::new();
    while reader.peek().is_some() {
        operands.push(operand(body, reader, operands.len())?);
        if !reader.take(',') && reader.peek().is_some() {
            return Err(wrong(reader.line(), format!("`,` or `;` is expected, not {:?}", reader.peek())));
        }
    }
    Ok(operands)
}

fn operand<'a>(body: &mut Body<'a>, reader: &mut Reader<'a, '_>, index: usize) -> Result<Operand, PtxError> {
    let line = reader.line();
    if reader.take('{') {
        let inner = reader.until_closed('{', '}')?;
        return list(body, &mut Reader::new(inner)).map(Operand::Vector);
    }
    if reader.take('[') {
        return address(body, &mut Reader::new(reader.until_closed('[', ']')?), index);
    }
    if reader.take('!') {
        let name = reader.word()?;
        let register = body.register(name).ok_or_else(|| wrong(line, format!("no register `{name}`")))?;
        return Ok(Operand::Not(register));
    }
    let first = match reader.peek() {
        Some(Token::Number(_) | Token::Sign('-')) => return signed_literal(reader).map(Operand::Immediate),
        Some(Token::Word("_")) => {
            reader.next();
            Operand::Sink
        }
        _ => {
            let name = reader.word()?;
            match special(name) {
                Some(special) => Operand::Special(special),
                None => body.name(name, index, line),
            }
        }
    };
    if !reader.take('|') {
        return Ok(first);
    }
    let second = operand(body, reader, index)?;
    Ok(Operand::Pair(Box::new((first, second))))
}

fn address<'a>(body: &mut Body<'a>, reader: &mut Reader<'a, '_>, index: usize) -> Result<Operand, PtxError> {
    let base = operand(body, reader, index)?;
    let negative = if reader.take('+') { false } else { reader.peek() == Some(&Token::Sign('-')) && reader.take('-') };
    if reader.peek().is_none() {
        return Ok(Operand::Address(Box::new(base), 0));
    }
    let offset = signed_literal(reader)? as i64;
    Ok(Operand::Address(Box::new(base), if negative { -offset } else { offset }))
}

fn special(name: &str) -> Option<Special> {
    if !name.starts_with('%') {
        return None;
    }
    let (register, axis) = name.split_once('.').unwrap_or((name, "x"));
    let axis = ["x", "y", "z"].iter().position(|a| *a == axis)?;
    Some(match register {
        "%tid" => Special::Thread(axis),
        "%ntid" => Special::BlockSize(axis),
        "%ctaid" => Special::Block(axis),
        "%nctaid" => Special::Grid(axis),
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%lanemask_eq" => Special::LaneMask(Compare::Eq),
        "%lanemask_lt" => Special::LaneMask(Compare::Lt),
        "%lanemask_le" => Special::LaneMask(Compare::Le),
        "%lanemask_gt" => Special::LaneMask(Compare::Gt),
        "%lanemask_ge" => Special::LaneMask(Compare::Ge),
        "%clock" | "%clock64" | "%globaltimer" => Special::Clock,
        "%dynamic_smem_size" => Special::DynamicShared,
        _ => return None,
    })
}
