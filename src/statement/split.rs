//! Cutting a script into statements at the semicolons that end them.
//!
//! Goes in: the text of a script, in pieces of any size. Comes out: its statements one by one, each as soon as its semicolon
//! has arrived. Always holds: where the text was cut into pieces makes no difference; a semicolon within a string, a quoted
//! name, a dollar-quoted string or a comment ends nothing; no text is lost but blanks, semicolons and comments between
//! statements.

/// One statement of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The statement without its semicolon, and without blanks and comments around it; comments within it stay.
    pub text: String,
    /// The line of the script on which it starts; the first line is 1.
    pub line: u64,
}

/// Cuts a script into statements.
#[derive(Debug, Clone)]
pub struct Splitter {
    /// What has been pushed and is not yet given up: `taken` bytes of it belong to statements that were handed out.
    buffer: String,
    taken: usize,
    /// How far `buffer` has been read, in what state, and on which line.
    position: usize,
    mode: Mode,
    line: u64,
    /// Where the statement begins that is being read: its byte and its line.
    begin: Option<(usize, u64)>,
}

/// What the text at the current position is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    Plain,
    /// Within a pair of these; a doubled one ends and begins it again, which comes to the same.
    Quoted(u8),
    /// Within `E'…'`, where a backslash protects what follows.
    Escaped,
    LineComment,
    /// Within so many `/* … */`; the text begins at the byte and line given.
    BlockComment {
        depth: u32,
        begin: (usize, u64),
    },
    /// Within `$tag$ … $tag$`; the whole delimiter.
    Dollar(String),
}

/// What reading on has led to.
enum Step {
    /// So many bytes are read; go on.
    Read(usize),
    /// A semicolon that ends a statement.
    End,
    /// What comes next decides, and has not arrived.
    Wait,
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new()
    }
}

impl Splitter {
    /// A splitter at line 1 of a script.
    pub fn new() -> Splitter {
        Splitter { buffer: String::new(), taken: 0, position: 0, mode: Mode::Plain, line: 1, begin: None }
    }

    /// Takes the next piece of the script.
    pub fn push(&mut self, text: &str) {
        if self.taken > 0 {
            let taken = std::mem::take(&mut self.taken);
            self.buffer.drain(..taken);
            self.position -= taken;
            if let Some((byte, _)) = &mut self.begin {
                *byte -= taken;
            }
            if let Mode::BlockComment { begin, .. } = &mut self.mode {
                begin.0 -= taken;
            }
        }
        self.buffer.push_str(text);
    }

    /// The next statement whose semicolon has arrived.
    pub fn next_statement(&mut self) -> Option<Statement> {
        self.advance(false)
    }

    /// The end of the script: the text after the last semicolon, if it holds anything but blanks and comments. A comment that
    /// is not closed counts as text, so that whoever parses it can complain. Statements that were not pulled are dropped.
    pub fn finish(mut self) -> Option<Statement> {
        while self.advance(true).is_some() {}
        let unclosed = match self.mode {
            Mode::BlockComment { begin, .. } => Some(begin),
            _ => None,
        };
        let (byte, line) = self.begin.or(unclosed)?;
        let text = self.buffer.get(byte..)?.trim_end();
        (!text.is_empty()).then(|| Statement { text: text.to_owned(), line })
    }

    /// Whether a statement or a comment has begun that is not yet at its end.
    pub fn in_statement(&self) -> bool {
        self.begin.is_some() || !matches!(self.mode, Mode::Plain | Mode::LineComment)
    }

    /// Reads up to the end of a statement, or to the end of the text.
    fn advance(&mut self, at_end: bool) -> Option<Statement> {
        loop {
            match self.step(at_end) {
                Step::Read(bytes) => self.read(bytes),
                Step::Wait => break,
                Step::End => {
                    let end = self.position;
                    self.read(1);
                    let begun = self.begin.take();
                    self.taken = self.position;
                    if let Some((byte, line)) = begun {
                        let text = self.buffer.get(byte..end).unwrap_or_default().trim_end().to_owned();
                        return Some(Statement { text, line });
                    }
                }
            }
        }
        if !self.in_statement() {
            self.taken = self.position;
        }
        None
    }

    /// Moves on over bytes that are read.
    fn read(&mut self, bytes: usize) {
        let end = self.position + bytes;
        let read = self.buffer.as_bytes().get(self.position..end).unwrap_or_default();
        self.line += read.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.position = end;
    }

