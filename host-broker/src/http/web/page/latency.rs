//! The times that calls took in each hour, drawn as SVG on the server, and the same as a table.
//!
//! As with [`super::plot`], the drawing repeats numbers of the table, its description says them in words, and `inbox.css`
//! gives each class its colour.

use super::plot::{BARS_HEIGHT, BARS_WIDTH, HEIGHT, LABELS, LEFT, TEXT, TOP, WIDTH, height_of};
use super::time;
use crate::http::web::last_day;
use maud::{Markup, html};
use shared::Timestamp;
use std::time::Duration;

/// The words and the classes of the two bars of an hour.
const SERIES: [(&str, &str); 2] = [("median", "median"), ("95 %", "most")];

/// The calls of one hour.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hour {
    /// The beginning.
    pub(super) begin: Timestamp,
    /// The number of calls with a time.
    pub(super) calls: usize,
    /// The median and the 95th percentile, if there are calls.
    pub(super) took: Option<[Duration; 2]>,
}

/// A drawing of the times of calls.
pub(super) struct Latency<'a> {
    /// A name that no other drawing of the page has.
    pub(super) id: &'a str,
    /// The title.
    pub(super) title: &'a str,
    /// The hours, oldest first.
    pub(super) hours: &'a [Hour],
}

impl Latency<'_> {
    /// Draws the times, with the table below them.
    pub(super) fn draw(&self) -> Markup {
        let (title, words) = (format!("{}-title", self.id), format!("{}-words", self.id));
        let highest = self.highest();
        let (right, bottom) = (LEFT + BARS_WIDTH, TOP + BARS_HEIGHT);
        html! {
            figure.plot.latency {
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } font-size=(TEXT) role="img" aria-labelledby=(title) aria-describedby=(words) {
                    title id=(title) { (self.title) }
                    desc id=(words) { (self.words()) }
                    line.grid x1=(LEFT) y1=(TOP) x2=(right) y2=(TOP) {}
                    text x=(LEFT - 60) y=(TOP + TEXT / 3) text-anchor="end" { (highest) }
                    text x=(LEFT - 60) y=(bottom) text-anchor="end" { "0" }
                    @for (hour, x) in self.hours.iter().zip(self.places()) { (self.hour(hour, x, highest)) }
                    line.axis x1=(LEFT) y1=(bottom) x2=(right) y2=(bottom) {}
                    @for (hour, x) in self.hours.iter().zip(self.places()).step_by((self.hours.len() / LABELS).max(1)) {
                        text x=(x) y=(bottom + TEXT * 3 / 2) { (last_day::label(hour.begin)) }
                    }
                }
                figcaption {
                    (self.title)
                    ul.legend { @for (word, class) in SERIES { li class=(class) { (word) } } }
                }
            }
            (self.table())
        }
    }

    fn hour(&self, hour: &Hour, x: u64, highest: u64) -> Markup {
        let width = self.step() * 2 / 5;
        let bottom = TOP + BARS_HEIGHT;
        html! {
            @if let Some(took) = hour.took {
                g {
                    title {
                        (last_day::label(hour.begin))
                        @for ((word, _), took) in SERIES.iter().zip(took) { ", " (word) ": " (millis(took)) " ms" }
                    }
                    @for (((_, class), took), place) in SERIES.iter().zip(took).zip(0..) {
                        @let height = height_of(millis(took), highest);
                        rect class=(class) x=(x + place * width) y=(bottom.saturating_sub(height)) width=(width) height=(height) {}
                    }
                }
            }
        }
    }

    fn table(&self) -> Markup {
        html! {
            details {
                summary { "The same as a table" }
                div.scroll tabindex="0" role="region" aria-label=(self.title) {
                    table {
                        caption { (self.title) }
                        thead {
                            tr {
                                th scope="col" { "From" } th scope="col" { "Calls with a time" }
                                th scope="col" { "Median" } th scope="col" { "95 %" }
                            }
                        }
                        tbody {
                            @for hour in self.hours {
                                tr {
                                    th scope="row" { (time(hour.begin)) }
                                    td.number { (hour.calls) }
                                    @match hour.took {
                                        Some(took) => { @for took in took { td.number { (millis(took)) " ms" } } },
                                        None => { td.number {} td.number {} },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn step(&self) -> u64 {
        BARS_WIDTH / u64::try_from(self.hours.len()).unwrap_or(u64::MAX).max(1)
    }

    fn places(&self) -> impl Iterator<Item = u64> {
        let step = self.step();
        std::iter::successors(Some(LEFT + step / 10), move |x| Some(x + step))
    }

    /// The highest time, in milliseconds.
    fn highest(&self) -> u64 {
        self.hours.iter().filter_map(|hour| hour.took).flatten().map(millis).max().unwrap_or(0)
    }

    /// The same as the drawing, in words.
    fn words(&self) -> String {
        let with_calls = self.hours.iter().filter_map(|hour| Some((hour.begin, hour.took?)));
        let slowest = with_calls.clone().max_by_key(|(_, [_, most])| *most);
        let hours = with_calls.count();
        match slowest {
            Some((begin, [median, most])) => format!(
                "{hours} of {} hours {} calls with a time. The slowest hour begins at {}: median {} ms, 95 % {} ms.",
                self.hours.len(),
                if hours == 1 { "has" } else { "have" },
                last_day::label(begin),
                millis(median),
                millis(most)
            ),
            None => "No call has a time.".to_owned(),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;

    fn draw(took: &[Option<[u64; 2]>]) -> String {
        let begin = |place: usize| Timestamp::from_millis(i64::try_from(place).unwrap() * 3_600_000);
        let hour = |(place, took): (usize, &Option<[u64; 2]>)| Hour {
            begin: begin(place),
            calls: took.map_or(0, |_| 3),
            took: took.map(|took| took.map(Duration::from_millis)),
        };
        let hours: Vec<Hour> = took.iter().enumerate().map(hour).collect();
        Latency { id: "times", title: "Times of <demo>", hours: &hours }.draw().into_string()
    }

    /// Returns the class, the place and the height of each bar.
    fn bars(svg: &str) -> Vec<(String, u64, u64, u64)> {
        let bar = Regex::new(r#"<rect class="(\w+)" x="(\d+)" y="(\d+)" width="\d+" height="(\d+)"></rect>"#).unwrap();
        let number = |text: &str| text.parse().unwrap();
        let each =
            |found: regex::Captures<'_>| (found[1].to_owned(), number(&found[2]), number(&found[3]), number(&found[4]));
        bar.captures_iter(svg).map(each).collect()
    }

    #[test]
    fn each_hour_with_calls_has_its_median_and_its_95th_percentile_side_by_side() {
        let svg = draw(&[None, Some([10, 40]), Some([20, 20])]);
        let bottom = TOP + BARS_HEIGHT;
        let found = bars(&svg);
        let heights: Vec<(&str, u64)> = found.iter().map(|(class, _, _, height)| (class.as_str(), *height)).collect();
        assert_eq!(heights, [("median", 275), ("most", 1_100), ("median", 550), ("most", 550)]);
        assert!(found.iter().all(|(_, _, y, height)| y + height == bottom), "{found:?}");
        assert!(found.is_sorted_by(|(_, one, ..), (_, next, ..)| one < next), "{found:?}");
        for words in [
            "role=\"img\" aria-labelledby=\"times-title\" aria-describedby=\"times-words\"",
            "2 of 3 hours have calls with a time. The slowest hour begins at 01:00: median 10 ms, 95 % 40 ms.</desc>",
            "<title>01:00, median: 10 ms, 95 %: 40 ms</title>",
            "<td class=\"number\">3</td><td class=\"number\">10 ms</td><td class=\"number\">40 ms</td>",
            "<td class=\"number\">0</td><td class=\"number\"></td><td class=\"number\"></td>",
        ] {
            assert!(svg.contains(words), "no `{words}` in {svg}");
        }
        assert!(!svg.contains("style") && !svg.contains("<demo>"), "{svg}");
    }

    #[test]
    fn no_time_leaves_the_drawing() {
        assert_eq!(bars(&draw(&[None; 24])), []);
        for (class, x, y, height) in bars(&draw(&[Some([0, u64::MAX]); 24])) {
            assert!(x < WIDTH && y >= TOP && y + height <= TOP + BARS_HEIGHT && height > 0, "{class} {x} {y} {height}");
        }
    }
}
