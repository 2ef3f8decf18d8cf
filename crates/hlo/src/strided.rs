//! Copies between arrays with strides.

use bytemuck::Pod;

/// One loop of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    /// Iterations.
    pub(crate) count: usize,
    /// Elements between neighbours of the source.
    pub(crate) from: isize,
    /// Elements between neighbours of the target.
    pub(crate) to: isize,
}

/// A copy of elements from one array to another: nested loops, outermost
/// first, from a first element to a first element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StridedCopy {
    loops: Vec<Loop>,
    from: usize,
    to: usize,
}

/// Edge of the blocks in which transposed planes are copied.
const TILE: usize = 16;

impl StridedCopy {
    /// A copy through `loops` that starts at elements `from` and `to`.
    pub(crate) fn new(loops: impl IntoIterator<Item = Loop>, from: usize, to: usize) -> Self {
        let mut merged: Vec<Loop> = Vec::new();
        for next in loops {
            if next.count == 1 {
                continue;
            }
            if let Some(last) = merged.last_mut() {
                let count = isize::try_from(next.count).unwrap_or(isize::MAX);
                let joins = |outer: isize, inner: isize| inner.checked_mul(count) == Some(outer);
                if joins(last.from, next.from) && joins(last.to, next.to) {
                    *last = Loop {
                        count: last.count * next.count,
                        ..next
                    };
                    continue;
                }
            }
            merged.push(next);
        }
        Self {
            loops: merged,
            from,
            to,
        }
    }

    /// A copy into a dense target of `dims`, from a source with these strides.
    pub(crate) fn to_dense(dims: &[usize], strides: &[isize], from: usize) -> Self {
        let dense = dense_strides(dims);
        let loops = dims.iter().zip(strides).zip(dense);
        Self::new(
            loops.map(|((&count, &from), to)| Loop { count, from, to }),
            from,
            0,
        )
    }

    /// Copies. The loops must stay within both slices.
    pub(crate) fn run<W: Pod>(&self, source: &[W], target: &mut [W]) {
        if self.loops.iter().any(|l| l.count == 0) {
            return;
        }
        nest(
            &self.loops,
            source,
            self.from.cast_signed(),
            target,
            self.to.cast_signed(),
        );
    }
}

fn at(position: isize) -> usize {
    position.cast_unsigned()
}

fn nest<W: Pod>(loops: &[Loop], source: &[W], from: isize, target: &mut [W], to: isize) {
    match loops {
        [] => target[at(to)] = source[at(from)],
        [inner] => line(*inner, source, from, target, to),
        [rows, columns] if rows.from.abs() == 1 && columns.to == 1 && columns.from != 0 => {
            plane(*rows, *columns, source, from, target, to);
        }
        [outer, rest @ ..] => {
            let (mut from, mut to) = (from, to);
            for _ in 0..outer.count {
                nest(rest, source, from, target, to);
                from += outer.from;
                to += outer.to;
            }
        }
    }
}

fn line<W: Pod>(inner: Loop, source: &[W], from: isize, target: &mut [W], to: isize) {
    let Loop {
        count,
        from: step_from,
        to: step_to,
    } = inner;
    match (step_from, step_to) {
        (1, 1) => {
            target[at(to)..at(to) + count].copy_from_slice(&source[at(from)..at(from) + count])
        }
        (0, 1) => target[at(to)..at(to) + count].fill(source[at(from)]),
        (_, 1) => {
            let mut from = from;
            for element in &mut target[at(to)..at(to) + count] {
                *element = source[at(from)];
                from += step_from;
            }
        }
        _ => {
            let (mut from, mut to) = (from, to);
            for _ in 0..count {
                target[at(to)] = source[at(from)];
                from += step_from;
                to += step_to;
            }
        }
    }
}

/// A transposed plane, in blocks that keep the lines of both sides in cache.
fn plane<W: Pod>(
    rows: Loop,
    columns: Loop,
    source: &[W],
    from: isize,
    target: &mut [W],
    to: isize,
) {
    for row in (0..rows.count).step_by(TILE) {
        let height = TILE.min(rows.count - row);
        for column in (0..columns.count).step_by(TILE) {
            let width = TILE.min(columns.count - column);
            for r in row..row + height {
                let (r, c) = (r.cast_signed(), column.cast_signed());
                let from = from + r * rows.from + c * columns.from;
                let to = to + r * rows.to + c;
                line(
                    Loop {
                        count: width,
                        ..columns
                    },
                    source,
                    from,
                    target,
                    to,
                );
            }
        }
    }
}

/// Strides of a dense row-major array of `dims`.
pub(crate) fn dense_strides(dims: &[usize]) -> Vec<isize> {
    let mut strides = vec![1_isize; dims.len()];
    for dim in (1..dims.len()).rev() {
        strides[dim - 1] = strides[dim] * dims[dim].max(1).cast_signed();
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposes_and_reverses() {
        let source: Vec<u16> = (0..40 * 50).collect();
        let mut target = vec![0_u16; source.len()];
        StridedCopy::to_dense(&[50, 40], &[1, 50], 0).run(&source, &mut target);
        for row in 0..50 {
            for column in 0..40 {
                assert_eq!(target[row * 40 + column], source[column * 50 + row]);
            }
        }
        let mut reversed = vec![0_u16; 50];
        StridedCopy::to_dense(&[50], &[-1], 49).run(&source[..50], &mut reversed);
        assert_eq!(reversed[0], 49);
        assert_eq!(reversed[49], 0);
    }

    #[test]
    fn neighbouring_loops_merge() {
        let copy = StridedCopy::to_dense(&[2, 3, 4], &[12, 4, 1], 0);
        assert_eq!(
            copy.loops,
            [Loop {
                count: 24,
                from: 1,
                to: 1
            }]
        );
        let scalar = StridedCopy::to_dense(&[2, 3], &[0, 0], 0);
        assert_eq!(
            scalar.loops,
            [Loop {
                count: 6,
                from: 0,
                to: 1
            }]
        );
    }
}
