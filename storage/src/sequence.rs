//! The values of a sequence: which come from a place on, and where it is behind them.

use crate::schema::{SequenceDef, SequencePlace};

/// Values that somebody has reserved, one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    next: Option<i64>,
    left: u64,
    increment: i64,
    min: i64,
    max: i64,
    cycle: bool,
}

impl Reserved {
    /// How many are left.
    pub fn left(&self) -> u64 {
        self.left
    }
}

impl Iterator for Reserved {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let value = self.next.filter(|_| self.left > 0)?;
        self.left -= 1;
        let following = value.checked_add(self.increment);
        self.next = match following.filter(|value| (self.min..=self.max).contains(value)) {
            None if self.cycle => Some(if self.increment > 0 { self.min } else { self.max }),
            following => following,
        };
        Some(value)
    }
}

impl SequenceDef {
    /// The next `count` values, or as many as there are, and the place behind them. `None` behind the last value.
    pub fn reserve(&self, count: u64) -> Option<(Reserved, SequencePlace)> {
        let first = self.place.next?;
        let (step, from) = (i128::from(self.increment), i128::from(first));
        let (base, end) = if step > 0 {
            (i128::from(self.min), i128::from(self.max))
        } else {
            (i128::from(self.max), i128::from(self.min))
        };
        // How many values there are up to the end, this one counted.
        let up_to_end = (end - from) / step + 1;
        let wanted = i128::from(count);
        let (taken, next) = if wanted < up_to_end {
            (wanted, Some(from + wanted * step))
        } else if self.cycle {
            let lap = (end - base) / step + 1;
            (wanted, Some(base + (wanted - up_to_end) % lap * step))
        } else {
            (up_to_end, None)
        };
        let reserved = Reserved {
            next: Some(first),
            left: u64::try_from(taken).unwrap_or(0),
            increment: self.increment,
            min: self.min,
            max: self.max,
            cycle: self.cycle,
        };
        let place = SequencePlace {
            next: next.and_then(|next| i64::try_from(next).ok()),
            generation: self.place.generation,
        };
        Some((reserved, place))
    }

    /// The place where `value` comes next, or where the one behind it does; in another generation.
    pub fn set_to(&self, value: i64, is_called: bool) -> SequencePlace {
        let at = SequencePlace {
            next: Some(value),
            generation: self.place.generation.wrapping_add(1),
        };
        if !is_called {
            return at;
        }
        let moved = Self {
            place: at,
            ..self.clone()
        };
        moved.reserve(1).map_or(at, |(_, place)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ColumnType, SequenceId};

    fn sequence(start: i64, increment: i64, (min, max): (i64, i64), cycle: bool) -> SequenceDef {
        SequenceDef {
            id: SequenceId(0),
            database: "main".into(),
            name: "s".into(),
            ty: ColumnType::Int64,
            start,
            increment,
            min,
            max,
            cycle,
            owner: None,
            place: SequencePlace {
                next: Some(start),
                generation: 0,
            },
        }
    }

    /// Whatever the sizes of the pieces, they are the values that counting one by one gives.
    #[test]
    fn pieces_are_the_values_one_by_one() {
        for (start, increment, bounds) in [(1, 1, (1, 7)), (3, 2, (1, 9)), (-1, -1, (-5, -1)), (5, -3, (-7, 6))] {
            for cycle in [false, true] {
                let whole = sequence(start, increment, bounds, cycle);
                let mut expected = Vec::new();
                let mut value = Some(start);
                while let Some(now) = value.filter(|_| expected.len() < 40) {
                    expected.push(now);
                    value = Some(now + increment).filter(|value| (bounds.0..=bounds.1).contains(value));
                    if cycle && value.is_none() {
                        value = Some(if increment > 0 { bounds.0 } else { bounds.1 });
                    }
                }
                for size in 1..=9 {
                    let mut def = whole.clone();
                    let mut given = Vec::new();
                    while given.len() < expected.len() {
                        let (values, place) = def.reserve(size).expect("values are left");
                        given.extend(values);
                        def.place = place;
                    }
                    given.truncate(expected.len());
                    assert_eq!(given, expected, "{start} {increment} {bounds:?} {cycle} {size}");
                    assert_eq!(def.reserve(1).is_some(), cycle, "{start} {increment} {bounds:?}");
                }
            }
        }
    }

    #[test]
    fn the_largest_number_is_the_last_one() {
        let def = sequence(i64::MAX - 1, 1, (1, i64::MAX), false);
        let (values, place) = def.reserve(10).expect("two are left");
        assert_eq!(values.collect::<Vec<_>>(), [i64::MAX - 1, i64::MAX]);
        assert_eq!(place.next, None);
        assert_eq!(def.set_to(5, true).next, Some(6));
        assert_eq!(def.set_to(5, false).next, Some(5));
    }
}
