//! Words and signs of PTX, with their lines.

use crate::PtxError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A name, an opcode with its suffixes, a directive, a register.
    Word(&'a str),
    /// A literal that begins with a digit.
    Number(&'a str),
    Text(&'a str),
    Sign(char),
}

/// A token and its line.
pub(crate) type Placed<'a> = (Token<'a>, u32);

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'%' | b'.')
}

/// Splits a text; comments vanish.
pub(crate) fn tokens(text: &str) -> Result<Vec<Placed<'_>>, PtxError> {
    let bytes = text.as_bytes();
    let (mut at, mut line, mut out) = (0, 1u32, Vec::new());
    while let Some(&c) = bytes.get(at) {
        let rest = &text[at..];
        if c == b'\n' {
            line += 1;
            at += 1;
        } else if c.is_ascii_whitespace() {
            at += 1;
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").ok_or_else(|| wrong(line, "a comment without end"))? + 2;
            line += rest[..end].matches('\n').count() as u32;
            at += end;
        } else if c == b'"' {
            let end = rest[1..].find('"').ok_or_else(|| wrong(line, "a string without end"))?;
            out.push((Token::Text(&rest[1..=end]), line));
            at += end + 2;
        } else if is_word(c) {
            let len = word_len(rest.as_bytes());
            let word = &rest[..len];
            out.push((if c.is_ascii_digit() { Token::Number(word) } else { Token::Word(word) }, line));
            at += len;
        } else if c.is_ascii() {
            out.push((Token::Sign(c as char), line));
            at += 1;
        } else {
            return Err(wrong(line, "a character that PTX does not have"));
        }
    }
    Ok(out)
}

/// A word goes on over `::`, as in `kind::f8f6f4`.
fn word_len(bytes: &[u8]) -> usize {
    let mut len = 0;
    loop {
        match bytes.get(len) {
            Some(&c) if is_word(c) => len += 1,
            Some(b':') if bytes.get(len + 1) == Some(&b':') => len += 2,
            _ => return len,
        }
    }
}

pub(crate) fn wrong(line: u32, message: impl Into<String>) -> PtxError {
    PtxError::Text { line, message: message.into() }
}

/// Reads tokens one after another.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a, 't> {
    tokens: &'t [Placed<'a>],
    at: usize,
}

impl<'a, 't> Reader<'a, 't> {
    pub(crate) fn new(tokens: &'t [Placed<'a>]) -> Self {
        Self { tokens, at: 0 }
    }

    pub(crate) fn peek(&self) -> Option<&'t Token<'a>> {
        self.tokens.get(self.at).map(|(t, _)| t)
    }

    pub(crate) fn peek_after(&self, skip: usize) -> Option<&'t Token<'a>> {
        self.tokens.get(self.at + skip).map(|(t, _)| t)
    }

    /// Line of the next token, or of the last.
    pub(crate) fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |(_, line)| *line)
    }

    pub(crate) fn next(&mut self) -> Option<&'t Token<'a>> {
        let token = self.peek();
        self.at += usize::from(token.is_some());
        token
    }

    /// Takes the sign if it is next.
    pub(crate) fn take(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    pub(crate) fn expect(&mut self, sign: char) -> Result<(), PtxError> {
        if self.take(sign) {
            return Ok(());
        }
        Err(wrong(self.line(), format!("`{sign}` is expected, not {:?}", self.peek())))
    }

    pub(crate) fn word(&mut self) -> Result<&'a str, PtxError> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            other => Err(wrong(self.line(), format!("a name is expected, not {other:?}"))),
        }
    }

    /// The tokens up to the sign that closes what `open` opened, which is taken too. The opening sign has been taken.
    pub(crate) fn until_closed(&mut self, open: char, close: char) -> Result<&'t [Placed<'a>], PtxError> {
        let (from, mut depth) = (self.at, 1);
        while let Some((token, _)) = self.tokens.get(self.at) {
            self.at += 1;
            match token {
                Token::Sign(c) if *c == open => depth += 1,
                Token::Sign(c) if *c == close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(&self.tokens[from..self.at - 1]);
            }
        }
        Err(wrong(self.line(), format!("`{open}` without `{close}`")))
    }

    /// The tokens up to a sign, which is taken too.
    pub(crate) fn until(&mut self, sign: char) -> Result<&'t [Placed<'a>], PtxError> {
        let rest = &self.tokens[self.at..];
        let len = rest.iter().position(|(t, _)| *t == Token::Sign(sign));
        let len = len.ok_or_else(|| wrong(self.line(), format!("`{sign}` is missing")))?;
        self.at += len + 1;
        Ok(&rest[..len])
    }

    /// Leaves out the rest of a line.
    pub(crate) fn skip_line(&mut self, line: u32) {
        while self.tokens.get(self.at).is_some_and(|(_, l)| *l == line) {
            self.at += 1;
        }
    }
}
