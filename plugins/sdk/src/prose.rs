//! Line feeds that a model wrote as a backslash and an `n` in its prose: made real, except in code spans and formulas.

/// Where in the prose the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    Prose,
    /// Code behind so many backticks; the same number ends it.
    Code(usize),
    /// A formula behind one dollar sign, or two.
    Dollars(usize),
    /// A formula up to a backslash and this character.
    Bracket(char),
}

/// What has come but can't be judged yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Nothing,
    Backslash,
    /// So many of one character: backticks or dollar signs.
    Run(char, usize),
}

/// Rewrites prose as it comes.
#[derive(Clone, Debug)]
pub(crate) struct Newlines {
    span: Span,
    held: Held,
}

impl Default for Newlines {
    fn default() -> Self {
        Newlines { span: Span::Prose, held: Held::Nothing }
    }
}

impl Newlines {
    /// Reads `text`, appending what a reader sees to `out`.
    pub(crate) fn feed(&mut self, text: &str, out: &mut String) {
        for c in text.chars() {
            match self.held {
                Held::Backslash => {
                    self.held = Held::Nothing;
                    self.escape(c, out);
                    continue;
                }
                Held::Run(of, n) if of == c => {
                    self.held = Held::Run(of, n + 1);
                    continue;
                }
                Held::Run(of, n) => self.run(of, n, Some(c), out),
                Held::Nothing => {}
            }
            self.held = match c {
                '\\' => Held::Backslash,
                '`' | '$' => Held::Run(c, 1),
                _ => {
                    out.push(c);
                    Held::Nothing
                }
            };
        }
    }

    /// The text ends here, or something that is no prose follows.
    pub(crate) fn finish(&mut self, out: &mut String) {
        match self.held {
            Held::Nothing => {}
            Held::Backslash => out.push('\\'),
            Held::Run(of, n) => self.run(of, n, None, out),
        }
        *self = Newlines::default();
    }

    /// A character behind a backslash.
    fn escape(&mut self, c: char, out: &mut String) {
        match (self.span, c) {
            (Span::Prose, 'n') => return out.push('\n'),
            (Span::Prose, '(') => self.span = Span::Bracket(')'),
            (Span::Prose, '[') => self.span = Span::Bracket(']'),
            (Span::Bracket(end), _) if end == c => self.span = Span::Prose,
            _ => {}
        }
        out.push('\\');
        if c == '`' && matches!(self.span, Span::Code(_)) {
            // Code has no escapes: the backtick may end it.
            self.held = Held::Run(c, 1);
        } else {
            out.push(c);
        }
    }

    /// A run of backticks or dollar signs is over.
    fn run(&mut self, of: char, n: usize, next: Option<char>, out: &mut String) {
        self.held = Held::Nothing;
        out.extend(std::iter::repeat_n(of, n));
        self.span = match (self.span, of) {
            (Span::Prose, '`') => Span::Code(n),
            (Span::Code(open), '`') if open == n => Span::Prose,
            // `$5` is money.
            (Span::Prose, '$') if n <= 2 && next.is_some_and(|c| !c.is_whitespace() && !c.is_ascii_digit()) => {
                Span::Dollars(n)
            }
            (Span::Dollars(open), '$') if open == n => Span::Prose,
            (span, _) => span,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_changes_and_code_and_formulas_do_not_at_every_cut() {
        let cases = [
            ("one\\ntwo\\n", "one\ntwo\n"),
            ("`a\\nb` c\\nd", "`a\\nb` c\nd"),
            ("```\nprint(\"\\n\")\n```\\nx", "```\nprint(\"\\n\")\n```\nx"),
            ("``a`\\n`` \\n", "``a`\\n`` \n"),
            ("$\\nabla f$\\n", "$\\nabla f$\n"),
            ("$$\\nu$$ \\(\\nu\\) \\[\\neq\\]\\n", "$$\\nu$$ \\(\\nu\\) \\[\\neq\\]\n"),
            ("it costs $5\\nor $ 6\\n", "it costs $5\nor $ 6\n"),
            ("C:\\dir\\\\n \\", "C:\\dir\\\\n \\"),
            ("`\\`\\n", "`\\`\n"),
        ];
        for (text, want) in cases {
            for (cut, _) in text.char_indices() {
                let (mut newlines, mut out) = (Newlines::default(), String::new());
                newlines.feed(&text[..cut], &mut out);
                newlines.feed(&text[cut..], &mut out);
                newlines.finish(&mut out);
                assert_eq!(out, want, "{text:?} cut at {cut}");
            }
        }
    }
}
