//! Numbers of a series of times.

use std::time::Duration;

use serde_json::{Value, json};

use crate::text::table;

/// Cells of a histogram.
const CELLS: usize = 12;

/// All in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stats {
    pub(super) mean: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) deviation: f64,
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

impl Stats {
    pub(super) fn of(times: &[Duration]) -> Self {
        let mut sorted: Vec<f64> = times.iter().copied().map(micros).collect();
        sorted.sort_by(f64::total_cmp);
        #[expect(clippy::cast_precision_loss, reason = "nobody measures 2^53 times")]
        let number = sorted.len().max(1) as f64;
        let mean = sorted.iter().sum::<f64>() / number;
        let variance = sorted.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / number;
        Self {
            mean,
            min: sorted.first().copied().unwrap_or_default(),
            max: sorted.last().copied().unwrap_or_default(),
            p50: percentile(&sorted, 50),
            p99: percentile(&sorted, 99),
            deviation: variance.sqrt(),
        }
    }

    pub(super) fn throughput(&self) -> f64 {
        if self.mean > 0.0 {
            1e6 / self.mean
        } else {
            0.0
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "mean_us": self.mean,
            "min_us": self.min,
            "p50_us": self.p50,
            "p99_us": self.p99,
            "max_us": self.max,
            "std_dev_us": self.deviation,
        })
    }
}

/// The smallest time that so many per cent of all do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Cells of one width from the fastest to the 99th percentile; the last one has
/// the slower ones too.
pub(super) fn histogram(times: &[Duration]) -> String {
    let stats = Stats::of(times);
    let cells = cells(times, stats.min, stats.p99);
    let longest = cells.iter().max().copied().unwrap_or_default().max(1);
    #[expect(clippy::cast_precision_loss, reason = "a dozen cells")]
    let width = (stats.p99 - stats.min) / CELLS as f64;
    let mut rows = table(&["#from µs", "#executions", ""]);
    let mut from = stats.min;
    for number in cells {
        let bar = "█".repeat((number * 40).div_ceil(longest));
        rows.add_row([format!("{from:.1}"), number.to_string(), bar]);
        from += width;
    }
    format!("{rows}\n")
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the quotient is between zero and the number of cells"
)]
fn cells(times: &[Duration], min: f64, p99: f64) -> [usize; CELLS] {
    let mut out = [0; CELLS];
    let width = ((p99 - min) / CELLS as f64).max(f64::MIN_POSITIVE);
    for time in times {
        let cell = ((micros(*time) - min) / width).clamp(0.0, CELLS as f64);
        if let Some(cell) = out.get_mut((cell as usize).min(CELLS - 1)) {
            *cell += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_one_to_a_hundred_are_known() {
        let times: Vec<_> = (1..=100).rev().map(Duration::from_micros).collect();
        let stats = Stats::of(&times);
        for (found, expected) in [
            (stats.mean, 50.5),
            (stats.min, 1.0),
            (stats.max, 100.0),
            (stats.p50, 50.0),
            (stats.p99, 99.0),
            // The root of (100² − 1) / 12.
            (stats.deviation, 28.866_070_047_722_12),
            (stats.throughput(), 1e6 / 50.5),
        ] {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn every_time_is_in_one_cell() {
        let times: Vec<_> = (1..=100).map(Duration::from_micros).collect();
        let cells = cells(&times, 1.0, 99.0);
        assert_eq!(cells.iter().sum::<usize>(), 100);
        assert!(
            cells.iter().all(|cell| (8..=10).contains(cell)),
            "{cells:?}"
        );
        assert_eq!(super::cells(&[Duration::from_micros(5); 3], 5.0, 5.0)[0], 3);
    }

    #[test]
    fn one_time_is_its_own_percentile() {
        let stats = Stats::of(&[Duration::from_micros(7)]);
        assert!((stats.p50 - 7.0).abs() < 1e-9 && (stats.p99 - 7.0).abs() < 1e-9);
    }
}
