//! Records of CSV, and the fast way to those of a text without quotes.

use std::ops::Range;

use crate::error::EngineError;

/// Records, one after another.
pub(super) trait RecordSource {
    /// Goes to the next record; false at the end. Empty lines are no records.
    fn next(&mut self, row: u64) -> Result<bool, EngineError>;

    /// The fields of the record at hand, and whether they were quoted.
    fn fields(&self) -> impl Iterator<Item = (&str, bool)>;

    /// How many fields there are, one empty field behind the last delimiter not counted where it is one too many.
    fn field_count(&self, expected: usize) -> usize;
}

/// Records of a text without quotes.
pub(super) struct PlainRecords<'a> {
    text: &'a str,
    delimiter: u8,
    /// Where the next line starts.
    at: usize,
    fields: Vec<Range<usize>>,
}

impl<'a> PlainRecords<'a> {
    pub(super) fn new(text: &'a str, delimiter: u8) -> Self {
        Self {
            text,
            delimiter,
            at: 0,
            fields: Vec::new(),
        }
    }
}

impl RecordSource for PlainRecords<'_> {
    fn next(&mut self, _row: u64) -> Result<bool, EngineError> {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() {
            self.fields.clear();
            let (line, mut start) = (self.at, self.at);
            let mut end = bytes.len();
            for (place, byte) in bytes[line..].iter().enumerate() {
                if *byte == self.delimiter {
                    self.fields.push(start..line + place);
                    start = line + place + 1;
                } else if *byte == b'\n' {
                    end = line + place;
                    break;
                }
            }
            self.at = end + 1;
            // As at the end of any record.
            end -= usize::from(end > start && bytes[end - 1] == b'\r');
            if end > line {
                self.fields.push(start..end);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn fields(&self) -> impl Iterator<Item = (&str, bool)> {
        self.fields.iter().map(|place| (&self.text[place.clone()], false))
    }

    fn field_count(&self, expected: usize) -> usize {
        let last_is_empty = self.fields.last().is_some_and(Range::is_empty);
        count_without_last(self.fields.len(), last_is_empty, expected)
    }
}

/// One empty field behind the last delimiter does not count where it is one too many.
pub(super) fn count_without_last(count: usize, last_is_empty: bool, expected: usize) -> usize {
    if count == expected + 1 && last_is_empty {
        expected
    } else {
        count
    }
}
