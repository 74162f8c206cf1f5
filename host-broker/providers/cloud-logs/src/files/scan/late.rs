//! Learning of the forms of lines that appear behind a file's first lines.
//!
//! Which lines begin entries must not depend on the part that a query reads: ids and pages would not fit each other.
//! So a file that is read whole is learned from as a whole. A larger one is learned from in the places where its order
//! is judged, and at its end. A form that shows in none of them stays unknown, and its lines are counted.

use super::super::head::{self, HEAD_BYTES, Head};
use super::super::lines::{Lines, Meter};
use super::{BLOCK, LogFile, PROBE, SAMPLES, WHOLE_MAX};
use crate::format::{Form, LateForms, Profile};
use std::cell::Cell;
use std::io::{self, Read};

/// The time of a line, and its form if that is not a known one.
type Stamped = (Option<Form>, i64);

impl LogFile {
    /// Checks whether every search reads all of the file.
    pub(super) fn is_read_whole(&self, head: &Head) -> bool {
        head.packed || self.len <= WHOLE_MAX
    }

    /// Adds the forms that appear behind the first lines to the profile. Returns whether there are any.
    ///
    /// An error ends the learning early. The next reader of the file has the same error, and reports it.
    pub(super) fn learn_late_forms(&self, head: &mut Head, meter: &Meter) -> bool {
        if !head.profile.takes_late_forms() {
            return false;
        }
        let mut forms = LateForms::default();
        let capped = Cell::new(false);
        let _same_error_later = if self.is_read_whole(head) {
            let mut lines = Lines::new(self.content(head.packed, meter, &capped), 0, BLOCK);
            each_stamped(&mut lines, &head.profile, |stamped| add(&mut forms, stamped))
        } else {
            self.sample_forms(&head.profile, meter, &mut forms)
        };
        let forms = forms.into_forms(head.profile.ceiling());
        if forms.is_empty() {
            return false;
        }
        head.profile.add_forms(forms);
        // A line before the first entry may have one of these forms.
        if let Ok(leading) = head::leading(self.content(head.packed, meter, &capped).take(HEAD_BYTES), &head.profile) {
            head.leading = leading;
        }
        true
    }

    fn sample_forms(&self, profile: &Profile, meter: &Meter, forms: &mut LateForms) -> io::Result<()> {
        let length = u64::try_from(PROBE).unwrap_or(u64::MAX);
        let places = (0..SAMPLES).map(|sample| self.len / SAMPLES * sample);
        for place in places.chain([self.len.saturating_sub(length)]) {
            let end = self.len.min(place.saturating_add(length));
            let mut lines = self.lines_behind(place, end, PROBE, meter)?;
            let mut sample: Vec<Stamped> = Vec::new();
            each_stamped(&mut lines, profile, |stamped| sample.push(stamped))?;
            // The entry to which the lines before the first one belong is not known, unless there is no other.
            let entry = sample.iter().position(|(form, _)| form.is_none()).unwrap_or(0);
            for stamped in sample.into_iter().skip(entry) {
                add(forms, stamped);
            }
        }
        Ok(())
    }
}

fn add(forms: &mut LateForms, (form, time): Stamped) {
    match form {
        None => forms.add_entry(time),
        Some(form) => forms.add(form, time),
    }
}

fn each_stamped<R: Read>(lines: &mut Lines<R>, profile: &Profile, mut found: impl FnMut(Stamped)) -> io::Result<()> {
    while let Some(line) = lines.next()? {
        // The rest of a time may still be missing.
        if !line.ended {
            break;
        }
        let stamped = match profile.time(line.text) {
            Some(time) => Some((None, time)),
            None => profile.stamped(line.text).map(|(form, time)| (Some(form), time)),
        };
        stamped.into_iter().for_each(&mut found);
    }
    Ok(())
}
