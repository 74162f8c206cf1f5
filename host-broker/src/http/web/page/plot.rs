//! Bars over time, drawn as SVG on the server.
//!
//! The plot repeats numbers that are also in a table. Its description says the same in words. It has no style of its
//! own, which the policy of the pages forbids: `inbox.css` gives each class its colour.

use maud::{Markup, html};
use shared::numbers::counted;
use std::fmt::Write as _;

/// The size of the drawing, and the place of the bars in it. A unit is a tenth of a usual pixel.
pub(super) const WIDTH: u64 = 4_800;
pub(super) const HEIGHT: u64 = 1_500;
pub(super) const LEFT: u64 = 420;
pub(super) const TOP: u64 = 140;
pub(super) const BARS_WIDTH: u64 = WIDTH - LEFT - 40;
pub(super) const BARS_HEIGHT: u64 = 1_100;
/// The least height of a number that is not 0, so that one failure among a thousand calls is seen.
const LEAST: u64 = 20;
/// The size of the text.
pub(super) const TEXT: u64 = 120;
/// The number of bars that have their label below them.
pub(super) const LABELS: usize = 4;

/// One bar.
pub(super) struct Bar {
    /// The beginning of its time, for people.
    pub(super) label: String,
    /// One number for each series of the plot.
    pub(super) parts: Vec<u64>,
}

/// A plot of bars, each stacked from the same series.
pub(super) struct Plot<'a> {
    /// A name that no other plot of the page has.
    pub(super) id: &'a str,
    /// The title.
    pub(super) title: &'a str,
    /// The words of the series, which are also the classes of their parts.
    pub(super) series: &'a [&'static str],
    /// The bars, oldest first.
    pub(super) bars: &'a [Bar],
}

impl Plot<'_> {
    /// Draws the plot, with its title and the sum of each series below it.
    pub(super) fn draw(&self) -> Markup {
        let (title, words) = (format!("{}-title", self.id), format!("{}-words", self.id));
        let highest = self.highest();
        let (right, bottom) = (LEFT + BARS_WIDTH, TOP + BARS_HEIGHT);
        html! {
            figure.plot {
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } font-size=(TEXT) role="img" aria-labelledby=(title) aria-describedby=(words) {
                    title id=(title) { (self.title) }
                    desc id=(words) { (self.words()) }
                    line.grid x1=(LEFT) y1=(TOP) x2=(right) y2=(TOP) {}
                    text x=(LEFT - 60) y=(TOP + TEXT / 3) text-anchor="end" { (highest) }
                    text x=(LEFT - 60) y=(bottom) text-anchor="end" { "0" }
                    @for (bar, x) in self.bars.iter().zip(self.places()) { (self.bar(bar, x, highest)) }
                    line.axis x1=(LEFT) y1=(bottom) x2=(right) y2=(bottom) {}
                    @for (bar, x) in self.bars.iter().zip(self.places()).step_by((self.bars.len() / LABELS).max(1)) {
                        text x=(x) y=(bottom + TEXT * 3 / 2) { (bar.label) }
                    }
                }
                figcaption {
                    (self.title)
                    ul.legend { @for (word, sum) in self.sums() { li class=(word) { (word) ": " (sum) } } }
                }
            }
        }
    }

    fn bar(&self, bar: &Bar, x: u64, highest: u64) -> Markup {
        let mut y = TOP + BARS_HEIGHT;
        let mut parts = Vec::new();
        for (word, number) in self.series.iter().zip(&bar.parts).filter(|(_, number)| **number > 0) {
            let height = height_of(*number, highest);
            y = y.saturating_sub(height);
            parts.push((word, number, y, height));
        }
        html! {
            @if !parts.is_empty() {
                g {
                    title { (bar.label) @for (word, number, ..) in &parts { ", " (word) ": " (number) } }
                    @for (word, _, y, height) in &parts {
                        rect class=(word) x=(x) y=(y) width=(self.step() * 4 / 5) height=(height) {}
                    }
                }
            }
        }
    }

    fn step(&self) -> u64 {
        BARS_WIDTH / u64::try_from(self.bars.len()).unwrap_or(u64::MAX).max(1)
    }

    fn places(&self) -> impl Iterator<Item = u64> {
        let step = self.step();
        std::iter::successors(Some(LEFT + step / 10), move |x| Some(x + step))
    }

    fn highest(&self) -> u64 {
        self.bars.iter().map(Bar::sum).max().unwrap_or(0)
    }

    fn sums(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let sum = |place: usize| {
            self.bars.iter().filter_map(|bar| bar.parts.get(place)).copied().fold(0, u64::saturating_add)
        };
        self.series.iter().enumerate().map(move |(place, word)| (*word, sum(place)))
    }

    /// The same as the drawing, in words.
    fn words(&self) -> String {
        let mut text = String::new();
        if let (Some(first), Some(last)) = (self.bars.first(), self.bars.last()) {
            let bars = counted(self.bars.len(), "bar", "bars");
            write!(text, "{bars}, from {} to {}.", first.label, last.label).ok();
        }
        for (word, sum) in self.sums() {
            write!(text, " {word}: {sum}.").ok();
        }
        let highest = self.highest();
        if let Some(bar) = self.bars.iter().find(|bar| bar.sum() == highest && highest > 0) {
            write!(text, " The highest bar is {highest}, at {}.", bar.label).ok();
        }
        text
    }
}