    fn step(&mut self, at_end: bool) -> Step {
        let Some(byte) = self.byte(0) else { return Step::Wait };
        let next = self.byte(1);
        let wait = next.is_none() && !at_end;
        match &mut self.mode {
            Mode::Plain => self.step_plain(byte, next, at_end),
            Mode::Quoted(quote) => {
                if byte == *quote {
                    self.mode = Mode::Plain;
                }
                Step::Read(1)
            }
            Mode::Escaped => match byte {
                b'\\' | b'\'' if wait => Step::Wait,
                b'\\' => Step::Read(if next.is_some() { 2 } else { 1 }),
                b'\'' if next == Some(b'\'') => Step::Read(2),
                b'\'' => {
                    self.mode = Mode::Plain;
                    Step::Read(1)
                }
                _ => Step::Read(1),
            },
            Mode::LineComment => {
                if byte == b'\n' {
                    self.mode = Mode::Plain;
                }
                Step::Read(1)
            }
            Mode::BlockComment { depth, .. } => match (byte, next) {
                (b'*' | b'/', None) if wait => Step::Wait,
                (b'/', Some(b'*')) => {
                    *depth += 1;
                    Step::Read(2)
                }
                (b'*', Some(b'/')) => {
                    *depth -= 1;
                    if *depth == 0 {
                        self.mode = Mode::Plain;
                    }
                    Step::Read(2)
                }
                _ => Step::Read(1),
            },
            Mode::Dollar(delimiter) => {
                let rest = self.buffer.as_bytes().get(self.position..).unwrap_or_default();
                let length = delimiter.len();
                if rest.starts_with(delimiter.as_bytes()) {
                    self.mode = Mode::Plain;
                    Step::Read(length)
                } else if byte == b'$' && rest.len() < length && !at_end {
                    Step::Wait
                } else {
                    Step::Read(1)
                }
            }
        }
    }

    fn step_plain(&mut self, byte: u8, next: Option<u8>, at_end: bool) -> Step {
        let wait = next.is_none() && !at_end;
        match byte {
            b';' => return Step::End,
            b'-' | b'/' if wait => return Step::Wait,
            b'-' if next == Some(b'-') => {
                self.mode = Mode::LineComment;
                return Step::Read(2);
            }
            b'/' if next == Some(b'*') => {
                self.mode = Mode::BlockComment { depth: 1, begin: (self.position, self.line) };
                return Step::Read(2);
            }
            _ if byte.is_ascii_whitespace() => return Step::Read(1),
            _ => {}
        }
        let mut bytes = 1;
        match byte {
            b'\'' if self.follows_escape_prefix() => self.mode = Mode::Escaped,
            b'\'' | b'"' | b'`' => self.mode = Mode::Quoted(byte),
            b'$' if !self.follows_name() => match self.dollar_delimiter() {
                Some(Ok(delimiter)) => {
                    bytes = delimiter.len();
                    self.mode = Mode::Dollar(delimiter);
                }
                Some(Err(())) => {}
                None if at_end => {}
                None => return Step::Wait,
            },
            _ => {}
        }
        self.begin.get_or_insert((self.position, self.line));
        Step::Read(bytes)
    }

    /// The `$tag$` at the current position: `None` if its end has not arrived, an error if it is no such thing.
    fn dollar_delimiter(&self) -> Option<Result<String, ()>> {
        let rest = self.buffer.get(self.position..)?;
        let tag = rest.get(1..)?;
        let length = tag.bytes().position(|byte| !is_name(byte) || byte == b'$')?;
        let digit_first = tag.starts_with(|first: char| first.is_ascii_digit());
        if tag.as_bytes().get(length) != Some(&b'$') || digit_first {
            return Some(Err(()));
        }
        Some(rest.get(..length + 2).map(str::to_owned).ok_or(()))
    }

    /// Whether the byte before the current position, within this statement, can be part of a name.
    fn follows_name(&self) -> bool {
        self.back(1).is_some_and(is_name)
    }

    /// Whether an `E` that stands by itself precedes the current position.
    fn follows_escape_prefix(&self) -> bool {
        self.back(1).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'e')) && !self.back(2).is_some_and(is_name)
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.buffer.as_bytes().get(self.position + ahead).copied()
    }

    fn back(&self, by: usize) -> Option<u8> {
        let (begin, _) = self.begin?;
        let position = self.position.checked_sub(by).filter(|position| *position >= begin)?;
        self.buffer.as_bytes().get(position).copied()
    }
}

/// Whether a byte can be part of a name; every byte of a character beyond ASCII can.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

#[cfg(test)]
mod tests;
