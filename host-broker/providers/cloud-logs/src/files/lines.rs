//! Bytes as lines, within limits: of time, of memory, of the unpacked size of a compressed file.

use flate2::read::MultiGzDecoder;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How much of a line is kept; the rest of a longer one is read past.
pub(super) const LINE_KEPT: usize = 64 * 1024;

/// Counts the read bytes, and stops the reading in time.
#[derive(Debug)]
pub(super) struct Meter {
    deadline: Instant,
    cancelled: CancellationToken,
    unpacked_max: u64,
    bytes: Cell<u64>,
}

impl Meter {
    /// Creates a meter with nothing read yet. `unpacked_max` limits the unpacked bytes of a compressed file.
    pub(super) fn new(deadline: Instant, cancelled: CancellationToken, unpacked_max: u64) -> Self {
        Self { deadline, cancelled, unpacked_max, bytes: Cell::new(0) }
    }

    /// Checks whether reading must stop.
    pub(super) fn stopped(&self) -> bool {
        self.cancelled.is_cancelled() || Instant::now() >= self.deadline
    }

    /// How many bytes were read from files.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    fn check(&self) -> io::Result<()> {
        if self.stopped() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    fn add(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }
}

/// A stretch of a file. It ends early if the file has become shorter.
#[derive(Debug)]
pub(super) struct Span<'f> {
    file: &'f File,
    at: u64,
    end: u64,
    meter: &'f Meter,
}

impl<'f> Span<'f> {
    /// The bytes from one offset to before another.
    pub(super) fn new(file: &'f File, at: u64, end: u64, meter: &'f Meter) -> Self {
        Self { file, at, end, meter }
    }
}

impl Read for Span<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.meter.check()?;
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX).min(buffer.len());
        let Some(buffer) = buffer.get_mut(..left) else { return Ok(0) };
        let read = self.file.read_at(buffer, self.at)?;
        self.meter.add(read);
        self.at = self.at.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        Ok(read)
    }
}

/// The content of a gzip file, up to the limit of the meter.
pub(super) struct Unpacked<'f> {
    decoder: MultiGzDecoder<Span<'f>>,
    meter: &'f Meter,
    left: u64,
    capped: &'f Cell<bool>,
}

impl<'f> Unpacked<'f> {
    /// The content; `capped` is set if there was more of it than is read.
    pub(super) fn new(file: &'f File, len: u64, meter: &'f Meter, capped: &'f Cell<bool>) -> Self {
        Self { decoder: MultiGzDecoder::new(Span::new(file, 0, len, meter)), meter, left: meter.unpacked_max, capped }
    }
}

impl Read for Unpacked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.meter.check()?;
        if self.left == 0 {
            self.capped.set(true);
            return Ok(0);
        }
        let read = self.decoder.read(buffer)?;
        self.left = self.left.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
        Ok(read)
    }
}

/// One line, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'l> {
    /// Where it starts.
    pub(super) offset: u64,
    /// Its first [`LINE_KEPT`] bytes.
    pub(super) text: &'l [u8],
    /// Whether its end was there.
    pub(super) ended: bool,
    /// Whether it has more bytes than were kept.
    pub(super) cut: bool,
}

/// Lines, one after the other.
#[derive(Debug)]
pub(super) struct Lines<R> {
    source: BufReader<R>,
    offset: u64,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    /// The lines of a source whose first byte has this offset, read in blocks of this size.
    pub(super) fn new(source: R, offset: u64, block: usize) -> Self {
        Self { source: BufReader::with_capacity(block, source), offset, line: Vec::new() }
    }

    /// The next line.
    ///
    /// # Errors
    /// The source's.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let offset = self.offset;
        let (mut ended, mut cut) = (false, false);
        while !ended {
            let block = match self.source.fill_buf() {
                Ok(block) => block,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if block.is_empty() {
                break;
            }
            let end = block.iter().position(|b| *b == b'\n');
            ended = end.is_some();
            let (text, used) = end.map_or((block, block.len()), |end| (block.get(..end).unwrap_or(block), end + 1));
            let limits = LINE_KEPT - self.line.len();
            cut |= text.len() > limits;
            self.line.extend_from_slice(text.get(..limits).unwrap_or(text));
            self.source.consume(used);
            self.offset = self.offset.saturating_add(u64::try_from(used).unwrap_or(u64::MAX));
        }
        if !ended && self.offset == offset {
            return Ok(None);
        }
        let text = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        Ok(Some(Line { offset, text, ended, cut }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], block: usize) -> Vec<(u64, usize, bool)> {
        let mut lines = Lines::new(text, 100, block);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            seen.push((line.offset, line.text.len(), line.ended));
        }
        seen
    }

    #[test]
    fn lines_have_offsets_for_every_block_size() {
        let text = b"one\r\n\nthree\n\0\xff\nend";
        for block in [1, 2, 3, 7, 4096] {
            let expected = [(100, 3, true), (105, 0, true), (106, 5, true), (112, 2, true), (115, 3, false)];
            assert_eq!(read(text, block), expected, "{block}");
        }
        assert_eq!(read(b"", 10), []);
    }

    #[test]
    fn of_a_huge_line_only_the_beginning_is_kept() {
        let mut text = vec![b'x'; 3 * LINE_KEPT];
        text.extend_from_slice(b"\nnext\n");
        let next = 100 + 3 * u64::try_from(LINE_KEPT).unwrap() + 1;
        assert_eq!(read(&text, 4096), [(100, LINE_KEPT, true), (next, 4, true)]);
    }
}