impl Bar {
    fn sum(&self) -> u64 {
        self.parts.iter().copied().fold(0, u64::saturating_add)
    }
}

/// Returns the height of a part, if the highest bar fills the plot.
pub(super) fn height_of(number: u64, highest: u64) -> u64 {
    let height = u128::from(number) * u128::from(BARS_HEIGHT) / u128::from(highest.max(1));
    u64::try_from(height).unwrap_or(BARS_HEIGHT).clamp(LEAST, BARS_HEIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;

    const SERIES: [&str; 2] = ["executed", "failed"];

    fn draw(title: &str, numbers: &[[u64; 2]]) -> String {
        let bar = |(hour, parts): (usize, &[u64; 2])| Bar { label: format!("{hour:02}:00"), parts: parts.to_vec() };
        let bars: Vec<Bar> = numbers.iter().enumerate().map(bar).collect();
        Plot { id: "plot", title, series: &SERIES, bars: &bars }.draw().into_string()
    }

    /// Returns the place and the height of each part.
    fn parts(svg: &str) -> Vec<(String, u64, u64)> {
        let part = Regex::new(r#"<rect class="(\w+)" x="\d+" y="(\d+)" width="\d+" height="(\d+)"></rect>"#).unwrap();
        let number = |text: &str| text.parse().unwrap();
        part.captures_iter(svg).map(|found| (found[1].to_owned(), number(&found[2]), number(&found[3]))).collect()
    }

    #[test]
    fn parts_of_a_bar_stand_on_each_other_and_the_highest_bar_fills_the_plot() {
        let svg = draw("Calls", &[[0, 0], [3, 1], [2, 0]]);
        let bottom = TOP + BARS_HEIGHT;
        let expected = [
            ("executed".to_owned(), bottom - 825, 825),
            ("failed".to_owned(), TOP, 275),
            ("executed".to_owned(), bottom - 550, 550),
        ];
        assert_eq!(parts(&svg), expected);
        assert!(svg.contains("<title>01:00, executed: 3, failed: 1</title>"), "{svg}");
    }

    /// Attack: see `every_action_is_listed_with_its_level_and_what_a_provider_says_is_text`.
    #[test]
    fn the_drawing_says_in_words_what_it_shows() {
        let svg = draw("Calls to <demo>", &[[1, 0], [3, 1]]);
        for words in [
            "role=\"img\" aria-labelledby=\"plot-title\" aria-describedby=\"plot-words\"",
            "<title id=\"plot-title\">Calls to &lt;demo&gt;</title>",
            "2 bars, from 00:00 to 01:00. executed: 4. failed: 1. The highest bar is 4, at 01:00.</desc>",
            "<li class=\"failed\">failed: 1</li>",
        ] {
            assert!(svg.contains(words), "no `{words}` in {svg}");
        }
        assert!(!svg.contains("style") && !svg.contains("<demo>"), "{svg}");
    }

    #[test]
    fn no_number_leaves_the_drawing_or_vanishes() {
        assert_eq!(parts(&draw("Calls", &[])), []);
        assert_eq!(parts(&draw("Calls", &[[0, 0]; 24])), []);
        let svg = draw("Calls", &[[u64::MAX, 1], [1, u64::MAX], [1_000_000, 1]]);
        for (word, y, height) in parts(&svg) {
            assert!((LEAST..=BARS_HEIGHT).contains(&height) && y + height <= TOP + BARS_HEIGHT, "{word} {y} {height}");
        }
    }
}
